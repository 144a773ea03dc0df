"""A session as text. Each form is a function from a session to a string; `FORMS` is the table of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pingpong.model import Session
from pingpong.texts import histogram, launches, percentiles, tables, wires

FORMS: dict[str, Callable[[Session], str]] = {
    "log": launches.text,
    "table": lambda session: tables.terminal(launches.sheets(session)),
    "csv": tables.csv_text,
    "json": lambda session: _json(session, ()),
    "markdown": lambda session: tables.markdown(launches.sheets(session)),
}


def _json(session: Session, percents: Sequence[float]) -> str:
    """The points as an array; where transports were asked for, an object with them and the points."""
    points, compared = list(tables.rows(session, percents)), wires.rows(session)
    return tables.json_text({"transports": compared, "points": points} if compared else points)


@dataclass(frozen=True)
class Options:
    """How a session is printed. `percentiles` are in per cent, ascending."""

    form: str = "log"
    percentiles: tuple[float, ...] = ()
    histogram: bool = False


def text(session: Session, options: Options) -> str:
    """The session in its form, and after it the sections that the options ask for.

    CSV and JSON have rows and nothing else: there the percentiles are columns, and histograms have no place.
    """
    if options.form == "csv":
        return tables.csv_text(session, options.percentiles)
    if options.form == "json":
        return _json(session, options.percentiles)
    marked = options.form == "markdown"
    lines: list[str] = []
    if options.percentiles:
        lines += percentiles.section(session, options.percentiles, marked)
    if options.histogram:
        lines += histogram.section(session, marked)
    return FORMS[options.form](session) + "".join(line + "\n" for line in lines)
