"""From samples to figures with their uncertainty. Seconds and bytes in, seconds and bytes out; no I/O.

Samples of one visit depend on each other, so every interval is taken over the medians of the visits; and as far as
neighbouring visits depend on each other too, they count for fewer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from statistics import median

import numpy as np
import numpy.typing as npt

from pingpong.model import Point

# No interval with a lower confidence is given. Looking several times and stopping at a narrow interval costs about
# one per cent of coverage, so the level is above 93 %; five visits carry no more than 0.9375, and no look is made.
LEVEL, LEVEL_OF_FEW = 0.945, 0.93
FEW = 10
CARRIES = 10  # samples that must lie beyond a percentile before it is given
HARNESS_LIMIT = 0.01  # of a sample
NATIVE = "native"
SHORTEST = 1e-12  # seconds: no step takes less

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """Confidence interval of a median; `level` is its exact confidence for independent values."""

    low: float
    high: float
    level: float

    def reach(self, center: float) -> float:
        """How far the farther end lies from `center`, as a fraction of it."""
        return max(self.high - center, center - self.low) / center if center > 0 else math.inf


@dataclass(frozen=True)
class Mode:
    """A group of visits: the median of their medians and their share of all visits."""

    value: float
    share: float


@dataclass(frozen=True)
class Summary:
    """A point in figures. Times are seconds per step; `None` is a figure that the data do not carry.

    `invalid` is the sentence that says why there is no time at all.
    """

    median: float | None
    interval: Interval | None = None
    minimum: float | None = None
    maximum: float | None = None
    p99: float | None = None
    samples: int = 0
    visits: int = 0
    modes: list[Mode] = field(default_factory=list)
    invalid: str | None = None


def independent(values: Sequence[float]) -> float:
    """How many independent values these successive ones are worth: n (1 - r) / (1 + r), at most n.

    r is the correlation of neighbours, of their ranks (so that one outlier does not decide) and corrected for its
    bias of about -1/n; fewer than ten values do not tell it. The formula is that of a first-order autoregressive
    process (e.g. Priestley, Spectral Analysis and Time Series, section 5.3).
    """
    n = len(values)
    if n < FEW or min(values) == max(values):
        return float(n)
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[which] - (n + 1) / 2  # equal values share their mean rank
    r = float(ranks[1:] @ ranks[:-1]) / float(ranks @ ranks) + 1 / n
    return n * (1 - r) / (1 + r) if r > 0 else float(n)


def median_interval(values: Sequence[float], worth: float | None = None) -> Interval | None:
    """The narrowest symmetric order-statistic interval of the median with enough confidence (LEVEL).

    Distribution-free (see e.g. David and Nagaraja, Order Statistics, 3rd ed., section 7.1): with n values the
    k-th smallest and the k-th largest enclose the median with probability 1 - 2 P(Binomial(n, 1/2) < k). Where the
    values are `worth` fewer independent ones, k is that of so many, at the same fraction of the ordered values.
    None if that is fewer than five: they carry no interval.
    """
    ordered = sorted(float(v) for v in values)
    n = len(ordered)
    effective = n if worth is None else min(n, int(worth))
    found = _rank(effective)
    if found is None:
        return None
    k, level = found
    k = max(1, k * (n + 1) // (effective + 1))
    return Interval(ordered[k - 1], ordered[n - k], level)


@lru_cache(maxsize=1024)
def _rank(n: int) -> tuple[int, float] | None:
    """The largest k whose interval has enough confidence for n independent values, and that confidence."""
    whole = 2 ** (n - 1) if n else 1
    allowed = Fraction(str(1 - (LEVEL if n >= FEW else LEVEL_OF_FEW))) * whole
    below, term, best = 0, 1, None
    for k in range(1, n // 2 + 1):
        below += term  # sum of the binomial coefficients below k
        if below > allowed:
            break
        best = (k, 1 - below / whole)
        term = term * (n - k + 1) // k
    return best


def modes(values: Sequence[float], fewest: int = 3) -> list[Mode]:
    """The groups into which visit medians fall, smallest first; empty if they are one.

    Neighbouring groups are told apart where the gap between them is at least a tenth of the value below it and
    three times the spread (interquartile range) of either group, and each holds at least `fewest` values and a
    fifth of all. Starts from all gaps of a tenth and closes the weakest until the rest hold.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    gaps = np.diff(ordered)
    fewest = max(fewest, math.ceil(len(ordered) / 5))
    cuts = [int(i) + 1 for i in np.flatnonzero(gaps >= 0.1 * ordered[:-1])]
    while cuts:
        groups = np.split(ordered, cuts)
        holds = [
            (min(len(low), len(high)) >= fewest and gaps[cut - 1] >= 3 * max(_spread(low), _spread(high)))
            for cut, low, high in zip(cuts, groups, groups[1:], strict=False)
        ]
        if all(holds):
            return [Mode(float(np.median(g)), len(g) / len(ordered)) for g in groups]
        weakest = min(range(len(cuts)), key=lambda k: (holds[k], gaps[cuts[k] - 1]))
        del cuts[weakest]
    return []


def _spread(values: Floats) -> float:
    q = np.percentile(values, [25, 75])
    return float(q[1] - q[0])


def percentile(samples: Floats, q: float) -> float | None:
    """The q-quantile (0 < q < 1), or None if fewer than CARRIES samples lie beyond it."""
    if round(len(samples) * min(q, 1 - q), 6) < CARRIES:  # 1 - 0.9 is a little less than 0.1
        return None
    return float(np.quantile(samples, q))


def visit_medians(point: Point) -> list[float]:
    """Median time of a step in each visit, in seconds, in the order of the visits."""
    return [median(visit.seconds) / point.steps for visit in point.visits if visit.seconds]


def summarize(point: Point) -> Summary:
    """All figures of a measured point; imported ones (without samples) have none here."""
    medians = visit_medians(point)
    if not medians:
        return Summary(None, invalid="no samples")
    samples = step_times(point)
    not_positive = int(np.count_nonzero(~(samples > SHORTEST)))
    if not_positive:
        return Summary(
            None,
            samples=len(samples),
            visits=len(medians),
            invalid=f"the clock stood still or stepped back in {not_positive} of {len(samples)} samples",
        )
    return Summary(
        median=median(medians),
        interval=median_interval(medians, independent(medians)),
        minimum=float(samples.min()),
        maximum=float(samples.max()),
        p99=percentile(samples, 0.99),
        samples=len(samples),
        visits=len(medians),
        modes=modes(medians),
    )


def step_times(point: Point) -> Floats:
    """All samples as seconds per step, in the order in which they were taken."""
    return np.concatenate([np.empty(0), *(visit.seconds for visit in point.visits)]) / point.steps


def one_way_percentiles(point: Point, percents: Sequence[float]) -> list[float | None]:
    """Percentiles of the samples as one-way times in seconds; None for each that the samples do not carry.

    `percents` lie between 0 and 100. A point with an invalid time has none at all.
    """
    if summarize(point).invalid:
        return [None] * len(percents)
    times = step_times(point)
    steps = [percentile(times, percent / 100) for percent in percents]
    return [None if step is None else one_way(point, step) for step in steps]


def one_way(point: Point, step: float) -> float:
    """The kernel's time in seconds from that of a step: half trip, or completion."""
    return step / point.legs if point.time == "half-trip" and point.legs else step


def bandwidth(point: Point, step: float) -> float:
    """Bytes per second and direction: size * messages / step / directions."""
    return point.size * point.messages / step / point.directions


def preferred(points: list[Point]) -> list[Point]:
    """Of points that differ in their loop alone the native one: it shows the fabric, without what Python adds."""
    native = {what(p) for p in points if p.loop == NATIVE}
    return [p for p in points if p.loop == NATIVE or what(p) not in native]


def added(points: list[Point]) -> list[tuple[Point, float]]:
    """The mpi4py points that have a native one beside them, and the seconds that Python adds to each message."""
    native = {what(p): p for p in points if p.loop == NATIVE}
    found = []
    for point in points:
        beside = native.get(what(point))
        if beside is None or beside is point:
            continue
        step, native_step = summarize(point).median, summarize(beside).median
        if step is not None and native_step is not None:
            found.append((point, one_way(point, step) - one_way(beside, native_step)))
    return found


def what(point: Point) -> tuple[str, int, str]:
    """What a point measures, whoever drives it: kernel, size and parameters."""
    return point.kernel, point.size, repr(sorted(point.params.items()))


@dataclass(frozen=True)
class Headline:
    """The closing line: best rate (bytes/s per direction), least half trip (seconds), and whose they are."""

    rate: float
    latency: float
    fastest: Point
    nearest: Point


def headline(points: list[Point]) -> Headline | None:
    """Largest bandwidth and smallest half trip over all ping-pong points; None if no point has a time."""
    timed = [(p, s.median) for p in points if p.time == "half-trip" and p.legs and (s := summarize(p)).median]
    if not timed:
        return None
    rate, fastest = max(((bandwidth(p, t), p) for p, t in timed), key=lambda found: found[0])
    latency, nearest = min(((one_way(p, t), p) for p, t in timed), key=lambda found: found[0])
    return Headline(rate, latency, fastest, nearest)
