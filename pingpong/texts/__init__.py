"""A session as text. Each form is a function from a session to a string; `FORMS` is the table of them."""

from collections.abc import Callable

from pingpong.model import Session
from pingpong.texts import launches, tables

FORMS: dict[str, Callable[[Session], str]] = {
    "log": launches.text,
    "table": lambda session: tables.terminal(launches.sheets(session)),
    "csv": tables.csv_text,
    "json": tables.json_text,
    "markdown": lambda session: tables.markdown(launches.sheets(session)),
}
