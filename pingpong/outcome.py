"""How a launch came out: what its ranks left in the result, and why it failed, if it did."""

import re
import signal
from pathlib import Path

from pingpong import launch, store
from pingpong.exits import FAILED, SIGNALLED, TIMED_OUT, USAGE, exit_code
from pingpong.model import Failure, Run, Session, Transport
from pingpong.transports import hints
from pingpong.units import printable


def result(session_id: str, path: Path, number: int, ended: launch.Ended) -> tuple[Session | None, Failure | None]:
    """The session with the run of launch `number`, if it left one, and why that launch failed, if it did."""
    failure = _failure(ended)
    try:
        session = store.load(path) if path.exists() else None
    except (store.FormatError, OSError) as error:
        return None, failure or Failure(reason=str(error), exit=FAILED)
    run = find(session, number) if session and session.id == session_id else None
    if run is None:
        reason = f"the ranks ended without a result here; if the lead ran on another host, {path} is there"
        return None, failure or Failure(reason=reason, exit=FAILED)
    if run.status == "complete":
        # Ended afterwards, by a limit or Ctrl-C, or with the code that the run itself deserves: all is there.
        own = ended.limit or ended.signal or ended.status == exit_code(run)
        return session, None if own else failure
    failure = _merged(run.failure, failure)
    return session, failure or Failure(reason="the ranks ended before they were done", exit=FAILED)


def explained(failure: Failure | None, ended: launch.Ended, asked: Transport | None) -> Failure | None:
    """The failure of a launch with what to do about it, where its output tells."""
    if failure and failure.exit != USAGE and not ended.signal:
        failure.hint = hints.hint(" ".join(launch.telling(ended.output, 60, 60)), asked)
    return failure


def find(session: Session, number: int) -> Run | None:
    """The run of a launch."""
    return next((run for run in session.runs if run.launch == number), None)


def _failure(ended: launch.Ended) -> Failure | None:
    command = [printable(word) for word in ended.command]
    if ended.signal is not None:
        names = {2: "interrupted (Ctrl-C)", 15: "terminated (SIGTERM)"}
        reason = names.get(ended.signal) or f"ended by {_signal_name(ended.signal)}"
        return Failure(reason=reason, exit=SIGNALLED + ended.signal, command=command)
    lines = launch.telling(ended.output)
    if ended.limit:
        code = FAILED if ended.limit == launch.GONE else TIMED_OUT
        return Failure(reason=ended.limit, exit=code, command=command, output=lines)
    if ended.status == 0:
        return None
    if ended.status == USAGE:
        reason = next(iter(_own(lines)), "the ranks refused to start")
        return Failure(reason=reason, exit=USAGE, command=command, output=lines)
    code = TIMED_OUT if ended.status == TIMED_OUT else FAILED
    return Failure(reason=_cause(ended), exit=code, command=command, output=lines)


def _own(lines: list[str]) -> list[str]:
    """The sentences of ranks, out of what was printed."""
    return [line.partition(": ")[2] for line in lines if line.startswith("pingpong: ")]


def _cause(ended: launch.Ended) -> str:
    """The signal that ended a rank, by mpiexec's own words, or mpiexec's status."""
    if ended.status < 0:
        return f"mpiexec was ended by {_signal_name(-ended.status)}"
    said = re.search(rb"signal:?\s*(\d+)", ended.output, re.IGNORECASE)
    if said:
        return f"a rank was ended by {_signal_name(int(said[1]))}"
    gone = re.search(rb"unexpectedly disconnected.*?Peer host:\s*(\S+)", ended.output, re.DOTALL)
    if gone:  # of Open MPI's TCP
        return f"the rank on host {printable(gone[1].decode(errors='replace'))} died, or its connection did"
    gave_up = re.search(rb"process rank (\d+) with PID \d+ on node (\S+) calling\s+\"abort\"", ended.output)
    if gave_up:
        rank, host = (printable(word.decode(errors="replace")) for word in gave_up.groups())
        return f"rank {rank} on host {host} gave up; mpiexec ended with status {ended.status}"
    if b"process manager error" in ended.output:  # all that Hydra says across hosts
        return f"mpiexec ended with status {ended.status}: it lost a rank or a daemon"
    return f"mpiexec ended with status {ended.status}"


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _merged(said: Failure | None, seen: Failure | None) -> Failure | None:
    """What the lead wrote before it ended, beside what was seen from outside.

    The lead knows why it gave up. But where this process ended the launch, or mpiexec ended the lead because
    another rank had died, the reason is the one seen from outside; best is what that rank said itself.
    """
    if seen and not said and seen.reason.startswith("mpiexec ended"):
        seen.reason = next(iter(_own(seen.output)), seen.reason)
    if said is None or seen is None:
        return said or seen
    after_all = seen.reason == launch.GONE or seen.reason.startswith("mpiexec ended")
    if said.exit <= SIGNALLED and after_all:
        return Failure(reason=said.reason, exit=said.exit, command=seen.command, output=seen.output)
    return seen
