"""A session as text. Each form is a function from a session to a string; `FORMS` is the table of them."""

from collections.abc import Callable

from pingpong.model import Session
from pingpong.texts import log, tables

FORMS: dict[str, Callable[[Session], str]] = {
    "log": log.text,
    "table": tables.table,
    "csv": tables.csv_text,
    "json": tables.json_text,
    "markdown": tables.markdown,
}
