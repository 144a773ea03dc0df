"""Cold buffers: every step uses other memory, out of a pool that no cache can hold.

Between two uses of a place the whole pool has been walked through, so what a message is copied from and to is not
in a cache. Nothing may be written there before a visit either, so the payload is the same at every place: a
pattern of one cache line. What was received is spoiled again once it is checked, a whole lap before its next use.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pingpong.measure.buffers import Bytes, aligned

LINE = 64
APART = 128  # bytes: some processors fetch the neighbour of a line along with it

Offsets = npt.NDArray[np.int64]


class Pool:
    """Areas of `size` bytes for each of `sends` and `receives` buffers; the ranks' numbers make the patterns."""

    def __init__(self, size: int, sends: int, receives: int, me: int, other: int) -> None:
        self._size, self._next = size - size % LINE, 0
        self._other = _pattern(other)
        self._out = [_filled(self._size, _pattern(me)) for _ in range(sends)]
        self._into = [_filled(self._size, ~self._other) for _ in range(receives)]

    def out(self, size: int, count: int) -> list[Bytes]:
        """The first `count` send areas, cut to `size` bytes."""
        return [area[:size] for area in self._out[:count]]

    def into(self, size: int, count: int) -> list[Bytes]:
        """The first `count` receive areas, cut to `size` bytes."""
        return [area[:size] for area in self._into[:count]]

    def take(self, size: int, count: int) -> Offsets:
        """The next `count` places for messages of `size` bytes, in an order that no prefetcher follows.

        Where a visit needs more places than there are, they come again after the last one.
        """
        room = max(APART, -(-size // LINE) * LINE)
        fit = min(count, self._size // room)
        if self._next + fit * room > self._size:
            self._next = 0
        first, self._next = self._next, self._next + fit * room
        return np.resize(first + room * _scattered(fit), count)

    def first_wrong(self, size: int, receives: int, offsets: Sequence[int]) -> tuple[int, int, int, int] | None:
        """(slot, byte, expected, found) of the first wrong byte in these places, or None; and spoil them again.

        The first or the last place is untouched where receives are posted ahead, or where they are not.
        """
        wrong = None
        expected = np.resize(self._other, size)
        for slot, area in enumerate(self._into[:receives]):
            for at in dict.fromkeys(offsets):
                place = area[at : at + size]
                if not np.array_equal(place, expected) and wrong is None:
                    untouched = at in (offsets[0], offsets[-1]) and np.array_equal(place, ~expected)
                    if not untouched:
                        byte = int(np.argmax(place != expected))
                        wrong = slot, byte, int(expected[byte]), int(place[byte])
                np.invert(expected, out=place)
        return wrong


def _pattern(sender: int) -> Bytes:
    return np.random.default_rng(sender).integers(0, 256, LINE, dtype=np.uint8)


def _filled(size: int, pattern: Bytes) -> Bytes:
    area = aligned(size)
    area.reshape(-1, LINE)[:] = pattern
    return area


def _scattered(count: int) -> Offsets:
    """0 to count - 1, neighbours far from each other: steps of about the golden section."""
    step = max(1, round(0.618 * count))
    while np.gcd(step, count) != 1:
        step += 1
    return np.arange(count, dtype=np.int64) * step % count
