"""What a point must have moved, and what each counter moved of it: the arithmetic below the verdicts.

Bytes and packets, by host, source and direction. Why the constants are what they are is in docs/evidence.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pingpong.model import Point, Rank, Run, Source

SENT, RECEIVED = 0, 1
WAYS = ("sent", "received")

# Above the payload: segments sent again and the like; a message's envelope and rendezvous; a packet's headers.
SHARE, PER_MESSAGE, PER_PACKET = 1.02, 160, 100
TOGETHER = 0.25  # packets for each message at least, where several are in flight
HEADER = 24  # bytes: no wire that counts headers moves a message with fewer
# A visit's control messages that fall into the windows of its two ends: order, two meetings, report.
CONTROL = 4


@dataclass(frozen=True)
class Expected:
    """What moved each way: messages and their bytes. `serial` if one message is in flight at a time.

    `control` are the messages that the instrument adds.
    """

    messages: int
    payload: int
    control: int
    serial: bool

    @property
    def least(self) -> int:
        """Bytes that these messages take on any wire that counts its headers."""
        return self.payload + HEADER * self.messages

    def most(self, packets: float) -> float:
        """Bytes that these messages explain, in so many packets."""
        return SHARE * self.payload + PER_MESSAGE * (self.messages + self.control) + PER_PACKET * packets

    def could_be(self, flow: "Flow", share: float) -> bool:
        """Whether there are packets enough to have carried this share of the messages.

        A stream of somebody else moves as many bytes in far fewer packets. Messages that are in flight together
        may share some. Any number will do where packets are not counted.
        """
        counted = flow.packets > 0 or flow.bytes <= 0
        needed = share * self.messages * (1.0 if self.serial else TOGETHER)
        return not counted or flow.packets >= needed

    def both_ways(self) -> "Expected":
        """The same for counters that see both directions as one, as a host's own loopback does."""
        return Expected(2 * self.messages, 2 * self.payload, 2 * self.control, self.serial)


def expected(points: Iterable[Point]) -> Expected:
    """What the visits of these points moved each way, their lead-in steps included."""
    messages = payload = control = 0
    serial = True
    for point in points:
        steps = sum(point.lead_in + point.steps * len(visit.seconds) for visit in point.visits)
        each_way = steps * point.messages // 2
        messages += each_way
        payload += each_way * point.size
        control += CONTROL * len(point.visits)
        serial = serial and point.directions == 1
    return Expected(messages, payload, control, serial)


@dataclass(frozen=True)
class Flow:
    """What a source moved one way; `idle` and `idle_packets` is what it would have moved anyway, in that time."""

    bytes: float = 0.0
    packets: float = 0.0
    idle: float = 0.0
    idle_packets: float = 0.0

    @property
    def above(self) -> float:
        """Bytes above idle."""
        return self.bytes - self.idle

    def plus(self, other: "Flow", factor: float = 1.0) -> "Flow":
        return Flow(
            self.bytes + factor * other.bytes,
            self.packets + factor * other.packets,
            self.idle + factor * other.idle,
            self.idle_packets + factor * other.idle_packets,
        )


def total(flows: Iterable[Flow]) -> Flow:
    """All of them together."""
    result = Flow()
    for flow in flows:
        result = result.plus(flow)
    return result


@dataclass(frozen=True)
class Host:
    """What the counters of one host said. `blind` ports count no bytes.

    `flows` are by direction and source; sources that stood still, now and when idle, are left out (nodes have
    hundreds of virtual interfaces).
    """

    name: str
    sources: list[Source]
    flows: tuple[dict[str, Flow], dict[str, Flow]]
    saturated: list[str] = field(default_factory=list)
    blind: list[str] = field(default_factory=list)

    def above(self, names: Iterable[str]) -> set[str]:
        """What lies on these sources, directly or not."""
        return _reach(names, self._uppers)

    def below(self, names: Iterable[str]) -> set[str]:
        """What these sources lie on, directly or not."""
        return _reach(names, {s.name: s.over for s in self.sources})

    def kind(self, name: str) -> str:
        return next((s.kind for s in self.sources if s.name == name), "net")

    @cached_property
    def _uppers(self) -> dict[str, list[str]]:
        """By source what lies directly on it."""
        found: dict[str, list[str]] = {}
        for source in self.sources:
            for name in source.over:
                found.setdefault(name, []).append(source.name)
        return found

    @cached_property
    def own(self) -> tuple[dict[str, Flow], dict[str, Flow]]:
        """By direction, what each source moved that none above it moved: a port without the IPoIB interface on it.

        What several members carry for one bond is split as their counters are. Each packet from above may have got
        the headers of the layer below.
        """
        return self._own(self.flows[SENT]), self._own(self.flows[RECEIVED])

    def _own(self, flows: dict[str, Flow]) -> dict[str, Flow]:
        over = {source.name: source.over for source in self.sources}
        result = {}
        for name, flow in flows.items():
            own = flow
            for upper in (u for u in self._uppers.get(name, []) if u in flows):
                beside = total(flows.get(member, Flow()) for member in over[upper]).bytes
                share = flow.bytes / beside if beside > 0 else 0.0
                headers = Flow(bytes=PER_PACKET * flows[upper].packets)
                own = own.plus(flows[upper], -share).plus(headers, -share)
            result[name] = Flow(*(max(0.0, n) for n in (own.bytes, own.packets, own.idle, own.idle_packets)))
        return result

    def went_back(self) -> list[str]:
        """Sources with a counter that was reset."""
        return sorted({n for flows in self.flows for n, f in flows.items() if f.bytes < 0 or f.packets < 0})


def _reach(names: Iterable[str], steps: dict[str, list[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = list(names)
    while ahead:
        following = [name for name in steps.get(ahead.pop(), []) if name not in seen]
        seen |= set(following)
        ahead += following
    return seen


def hosts(run: Run, names: Sequence[str], moved: dict[str, dict[str, list[int]]], seconds: float) -> list[Host]:
    """The views of those hosts that were watched, each once. `moved` is by host and source, as in `Moved`."""
    found = []
    for name in dict.fromkeys(names):
        watched = next((w for w in run.evidence if w.host == name), None)
        if watched is None and name not in moved:
            continue
        numbers, idle = moved.get(name, {}), watched.idle if watched else {}
        known = watched.sources if watched else []
        names_known = {source.name for source in known}
        sources = [*known, *(_guessed(n) for n in numbers if n not in names_known)]
        active = [s.name for s in sources if s.name in numbers or any(idle.get(s.name, ()))]
        flows = tuple(
            {n: _flow(numbers.get(n, [0] * 4), idle.get(n, [0.0] * 4), seconds, way) for n in active}
            for way in (SENT, RECEIVED)
        )
        blind = [s.name for s in sources if s.kind == "hca" and s.name not in idle and s.name not in numbers]
        found.append(Host(name, sources, (flows[0], flows[1]), watched.saturated if watched else [], blind))
    return found


def _flow(numbers: Sequence[float], rates: Sequence[float], seconds: float, way: int) -> Flow:
    return Flow(numbers[way], numbers[2 + way], rates[way] * seconds, rates[2 + way] * seconds)


def _guessed(name: str) -> Source:
    kind = "hca" if ":" in name else "loopback" if name == "lo" else "net"
    return Source(name=name, kind=kind)


def pair(run: Run, point: Point | None = None) -> tuple[Rank, Rank] | None:
    """Lead and peer of a point (of the run, where they are not said); None if the run does not know its ranks."""
    lead = point.lead if point and point.lead is not None else 0
    peer = point.peer if point and point.peer is not None else 1
    return (run.ranks[lead], run.ranks[peer]) if max(lead, peer) < len(run.ranks) else None


def one_machine(a: Rank, b: Rank) -> bool:
    """Whether they could share memory."""
    return a.machine == b.machine if a.machine and b.machine else a.host == b.host


def one_network(a: Rank, b: Rank) -> bool:
    """Whether they see the same interfaces, so that TCP between them goes over the loopback."""
    return one_machine(a, b) and (a.network == b.network if a.network and b.network else a.host == b.host)
