"""The clock of the samples, and what it and the harness cost."""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise, repeat
from operator import itemgetter
from statistics import median
from typing import Any

from pingpong.kernels import Factory, Loop
from pingpong.model import Clock, Harness

NAME = "CLOCK_MONOTONIC, integer nanoseconds (time.perf_counter_ns)"
READINGS = 2000
UNCLEAR = 4  # nanoseconds: with rounding, everything is a multiple of less
TRIALS, APART = 20, 0.003  # of the harness, and seconds between them
PATIENCE = 0.1  # seconds: a tick of the coarsest clocks takes 10 ms

Tick = Callable[[], int]
now: Tick = time.perf_counter_ns


def step_and_cost(clock: Callable[[], float]) -> tuple[float | None, float]:
    """Smallest difference above zero between successive readings, and their mean distance, in the clock's unit.

    The step is what can be told apart: a tick, or the call itself where that takes longer. None for a clock that
    did not move in PATIENCE seconds.
    """
    began = time.perf_counter()
    readings = [clock() for _ in range(READINGS)]
    cost = (readings[-1] - readings[0]) / (READINGS - 1)
    while readings[-1] == readings[0] and time.perf_counter() - began < PATIENCE:
        readings.append(clock())
    return min((b - a for a, b in pairwise(readings) if b > a), default=None), cost


def resolution(clock: Callable[[], int]) -> float | None:
    """The tick of a clock that counts nanoseconds: the largest of which all differences of readings are multiples.

    Unlike the smallest difference it is not limited by how long a reading takes: differences of 51, 53 and 58 are
    those of a clock that tells single nanoseconds. A tick need not be whole nanoseconds, so each difference may be
    off by one, and what is below four of them cannot be told from one. None for a clock that did not move.
    """
    began = time.perf_counter()
    readings = [clock() for _ in range(READINGS)]
    while readings[-1] == readings[0] and time.perf_counter() - began < PATIENCE:
        readings.append(clock())
    moved = [b - a for a, b in pairwise(readings) if b > a]
    if not moved:
        return None
    least = min(moved)
    for parts in range(1, least // UNCLEAR + 1):
        ticks = [round(d * parts / least) for d in moved]
        tick = sum(moved) / sum(ticks)
        off = sum(1 for d, n in zip(moved, ticks, strict=True) if abs(d - n * tick) > 1 + n * 0.01)
        if tick >= UNCLEAR and off <= len(moved) / 100:
            return tick
    return 1.0


class Block:
    """The steps of one visit (see `pingpong.kernels.Steps`); with a `tick` it is the lead's and takes stamps.

    `moves` turns the offsets of the steps into iterators that each move one buffer when they are advanced.
    Costs no Python code per step: the pieces between the stamps are iterated in C.
    """

    def __init__(
        self,
        lead_in: int,
        steps: int,
        samples: int,
        tick: Tick | None = None,
        offsets: Sequence[int] = (),
        moves: Callable[[Sequence[int]], list[Iterator[None]]] = lambda _offsets: [],
    ) -> None:
        self.lead_in, self.steps, self.samples = lead_in, steps, samples
        self.stamps: list[int] = []
        self.offsets = offsets
        self._tick, self._moves = tick, moves

    def __iter__(self) -> Iterator[bool]:
        if not len(self.offsets):
            return self._lasts()
        # Each step also advances every move once: in C as well, so that it costs little.
        return map(itemgetter(0), zip(self._lasts(), *self._moves(self.offsets[1:]), strict=False))

    def _lasts(self) -> Iterator[bool]:
        tick = self._tick
        if tick is None:
            return chain(repeat(False, self.lead_in + self.steps * self.samples - 1), repeat(True, 1))
        return chain.from_iterable(self._pieces(tick))

    def _pieces(self, tick: Tick) -> Iterator[Iterator[bool]]:
        yield repeat(False, self.lead_in)
        self.stamps.append(tick())
        for _ in range(self.samples - 1):
            yield repeat(False, self.steps)
            self.stamps.append(tick())
        yield repeat(False, self.steps - 1)
        yield repeat(True, 1)
        self.stamps.append(tick())

    def seconds(self) -> list[float]:
        """The samples in seconds."""
        return [(b - a) / 1e9 for a, b in pairwise(self.stamps)]


class _Alone:
    """A link to nobody: for the empty kernel, which never communicates."""

    def __init__(self) -> None:
        self.comm, self.other = None, 0
        self.out: list[Any] = []
        self.into: list[Any] = []

    def meet(self) -> None:
        pass


def harness(factory: Factory, slots: int = 0) -> Harness:
    """What the loops of an empty kernel cost, from samples of 1 and 1000 steps, with `slots` buffers that move."""
    found = []
    with factory(_Alone()) as (run, _):
        for _ in range(TRIALS):
            found.append((_sample(run, 1, slots), _sample(run, 1000, slots)))
            time.sleep(APART)
    # The least of them: what else the machine does is not the harness's cost.
    short, long = (min(costs) for costs in zip(*found, strict=True))
    per_step = max(0.0, (long - short) / 999)
    return Harness(sample=max(0.0, short - per_step), step=per_step)


def _sample(run: Loop, steps: int, slots: int) -> float:
    def moves(offsets: Sequence[int]) -> list[Iterator[None]]:
        return [map([None].__setitem__, repeat(0), [None] * len(offsets)) for _ in range(slots)]

    block = Block(0, steps, 30, now, range(30 * steps + 1) if slots else (), moves)
    run(block)
    return median(block.seconds())


def describe(wtime: Callable[[], float], loops: dict[str, Factory], slots: int = 0) -> Clock:
    """The steps and costs of MPI's clock and ours, and of the harness for each of the empty kernel's loops."""
    wtime_step, _ = step_and_cost(wtime)
    step, cost = step_and_cost(now)
    return Clock(
        name=NAME,
        wtime_step=wtime_step,
        step=step / 1e9 if step else None,
        resolution=tick / 1e9 if (tick := resolution(now)) else None,
        cost=cost / 1e9,
        harness={name: harness(factory, slots) for name, factory in loops.items()},
    )
