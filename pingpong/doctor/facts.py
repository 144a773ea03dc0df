"""The records of a preflight: what each rank found on its host, and what became of the launch. Plain data."""

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from pingpong.model import Rank, Record

# How far a rank came, in this order.
Stage = Literal["started", "loaded", "initialised", "met", "moved"]
PATIENCE = 12.0  # seconds that a rank may take to look around, and that it then waits for the other one
SMALL, LARGE = 1, 1 << 20  # bytes of the messages that make it "met" and "moved"

SHARED_MEMORY = 32 << 20  # bytes of /dev/shm: with 16 MiB Intel MPI dies of a bus error, with 1 MiB MPICH does
TEMPORARY = 1 << 20  # bytes that launchers and MPIs may want for sockets and maps of the machine
OUTPUT = 4 << 20  # bytes that a result takes at most, unless it is one of many launches


class Address(Record):
    """An interface of the process's own network namespace: switched on or not, with a link or not.

    `enslaved` is one that belongs to a bridge or bond, which has the address. `address` is its IPv4 address with
    prefix length, such as "10.77.2.1/24".
    """

    on: bool
    link: bool
    loopback: bool
    enslaved: bool = False
    mtu: int | None = None
    address: str | None = None
    ipv6: str | None = None


class Folder(Record):
    """A folder that is needed. `trouble` says why `need` bytes could not be written there."""

    path: str
    need: int
    trouble: str | None = None


class Survey(Record):
    """What one rank found on its host, and how far it came.

    `facts` are those of `environment.host_facts`; `errors` are counters of HCA ports that are not 0, by
    "mlx5_0:1"; `nodes` the NUMA nodes of its CPUs. `memlock` is the limit in bytes, absent if there is none.
    `copies` says why ranks cannot copy from each other's memory. `sees` is whether the folder of the controller
    is there. `size` is how many ranks MPI has. `library` is such as "Open MPI 5.0.11".
    """

    id: str
    rank: Rank
    stage: Stage = "started"
    version: str = ""
    launcher: str | None = None
    started: int | None = None
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    addresses: dict[str, Address] = msgspec.field(default_factory=dict)
    errors: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    nodes: list[int] = msgspec.field(default_factory=list)
    memlock: int | None = None
    ptrace: str | None = None
    copies: str | None = None
    shared: Folder | None = None
    temporary: Folder | None = None
    sees: bool = False
    library: str | None = None
    size: int | None = None
    trouble: str | None = None


@dataclass
class Launch:
    """What the controller knows. `hosts` as asked for (none: this one); `mpi` such as "Open MPI", "5.0.11".

    `given` is what the user said to mpiexec and, by variables, to MPI: it may name the interfaces to use; `heeded`
    is what was set for MPI beforehand, in words. `wrote` are the ids of the ranks whose file it found in its own
    folder. If not both ranks started, `nameless` are hosts whose names it cannot resolve, and `own` are its own
    interfaces.
    """

    mpi: str
    version: str
    launcher: str
    launcher_version: str
    hosts: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    heeded: str | None = None
    surveys: list[Survey] = field(default_factory=list)
    nameless: list[str] = field(default_factory=list)
    own: dict[str, Address] = field(default_factory=dict)
    wrote: set[str] = field(default_factory=set)
    status: int = 0
    limit: str | None = None
    output: list[str] = field(default_factory=list)

    @property
    def met(self) -> bool:
        """Whether both ranks exchanged all messages."""
        return len(self.surveys) == 2 and all(s.stage == "moved" for s in self.surveys)

    @property
    def level(self) -> Literal["note", "problem"]:
        """Of something that may keep ranks from meeting: a problem only if they do not."""
        return "note" if self.met else "problem"

    def host_of(self, survey: Survey) -> str:
        """As the user called it, else as it calls itself."""
        place = survey.rank.rank * len(self.hosts) // 2
        return self.hosts[place] if place < len(self.hosts) else survey.rank.host

    @property
    def by_host(self) -> dict[str, Survey]:
        """One survey a host, that of its first rank."""
        found: dict[str, Survey] = {}
        for survey in self.surveys:
            found.setdefault(self.host_of(survey), survey)
        return found


@dataclass(frozen=True)
class Finding:
    """A line of what is wrong, or right, and a line of what to do. A "problem" is what a run would fail of.

    `quoted` are words of others that explain it.
    """

    level: Literal["ok", "note", "problem"]
    what: str
    advice: str | None = None
    quoted: tuple[str, ...] = ()
