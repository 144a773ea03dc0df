"""The transports of a session side by side: what was asked, what carried the bytes, what it costs."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pingpong import across, evidence, stats
from pingpong.across import Headlines, Spread
from pingpong.evidence import Finding
from pingpong.evidence.case import WORST
from pingpong.model import Failure, Run, Session, Transport
from pingpong.stats import Interval


class Ratio(NamedTuple):
    """How many times worse than the best: the median over rounds of launches, and its interval from five on."""

    value: float
    interval: Interval | None


@dataclass(frozen=True)
class Wire:
    """A transport in all its launches. Figures are absent where nothing was measured.

    `finding` is the worst of the launches'. `latency` and `rate` are the closing figures (seconds, bytes/s).
    `latency_ratio` is that to the lowest latency, `rate_ratio` that of the highest rate to this one.
    """

    transport: Transport
    runs: list[Run]
    finding: Finding | None
    latency: Spread | None
    rate: Spread | None
    latency_ratio: Ratio | None
    rate_ratio: Ratio | None

    @property
    def failures(self) -> list[tuple[Run, Failure]]:
        return [(run, run.failure) for run in self.runs if run.failure]

    @property
    def complete(self) -> int:
        return sum(run.status == "complete" for run in self.runs)


def of_session(session: Session) -> list[Wire]:
    """The transports of a session, the one with the lowest latency first; none if nothing was asked."""
    by_name: dict[str, list[Run]] = {}
    for run in session.runs:
        if run.transport:
            by_name.setdefault(run.transport.name, []).append(run)
    figures = {name: across.headlines(across.whole(runs)) for name, runs in by_name.items()}
    whole = {name: figures[name] for name, runs in by_name.items() if any(r.status == "complete" for r in runs)}
    nearest = _best(whole, lambda found: -found.latency.median)
    fastest = _best(whole, lambda found: found.rate.median)
    found = [
        _wire(runs, figures[name], by_name.get(nearest, []), by_name.get(fastest, []))
        for name, runs in by_name.items()
    ]
    return sorted(found, key=lambda wire: wire.latency.median if wire.latency else math.inf)


def _wire(runs: list[Run], figures: Headlines | None, nearest: list[Run], fastest: list[Run]) -> Wire:
    assert runs[0].transport
    return Wire(
        transport=runs[0].transport,
        runs=runs,
        finding=worst([evidence.of_run(run) for run in runs if run.points]),
        latency=figures.latency if figures else None,
        rate=figures.rate if figures else None,
        latency_ratio=_ratio(_bests(runs), _bests(nearest), lambda best: best.latency),
        rate_ratio=_ratio(_bests(fastest), _bests(runs), lambda best: best.rate),
    )


def worst(findings: Sequence[Finding]) -> Finding | None:
    """The finding that the reader must know of; in how many launches, where they differ."""
    if not findings:
        return None
    verdict = min((found.verdict for found in findings), key=WORST.index)
    alike = [found for found in findings if found.verdict == verdict]
    reason = next((found.reason for found in alike if found.reason), "")
    counts = Counter(found.observed for found in alike)
    if len(counts) > 1:
        observed = "; ".join(f"{text} in {_launches(count)}" for text, count in counts.most_common())
        return Finding(verdict, observed, reason and f"in one of them: {reason}")
    if len(alike) < len(findings):
        times = f"in {len(alike)} of {_launches(len(findings))}"
        return Finding(verdict, alike[0].observed, f"{times}: {reason}" if reason else times)
    return Finding(verdict, alike[0].observed, reason)


def _launches(count: int) -> str:
    return f"{count} launch{'es' if count > 1 else ''}"


def _bests(runs: list[Run]) -> list[stats.Headline | None]:
    """The closing figures of each launch, in the order of the rounds."""
    return [stats.headline(stats.preferred(run.points)) if run.status == "complete" else None for run in runs]


def _best(figures: dict[str, Headlines | None], merit: Callable[[Headlines], float]) -> str:
    there = {name: merit(found) for name, found in figures.items() if found}
    return max(there, key=lambda name: there[name], default="")


def _ratio(
    over: list[stats.Headline | None],
    under: list[stats.Headline | None],
    figure: Callable[[stats.Headline], float],
) -> Ratio | None:
    """Launches of one round ran next to each other: what drifts on the machine falls out of their ratio."""
    ratios = [figure(a) / figure(b) for a, b in zip(over, under, strict=False) if a and b and figure(b)]
    if not ratios:
        return None
    spread = across.spread(ratios)
    return Ratio(spread.median, spread.interval)
