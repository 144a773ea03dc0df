"""The other texts: a table for the terminal, Markdown, CSV and JSON, all of the same rows."""

import csv
import io
import textwrap
from collections.abc import Iterator
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


def _groups(session: Session) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for run in session.runs:
        for kernel in dict.fromkeys(p.kernel for p in run.points):
            points = [p for p in run.points if p.kernel == kernel]
            way = {"half-trip": "one-way time", "completion": "completion time"}.get(points[0].time, "time")
            found = _rows(run, points)
            for loop in dict.fromkeys(p.loop for p in points):
                yield f"{log.title(kernel)} ({way}), {loop} loop", [row for row in found if row["loop"] == loop]


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
    return [printable(line) for line in lines]


def _head(session: Session) -> list[str]:
    return [printable(line) for run in session.runs for line in log.head(run)]


def table(session: Session) -> str:
    """A table a kernel, in 80 columns whatever the terminal, so that it prints alike everywhere.

    Only figures that would not fit make it wider: a cut figure is a wrong one.
    """
    lines = [part for line in _head(session) for part in _wrap(line)]
    for title, found in _groups(session):
        lines += ["", printable(title), *_grid(found)]
        lines += [part for note in _notes(found) for part in _wrap(f"  {note}")]
    lines += ["", *(part for line in _tail(session) for part in _wrap(line))]
    return "".join(line + "\n" for line in lines)


def _grid(found: list[dict[str, Any]]) -> list[str]:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in _columns(found):
        grid.add_column(name, justify="left" if name == "stop" else "right", no_wrap=True)
    for row in found:
        grid.add_row(*(Text(cell) for cell in _cells(row)))
    file = io.StringIO()
    Console(file=file, width=10 * WIDTH, color_system=None, force_terminal=False).print(grid)
    return [text for line in file.getvalue().splitlines() if (text := line.rstrip())]


def _wrap(line: str) -> list[str]:
    indent = "#   " if line.startswith("#") else "    "
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]


def markdown(session: Session) -> str:
    """The same tables in Markdown."""
    lines = [f"    {line}" for line in _head(session)]
    for title, found in _groups(session):
        lines += [
            "",
            f"## {printable(title)}",
            "",
            "| " + " | ".join(_columns(found)) + " |",
            "|" + "---:|" * len(_columns(found)),
        ]
        lines += ["| " + " | ".join(_escape(cell) for cell in _cells(row)) + " |" for row in found]
        lines += ["", *(f"- {_escape(note)}" for note in _notes(found))]
    return "\n".join([*lines, "", *(f"    {line}" for line in _tail(session))]) + "\n"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _tail(session: Session) -> list[str]:
    return [printable(line) for run in session.runs for line in log.closing(run) if line]
