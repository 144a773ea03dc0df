"""The data that everything else makes, moves or reads: no I/O, no MPI, no arithmetic.

Units are seconds and bytes. The file format is these classes as JSON; `docs/result-format.md` explains each key.
Every record keeps the keys that it does not know (`unknown`), so that a file of a newer version survives.
"""

from typing import Annotated, Any, Literal

import msgspec

# A file may come from anywhere: figures that no run can have are refused when it is read.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Several = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
Seconds = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
Rate = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
# Bytes sent, bytes received, packets sent, packets received: a counter that was reset makes a negative number.
_FOUR = msgspec.Meta(min_length=4, max_length=4)
Numbers = Annotated[list[Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]], _FOUR]
Rates = Annotated[list[Rate], _FOUR]
HEEDED = "variables"  # code of a warning: what was set beforehand may be the cause of what went wrong

SCHEMA = 1
# 1 (0.1.0): first version. Additions that an old reader may ignore do not change the number.

DEFINITIONS = {
    "units": "seconds and bytes; MB = 10^6 bytes",
    "sample": "the time of `steps` steps, measured by the lead",
    "half-trip": "one-way time = sample / (steps * legs)",
    "completion": "time = sample / steps",
    "bandwidth": "size * messages * steps / sample / directions: per direction",
    "estimate": "median over the medians of the visits",
}


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Base of all records."""

    unknown: dict[str, Any] = {}


class Warn(Record):
    """Something the reader of a number should know. `code` is stable, `text` is one sentence."""

    code: str
    text: str


class Failure(Record):
    """Why a launch did not complete. `exit` is the design's exit code; `output` the telling lines, if any.

    `hint` says what to do about it, where that is known.
    """

    reason: str
    exit: int
    hint: str | None = None
    command: list[str] = []
    output: list[str] = []


class Plan(Record):
    """What to measure and how.

    With a "cold" `cache` each step uses other memory, out of `pool` bytes for each buffer.

    `steps` in a sample are the instrument's choice if absent, as is `lead_in`.

    `method` is "visits" (shuffled visits until precise or out of budget), "fixed" (`samples` per point),
    "duration" (one point for `seconds`) or "classic" (one timed step a size, no lead-in). `loops` drive the steps:
    "native", "mpi4py" or both; unless `needs_native`, the mpi4py loop stands in for a native one that cannot be.
    """

    kernels: list[str]
    sizes: list[int]
    method: str
    budget: float
    seed: int
    samples: int | None = None
    lead_in: int | None = None
    seconds: float | None = None
    steps: int | None = None
    cache: Literal["warm", "cold"] = "warm"
    pool: int | None = None
    loops: list[str] = msgspec.field(default_factory=lambda: ["mpi4py"])
    needs_native: bool = False


class Rank(Record):
    """Where a rank ran. `cpus` is its affinity mask; `usable` how many CPUs its host lets the job use.

    `quota` is how many CPUs' worth of time its control groups get, absent if there is no limit; `governors` are
    those of its CPUs. `machine` is the same for ranks on one machine, `network` for those that see the same
    network interfaces.
    Of the `measured` seconds it waited `waited` for a CPU that others used; it was taken away `preempted` times.
    """

    rank: int
    host: str
    pid: int | None = None
    cpus: list[int] = []
    cores: list[str] = []
    usable: int | None = None
    quota: float | None = None
    governors: list[str] = []
    machine: str | None = None
    network: str | None = None
    measured: float | None = None
    waited: float | None = None
    preempted: int | None = None


class Mpi(Record):
    """The library, and who started the ranks."""

    name: str
    version: str
    standard: str
    library: str = ""
    launcher: str | None = None
    thread_level: str | None = None


class Harness(Record):
    """Seconds that the `empty` kernel costs per sample and per step: what the instrument adds."""

    sample: float
    step: float


class Clock(Record):
    """Seconds. `wtime_step` is the log's timer accuracy; the others belong to the clock of the samples.

    `step` is the smallest difference of two readings: their cost, where the tick (`resolution`) is shorter.
    A step is absent where the clock never moved. `harness` is by loop.
    """

    name: str
    wtime_step: float | None
    step: float | None
    cost: float
    resolution: float | None = None
    harness: dict[str, Harness] = {}


class Connection(Record):
    """The first round trip of a pair after initialisation (it makes the connection) and the one after it."""

    lead: int
    peer: int
    first: float
    second: float


class Visit(Record):
    """Consecutive samples; `t0` is seconds since the run started measuring."""

    t0: Seconds
    seconds: list[Seconds]


class Printed(Record):
    """A figure that another tool printed: for imported points, which have no samples."""

    quantity: str
    statistic: str
    value: float
    unit: str
    n: int | None = None


class Mismatch(Record):
    """A payload that was wrong: `slot` is the receive buffer, `byte` the first wrong one in it."""

    rank: int
    visit: int
    slot: int
    byte: int
    expected: int
    found: int


class Payload(Record):
    """How many visits had their last payload checked on both sides, and what was wrong."""

    checked: int = 0
    wrong: list[Mismatch] = []


class Moved(Record):
    """What the counters of each host said while a point was measured, its lead-in steps included.

    By host and source: bytes sent, bytes received, packets sent, packets received. Sources that moved nothing are
    left out. A counter that was reset in between makes a negative number. `seconds` is how long they were watched.
    """

    seconds: Seconds
    hosts: dict[str, dict[str, Numbers]] = {}


class Point(Record):
    """All visits of one kernel, loop, size and parameter set. `lead` and `peer` are indices into `Run.ranks`.

    `time` is "half-trip" or "completion"; `legs` is absent for kernels whose trips are not sequential. A sample is
    the time of `steps` steps; a visit is `lead_in` untimed steps and up to `samples` samples. `first` is the time
    of the very first step in seconds.

    `stop` says why it ended: "precise", "budget", "fixed", "duration" or "once"; absent if it did not end.
    """

    kernel: str
    loop: str
    size: Count
    messages: Count
    directions: Several
    time: str
    legs: Several | None = None
    steps: Several = 1
    lead_in: Count = 0
    samples: Count = 0
    params: dict[str, Any] = {}
    lead: int | None = None
    peer: int | None = None
    concurrent: str | None = None
    first: float | None = None
    visits: list[Visit] = []
    printed: list[Printed] = []
    counts: dict[str, int] = {}
    moved: Moved | None = None
    stop: str | None = None
    payload: Payload = msgspec.field(default_factory=Payload)
    warnings: list[Warn] = []


class Transport(Record):
    """What was asked of MPI: the user's name for it, how it was asked, and what should carry the bytes.

    `arguments` are mpiexec's, `environment` the ranks' variables. `carrier` is "shm", "net" (any interface of the
    network), "net:eth0", "hca" (any port of an InfiniBand, Omni-Path, RoCE or EFA device), "hca:mlx5_0" or
    "hca:mlx5_0:1"; absent if nothing was asked of the wire.
    """

    name: str
    arguments: list[str] = []
    environment: dict[str, str] = {}
    carrier: str | None = None


class Source(Record):
    """Counters of a host: of a network interface ("eth0") or of a port of an HCA ("mlx5_0:1").

    `kind` is "net", "loopback" or "hca". What it moves is moved by the sources `over` too: a bond's members, a
    VLAN's parent, the port that IPoIB lies on. `speed` is the link's in bytes/s for each direction, absent where
    there is no link, as with a virtual interface. `virtual` is a virtual function: its counters may be those of
    the whole port, or stand still.
    """

    name: str
    kind: str
    over: list[str] = []
    speed: Rate | None = None
    driver: str | None = None
    virtual: bool = False


class Watched(Record):
    """The counters of a host around a run.

    `idle` is what moved before anything was measured, by source: bytes sent, bytes received, packets sent, packets
    received, each a second. `errors` is how much error counters grew during the run, by "source counter".
    `saturated` names sources whose counters stood at their largest value. `total` is what moved in `seconds`, from
    before the first visit of any point to after the last one: the visits, and whatever lay between them.
    """

    host: str
    sources: list[Source] = []
    idle: dict[str, Rates] = {}
    errors: dict[str, int] = {}
    saturated: list[str] = []
    total: dict[str, Numbers] = {}
    seconds: Seconds | None = None


class Said(Record):
    """What MPI itself said about the wire: the switch that made it speak, its words, and the devices it named."""

    by: str
    text: str
    names: list[str] = []


class Run(Record):
    """One launch, or one imported file. `status` is "complete" or "partial"."""

    launch: int
    source: str
    status: Literal["complete", "partial"]
    started: str | None = None
    plan: Plan | None = None
    transport: Transport | None = None
    evidence: list[Watched] = []
    said: list[Said] = []
    mpi: Mpi | None = None
    clock: Clock | None = None
    ranks: list[Rank] = []
    connections: list[Connection] = []
    environment: dict[str, Any] = {}
    points: list[Point] = []
    warnings: list[Warn] = []
    failure: Failure | None = None


class Session(Record):
    """What one command made."""

    schema: int
    id: str
    command: list[str]
    seed: int = 0
    definitions: dict[str, str] = {}
    runs: list[Run] = []
