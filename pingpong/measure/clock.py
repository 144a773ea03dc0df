"""The clock of the samples, and what it and the harness cost."""

import time
from collections.abc import Callable, Iterator
from itertools import chain, pairwise, repeat
from statistics import median

NAME = "CLOCK_MONOTONIC, integer nanoseconds (time.perf_counter_ns)"
READINGS = 2000
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


def stamped(lead_in: int, steps: int, samples: int, stamps: list[int], clock: Tick) -> Iterator[bool]:
    """The lead's steps of a visit: one unbroken iteration that stamps the clock before every sample.

    `stamps` gets samples + 1 entries in nanoseconds, the last one when the caller asks for more than there is.
    Costs no Python code per step: the pieces are iterated in C.
    """

    def pieces() -> Iterator[Iterator[bool]]:
        yield repeat(False, lead_in)
        stamps.append(clock())
        for _ in range(samples - 1):
            yield repeat(False, steps)
            stamps.append(clock())
        yield repeat(False, steps - 1)
        yield repeat(True, 1)
        stamps.append(clock())

    return chain.from_iterable(pieces())


def unstamped(total: int) -> Iterator[bool]:
    """The peer's steps of a visit."""
    return chain(repeat(False, total - 1), repeat(True, 1))


def harness_cost(run: Callable[[Iterator[bool]], None], clock: Tick) -> tuple[float, float]:
    """Seconds that a sample and a step of an empty kernel's loop `run` cost, from samples of 1 and 1000 steps."""

    def sample(steps: int) -> float:
        stamps: list[int] = []
        run(stamped(0, steps, 30, stamps, clock))
        return median(b - a for a, b in pairwise(stamps))

    # The least of several: what else the machine does is not the harness's cost.
    short, long = (min(sample(steps) for _ in range(7)) for steps in (1, 1000))
    per_step = max(0.0, (long - short) / 999)
    return max(0.0, short - per_step) / 1e9, per_step / 1e9
