"""Native loops: the MPI calls of a kernel from compiled code, through the addresses of the library in use.

numba compiles, in a process of its own and into a cache; a rank loads the object code and calls it. Nothing of
numba is imported where messages are measured, and without it the list of loops is shorter.
"""

from collections.abc import Callable
from dataclasses import dataclass

LEAD, PEER, POST_LEAD, POST_PEER = range(4)  # the parts of a compiled program

Post = Callable[[int], int]
Step = Callable[[int, bool], int]


@dataclass(frozen=True)
class Twin:
    """A kernel's steps for compiled code: functions of the calls in `pingpong.native.calls`, and of nothing else.

    `lead(mpi, last)` and `peer(mpi, last)` make one step and return 0 or the error code of the call that failed;
    `last` is true in the last step of a visit. The posts, where there are any, come before the ranks meet.
    `requests` is how many a step uses at once.
    """

    lead: Step
    peer: Step
    post_lead: Post | None = None
    post_peer: Post | None = None
    requests: int = 0

    def parts(self) -> tuple[Callable[..., int] | None, ...]:
        """The functions by part."""
        return (self.lead, self.peer, self.post_lead, self.post_peer)

    def functions(self) -> list[Callable[..., int]]:
        return [f for f in self.parts() if f is not None]
