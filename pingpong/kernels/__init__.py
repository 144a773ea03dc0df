"""The table of kernels. A kernel is one place: a decorated function in one of this package's modules.

Everything else (the choices on the command line, the docs table, the contract test) reads this table.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from pingpong.native import Twin

TAG = 1  # of the payload's messages


class Steps(Protocol):
    """The steps of a visit. A Python loop iterates it: False before each step, True before the last one.

    So a kernel that posts receives ahead leaves nothing posted, and the lead's clock is read between samples
    without a gap. A loop that is not Python's reads the numbers and appends the `stamps` itself: on the lead
    samples + 1 readings of the clock in nanoseconds, on the peer none. Where there are `offsets`, one before
    the steps and one for each, the iterator moves all buffers of the link so far from their beginning.
    """

    lead_in: int
    steps: int
    samples: int
    stamps: list[int]
    offsets: Sequence[int]

    def __iter__(self) -> Iterator[bool]: ...


Loop = Callable[[Steps], None]
Loops = tuple[Loop, Loop]


class Link(Protocol):
    """What a kernel sees of its pair.

    `comm` carries the payload between this rank and rank `other`. `out` and `into` are message descriptions as
    mpi4py takes them ([buffer, count, datatype]); no buffer is in both. `meet()` is called by each loop
    once, after posting what must be posted and before its first step: it returns when both have called it.
    """

    comm: Any
    other: int
    out: list[Any]
    into: list[Any]

    def meet(self) -> None: ...


Factory = Callable[[Link], AbstractContextManager[Loops]]


@dataclass(frozen=True)
class Kernel:
    """A communication pattern, defined by docs/design.md.

    `legs`: one-way trips of a step in sequence. `messages`: payloads that a step moves in any direction.
    `directions`: how many directions are loaded at once. `sends` and `receives`: buffers on each rank.
    `native`: its steps for compiled code. `loops`: for each way to drive the steps ("mpi4py", "native") the
    context manager that opens the kernel on a link, yields the loops of lead and peer, and leaves nothing behind.
    """

    name: str
    title: str
    legs: int
    messages: int
    directions: int
    time: str = "half-trip"
    sends: int = 1
    receives: int = 1
    hidden: bool = False
    native: Twin | None = None
    loops: dict[str, Factory] = field(default_factory=dict)


KERNELS: dict[str, Kernel] = {}


def kernel(name: str, *, native: Twin | None = None, **facts: Any) -> Callable[[Factory], Factory]:
    """Register the decorated context manager as the mpi4py loops of the kernel `name`; the rest as in Kernel."""

    def register(factory: Factory) -> Factory:
        if name in KERNELS:
            raise ValueError(f"two kernels are called {name!r}")
        loops = {"mpi4py": factory} | ({"native": partial(_native, name)} if native else {})
        KERNELS[name] = Kernel(name, native=native, loops=loops, **facts)
        return factory

    return register


def _native(name: str, link: Link) -> AbstractContextManager[Loops]:
    from pingpong.native.loops import native_loops  # only where they run: it needs what compiled them

    return native_loops(KERNELS[name], link)


def names() -> list[str]:
    """The kernels that a user can ask for, in the order of the log."""
    return [k.name for k in KERNELS.values() if not k.hidden]


from pingpong.kernels import empty, pingpong  # noqa: E402, F401  (they fill the table)
