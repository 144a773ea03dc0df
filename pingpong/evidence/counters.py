"""Reading the counters of this host, fast: twice a visit, outside whatever is timed.

Files stay open. Interfaces are read from /proc/self/net/dev, which is always the own namespace's. Where the units
of an HCA's counters are documented is in docs/evidence.md.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pingpong.model import Source
from pingpong.sysfs import text

FIELDS = 4  # bytes sent, bytes received, packets sent, packets received
LARGEST = (2**32 - 1, 2**64 - 1)  # where InfiniBand's counters stop
WORD, FLIT = 4, 8  # bytes: port_xmit_data counts words, Omni-Path's port_xmit_data flits
FLIT_DRIVERS = ("hfi1",)


class Layout(NamedTuple):
    """Files in a folder of a port (or of its device), each field the sum of some; `unit` None is the driver's."""

    folder: str
    fields: tuple[tuple[str, ...], ...]
    unit: int | None


def _words(end: str) -> tuple[tuple[str, ...], ...]:
    names = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets")
    return tuple((name + end,) for name in names)


# The first one whose files hold numbers is taken: old kernels have a `counters` that says "N/A (no PMA)".
LAYOUTS = (
    Layout("counters_ext", _words("_64"), None),
    Layout("counters", _words(""), None),
    Layout(
        "hw_counters",
        (
            ("ip4OutOctets", "ip6OutOctets"),
            ("ip4InOctets", "ip6InOctets"),
            ("ip4OutPkts", "ip6OutPkts"),
            ("ip4InPkts", "ip6InPkts"),
        ),
        1,
    ),
    Layout("hw_counters", (("tx_bytes",), ("rx_bytes",), ("tx_pkts",), ("rx_pkts",)), 1),
)

# Fields of an interface's line in /proc/net/dev, after its name.
_RX_BYTES, _RX_PACKETS, _TX_BYTES, _TX_PACKETS = 0, 1, 8, 9
# Without rx_dropped, where packets of protocols that nobody listens to are counted too.
_NET_ERRORS = {"rx_errors": 2, "rx_fifo_errors": 4, "tx_errors": 10, "tx_dropped": 11}
_HCA_ERRORS = {
    "counters": (
        "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors",
        "port_rcv_constraint_errors", "port_xmit_discards", "port_xmit_constraint_errors", "port_xmit_wait",
        "local_link_integrity_errors", "excessive_buffer_overrun_errors",
    ),
    "hw_counters": (
        "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "out_of_buffer",
        "rx_icrc_encapsulated", "to_retransmits", "seq_err_naks_rcvd", "tcpRetransSegs", "rx_drops",
    ),
}  # fmt: skip


class Reader:
    """The counters of `sources`. `names` are those in the order in which `read` gives their numbers.

    Ports that count no bytes are left out. Never raises: what vanishes while it is open reads as 0, so that its
    difference is negative.
    """

    def __init__(self, sources: Sequence[Source], sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> None:
        nets = [source.name for source in sources if source.kind != "hca"]
        self._proc, self._ports = proc, dict[str, list[Path]]()
        self._dev = _open(proc / "self/net/dev")
        self._places = {name.encode(): FIELDS * place for place, name in enumerate(nets)}
        self._files: list[tuple[list[int], int]] = []  # of each further number: what to add up, and its unit
        self.names = [*nets]
        for source in sources:
            if source.kind == "hca":
                self._open_port(source, sys)
        self._numbers = FIELDS * len(nets)

    def _open_port(self, source: Source, sys: Path) -> None:
        device, _, port = source.name.partition(":")
        home = sys / "class/infiniband" / device
        folders = self._ports[source.name] = [home / "ports" / port, home]
        found = next(
            (found for layout in LAYOUTS for folder in folders if (found := _files(layout, folder))), None
        )
        if found is None:
            return
        layout, fields = found
        unit = layout.unit or (FLIT if (source.driver or "").startswith(FLIT_DRIVERS) else WORD)
        self.names.append(source.name)
        self._files += [(files, unit if field < 2 else 1) for field, files in enumerate(fields)]

    def read(self) -> list[int]:
        """Of each source bytes sent, bytes received, packets sent, packets received: all numbers in a row."""
        numbers = [0] * self._numbers
        places = self._places
        for line in _whole(self._dev).split(b"\n"):
            name, colon, rest = line.partition(b":")
            place = places.get(name.strip()) if colon else None
            if place is not None:
                f = rest.split(None, 10)
                numbers[place : place + FIELDS] = int(f[8]), int(f[0]), int(f[9]), int(f[1])
        for files, unit in self._files:
            numbers.append(unit * sum(map(_number, files)))
        return numbers

    def saturated(self) -> list[str]:
        """The sources of which a counter stands at its largest value: what they moved since is unknown."""
        ports = self.names[len(self._places) :]
        full = [any(_number(file) in LARGEST for file in files) for files, _ in self._files]
        return [name for place, name in enumerate(ports) if any(full[FIELDS * place : FIELDS * (place + 1)])]

    def errors(self) -> dict[str, int]:
        """Counters of errors and waits as they stand, by "source counter"; "tcp …" is the namespace's."""
        found: dict[str, int] = {}
        for line in _whole(self._dev).decode(errors="replace").splitlines():
            name, _, rest = line.partition(":")
            if name.strip().encode() in self._places:
                fields = rest.split()
                found |= {f"{name.strip()} {error}": int(fields[place]) for error, place in _NET_ERRORS.items()}
        for name, folders in self._ports.items():
            for home, counters in _HCA_ERRORS.items():
                for counter in counters:
                    values = [value for folder in folders if (value := text(folder / home / counter)).isdecimal()]
                    if values:
                        found[f"{name} {counter}"] = int(values[0])
        return found | _tcp(text(self._proc / "self/net/snmp"))

    def close(self) -> None:
        """Close all files."""
        for file in [self._dev, *(file for files, _ in self._files for file in files)]:
            if file >= 0:
                os.close(file)


def idle(reader: Reader, seconds: float) -> dict[str, list[float]]:
    """What each source moves a second while nothing is measured; sleeps that long."""
    before, began = reader.read(), time.monotonic()
    time.sleep(seconds)
    after, took = reader.read(), time.monotonic() - began
    rates = [max(0, b - a) / took for a, b in zip(before, after, strict=True)]
    return {name: rates[FIELDS * n : FIELDS * (n + 1)] for n, name in enumerate(reader.names)}


def _files(layout: Layout, folder: Path) -> tuple[Layout, list[list[int]]] | None:
    """The files of a layout, opened, if its bytes are counted there."""
    paths = [[path for name in names if text(path := folder / layout.folder / name).isdecimal()]
             for names in layout.fields]  # fmt: skip
    if not (paths[0] and paths[1]):
        return None
    return layout, [[_open(path) for path in each] for each in paths]


def _tcp(snmp: str) -> dict[str, int]:
    lines = [line.split() for line in snmp.splitlines() if line.startswith("Tcp:")]
    values = dict(zip(*lines, strict=False)) if len(lines) == 2 else {}
    count = values.get("RetransSegs", "")
    return {"tcp RetransSegs": int(count)} if count.isdecimal() else {}


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _whole(file: int) -> bytes:
    """All of a /proc file, which is given in pieces of a page at most."""
    try:
        whole = piece = os.pread(file, 65536, 0)
        while len(piece) > 3500:  # a piece ends with a whole line, so a short one is the last
            piece = os.pread(file, 65536, len(whole))
            whole += piece
    except OSError:
        return b""
    return whole


def _number(file: int) -> int:
    try:
        return int(os.pread(file, 32, 0))
    except (OSError, ValueError):
        return 0
