"""Message buffers: allocated once for the largest size, page-aligned, touched, sliced per size."""

from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

PAGE = 4096

Bytes = npt.NDArray[np.uint8]


def aligned(size: int) -> Bytes:
    """`size` bytes on a page boundary, every page touched. Raises MemoryError."""
    raw = np.full(size + PAGE, 0x55, dtype=np.uint8)
    start = -raw.ctypes.data % PAGE
    return raw[start : start + size]


class Buffers:
    """The send and the receive buffers of a rank: `sends` and `receives` arrays of `largest` bytes, all apart."""

    def __init__(self, largest: int, sends: int, receives: int) -> None:
        self._out = [aligned(largest) for _ in range(sends)]
        self._into = [aligned(largest) for _ in range(receives)]

    def out(self, size: int, count: int) -> list[Bytes]:
        """The first `count` send buffers, cut to `size` bytes."""
        return [buffer[:size] for buffer in self._out[:count]]

    def into(self, size: int, count: int) -> list[Bytes]:
        """The first `count` receive buffers, cut to `size` bytes."""
        return [buffer[:size] for buffer in self._into[:count]]


def message(array: Bytes) -> list[Any]:
    """The array as mpi4py takes it with the least work at each call: [buffer, count, datatype]."""
    return [MPI.buffer.frombuffer(array), array.size, MPI.BYTE]
