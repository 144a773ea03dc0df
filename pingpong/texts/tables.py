"""The other texts: tables for the terminal and in Markdown, CSV and JSON, all of the same rows."""

import csv
import io
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from pingpong import stats, units
from pingpong.model import Point, Run, Session
from pingpong.stats import Interval
from pingpong.texts import log
from pingpong.units import MB, printable, significant, size_text

WIDTH = 80


def rows(session: Session) -> Iterator[dict[str, Any]]:
    """One row a point, in seconds and bytes per second; None for a figure that the data do not carry."""
    for run in session.runs:
        yield from _rows(run, run.points)


def _rows(run: Run, points: list[Point]) -> list[dict[str, Any]]:
    added = {id(point): seconds for point, seconds in stats.added(points)}
    return [_row(run, point, added.get(id(point))) for point in points]


def _row(run: Run, point: Point, added: float | None) -> dict[str, Any]:
    summary = stats.summarize(point)
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
        "wrong_payloads": len({wrong.visit for wrong in point.payload.wrong}),
        "warnings": [warn.text for warn in point.warnings],
    }


def json_text(session: Session) -> str:
    """The rows as one JSON array, indented."""
    return msgspec.json.format(msgspec.json.encode(list(rows(session))), indent=2).decode() + "\n"


def csv_text(session: Session) -> str:
    """The rows as CSV with a header; the modes and warnings of a cell are separated by ";"."""
    found = list(rows(session))
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
        *([micros(row["added_seconds"])] if row["added_seconds"] is not None else []),
    ]


def _columns(found: list[dict[str, Any]]) -> tuple[str, ...]:
    return (*_COLUMNS, "adds") if any(row["added_seconds"] is not None for row in found) else _COLUMNS


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


def title(point: Point) -> str:
    """Of the table that a point belongs to: its kernel, what its time is, and who drove it."""
    way = {"half-trip": "one-way time", "completion": "completion time"}.get(point.time, "time")
    return f"{log.title(point.kernel)} ({way}), {point.loop} loop"


def sheet(run: Run) -> Sheet:
    """A run: a table for each kernel and loop, a row for each size."""
    found = list(zip(run.points, _rows(run, run.points), strict=True))
    tables = []
    for name in dict.fromkeys(title(p) for p in run.points):
        rows = [row for point, row in found if title(point) == name]
        tables.append(Table(name, _columns(rows), [_cells(row) for row in rows], _notes(rows)))
    return Sheet(log.head(run), tables, log.closing(run))


def terminal(sheets: list[Sheet]) -> str:
    """Tables in 80 columns whatever the terminal, so that they print alike everywhere.

    Only figures that would not fit make one wider: a cut figure is a wrong one.
    """
    lines = [part for each in sheets for line in each.head for part in _wrap(line)]
    for each in (table for sheet in sheets for table in sheet.tables):
        lines += ["", printable(each.title), *_grid(each)]
        lines += [part for note in each.notes for part in _wrap(f"  {note}")]
    lines += ["", *(part for each in sheets for line in each.tail if line for part in _wrap(line))]
    return "".join(line + "\n" for line in lines)


def _grid(table: Table) -> list[str]:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in table.columns:
        grid.add_column(name, justify="left" if name == "stop" else "right", no_wrap=True)
    for cells in table.cells:
        grid.add_row(*(Text(cell) for cell in cells))
    file = io.StringIO()
    Console(file=file, width=10 * WIDTH, color_system=None, force_terminal=False).print(grid)
    return [text for line in file.getvalue().splitlines() if (text := line.rstrip())]


def _wrap(line: str) -> list[str]:
    indent = "#   " if line.startswith("#") else "    "
    return textwrap.wrap(printable(line), WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]


def markdown(sheets: list[Sheet]) -> str:
    """The same tables in Markdown."""
    lines = [f"    {printable(line)}" for each in sheets for line in each.head]
    for table in (table for sheet in sheets for table in sheet.tables):
        lines += [
            "",
            f"## {printable(table.title)}",
            "",
            "| " + " | ".join(table.columns) + " |",
            "|" + "---:|" * len(table.columns),
        ]
        lines += ["| " + " | ".join(_escape(cell) for cell in cells) + " |" for cells in table.cells]
        lines += ["", *(f"- {_escape(printable(note))}" for note in table.notes)]
    tail = [f"    {printable(line)}" for each in sheets for line in each.tail if line]
    return "\n".join([*lines, "", *tail]) + "\n"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
