"""When a point has been visited often enough. Pure functions over visit medians: no clock, no MPI."""

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from pingpong.stats import independent, median_interval

TOLERANCE = 0.01  # of the median, to either side
FIRST_LOOK = 10
FEWEST_VISITS = 5
RAREST = 5  # passes from one visit of a long point to its next


def is_look(visits: int) -> bool:
    """True after 10, 20, 40, … visits. Looking more often would stop at lucky moments and spoil the coverage."""
    ratio, rest = divmod(visits, FIRST_LOOK)
    return rest == 0 and ratio > 0 and ratio & (ratio - 1) == 0


def precise(medians: Sequence[float]) -> bool:
    """True at a look at which the interval of the median is within ±1 %."""
    if not is_look(len(medians)):
        return False
    interval = median_interval(medians, independent(medians))
    return interval is not None and interval.reach(median(medians)) <= TOLERANCE


class Share(NamedTuple):
    """What a point gets of the time: `samples` in a visit, and a visit in `every` so many passes."""

    samples: int
    every: int


def shares(costs: Sequence[tuple[float, float]], most: int, seconds: float) -> list[Share]:
    """How the points share passes of `seconds`; `costs` holds (before the samples, a sample) in seconds for each.

    All get a visit of `most` samples in each pass if they fit. Else the long ones give way first, as one limit
    holds for what each may take of a pass: they get fewer samples, then fewer visits, but one in RAREST passes. No
    limit is below an equal share, which nobody needs to give up; so passes may become longer than `seconds`.
    """

    def within(limit: float) -> list[Share]:
        return [_share(fixed, sample, most, limit) for fixed, sample in costs]

    def fits(chosen: list[Share]) -> bool:
        return sum((f + c.samples * s) / c.every for c, (f, s) in zip(chosen, costs, strict=True)) <= seconds

    everything = [Share(most, 1)] * len(costs)
    if fits(everything):
        return everything
    low, high = seconds / len(costs), max(fixed + most * sample for fixed, sample in costs)
    for _ in range(60):  # halving: the limit to a part in 10^18
        middle = (low + high) / 2
        low, high = (middle, high) if fits(within(middle)) else (low, middle)
    return within(low)


def _share(fixed: float, sample: float, most: int, limit: float) -> Share:
    samples = min(most, int((limit - fixed) / sample))
    if samples >= 1:
        return Share(samples, 1)
    # A visit that costs more than its share: no less time in samples than before them, or little is measured.
    samples = max(1, min(most, int(fixed / sample)))
    wanted = (fixed + samples * sample) / limit if limit > 0 else RAREST
    return Share(samples, min(RAREST, math.ceil(wanted)))
