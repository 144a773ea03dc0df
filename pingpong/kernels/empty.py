"""The kernel that does nothing: what it costs is the cost of the harness."""

from collections.abc import Iterator
from contextlib import contextmanager

from pingpong.kernels import Link, Loops, Steps, kernel
from pingpong.native import Twin


def _nothing(mpi: int, last: bool) -> int:
    return 0


@kernel(
    "empty",
    title="Empty loop",
    legs=1,
    messages=0,
    directions=1,
    sends=0,
    receives=0,
    hidden=True,
    native=Twin(_nothing, _nothing),
)
@contextmanager
def empty(link: Link) -> Iterator[Loops]:
    def both(steps: Steps) -> None:
        link.meet()
        for _ in steps:
            pass

    yield both, both
