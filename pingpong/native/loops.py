"""The native loops of a kernel on a link: its program, with the words that it reads."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from pingpong import plans
from pingpong.kernels import KERNELS, TAG, Kernel, Link, Loops, Steps
from pingpong.model import Plan
from pingpong.native import LEAD, PEER, POST_LEAD, POST_PEER, Twin, programs
from pingpong.native.calls import CALLS, WORD, WORDS, Call
from pingpong.plans import Absent

Words = npt.NDArray[np.int64]

_GLOBAL, _LIBRARY = ctypes.CDLL(None), ctypes.CDLL(MPI.__file__)


def prepare(plan: Plan, announce: Callable[[str], None]) -> list[Absent]:
    """Make the native loops of a plan ready on this rank, before MPI starts; those that cannot be."""
    absent = plans.without_twin(plan)
    wanted = [v for v in plans.native_variants(plan) if v not in {(a.kernel, a.large) for a in absent}]
    if not wanted:
        return absent
    try:
        programs.prepare(programs.variants(wanted, MPI._sizeof(MPI.Comm)), announce)
    except programs.UnavailableError as error:
        return absent + [Absent(*variant, str(error)) for variant in wanted]
    for name, large in wanted:
        twin = KERNELS[name].native
        assert twin is not None
        if missing := lacking(twin, large):
            absent.append(Absent(name, large, f"this MPI has no {', '.join(missing)}"))
    return absent


def address(symbol: str) -> int | None:
    """Where a function of MPI begins, as the dynamic linker finds it for mpi4py; None if there is none.

    The global scope comes first: that is where an interposer (LD_PRELOAD) sits, and mpi4py's calls go through it.
    """
    for library in (_GLOBAL, _LIBRARY):
        try:
            return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
        except AttributeError:
            continue
    return None


def lacking(twin: Twin, large: bool) -> list[str]:
    """The functions that the twin calls and this MPI does not have."""
    return [symbol for call in calls_of(twin) if address(symbol := call.symbol(large)) is None]


def calls_of(twin: Twin) -> list[Call]:
    """The calls that the functions of a twin name."""
    values = [f.__globals__.get(name) for f in twin.functions() for name in f.__code__.co_names]
    return list(dict.fromkeys(value for value in values if isinstance(value, Call)))


@contextmanager
def native_loops(kernel: Kernel, link: Link) -> Iterator[Loops]:
    """The loops of lead and peer. Needs the kernel's program to be loaded (`programs.prepare`)."""
    twin = kernel.native
    assert twin is not None
    block = _Block(twin, link)
    program = programs.program(kernel.name, block.large)

    def run(part: int, post: int | None, steps: Steps) -> None:
        stamps = block.plan(steps)
        if post is not None:
            _check(program(block.address, post))
        link.meet()
        _check(program(block.address, part))
        if part == LEAD:
            steps.stamps.extend(stamps.tolist())

    posts = (POST_LEAD if twin.post_lead else None, POST_PEER if twin.post_peer else None)
    yield partial(run, LEAD, posts[0]), partial(run, PEER, posts[1])


def _check(error: int) -> None:
    if error:
        raise MPI.Exception(error)


class _Block:
    """The words of a program and the memory that they point to."""

    def __init__(self, twin: Twin, link: Link) -> None:
        messages = [*link.out, *link.into]
        size = messages[0][1] if messages else 0
        self.large = plans.is_large(size)
        self._words: Words = np.zeros(len(WORDS) + len(CALLS), np.int64)
        self.address = self._words.ctypes.data
        self._homes = _addresses(messages)
        self._slots = self._homes.copy()
        self._requests = np.zeros(max(1, twin.requests) * MPI._sizeof(MPI.Request), np.uint8)
        # MPI_STATUS_IGNORE differs between MPIs; room for one is right everywhere.
        self._status = np.zeros(MPI._sizeof(MPI.Status), np.uint8)
        self._timespec = np.zeros(2, np.int64)
        self._set("clock", ctypes.cast(_GLOBAL.clock_gettime, ctypes.c_void_p).value)
        self._set("slots", len(messages))
        self._set("out", self._slots.ctypes.data)
        self._set("into", self._slots.ctypes.data + 8 * len(link.out))
        self._set("homes", self._homes.ctypes.data)
        self._set("requests", self._requests.ctypes.data)
        self._set("status", self._status.ctypes.data)
        self._set("timespec", self._timespec.ctypes.data)
        self._set("request_size", MPI._sizeof(MPI.Request))
        if messages:
            for name, value in (("count", size), ("datatype", messages[0][2].handle), ("comm", link.comm.handle)):
                self._set(name, value)
            self._set("other", link.other)
            self._set("tag", TAG)
        for call in calls_of(twin):
            self._words[len(WORDS) + CALLS.index(call)] = address(call.symbol(self.large)) or 0

    def _set(self, name: str, value: Any) -> None:
        # An address or handle above 2^63 is that word all the same.
        self._words[WORD[name]] = ctypes.c_int64(value).value

    def plan(self, steps: Steps) -> Words:
        """Take over the numbers of a visit; returns the room for its stamps."""
        self._stamps = np.zeros(steps.samples + 1, np.int64)
        self._set("stamps", self._stamps.ctypes.data)
        for name in ("lead_in", "steps", "samples"):
            self._set(name, getattr(steps, name))
        if len(steps.offsets):
            first, *rest = steps.offsets
            self._slots[:] = self._homes + first
            self._offsets = np.array(rest, np.int64)
            self._set("offsets", self._offsets.ctypes.data)
        return self._stamps


def _addresses(messages: list[Any]) -> Words:
    return np.array([ctypes.c_int64(message[0].address).value for message in messages], np.int64)
