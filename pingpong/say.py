"""Sentences on stderr and text on stdout that never stop a run: a reader may be gone, a disk full."""

import codecs
import errno
import os
import sys
from typing import TextIO

_unprinted: list[OSError] = []
_closed: list[OSError] = []  # that of a stdout which nobody has opened


def say(sentence: str) -> None:
    """One sentence on stderr."""
    _write(sys.stderr, f"pingpong: {sentence}\n")


def quote(lines: list[str]) -> None:
    """What somebody else said, on stderr."""
    _write(sys.stderr, "".join(f"  {line}\n" for line in lines))


def show(text: str) -> None:
    """Text on stdout. Whoever reads it may go away (head, less): the result is in its file."""
    error = _write(sys.stdout, text) or (_closed[0] if text and _closed else None)
    if error and not isinstance(error, BrokenPipeError):
        if not _unprinted:
            say(f"cannot print: {error.strerror}")
        _unprinted.append(error)


def lost() -> bool:
    """Whether text found no room on stdout: who reads it there must not take it for whole."""
    return bool(_unprinted)


def open_streams() -> None:
    """Give closed standard streams somewhere to go, and no character a reason to fail.

    Otherwise the next file that is opened would become stdout, and a result be written over by a message.
    """
    codecs.register_error("pingpong", _written_out)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            opened = os.open(os.devnull, os.O_WRONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115
            if name == "stdout":
                _closed.append(OSError(errno.EBADF, os.strerror(errno.EBADF)))
        else:
            stream.reconfigure(errors="pingpong")


def _written_out(error: UnicodeError) -> tuple[str, int]:
    r"""What cannot be printed as an escape; a byte of a file's name that is no character as a shell's $'\xff'."""
    assert isinstance(error, UnicodeEncodeError)
    character = error.object[error.start]
    byte = ord(character) - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else ascii(character)[1:-1], error.start + 1


def _write(stream: TextIO, text: str) -> OSError | None:
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # What is still in the buffer must not fail again when the interpreter exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None
