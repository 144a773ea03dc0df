"""The journal by way of mpiexec: for a lead on another host, whose files this one may see late or not at all.

The lead prints its journal, compressed, in lines of text that every launcher passes on; launchers put words
before them, mix them with what others print, and may break them. So it goes in short parts with mark, number and
checksum.
"""

import base64
import os
import re
import time
import zlib
from pathlib import Path
from typing import Any

from pingpong import store

MARK = b"PINGPONG-DATA"
_LINE = re.compile(rb"PINGPONG-DATA (\w+) (\d+) ([0-9a-f]{8}) ([A-Za-z0-9+/=]+) end\b")
_BYTES = 600  # in a line: launchers cut longer ones and put another rank's words in between
_EVERY = 0.5  # seconds between two sendings, because passing them on takes time on the cores that are measured
_JOURNAL = b"journal"


def tell(name: bytes, first: int, data: bytes, stream: int = 1) -> None:
    """Print the data as parts of what is called `name`, numbered from `first` on.

    `stream` is a file descriptor. Raises OSError.
    """
    text = bytearray(b"\n")  # what MPI printed before may have no end of its line
    for number, begin in enumerate(range(0, len(data), _BYTES), first):
        part = data[begin : begin + _BYTES]
        text += b"%s %s %d %08x %s end\n" % (MARK, name, number, zlib.crc32(part), base64.b64encode(part))
    left = memoryview(bytes(text))
    while left:
        left = left[os.write(stream, left) :]


def _parts(data: bytes) -> int:
    return -(-len(data) // _BYTES)


def heard(line: bytes) -> tuple[bytes, int, bytes] | None:
    """Name, number and data of the part in a line of output, if it has one that arrived whole."""
    found = _LINE.search(line)
    data = base64.b64decode(found[4]) if found else b""
    if not found or zlib.crc32(data) != int(found[3], 16):
        return None
    return found[1], int(found[2]), data


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
            self.close()

    def close(self) -> None:
        """Print what is left. Raises OSError; what then was not printed is missing for ever, and seen to be."""
        self._sent = time.monotonic()
        data = bytes(self._waiting + self._pack.flush(zlib.Z_SYNC_FLUSH))
        self._waiting.clear()
        first, self._number = self._number, self._number + _parts(data)
        tell(_JOURNAL, first, data, self._stream)


class Receiver:
    """Adds the journal found in mpiexec's output to the file at `path`."""

    def __init__(self, path: Path) -> None:
        self._path, self._number = path, 0
        self._unpack = zlib.decompressobj()
        self._torn = b""

    def hear(self, output: bytes) -> None:
        """The next piece of the output. A part that did not arrive whole ends what can be received.

        Raises OSError, and zlib.error for what no `Sender` has sent.
        """
        *lines, self._torn = (self._torn + output).split(b"\n")
        journal = b"".join(self._part(line) for line in lines if MARK in line)
        if journal:
            with self._path.open("ab") as file:
                file.write(journal)

    def _part(self, line: bytes) -> bytes:
        found = heard(line)
        if not found or found[:2] != (_JOURNAL, self._number):
            return b""
        self._number += 1
        return self._unpack.decompress(found[2])


def without(output: bytes) -> bytes:
    """The output less the parts in it."""
    return b"\n".join(line for line in output.split(b"\n") if MARK not in line)
