"""A histogram of each point's samples in ASCII: one-way times in µs down the page, counts at the right.

The rows follow the bulk of the samples, so that a hump has a shape and two modes are two humps. What lies far out,
such as a sample that the system interrupted, is counted in an open-ended row instead of stretching the others.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from pingpong import stats
from pingpong.model import Point, Session
from pingpong.texts import tables
from pingpong.units import MICRO, significant, size_text

ROWS = 20  # at most, without the two open-ended ones; a few samples would be lost in so many
ROWS_OF_FEW, FEW = 12, 100
NARROWEST_BAR = 10  # columns: below it the figures make the line wider
TAIL = 10  # one sample in so many at each end may lie in an open-ended row; a mode has at least twice as many
FAR_OUT = 3  # times the interquartile range beyond a quartile: Tukey's outer fences
WIDE = 3  # times the shortest: from here on bins are logarithmic
NARROWEST = 1e-4  # of a time: narrower bins would tell digits that no text here has
SAME = 1e-9  # of a time: what differs by less is equal
LEGEND = "each row begins at its time; > has the median; rows without an end have no bar"


@dataclass(frozen=True)
class Bins:
    """`edges` in µs, ascending; a bin holds its lower edge. `labels` are the edges as text."""

    edges: list[float]
    labels: list[str]
    logarithmic: bool = False


def section(session: Session, marked: bool) -> list[str]:
    """The histograms of all points by kernel and loop, in Markdown if `marked`."""
    lines: list[str] = []
    for name, points in tables.sections(session):
        title = f"{name}: histograms"
        drawn = [line for point in points for line in ("", *of(point))]
        if marked:
            lines += ["", f"## {tables.escape(title)}", "", tables.escape(LEGEND), "", "```", *drawn[1:], "```"]
        else:
            lines += ["", *tables.wrap(title), LEGEND, *drawn]
    return lines


def of(point: Point) -> list[str]:
    """The histogram of one point, or one line that says why there is none."""
    size = f"{size_text(point.size)} bytes"
    summary = stats.summarize(point)
    if summary.median is None:
        return tables.wrap(
            f"{size}: no valid time: {summary.invalid}" if summary.samples else f"{size}: no samples"
        )
    # Twelve digits: a time that is an edge must not fall below it by its last binary digit.
    times = sorted(_rounded(stats.one_way(point, s) / MICRO) for s in stats.step_times(point).tolist())
    middle = stats.one_way(point, summary.median) / MICRO
    over = f" over {point.steps} steps"
    if len(times) == 1:
        average = f", an average{over}" if point.steps > 1 else ""
        return tables.wrap(f"{size}: one sample{average}, {significant(middle, 3)} µs")
    averages = f", averages{over}" if point.steps > 1 else ""
    if times[-1] - times[0] <= SAME * times[-1]:
        return tables.wrap(f"{size}: {len(times)} samples{averages}, all {significant(middle, 3)} µs")
    bins = choose(times)
    about = f"{size}: {len(times)} samples{averages}; median {significant(middle, 3)}"
    about += "; logarithmic bins" if bins.logarithmic else ""
    return [*tables.wrap(about), *_rows(times, bins, middle)]


def _rounded(value: float) -> float:
    return float(f"{value:.12g}")


def choose(times: list[float]) -> Bins:
    """Bins for ascending times in µs that are not all equal.

    Their edges are round numbers. Linear bins show the shape of a hump, whose width is some per cent of its place
    for nearly every message; but where the bulk of the times spans a factor of WIDE, as with a mode that takes ten
    times as long, the same hump at the short end would be a single linear bin, so there they are logarithmic.
    """
    tail = max(1, len(times) // TAIL) if len(times) >= 5 else 0
    logarithmic = times[-1 - tail] >= WIDE * times[tail]
    scale, back = (math.log, math.exp) if logarithmic else (float, float)
    low, lower, upper, high = (scale(times[n]) for n in (tail, len(times) // 4, -1 - len(times) // 4, -1 - tail))
    reach = FAR_OUT * (upper - lower)
    first = bisect_left(times, back(min(low, lower - reach)) * (1 - SAME))
    last = bisect_right(times, back(max(high, upper + reach)) * (1 + SAME)) - 1
    rows = ROWS_OF_FEW if len(times) < FEW else ROWS
    return (_logarithmic if logarithmic else _linear)(times[first : last + 1], rows)


def _linear(times: list[float], rows: int) -> Bins:
    first, last = times[0], times[-1]
    width, digits = _round_width(first, last, rows)
    origin = shift = 0.0
    tick = _tick(times)
    if width < 10 * tick:
        # Bins hold equally many ticks, or every other one would be a tooth of a comb. Edges lie between ticks, and
        # a row's label is its first tick.
        width, origin, shift = tick * math.ceil(width / tick - SAME), first - tick / 2, tick / 2
        digits = -math.floor(math.log10(tick))
        digits += abs(round(tick, digits) - tick) > SAME * tick
    edges = _edges(lambda k: origin + k * width, math.floor((first - origin) / width), first, last)
    return Bins(edges, [f"{edge + shift:.{max(0, digits)}f}" for edge in edges])


def _tick(times: list[float]) -> float:
    """The smallest difference of times where a coarse clock makes many of them coincide, else 0."""
    distinct = sorted(set(times))
    if not 5 <= len(distinct) <= len(times) / 2:
        return 0.0
    return float(f"{min(b - a for a, b in pairwise(distinct)):.6g}")


def _round_width(first: float, last: float, rows: int) -> tuple[float, int]:
    """The first of 1, 2, 5, 10, … times a power of ten that covers `first` to `last` in `rows` aligned bins.

    And how many decimals it has.
    """
    least = max((last - first) / rows, NARROWEST * last)
    power = math.floor(math.log10(least))
    widths = [(float(f"{digit}e{power + n}"), -power - n) for n in range(3) for digit in (1, 2, 5)]
    return next(w for w in widths if w[0] >= least and math.floor(last / w[0]) - math.floor(first / w[0]) < rows)


def _logarithmic(times: list[float], rows: int) -> Bins:
    first, last = times[0], times[-1]
    per_decade = max(1, math.floor((rows - 1) / math.log10(last / first)))
    edges = _edges(lambda k: 10 ** (k / per_decade), math.floor(math.log10(first) * per_decade), first, last)
    return Bins(edges, [significant(edge, 3) for edge in edges], logarithmic=True)


def _edges(edge: Callable[[int], float], start: int, first: float, last: float) -> list[float]:
    """The edges edge(k) of successive bins, the first of which holds `first` and the last one `last`.

    `start` is about the k of the first edge.
    """
    start += 1
    while _rounded(edge(start)) > first:
        start -= 1
    edges = [_rounded(edge(start))]
    while edges[-1] <= last:
        edges.append(_rounded(edge(start + len(edges))))
    return edges


def _rows(times: list[float], bins: Bins, middle: float) -> list[str]:
    """A line for each bin, and for what lies below and beyond them."""
    places = [bisect_left(times, edge) for edge in bins.edges]
    counts = [end - start for start, end in pairwise(places)]
    below, beyond = places[0], len(times) - places[-1]
    label = max(map(len, bins.labels)) + (3 if beyond else 2 if below else 0)
    count = len(str(max(*counts, below, beyond)))
    columns = max(NARROWEST_BAR, tables.WIDTH - 2 - label - 3 - 1 - count)
    most = max(columns, *counts)
    median = bisect_right(bins.edges, _rounded(middle)) - 1  # -1 and len(counts) are the open-ended rows

    def row(place: int, name: str, bar: str, number: int) -> str:
        return f"  {name:>{label}} {'>' if place == median else ' '} {bar:<{columns}} {number:>{count}}"

    rows = [
        row(place, bins.labels[place], "#" * math.ceil(number * columns / most), number)
        for place, number in enumerate(counts)
    ]
    # Rows without an end have no bar: its length would compare them with bins of one width.
    if below:
        rows.insert(0, row(-1, f"< {bins.labels[0]}", f"minimum {significant(times[0], 3)}", below))
    if beyond:
        text = f"maximum {significant(times[-1], 3)}"
        rows.append(row(len(counts), f">= {bins.labels[-1]}", text, beyond))
    return rows
