"""Surveys by way of mpiexec's output, which every launcher passes on, also from hosts that share no folder.

Launchers put words before lines, mix them with what others print, and may break long ones. So a survey is sent in
short numbered parts with checksums, and one that did not arrive whole is left out.
"""

import base64
import os
import re
import zlib

import msgspec

from pingpong.doctor.facts import Survey

MARK = b"PINGPONG-SURVEY"
_LINE = re.compile(rb"PINGPONG-SURVEY ([0-9a-f]+) (\d+)/(\d+) ([0-9a-f]{8}) ([A-Za-z0-9+/=]+) end\b")
_BYTES = 600  # in a line


def tell(survey: Survey) -> None:
    """Print a survey; called again whenever it has changed."""
    data = zlib.compress(msgspec.json.encode(survey))
    parts = [data[i : i + _BYTES] for i in range(0, len(data), _BYTES)]
    sending = os.urandom(6).hex().encode()
    text = b"".join(
        b"%s %s %d/%d %08x %s end\n" % (MARK, sending, n, len(parts), zlib.crc32(part), base64.b64encode(part))
        for n, part in enumerate(parts)
    )
    os.write(1, b"\n" + text)  # what MPI printed before may have no end of its line


def hear(output: bytes) -> list[Survey]:
    """The last survey of each rank that arrived whole, the ranks in order."""
    parts: dict[bytes, dict[int, bytes]] = {}
    latest: dict[str, Survey] = {}
    for sending, number, count, checksum, text in _LINE.findall(output):
        part = base64.b64decode(text)
        if zlib.crc32(part) != int(checksum, 16):
            continue
        there = parts.setdefault(sending, {})
        there[int(number)] = part
        if len(there) == int(count):
            survey = msgspec.json.decode(zlib.decompress(b"".join(there[n] for n in sorted(there))), type=Survey)
            latest[survey.id] = survey
    return sorted(latest.values(), key=lambda survey: survey.rank.rank)


def without(output: bytes) -> bytes:
    """The output less the surveys in it."""
    return b"\n".join(line for line in output.split(b"\n") if MARK not in line)
