"""When a point has been visited often enough. Pure functions over visit medians: no clock, no MPI."""

from collections.abc import Sequence

from pingpong.stats import median_interval

TOLERANCE = 0.01  # half the interval's width as a fraction of the median
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
    interval = median_interval(list(medians))
    middle = sorted(medians)[len(medians) // 2]
    return interval is not None and interval.half_width(middle) <= TOLERANCE


def samples_per_visit(costs: Sequence[tuple[float, float]], most: int, seconds: float) -> list[int]:
    """How many samples each point gets in a visit so that one pass over all takes about `seconds`.

    `costs` holds (lead-in, sample) in seconds for each point. All get `most` if they fit; else the long ones
    give way first (the same time limit for each visit, found by water-filling), down to one sample.
    """
    wanted = sorted(lead_in + most * sample for lead_in, sample in costs)
    left, limit = seconds, float("inf")
    for done, cost in enumerate(wanted):
        share = left / (len(wanted) - done)
        if cost > share:
            limit = max(share, 0.0)
            break
        left -= cost
    return [
        most if lead_in + most * sample <= limit else max(1, min(most, int((limit - lead_in) / sample)))
        for lead_in, sample in costs
    ]
