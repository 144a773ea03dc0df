"""Result files: the journal that grows while a run measures, and the JSON that replaces it at the end.

Both live at the same path, so the file named by `-o` can be read at any time and whatever ended the run.
The journal is JSON lines (docs/result-format.md lists the kinds); each line is flushed when it is written, and a
torn last line is ignored. The final JSON replaces the journal by rename.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, TypeVar

import msgspec

from pingpong.model import (
    SCHEMA,
    Failure,
    Moved,
    Point,
    Rank,
    Record,
    Run,
    Said,
    Seconds,
    Session,
    Visit,
    Warn,
    Watched,
)

_JOURNAL = b'{"session":'

_Index = Annotated[int, msgspec.Meta(ge=0)]
_VisitLine = tuple[_Index, bool, Seconds, list[Seconds]]

R = TypeVar("R", bound=Record)


class FormatError(ValueError):
    """A file that is no result; the message is one sentence with the place."""


def taken(path: Path) -> FileExistsError:
    """What to raise where a result would be written over."""
    return FileExistsError(f"{path} exists already; results are never overwritten: choose another -o")


class Journal:
    """Append-only writer. Creating it claims the path: it raises FileExistsError for a file that is there.

    With `again` it goes on with a journal that is there, after its last whole line.
    """

    def __init__(self, path: Path, again: bool = False) -> None:
        self.path = path
        try:
            self._file = path.open("r+b" if again else "xb", buffering=0)
        except FileExistsError:
            raise taken(path) from None
        if again:
            self._file.truncate(path.read_bytes().rfind(b"\n") + 1)
            self._file.seek(0, os.SEEK_END)

    def write(self, kind: str, value: Any) -> None:
        """Append one line. Raises OSError when the disk is full; what was written before stays readable."""
        left = memoryview(line(kind, value))
        begin = self._file.tell()
        try:
            while left:  # an unbuffered write may take a part of it; the next one then names the reason
                left = left[self._file.write(left) :]
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(begin)
                self._file.seek(begin)
            raise

    def close(self) -> None:
        self._file.close()


def line(kind: str, value: Any) -> bytes:
    """A line of a journal."""
    return encode({kind: to_builtins(value)}) + b"\n"


def encode(value: Any) -> bytes:
    """JSON. Names that are not UTF-8, as those of files and variables may be, are written with escapes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_escaped(msgspec.to_builtins(value)))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list | tuple) else value


class Follower:
    """Reads a journal while it grows, and the session made of it so far.

    `session` is None until the first complete line; `grown` counts the lines read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.session: Session | None = None
        self.grown = 0
        self.patience = 0.0
        self._file: BinaryIO | None = None
        self._torn = b""

    def poll(self) -> bool:
        """Read what is new; True if there was something. Keeps a torn line for the next time.

        The file stays open: when the final JSON takes its path, the journal can still be read to its end. Of a
        run that was over before the first poll there is only the final JSON, and nothing to follow.
        """
        try:
            self._file = self._file or self.path.open("rb")
            *lines, self._torn = (self._torn + self._file.read()).split(b"\n")
        except OSError:
            return False
        if not self.grown and lines and not lines[0].startswith(_JOURNAL):
            return False
        for each in lines:
            self._line(each)
        return bool(lines)

    def skip(self) -> None:
        """Read what earlier launches have written; what is asked from now on is about the next one."""
        self.poll()
        self.patience = 0.0

    def close(self) -> None:
        if self._file:
            self._file.close()

    def _line(self, text: bytes) -> None:
        self.grown += 1
        try:
            entry = msgspec.json.decode(text)
            ((kind, value),) = entry.items()
            self._apply(kind, value)
        except (
            msgspec.MsgspecError,
            ValueError,
            KeyError,
            IndexError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            raise FormatError(
                f"{self.path}, line {self.grown}: not a line of a pingpong result ({error})"
            ) from None

    def _apply(self, kind: str, value: Any) -> None:
        if kind == "session":
            self.session = from_builtins(value, Session)
            check_schema(self.session.schema, self.path)
            return
        if self.session is None:
            raise ValueError("it does not begin with a session")
        if kind == "run":
            self.session.runs.append(from_builtins(value, Run))
            return
        run = self.session.runs[-1]
        if kind == "point":
            run.points.append(from_builtins(value, Point))
        elif kind == "visit":
            index, payload_ok, t0, seconds = msgspec.convert(value[:4], _VisitLine)
            run.points[index].visits.append(Visit(t0=t0, seconds=seconds))
            run.points[index].payload.checked += payload_ok
            if value[4:]:
                run.points[index].moved = from_builtins(value[4], Moved)
        elif kind == "update":
            changed, index = from_builtins(value["point"], Point), msgspec.convert(value["index"], _Index)
            changed.visits = run.points[index].visits
            run.points[index] = changed
        elif kind == "patience":
            self.patience = float(value)
        elif kind == "said":
            run.said = [from_builtins(each, Said) for each in value]
        elif kind == "end":
            run.status = msgspec.convert(value["status"], Literal["complete", "partial"])
            run.failure = from_builtins(value["failure"], Failure) if value.get("failure") else None
            run.ranks = [from_builtins(rank, Rank) for rank in value["ranks"]] if "ranks" in value else run.ranks
            if "warnings" in value:
                run.warnings = [from_builtins(warn, Warn) for warn in value["warnings"]]
            if "evidence" in value:
                run.evidence = [from_builtins(each, Watched) for each in value["evidence"]]


def load(path: Path) -> Session:
    """The session in a result file or a journal. Raises FormatError, OSError."""
    data = path.read_bytes()
    if not data.strip(b" \t\r\n\0"):
        what = "holds nothing but zeros or blanks: its machine may have crashed" if data else "is empty"
        raise FormatError(f"{path} {what}: nothing was measured, or the disk was full")
    if data.startswith(_JOURNAL):
        return _load_journal(path)
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        where = f"line {data.count(10) + 1}, after {len(data)} bytes" if "truncated" in str(error) else str(error)
        kind = "ends in the middle" if "truncated" in str(error) else "is not JSON"
        raise FormatError(f"{path} {kind}: {where}") from None
    if not isinstance(value, dict) or not {"schema", "runs"} <= value.keys():
        raise FormatError(f"{path} is JSON, but not a pingpong result: it has no keys 'schema' and 'runs'")
    check_schema(value["schema"], path)
    try:
        return from_builtins(value, Session)
    except msgspec.ValidationError as error:
        raise FormatError(f"{path} is not a valid result: {error}") from None


def _load_journal(path: Path) -> Session:
    follower = Follower(path)
    try:
        follower.poll()
    except FormatError as error:
        # What stands before a broken line was measured all the same.
        if follower.session is None or not follower.session.runs:
            raise
        run = follower.session.runs[-1]
        run.status, run.failure = "partial", Failure(reason=str(error), exit=1)
    finally:
        follower.close()
    if follower.session is None:
        raise FormatError(f"{path} ends in the middle of its first line: nothing was measured")
    return follower.session


def check_schema(schema: Any, path: Path) -> None:
    """Raises FormatError for a file whose version this package cannot read."""
    if not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
        raise FormatError(f"{path} has schema {schema!r}; this version of pingpong reads 1 to {SCHEMA}")


def save(session: Session, path: Path) -> None:
    """Replace `path` by the session as JSON, whole or not at all. Raises OSError."""
    partial = path.with_name(f".pingpong-{os.getpid()}.tmp")
    try:
        with partial.open("wb") as file:
            file.write(encode(to_builtins(session)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def to_builtins(value: Any) -> Any:
    """Dicts and lists of a record, with the unknown keys put back beside the known ones."""
    data = msgspec.to_builtins(value)
    _restore(value, data)
    return data


def _restore(value: Any, data: Any) -> None:
    for record, raw in _pairs(value, data):
        raw.pop("unknown", None)
        raw.update(record.unknown)


def from_builtins(data: Any, cls: type[R]) -> R:
    """The record of `data`, keeping the keys that `cls` does not know. Raises msgspec.ValidationError."""
    value = msgspec.convert(data, cls)
    for record, raw in _pairs(value, data):
        known = set(record.__struct_fields__)
        record.unknown = {key: item for key, item in raw.items() if key not in known}
    return value


def _pairs(value: Any, data: Any) -> Iterator[tuple[Record, dict[str, Any]]]:
    """Every record inside `value` beside its dict inside `data`, innermost first."""
    if isinstance(value, Record) and isinstance(data, dict):
        for name in value.__struct_fields__:
            if name in data and name != "unknown":
                yield from _pairs(getattr(value, name), data[name])
        yield value, data
    elif isinstance(value, list) and isinstance(data, list) and not (value and isinstance(value[0], float)):
        for item, raw in zip(value, data, strict=True):
            yield from _pairs(item, raw)
