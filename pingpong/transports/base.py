"""The words of all transports: what can be asked, what it is asked of, and what a refusal is."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pingpong.model import Transport
from pingpong.transports.installed import Installed, of

MCA = "OMPI_MCA_"  # before the name of a parameter of Open MPI, it is a variable
_NONE = r"(?!)"  # matches no name


class TransportError(ValueError):
    """A transport that cannot be asked for; the message is one sentence for the user."""


@dataclass(frozen=True)
class Here:
    """What transports are chosen for: the MPI, its launcher, and how many hosts the ranks will be on.

    `member` says that this machine is one of those hosts: only then do its devices tell what can be. `sys` is
    where sysfs is mounted. `known` is what the MPI has, where that is known beforehand; else it is asked.
    """

    mpi: str
    version: str
    launcher: Path
    hosts: int
    member: bool = True
    sys: Path = Path("/sys")
    known: Installed | None = None

    @property
    def major(self) -> int:
        head = self.version.partition(".")[0]
        return int(head) if head.isdecimal() else 0

    @property
    def has(self) -> Installed:
        """What this MPI has built in; asked once in a process."""
        return self.known or of(self.mpi, self.launcher)


@dataclass(frozen=True)
class Asked:
    """A transport's name in its parts: `ucx:rc@mlx5_0:1` is ("ucx", "rc", "mlx5_0:1")."""

    text: str
    name: str
    detail: str | None = None
    device: str | None = None


@dataclass(frozen=True)
class Flags:
    """How a transport is asked for. `carrier` as in `model.Transport`."""

    carrier: str | None
    arguments: list[str] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Concern:
    """What variables are to a transport, by patterns of their whole names.

    Those that it `chooses` itself (components, providers, devices, interfaces) must not be chosen otherwise; those
    `aside` do not touch its messages.
    """

    chooses: str = _NONE
    aside: str = _NONE


@dataclass(frozen=True)
class Way:
    """How one MPI is asked for one transport.

    `flags` raises TransportError where it cannot be had here. `detail` and `device` say what may follow the name
    after ":" and "@"; empty, if nothing may.
    """

    needs: str
    flags: Callable[[Asked, Here], Flags]
    detail: str = ""
    device: str = ""


@dataclass(frozen=True)
class Entry:
    """A row of the list of transports. `missing` is why it cannot be had; None, if it can."""

    name: str
    needs: str
    missing: str | None
    transport: Transport | None


def parse(text: str) -> Asked:
    """The parts of a transport's name. Raises TransportError where one of them is empty."""
    match = re.fullmatch(r"([^:@\s]*)(?::([^@\s]*))?(?:@(\S*))?", text.strip())
    if not match and len(text.split()) > 1:
        raise TransportError(f"transport {text!r} has a space in its name: flags are written as -t 'mine=…'")
    if not match or "" in match.groups():
        raise TransportError(f"transport {text!r} has an empty part: write it as in tcp@eth0 or ucx:rc@mlx5_0:1")
    return Asked(text.strip(), *match.groups())


def absent(why: str) -> Way:
    """A transport that this MPI does not have, whatever the machine."""

    def flags(_asked: Asked, _here: Here) -> Flags:
        raise TransportError(why)

    return Way("", flags, "detail", "device")
