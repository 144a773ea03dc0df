"""Percentiles of the samples: a section for each kernel and loop, sizes in rows, one-way times in µs.

A sample of a short message is an average over many steps, so its percentiles are those of averages, which hide the
tail of single messages. Each section says where that is so.
"""

from collections.abc import Sequence

from pingpong import stats, units
from pingpong.model import Point, Session
from pingpong.stats import Summary
from pingpong.texts import tables
from pingpong.units import percentile_name, size_text


def section(session: Session, percents: Sequence[float], marked: bool) -> list[str]:
    """The lines of all sections, in Markdown if `marked`. `percents` are in per cent."""
    make = _markdown if marked else _plain
    return [line for name, points in tables.sections(session) for line in make(name, points, percents)]


def _plain(name: str, points: list[Point], percents: Sequence[float]) -> list[str]:
    names, cells, notes = _table(points, percents)
    lines = [f"{name}: percentiles", *_averages(points)]
    return [
        "",
        *(part for line in lines for part in tables.wrap(line)),
        *tables.grid(names, cells),
        *(part for note in notes for part in tables.wrap(f"  {note}")),
    ]


def _markdown(name: str, points: list[Point], percents: Sequence[float]) -> list[str]:
    names, cells, notes = _table(points, percents)
    about = [text for line in _averages(points) for text in (line, "")]
    below = [f"- {note}" for note in notes]
    heading = ["", f"## {tables.escape(name)}: percentiles", ""]
    return [*heading, *about, *tables.markdown_grid(names, cells), *([""] if below else []), *below]


def _averages(points: list[Point]) -> list[str]:
    """What the samples are that are not single steps; nothing if all are."""
    steps = [point.steps for point in points if point.steps > 1]
    if not steps:
        return []
    least, most = min(steps), max(steps)
    count = f"{most}" if least == most else f"{least} to {most}"
    where = " where steps > 1" if len(steps) < len(points) else ""
    return [f"samples are averages over {count} steps{where}: percentiles of averages"]


def _table(points: list[Point], percents: Sequence[float]) -> tuple[list[str], list[list[str]], list[str]]:
    """Names of columns, the rows, and the notes that belong under them."""
    names = ["bytes", "min", *map(percentile_name, percents), "max", "samples"]
    summaries = [stats.summarize(point) for point in points]
    cells = [_row(point, summary, percents) for point, summary in zip(points, summaries, strict=True)]
    if _averages(points):
        names.append("steps")
        cells = [[*row, str(point.steps)] for row, point in zip(cells, points, strict=True)]
    notes = [
        f"{size_text(point.size)}: {summary.invalid}"
        for point, summary in zip(points, summaries, strict=True)
        if summary.invalid
    ]
    if any("-" in row and not summary.invalid for row, summary in zip(cells, summaries, strict=True)):
        notes.insert(0, f'"-": fewer than {stats.CARRIES} samples lie beyond it')
    return names, cells, notes


def _row(point: Point, summary: Summary, percents: Sequence[float]) -> list[str]:
    def micros(step: float | None) -> str:
        return "-" if step is None else units.micros(stats.one_way(point, step))

    inner = stats.one_way_percentiles(point, percents)
    return [
        size_text(point.size),
        micros(summary.minimum),
        *("-" if value is None else units.micros(value) for value in inner),
        micros(summary.maximum),
        str(summary.samples),
    ]
