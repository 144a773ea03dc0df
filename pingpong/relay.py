"""The journal by way of mpiexec: for a lead on another host, whose files this one may see late or not at all.

The lead prints its journal, compressed, as lines of text that every launcher passes on; launchers put words before
them, mix them with what others print, and may break them. So each line has a mark, a number and a checksum.
"""

import base64
import os
import re
import time
import zlib
from pathlib import Path
from typing import Any

from pingpong import store

MARK = b"PINGPONG-JOURNAL"
_LINE = re.compile(rb"PINGPONG-JOURNAL (\d+) ([0-9a-f]{8}) ([A-Za-z0-9+/=]+) end\b")
_BYTES = 1200  # in a line: launchers cut longer ones and put another rank's words in between
_EVERY = 0.5  # seconds between two sendings, because passing them on takes time on the cores that are measured


class Sender:
    """Takes the lines of a journal, as `store.Journal` does, and prints them on `stream` (a file descriptor)."""

    def __init__(self, stream: int = 1) -> None:
        self._stream, self._number = stream, 0
        self._pack = zlib.compressobj()
        self._waiting, self._sent = bytearray(), 0.0

    def write(self, kind: str, value: Any) -> None:
        """One line of the journal; it is printed with others. Raises OSError."""
        self._waiting += self._pack.compress(store.line(kind, value))
        if time.monotonic() - self._sent >= _EVERY:
            self._send()

    def close(self) -> None:
        """Print what is left. Raises OSError."""
        self._send()

    def _send(self) -> None:
        self._sent = time.monotonic()
        self._waiting += self._pack.flush(zlib.Z_SYNC_FLUSH)
        data, self._waiting = bytes(self._waiting), bytearray()
        text = bytearray()
        for begin in range(0, len(data), _BYTES):
            part = data[begin : begin + _BYTES]
            text += b"%s %d %08x %s end\n" % (MARK, self._number, zlib.crc32(part), base64.b64encode(part))
            self._number += 1
        left = memoryview(bytes(b"\n" + text))  # what MPI printed before may have no end of its line
        while left:
            left = left[os.write(self._stream, left) :]


class Receiver:
    """Adds the journal found in mpiexec's output to the file at `path`."""

    def __init__(self, path: Path) -> None:
        self._path, self._number = path, 0
        self._unpack = zlib.decompressobj()
        self._torn = b""

    def hear(self, output: bytes) -> None:
        """The next piece of the output. A part that did not arrive whole ends what can be received."""
        *lines, self._torn = (self._torn + output).split(b"\n")
        journal = b"".join(self._part(line) for line in lines if MARK in line)
        if journal:
            with self._path.open("ab") as file:
                file.write(journal)

    def _part(self, line: bytes) -> bytes:
        found = _LINE.search(line)
        if not found or int(found[1]) != self._number:
            return b""
        data = base64.b64decode(found[3])
        if zlib.crc32(data) != int(found[2], 16):
            return b""
        self._number += 1
        return self._unpack.decompress(data)


def without(output: bytes) -> bytes:
    """The output less the journal in it."""
    return b"\n".join(line for line in output.split(b"\n") if MARK not in line)
