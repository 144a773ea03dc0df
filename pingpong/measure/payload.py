"""The pattern in every payload, and the check that it arrived.

Before a visit each send buffer gets a pattern that depends on size, sender and visit, and each receive buffer its
complement, so that every byte must change. After the visit both sides compare. That proves that the last
message into each receive buffer came whole, from the right sender, in this visit; it does not prove it for
the messages before, which that one overwrote.
"""

from functools import lru_cache

import numpy as np

from pingpong.measure.buffers import Bytes

# A prime length keeps the pattern from repeating at page or block boundaries.
TILE = 1_048_573
OFFSETS = 4093


@lru_cache(maxsize=8)
def _tile(sender: int) -> Bytes:
    return np.random.default_rng(sender).integers(0, 256, TILE + OFFSETS, dtype=np.uint8)


def _pieces(size: int, sender: int, visit: int) -> list[tuple[slice, Bytes]]:
    start = (size * 31 + visit * 7) % OFFSETS
    return [
        (slice(at, min(at + TILE, size)), _tile(sender)[start : start + min(TILE, size - at)])
        for at in range(0, size, TILE)
    ]


def write(out: list[Bytes], sender: int, visit: int) -> None:
    """Fill the send buffers with the pattern."""
    for array in out:
        for where, pattern in _pieces(array.size, sender, visit):
            array[where] = pattern


def clear(into: list[Bytes], sender: int, visit: int) -> None:
    """Fill the receive buffers with what is wrong in every byte."""
    for array in into:
        for where, pattern in _pieces(array.size, sender, visit):
            np.invert(pattern, out=array[where])


def first_wrong(into: list[Bytes], sender: int, visit: int) -> tuple[int, int, int, int] | None:
    """(slot, byte, expected, found) of the first wrong byte, or None."""
    for slot, array in enumerate(into):
        for where, pattern in _pieces(array.size, sender, visit):
            if not np.array_equal(array[where], pattern):
                at = int(np.argmax(array[where] != pattern))
                return slot, where.start + at, int(pattern[at]), int(array[where][at])
    return None
