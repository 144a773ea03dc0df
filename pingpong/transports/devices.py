"""Network interfaces and adapters of this host, from sysfs. Never raises; what is unknown is absent."""

from dataclasses import dataclass
from pathlib import Path

from pingpong import sysfs
from pingpong.sysfs import driver, entries, text

_LOOPBACK, _INFINIBAND = "772", "32"  # ARPHRD_… of linux/if_arp.h


@dataclass(frozen=True)
class Interface:
    """A network interface. `up` is None where it does not say; `internal` are bridges, their ports, tunnels, …"""

    name: str
    up: bool | None
    loopback: bool
    ipoib: bool
    internal: bool


@dataclass(frozen=True)
class Adapter:
    """A device of /sys/class/infiniband: its driver, and its active and all ports."""

    name: str
    driver: str | None
    active: list[str]
    ports: list[str]

    @property
    def kind(self) -> str:
        """ "hfi1" (Omni-Path), "qib" (True Scale), "efa", or "verbs" for all others."""
        own = [kind for kind in ("hfi1", "qib", "efa") if self.driver == kind or self.name.startswith(kind)]
        return own[0] if own else "verbs"


def interfaces(sys: Path) -> list[Interface]:
    """Those of this process's network namespace, or of a recorded tree."""
    if sys != sysfs.SYS:
        return [_interface(path.name, path) for path in entries(sys / "class/net")]
    return [_interface(name, folder) for name, folder in sysfs.interfaces().items()]


def _interface(name: str, path: Path | None) -> Interface:
    if path is None:
        return Interface(name, None, name == "lo", False, False)
    kind, state = text(path / "type"), text(path / "operstate")
    internal = any((path / mark).exists() for mark in ("bridge", "brport", "bonding_slave", "tun_flags"))
    up = {"up": True, "down": False, "lowerlayerdown": False}.get(state)
    return Interface(name, up, kind == _LOOPBACK, kind == _INFINIBAND, internal)


def adapters(sys: Path) -> list[Adapter]:
    """InfiniBand, RoCE, Omni-Path, True Scale and EFA devices."""
    return [_adapter(path) for path in entries(sys / "class/infiniband")]


def _adapter(path: Path) -> Adapter:
    ports = [port.name for port in entries(path / "ports")]
    active = [port for port in ports if "ACTIVE" in text(path / "ports" / port / "state")]
    return Adapter(path.name, driver(path), active, ports)


def slingshot(sys: Path) -> list[str]:
    """Names of the Cassini devices (cxi0, …)."""
    return [path.name for path in entries(sys / "class/cxi")]
