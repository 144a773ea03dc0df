"""The transports of a session in one table, as text and as data."""

from collections.abc import Sequence
from typing import Any

from pingpong import wires
from pingpong.evidence.case import MEMORY
from pingpong.model import HEEDED, Session
from pingpong.texts.tables import Table
from pingpong.units import MB, micros, significant
from pingpong.wires import Ratio, Wire

TITLE = "Transports"
COLUMNS = ("transport", "asked", "observed", "verdict", "µs", "ratio", "MB/s", "ratio")
SHORT = 16  # columns: what was observed is told in a note where it takes more
_CARRIERS = {"shm": "memory", "net": "network", "hca": "HCA"}


def asked(carrier: str | None) -> str:
    """What was asked of the wire, in a word."""
    return "-" if carrier is None else _CARRIERS.get(carrier, carrier.partition(":")[2])


def table(found: Sequence[Wire]) -> Table:
    """The transports side by side, and below them what does not fit into a cell."""
    return Table(
        TITLE, COLUMNS, [_cells(wire) for wire in found], [note for wire in found for note in _notes(wire)]
    )


def _cells(wire: Wire) -> list[str]:
    finding = wire.finding
    observed = finding.observed.replace(MEMORY, _CARRIERS["shm"]) if finding else "-"
    return [
        wire.transport.name,
        asked(wire.transport.carrier),
        observed if len(observed) <= SHORT else "see below",
        finding.verdict if finding else "failed",
        micros(wire.latency.median) if wire.latency else "-",
        _ratio(wire.latency_ratio),
        significant(wire.rate.median / MB, 4) if wire.rate else "-",
        _ratio(wire.rate_ratio),
    ]


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    text, reach = significant(ratio.value, 3), ratio.interval.reach(ratio.value) if ratio.interval else 0.0
    return f"{text}±{100 * reach:.0f}%" if reach else text  # none of the best one to itself


def _notes(wire: Wire) -> list[str]:
    name, finding = wire.transport.name, wire.finding
    notes = []
    if finding and (finding.reason or len(finding.observed) > SHORT):
        parts = [part for part in (finding.observed, finding.reason) if part]
        notes.append(f"{name}: {': '.join(parts)}")
    if finding and finding.verdict in ("contradicted", "unverifiable"):
        heeded = (warn.text for run in wire.runs for warn in run.warnings if warn.code == HEEDED)
        notes += [f"{name}: {text}; try without" for text in dict.fromkeys(heeded)]
    for run, failure in wire.failures:
        hint = f"; {failure.hint}" if failure.hint else ""
        notes.append(f"{name}, launch {run.launch}: {failure.reason}{hint}")
    return notes


def rows(session: Session) -> list[dict[str, Any]]:
    """The table as data: seconds, bytes per second, and ratios with their intervals."""
    return [
        {
            "transport": wire.transport.name,
            "asked": wire.transport.carrier,
            "observed": wire.finding.observed if wire.finding else None,
            "verdict": wire.finding.verdict if wire.finding else None,
            "reason": wire.finding.reason if wire.finding else None,
            "latency_seconds": wire.latency.median if wire.latency else None,
            "latency_ratio": _data(wire.latency_ratio),
            "bytes_per_second": wire.rate.median if wire.rate else None,
            "rate_ratio": _data(wire.rate_ratio),
            "launches": len(wire.runs),
            "complete": wire.complete,
            "failures": [failure.reason for _, failure in wire.failures],
        }
        for wire in wires.of_session(session)
    ]


def _data(ratio: Ratio | None) -> dict[str, float | None] | None:
    if ratio is None:
        return None
    low, high, level = (getattr(ratio.interval, name, None) for name in ("low", "high", "level"))
    return {"value": ratio.value, "low": low, "high": high, "level": level}
