"""How a launch came out: what its ranks left in the result, and why it failed, if it did."""

import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from pingpong import hosts, launch, store
from pingpong.exits import FAILED, MPIEXECS, SIGNALLED, TIMED_OUT, USAGE, exit_code
from pingpong.model import Failure, Run, Session, Transport
from pingpong.transports import hints
from pingpong.units import printable


def result(
    session_id: str, path: Path, number: int, ended: launch.Ended, nodes: Sequence[str] = ()
) -> tuple[Session | None, Failure | None]:
    """The session with the run of launch `number`, if it left one, and why that launch failed, if it did.

    `nodes` are the hosts that the ranks were sent to, if any were named.
    """
    failure = _failure(ended, nodes)
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
        if failure and not own:
            failure.reason += "; all was measured before"
        return session, None if own else failure
    return session, _merged(run.failure, failure) or _failed(ended, _cause(ended, nodes) or _UNDONE)


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
    if failure and failure.reason.startswith(_SEEN):
        _in_their_words(failure)
    if failure and failure.exit != USAGE and not ended.signal:
        output = "\n".join(launch.telling(ended.output, 60, 60))
        found = None if run and run.points else _unknown(nodes) or hints.hint(output, asked)
        if not found and _silent(failure, run, nodes):
            found = f"pingpong doctor{' --hosts ' * bool(nodes)}{','.join(nodes)} looks for the reason"
        failure.hint = "; ".join(filter(None, (found, before))) or None
    return failure


def _in_their_words(failure: Failure) -> None:
    """Ranks that gave up know more than this process sees; their journal may not have come through."""
    for sentence in _own(failure.output)[:1]:
        failure.reason, failure.exit = sentence, TIMED_OUT if "nothing moved for" in sentence else FAILED


def _silent(failure: Failure, run: Run | None, nodes: Sequence[str]) -> bool:
    """Whether nobody says why it hung between hosts, or why it could not begin."""
    hung = failure.exit == TIMED_OUT and len(nodes) > 1 and "nothing moved" in failure.reason
    return hung or (failure.reason.startswith(_ENDED) and not (run and run.points))


def _unknown(nodes: Sequence[str]) -> str | None:
    if names := hosts.nameless(nodes):
        return f"the name {' and '.join(names)} does not resolve here: look at --hosts, DNS and /etc/hosts"
    return None


def find(session: Session, number: int) -> Run | None:
    """The run of a launch."""
    return next((run for run in session.runs if run.launch == number), None)


def _failure(ended: launch.Ended, nodes: Sequence[str]) -> Failure | None:
    if ended.signal is not None:
        return unwanted(ended.signal, _printable(ended.command))
    if ended.limit or ended.useless:
        return _failed(ended, ended.limit or ended.useless or "", TIMED_OUT if ended.limit else FAILED)
    if ended.status == 0:
        return None
    if ended.status == USAGE:
        said = _own(launch.telling(ended.output))
        return _failed(ended, next(iter(said), "the ranks refused to start"), USAGE)
    reason = _cause(ended, nodes) or f"{_ENDED}{ended.status}"
    return _failed(ended, reason, TIMED_OUT if ended.status == TIMED_OUT else FAILED)


def _failed(ended: launch.Ended, reason: str, code: int = FAILED) -> Failure:
    return Failure(
        reason=reason, exit=code, command=_printable(ended.command), output=launch.telling(ended.output)
    )


def _printable(command: Sequence[str]) -> list[str]:
    return [printable(word) for word in command]


_ENDED = "mpiexec ended with status "  # what is known where nobody says more
_UNDONE = "the ranks ended before they were done"
_SEEN = (_ENDED, _UNDONE, launch.GONE, launch.SILENT)  # from outside


def unwanted(number: int, command: Sequence[str] = ()) -> Failure:
    """That of a launch which a signal to this process ended, or kept from being started."""
    names = {2: "interrupted (Ctrl-C)", 15: "terminated (SIGTERM)"}
    reason = names.get(number) or f"ended by {_signal_name(number)}"
    return Failure(reason=reason, exit=SIGNALLED + number, command=list(command))


def _own(lines: list[str]) -> list[str]:
    """The sentences of ranks, out of what was printed."""
    return [line.partition(": ")[2] for line in lines if line.startswith("pingpong: ")]


def _cause(ended: launch.Ended, nodes: Sequence[str]) -> str | None:
    """What ended a launch, by mpiexec's own words; None if it has none that are known."""
    if ended.status < 0:
        return f"mpiexec was ended by {_signal_name(-ended.status)}"
    if launch.HUNG.search(ended.output):
        return "a rank did not get through MPI_Init or MPI_Finalize in a minute"
    for pattern, sentence, sure in _CAUSES:
        if found := re.search(pattern, ended.output, re.DOTALL):
            words = [printable((word or b"").decode(errors="replace")) for word in found.groups()]
            return ("" if sure else f"{_ENDED}{ended.status}: ") + sentence(words, nodes)
    return None


def _killed(host: str, code: str, rank: str = "") -> str:
    who = f"rank {rank}" if rank else "a rank"
    text = f"{who} on host {host} was ended by {_signal_name(int(code))}"
    return text + MPIEXECS if int(code) == signal.SIGTERM else text


def _partner_died(words: list[str], nodes: Sequence[str]) -> str:
    """The rank that MPI names has only lost the other one."""
    rank, host = words
    partner = 1 - int(rank)
    where = f" on host {nodes[partner * len(nodes) // 2]}" if nodes and partner in (0, 1) else ""
    return f"rank {partner}{where} died, rank {rank} on host {host} lost the connection to it"


def _peer_died(words: list[str], nodes: Sequence[str]) -> str:
    """Open MPI names the host; which rank that is can be told where each has its own."""
    host = words[0]
    who = f"rank {nodes.index(host)}" if len(nodes) == 2 and host in nodes else "the rank"
    return f"{who} on host {host} died"


# In order: what names the dead comes before what names who missed them. Each sentence is made of the groups of its
# pattern and the names of the hosts; unless it is sure, what a rank itself says is better.
_CAUSES: tuple[tuple[bytes, Callable[[list[str], Sequence[str]], str], bool], ...] = (
    (  # Open MPI
        rb"process rank (\d+) with PID \d+ on node (\S+) exited on\s+signal (\d+)",
        lambda words, _: _killed(words[1], words[2], words[0]),
        True,
    ),
    (  # Intel MPI
        rb"RANK (\d+) PID \d+ RUNNING AT (\S+)\s+=\s+KILLED BY SIGNAL: (\d+)",
        lambda words, _: _killed(words[1], words[2], words[0]),
        True,
    ),
    (  # MPICH, which says this of signals only
        rb"BAD TERMINATION OF ONE.*? RUNNING AT (\S+)\s+=\s+EXIT CODE: (\d+)",
        lambda words, _: _killed(*words),
        True,
    ),
    (
        rb"(?i:signal):?\s*(\d+)",
        lambda words, _: f"a rank was ended by {_signal_name(int(words[0]))}",
        True,
    ),
    (  # Open MPI 5; 4 calls it a disconnected peer
        rb"(?:Socket closed|unexpectedly disconnected)"
        rb".*?process rank (\d+) with PID \d+ on node (\S+) calling\s+\"abort\"",
        _partner_died,
        False,
    ),
    (
        rb"unexpectedly disconnected.*?Peer host:\s*(\S+)",
        _peer_died,
        False,
    ),
    (
        rb"process rank (\d+) with PID \d+ on node (\S+) calling\s+\"abort\"",
        lambda words, _: f"rank {words[0]} on host {words[1]} gave up, or lost its partner",
        False,
    ),
    (  # Open MPI, whatever status it ends with
        rb"lost communication with a remote daemon.*?Remote daemon:.*? on node (\S+)"
        rb"|daemon failed to report back.*?Remote host:\s*(\S+)",
        lambda words, _: f"mpiexec has no daemon on host {words[0] or words[1]}: not started, killed, or cut off",
        True,
    ),
    (  # all that Hydra says across hosts
        rb"process manager error",
        lambda _, __: "it lost a rank or a daemon",
        False,
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

    The lead knows why it gave up, and whether it was a signal that only looks like a death of its own. But where
    this process ended the launch, or mpiexec ended the lead because another rank had died, the reason is the one
    seen from outside.
    """
    if said is None or seen is None:
        return said or seen
    who, what = said.reason.partition(":")[0], seen.reason.removeprefix(_ENDED)
    if seen.reason.startswith(_SEEN) and (said.exit <= SIGNALLED or f"{who} died" in what or what.isdecimal()):
        code = said.exit if said.exit <= SIGNALLED else FAILED
        return Failure(reason=said.reason, exit=code, command=seen.command, output=seen.output)
    return seen
