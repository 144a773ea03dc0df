"""Exit codes (docs/exit-codes.md) and the sentences that go with them, alike for ranks and launcher."""

import os
import signal
from collections.abc import Iterable

from pingpong.model import Failure, Run
from pingpong.stats import summarize
from pingpong.units import size_text

FAILED = 1
USAGE = 2
CONTRADICTED = 3
WRONG_PAYLOAD = 4
TIMED_OUT = 124
SIGNALLED = 128  # plus the number of the signal
MPIEXECS = ", which mpiexec also sends when it is ended itself"  # of SIGTERM


def leave(code: int) -> None:
    """End this process at once; after a signal by the signal itself.

    So a launcher knows that a rank was ended, ends the others and says which it was.
    """
    if code > SIGNALLED:
        signal.signal(code - SIGNALLED, signal.SIG_DFL)
        os.kill(os.getpid(), code - SIGNALLED)
    os._exit(code)


def exit_code(run: Run, failure: Failure | None = None) -> int:
    """A wrong payload comes first, then what ended the run early, then a point without a valid time."""
    if any(point.payload.wrong for point in run.points):
        return WRONG_PAYLOAD
    if failure:
        return failure.exit
    return FAILED if any(summarize(point).invalid for point in run.points) else 0


def worst(codes: Iterable[int]) -> int:
    """The one exit code of several launches: a wrong payload first, then a wrong wire, then an early end."""
    return max(codes, key=lambda code: (code == WRONG_PAYLOAD, code == CONTRADICTED, code), default=0)


def complaints(run: Run) -> list[str]:
    """One sentence for each point that makes the exit code other than 0."""
    found = []
    for point in run.points:
        where = f"{point.kernel}, {size_text(point.size)} bytes"
        if point.payload.wrong:
            wrong, visits = point.payload.wrong[0], {w.visit for w in point.payload.wrong}
            found.append(
                f"wrong payload in {where}: byte {wrong.byte} on rank {wrong.rank} was {wrong.found} and should "
                f"be {wrong.expected} ({len(visits)} of its visits are wrong)"
            )
        elif point.visits and (invalid := summarize(point).invalid):
            found.append(f"no valid time for {where}: {invalid}")
    return found
