"""Which counters this host has and how they stack: network interfaces, and ports of HCAs.

Nothing here raises for what a host lacks. Which units the counters have is in `counters`; where it is documented,
and what has never been seen on hardware, in docs/evidence.md.
"""

from pathlib import Path

from pingpong.model import Source
from pingpong.sysfs import driver, entries, interfaces, text

UP, LOOPBACK = 0x1, 0x8  # interface flags: IFF_UP, IFF_LOOPBACK
IPOIB = "32"  # interface type: ARPHRD_INFINIBAND
# RDMA in software: what it moves is moved by a network interface, and it counts no bytes itself.
SOFTWARE = ("rxe", "siw")


def sources(sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> list[Source]:
    """The interfaces of this process's network namespace that are up, and the HCA ports that are not down."""
    ports = _ports(sys)
    return [*_interfaces(sys, proc, {port.name for port in ports}), *ports]


def _interfaces(sys: Path, proc: Path, ports: set[str]) -> list[Source]:
    names = [line.partition(":")[0].strip() for line in text(proc / "self/net/dev").splitlines() if ":" in line]
    folders = interfaces(sys)
    found = []
    for name in names:
        sysfs = folders.get(name)
        if sysfs is None:
            kind = "loopback" if name == "lo" else "net"
            found.append(Source(name=name, kind=kind))
            continue
        flags = _number(text(sysfs / "flags"))
        if flags is not None and not flags & UP:
            continue
        found.append(
            Source(
                name=name,
                kind="loopback" if flags is not None and flags & LOOPBACK else "net",
                over=[each for each in _below(sysfs) if each in names or each in ports],
                speed=_link_speed(sysfs),
                driver=driver(sysfs),
            )
        )
    there = {source.name for source in found} | ports
    for source in found:
        source.over = [name for name in source.over if name in there]
    return found


def _below(sysfs: Path) -> list[str]:
    """What an interface lies on: bond's members, VLAN's parent, bridge's ports; IPoIB's port of the HCA."""
    if text(sysfs / "type") == IPOIB and (port := _ipoib_port(sysfs)):
        return [port]
    lower = [path.name.removeprefix("lower_") for path in entries(sysfs) if path.name.startswith("lower_")]
    members = text(sysfs / "bonding/slaves").split() + [path.name for path in entries(sysfs / "brif")]
    return sorted({*lower, *members})


def _ipoib_port(sysfs: Path) -> str | None:
    devices = [path.name for path in entries(sysfs / "device/infiniband")]
    # The port, counted from 0; kernels before 3.15 had it in dev_id.
    port = max(_number(text(sysfs / "dev_port")) or 0, _number(text(sysfs / "dev_id")) or 0) + 1
    return f"{devices[0]}:{port}" if devices else None


def _link_speed(sysfs: Path) -> float | None:
    """Bytes a second of a real link: virtual interfaces (veth, bond, …) have no device and make their speed up."""
    speed = text(sysfs / "speed")
    return int(speed) * 1e6 / 8 if speed.isdecimal() and int(speed) > 0 and (sysfs / "device").exists() else None


def _ports(sys: Path) -> list[Source]:
    found = []
    for device in entries(sys / "class/infiniband"):
        for port in entries(device / "ports"):
            if "DOWN" not in text(port / "state").upper():
                found.append(_port(device, port))
    return found


def _port(device: Path, port: Path) -> Source:
    software = device.name.startswith(SOFTWARE)
    parent = text(device / "parent") or text(port / "gid_attrs/ndevs/0")
    return Source(
        name=f"{device.name}:{port.name}",
        kind="hca",
        over=[parent] if software and parent else [],
        speed=None if software else _rate(text(port / "rate")),
        driver=driver(device),
        virtual=(device / "device/physfn").exists(),
    )


def _rate(rate: str) -> float | None:
    """Bytes a second from "100 Gb/sec (4X EDR)"."""
    value, _, unit = rate.partition(" ")
    try:
        return float(value) * 1e9 / 8 if unit.startswith("Gb/sec") else None
    except ValueError:
        return None


def _number(value: str) -> int | None:
    """The files have decimal and hexadecimal numbers."""
    try:
        return int(value, 0)
    except ValueError:
        return None
