"""The list of transports as text."""

import json
import shlex
import textwrap
from collections.abc import Sequence

from pingpong.transports import Entry

WIDTH = 80
_TIGHT = "\N{NO-BREAK SPACE}"


def table(entries: Sequence[Entry]) -> list[str]:
    """Each transport with what it needs and, indented, its variables and arguments; or why it cannot be had."""
    width = max((len(entry.name) for entry in entries), default=0) + 2
    lines = []
    for entry in entries:
        text = f"no: {entry.missing}" if entry.missing else entry.needs
        lines += _wrapped(text, entry.name.ljust(width), " " * width)
        lines += _wrapped(_flags(entry), " " * (width + 2), " " * (width + 4))
    return [line.replace(_TIGHT, " ").rstrip() for line in lines]


def _flags(entry: Entry) -> str:
    """As they can be typed."""
    if entry.transport is None:
        return ""
    words = [f"{name}={shlex.quote(value)}" for name, value in entry.transport.environment.items()]
    for word in map(shlex.quote, entry.transport.arguments):
        if word.startswith("-"):
            words.append(word)
        else:  # lines break before options, not within
            words[-1] += f"{_TIGHT}{word}"
    return " ".join(words)


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    if not text:
        return [first] if first.strip() else []
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def json_text(entries: Sequence[Entry]) -> str:
    """The same as one JSON array, indented; `missing` is null for what can be had."""
    rows = [
        {
            "name": entry.name,
            "needs": entry.needs,
            "missing": entry.missing,
            "arguments": entry.transport.arguments if entry.transport else [],
            "environment": entry.transport.environment if entry.transport else {},
            "carrier": entry.transport.carrier if entry.transport else None,
        }
        for entry in entries
    ]
    return json.dumps(rows, indent=2) + "\n"
