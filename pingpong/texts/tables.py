"""The other texts: a table for the terminal, Markdown, CSV and JSON, all of the same rows."""

import csv
import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pingpong import evidence, stats, units
from pingpong.model import Point, Run, Session
from pingpong.stats import Interval
from pingpong.texts import log
from pingpong.units import MB, percentile_name, printable, significant, size_text

WIDTH = 80
WORDS = ("stop", "transport", "asked", "observed", "verdict")  # columns that hold no figures
WIDEST = 1_000_000  # columns: beyond it figures would be cut


def rows(session: Session, percents: Sequence[float] = ()) -> Iterator[dict[str, Any]]:
    """One row a point, in seconds and bytes per second; None for a figure that the data do not carry.

    Each of `percents` adds a percentile: "p99.9" in seconds.
    """
    for run in session.runs:
        for point, row in zip(run.points, _rows(run), strict=True):
            values = stats.one_way_percentiles(point, percents) if percents else []
            yield row | dict(zip(map(percentile_name, percents), values, strict=True))


def _rows(run: Run) -> list[dict[str, Any]]:
    added = {id(point): seconds for point, seconds in stats.added(run.points)}
    return [_row(run, point, added.get(id(point))) for point in run.points]


def _row(run: Run, point: Point, added: float | None) -> dict[str, Any]:
    summary, finding = stats.summarize(point), evidence.of_point(run, point)
    step, interval = summary.median, summary.interval
    rate = stats.bandwidth(point, step) if step else None

    def time(value: float | None) -> float | None:
        return stats.one_way(point, value) if value else None

    return {
        "launch": run.launch,
        "transport": run.transport.name if run.transport else None,
        "kernel": point.kernel,
        "loop": point.loop,
        "size": point.size,
        "time": point.time,
        "seconds": time(step),
        "low": time(interval.low) if interval else None,
        "high": time(interval.high) if interval else None,
        "level": round(interval.level, 4) if interval else None,
        "minimum": time(summary.minimum),
        "p99": time(summary.p99),
        "added_seconds": added,
        "bytes_per_second": rate,
        "aggregate_bytes_per_second": rate * point.directions if rate else None,
        "samples": summary.samples,
        "visits": summary.visits,
        "steps": point.steps,
        "lead_in": point.lead_in,
        "stop": point.stop,
        "modes": [{"seconds": time(m.value), "share": round(m.share, 3)} for m in summary.modes],
        "invalid": summary.invalid,
        "observed": finding.observed,
        "verdict": finding.verdict,
        "wrong_payloads": len({wrong.visit for wrong in point.payload.wrong}),
        "warnings": [warn.text for warn in point.warnings],
    }


def json_text(value: Any) -> str:
    """The value as JSON, indented."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def csv_text(session: Session, percents: Sequence[float] = ()) -> str:
    """The rows as CSV with a header; the modes and warnings of a cell are separated by ";"."""
    found = list(rows(session, percents))
    file = io.StringIO()
    names = list(found[0]) if found else ["kernel", "size", "seconds"]
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    for row in found:
        row["modes"] = ";".join(f"{m['seconds']}:{m['share']}" for m in row["modes"])
        row["warnings"] = ";".join(row["warnings"])
        writer.writerow(row)
    return file.getvalue()


# "adds": µs that Python adds to a message; only beside native figures.
_COLUMNS = ("bytes", "µs", "±%", "p99", "MB/s", "both", "samples", "visits", "stop")


def _cells(row: dict[str, Any]) -> list[str]:
    def micros(value: float | None) -> str:
        return units.micros(value) if value is not None else "-"

    def rate(value: float | None) -> str:
        return significant(value / MB, 4) if value is not None else "-"

    width = "-"
    if row["low"] and row["seconds"]:
        width = f"{100 * Interval(row['low'], row['high'], 0).reach(row['seconds']):.1f}"
    return [
        size_text(row["size"]),
        micros(row["seconds"]),
        width,
        micros(row["p99"]),
        rate(row["bytes_per_second"]),
        rate(row["aggregate_bytes_per_second"]),
        str(row["samples"]),
        str(row["visits"]),
        printable(row["stop"] or "partial"),
        *([_added(row["added_seconds"])] if row["added_seconds"] is not None else []),
    ]


def _added(seconds: float) -> str:
    """Where noise made a gain of it, it is none."""
    return units.micros(seconds) if seconds > 0 else "-"


def _columns(found: list[dict[str, Any]]) -> tuple[str, ...]:
    return (*_COLUMNS, "adds") if any(row["added_seconds"] is not None for row in found) else _COLUMNS


def groups(points: Sequence[Point]) -> Iterator[list[Point]]:
    """The points of each kernel and loop, which make a section."""
    for kernel in dict.fromkeys(p.kernel for p in points):
        same = [p for p in points if p.kernel == kernel]
        for loop in dict.fromkeys(p.loop for p in same):
            yield [p for p in same if p.loop == loop]


def sections(session: Session) -> Iterator[tuple[str, list[Point]]]:
    """Every section of a session, with the launch that it belongs to where there are several."""
    for run in session.runs:
        for points in groups(run.points):
            yield (f"launch {run.launch}: " if len(session.runs) > 1 else "") + title(points, "µs"), points


def title(points: list[Point], what: str = "time") -> str:
    """The title of a section; `what` is its time's name or unit."""
    way = {"half-trip": "one-way ", "completion": "completion "}.get(points[0].time, "")
    return printable(f"{log.title(points[0].kernel)} ({way}{what}), {points[0].loop} loop")


def _notes(rows_: list[dict[str, Any]]) -> list[str]:
    """What does not fit in a column: modes, invalid points, wrong payloads."""
    lines = []
    for row in rows_:
        size = size_text(row["size"])
        if row["modes"]:
            parts = [f"{units.micros(m['seconds'])} µs ({100 * m['share']:.0f} %)" for m in row["modes"]]
            lines.append(f"{size}: visits fall into modes: {', '.join(parts)}")
        if row["invalid"]:
            lines.append(f"{size}: {row['invalid']}")
        if row["wrong_payloads"]:
            lines.append(f"{size}: {row['wrong_payloads']} visits with a wrong payload")
    return lines


@dataclass(frozen=True)
class Table:
    """Cells as text, and the notes that fit in none."""

    title: str
    columns: tuple[str, ...]
    cells: list[list[str]]
    notes: list[str]


@dataclass(frozen=True)
class Sheet:
    """A run, or several launches, in tables between the log's head and its closing lines."""

    head: list[str]
    tables: list[Table]
    tail: list[str]


def sheet(run: Run) -> Sheet:
    """A run: a table for each kernel and loop, a row for each size."""
    found = {id(point): row for point, row in zip(run.points, _rows(run), strict=True)}
    made = []
    for points in groups(run.points):
        rows_ = [found[id(point)] for point in points]
        made.append(Table(title(points), _columns(rows_), [_cells(row) for row in rows_], _notes(rows_)))
    return Sheet(log.head(run, "time"), made, log.closing(run))


def terminal(sheets: list[Sheet]) -> str:
    """Tables in 80 columns whatever the terminal, so that they print alike everywhere.

    Only figures that would not fit make one wider: a cut figure is a wrong one.
    """
    lines: list[str] = []
    for each in sheets:
        lines += [part for line in each.head for part in wrap(line)]
        lines += lines_of(each.tables)
        lines += ["", *(part for line in each.tail if line for part in wrap(line))] if each.tail else []
    return "".join(line + "\n" for line in lines)


def lines_of(made: Sequence[Table]) -> list[str]:
    """Tables with their titles and notes, each after an empty line."""
    lines: list[str] = []
    for table in made:
        lines += ["", table.title, *grid(table.columns, table.cells)]
        lines += [part for note in table.notes for part in wrap(f"  {note}")]
    return lines


def grid(names: Sequence[str], cells: Iterable[Sequence[str]]) -> list[str]:
    """Named columns of figures, and why a point stopped, as lines of text."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in names:
        made.add_column(name, justify="left" if name in WORDS else "right", no_wrap=True)
    for row in cells:
        made.add_row(*(Text(cell) for cell in row))
    file = io.StringIO()
    Console(file=file, width=WIDEST, color_system=None, force_terminal=False).print(made)
    return [text for line in file.getvalue().splitlines() if (text := line.rstrip())]


def wrap(line: str) -> list[str]:
    """A line of words as lines of at most WIDTH columns."""
    indent = "#   " if line.startswith("#") else "    "
    return textwrap.wrap(printable(line), WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]


def markdown(sheets: list[Sheet]) -> str:
    """The same tables in Markdown."""
    lines: list[str] = []
    for each in sheets:
        lines += (
            ["", *(f"    {printable(line)}" for line in each.head)]
            if lines and each.head
            else [f"    {printable(line)}" for line in each.head]
        )
        for table in each.tables:
            lines += ["", f"## {escape(table.title)}", "", *markdown_grid(table.columns, table.cells)]
            lines += ["", *(f"- {escape(printable(note))}" for note in table.notes)]
        tail = [f"    {printable(line)}" for line in each.tail if line]
        lines += ["", *tail] if tail else []
    return "\n".join(lines) + "\n"


def markdown_grid(names: Sequence[str], cells: Iterable[Sequence[str]]) -> list[str]:
    """Named columns of figures as the lines of a Markdown table."""
    lines = ["| " + " | ".join(names) + " |", "|" + "---:|" * len(names)]
    return lines + ["| " + " | ".join(map(escape, row)) + " |" for row in cells]


def escape(text: str) -> str:
    """`text` without what Markdown would take for a cell's end or a tag."""
    return text.replace("|", "\\|").replace("<", "&lt;")
