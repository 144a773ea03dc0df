"""When a point has been visited often enough. Pure functions over visit medians: no clock, no MPI."""

from collections.abc import Sequence
from statistics import median

from pingpong.stats import independent, median_interval

TOLERANCE = 0.01  # of the median, to either side
FIRST_LOOK = 10
FEWEST_VISITS = 5


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


def samples_per_visit(costs: Sequence[tuple[float, float]], most: int, seconds: float) -> list[int]:
    """How many samples each point gets in a visit so that one pass over all takes at most `seconds`, if it can.

    `costs` holds (lead-in, sample) in seconds for each point. All get `most` if they fit; else the long ones give
    way first, down to one sample: the same time limit holds for each visit. If one sample each is already too
    much, that limit is an equal share.
    """

    def within(limit: float) -> list[int]:
        return [max(1, min(most, int((limit - lead_in) / sample))) for lead_in, sample in costs]

    def fits(counts: list[int]) -> bool:
        return sum(lead_in + n * sample for n, (lead_in, sample) in zip(counts, costs, strict=True)) <= seconds

    if fits([most] * len(costs)):
        return [most] * len(costs)
    if not fits([1] * len(costs)):
        return within(seconds / len(costs))
    low, high = 0.0, max(lead_in + most * sample for lead_in, sample in costs)
    for _ in range(60):  # halving: the limit to a part in 10^18
        middle = (low + high) / 2
        low, high = (middle, high) if fits(within(middle)) else (low, middle)
    return within(low)
