"""How a launch came out: what its ranks left in the result, and why it failed, if it did."""

import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from pingpong import hosts, launch, store
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
        reason = f"the ranks ended without a result here ({printable(str(path))})"
        return None, failure or Failure(reason=reason, exit=FAILED)
    if run.status == "complete":
        # Ended afterwards, by a limit or Ctrl-C, or with the code that the run itself deserves: all is there.
        own = ended.limit or ended.useless or ended.signal or ended.status == exit_code(run)
        return session, None if own else failure
    failure = _merged(run.failure, failure)
    return session, failure or Failure(reason="the ranks ended before they were done", exit=FAILED)


def explained(
    failure: Failure | None,
    ended: launch.Ended,
    asked: Transport | None,
    run: Run | None,
    before: str | None,
    nodes: Sequence[str],
) -> Failure | None:
    """The failure of a launch in a rank's own words, if it had some, and with what to do about it.

    Its output, or the names of its `nodes`, may tell why it could not begin; `before` names what was set
    beforehand and may be the cause.
    """
    if failure and failure.reason.startswith(_ENDED):
        failure.reason = next(iter(_own(failure.output)), failure.reason)
    if failure and failure.exit != USAGE and not ended.signal:
        output = "\n".join(launch.telling(ended.output, 60, 60))
        found = None if run and run.points else _unknown(nodes) or hints.hint(output, asked)
        if not found and failure.exit == TIMED_OUT and len(nodes) > 1 and "nothing moved" in failure.reason:
            found = f"pingpong doctor --hosts {','.join(nodes)} looks at both ends"
        failure.hint = "; ".join(filter(None, (found, before))) or None
    return failure


def _unknown(nodes: Sequence[str]) -> str | None:
    if names := hosts.nameless(nodes):
        return f"the name {' and '.join(names)} does not resolve here: look at --hosts, DNS and /etc/hosts"
    return None


def find(session: Session, number: int) -> Run | None:
    """The run of a launch."""
    return next((run for run in session.runs if run.launch == number), None)


def _failure(ended: launch.Ended) -> Failure | None:
    command = [printable(word) for word in ended.command]
    if ended.signal is not None:
        return unwanted(ended.signal, command)
    lines = launch.telling(ended.output)
    if ended.limit or ended.useless:
        code = TIMED_OUT if ended.limit else FAILED
        return Failure(reason=ended.limit or ended.useless or "", exit=code, command=command, output=lines)
    if ended.status == 0:
        return None
    if ended.status == USAGE:
        reason = next(iter(_own(lines)), "the ranks refused to start")
        return Failure(reason=reason, exit=USAGE, command=command, output=lines)
    code = TIMED_OUT if ended.status == TIMED_OUT else FAILED
    return Failure(reason=_cause(ended), exit=code, command=command, output=lines)


_ENDED = "mpiexec ended with status "  # what is known where nobody says more


def unwanted(number: int, command: Sequence[str] = ()) -> Failure:
    """That of a launch which a signal to this process ended, or kept from being started."""
    names = {2: "interrupted (Ctrl-C)", 15: "terminated (SIGTERM)"}
    reason = names.get(number) or f"ended by {_signal_name(number)}"
    return Failure(reason=reason, exit=SIGNALLED + number, command=list(command))


def _own(lines: list[str]) -> list[str]:
    """The sentences of ranks, out of what was printed."""
    return [line.partition(": ")[2] for line in lines if line.startswith("pingpong: ")]


def _cause(ended: launch.Ended) -> str:
    """What ended a launch, by mpiexec's own words, or mpiexec's status."""
    if ended.status < 0:
        return f"mpiexec was ended by {_signal_name(-ended.status)}"
    if launch.HUNG.search(ended.output):
        return "a rank did not get through MPI_Init or MPI_Finalize in a minute"
    for pattern, sentence in _CAUSES:
        if found := re.search(pattern, ended.output, re.DOTALL):
            words = [printable(word.decode(errors="replace")) for word in found.groups()]
            return sentence(words, ended.status)
    return f"{_ENDED}{ended.status}"


_CAUSES: tuple[tuple[bytes, Callable[[list[str], int], str]], ...] = (
    (rb"(?i:signal):?\s*(\d+)", lambda words, _: f"a rank was ended by {_signal_name(int(words[0]))}"),
    (  # Open MPI's TCP
        rb"unexpectedly disconnected.*?Peer host:\s*(\S+)",
        lambda words, status: f"mpiexec ended with status {status}: the rank on host {words[0]} died",
    ),
    (  # Open MPI 5
        rb"process rank (\d+) with PID \d+ on node (\S+) calling\s+\"abort\"",
        lambda words, status: (
            f"mpiexec ended with status {status}: rank {words[0]} on host {words[1]} gave up, or lost its partner"
        ),
    ),
    (  # all that Hydra says across hosts
        rb"process manager error",
        lambda _, status: f"mpiexec ended with status {status}: it lost a rank or a daemon",
    ),
)


def _signal_name(number: int) -> str:
    try:
        if number == signal.SIGBUS:  # of a file that was mapped and found no room
            return f"signal {number} (SIGBUS): TMPDIR or /dev/shm may be full"
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _merged(said: Failure | None, seen: Failure | None) -> Failure | None:
    """What the lead wrote before it ended, beside what was seen from outside.

    The lead knows why it gave up. But where this process ended the launch, or mpiexec ended the lead because
    another rank had died, the reason is the one seen from outside.
    """
    if said is None or seen is None:
        return said or seen
    after_all = seen.reason == launch.GONE or seen.reason.startswith(_ENDED)
    if said.exit <= SIGNALLED and after_all:
        return Failure(reason=said.reason, exit=said.exit, command=seen.command, output=seen.output)
    return seen
