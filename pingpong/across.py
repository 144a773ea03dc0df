"""Several launches of the same thing: one launch is one value, whatever happened inside it.

Where the ranks land, which buffers they get and what else the machine does is drawn anew with every launch, so
only the spread between launches tells how the next one may come out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from msgspec import structs

from pingpong import stats
from pingpong.model import Point, Run, Session
from pingpong.stats import Interval, Mode

TELLING = 4  # values that have quartiles worth the name
ALIKE = 2  # launches that make a mode: each is a settled figure, not a noisy sample


@dataclass(frozen=True)
class Spread:
    """A figure in each of several launches, in its own unit.

    `interval` is that of the median, absent for fewer than five launches. `between` is the interquartile range of
    the launches as a fraction of their median.
    """

    values: list[float]
    median: float
    interval: Interval | None
    between: float
    modes: list[Mode]


@dataclass(frozen=True)
class Across:
    """A point over launches: seconds per step. `within` is the spread of the visits inside a launch, as `between`.

    It is absent where no launch has enough visits to tell. `point` is that of the first launch; `mixed` in how
    many launches the visits themselves fall into modes.
    """

    point: Point
    step: Spread
    within: float | None
    mixed: int


@dataclass(frozen=True)
class Headlines:
    """The closing figures over launches: bytes/s per direction, and seconds (half trip)."""

    rate: Spread
    latency: Spread


def groups(session: Session) -> list[list[Run]]:
    """The runs of a session, those together that repeat each other with another seed."""
    found: list[tuple[Any, list[Run]]] = []
    for run in session.runs:
        what = (run.source, run.transport, structs.replace(run.plan, seed=0) if run.plan else run.launch)
        beside = next((runs for other, runs in found if other == what), None)
        if beside is None:
            found.append((what, [run]))
        else:
            beside.append(run)
    return [runs for _, runs in found]


def whole(runs: Sequence[Run]) -> list[Run]:
    """The launches that figures are taken from: the complete ones, or where there are none what was measured."""
    return [run for run in runs if run.status == "complete"] or [run for run in runs if run.points]


def spread(values: Sequence[float]) -> Spread:
    """A figure over launches. Needs at least one value."""
    middle = median(values)
    return Spread(
        values=list(values),
        median=middle,
        interval=stats.median_interval(values),
        between=_quartiles(values) / middle if middle else 0.0,
        modes=stats.modes(values, ALIKE),
    )


def _quartiles(values: Sequence[float]) -> float:
    low, high = np.percentile(np.asarray(values), [25, 75])
    return float(high - low)


def points(runs: Sequence[Run]) -> list[Across]:
    """The points that have a time in some launch, in the order of the first launch that has them."""
    found: dict[Any, list[Point]] = {}
    for run in runs:
        for point in run.points:
            found.setdefault((*stats.what(point), point.loop), []).append(point)
    return [across for same in found.values() if (across := _across(same))]


def _across(same: list[Point]) -> Across | None:
    valid = [(point, summary) for point in same if (summary := stats.summarize(point)).median is not None]
    if not valid:
        return None
    visits = [stats.visit_medians(point) for point, _ in valid]
    return Across(
        point=same[0],
        step=spread([median(medians) for medians in visits]),
        within=_within(visits),
        mixed=sum(1 for _, summary in valid if summary.modes),
    )


def added(runs: Sequence[Run]) -> list[tuple[Point, float]]:
    """What Python adds to each message: as `stats.added`, the median over launches."""
    found: dict[Any, list[tuple[Point, float]]] = {}
    for run in runs:
        for point, seconds in stats.added(run.points):
            found.setdefault(stats.what(point), []).append((point, seconds))
    return [(same[0][0], median(seconds for _, seconds in same)) for same in found.values()]


def _within(visits: list[list[float]]) -> float | None:
    told = [_quartiles(medians) / median(medians) for medians in visits if len(medians) >= TELLING]
    return median(told) if told else None


def headlines(runs: Sequence[Run]) -> Headlines | None:
    """The closing figures of each launch, taken together; None if no launch has any."""
    found = [best for run in runs if (best := stats.headline(stats.preferred(run.points)))]
    if not found:
        return None

    def over(figure: Callable[[stats.Headline], float]) -> Spread:
        return spread([figure(best) for best in found])

    return Headlines(rate=over(lambda best: best.rate), latency=over(lambda best: best.latency))
