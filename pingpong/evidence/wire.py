"""The verdict on a carrier that counters count: an interface, the network, an HCA or its port."""

from dataclasses import dataclass

from pingpong.evidence.amounts import WAYS, Expected, Flow, Host, total
from pingpong.evidence.case import (
    ENOUGH,
    NOTICED,
    WORST,
    Case,
    Verdict,
    asked,
    carriers,
    explains,
    listed,
    others,
)
from pingpong.units import amount, duration, printable


def verdict(case: Case, carrier: str) -> tuple[Verdict, str]:
    """Verdict and reason for a carrier: the worst of both hosts and both directions."""
    if not case.hosts:
        return "unverifiable", "no counters were read"
    if case.ranks[0].host == case.ranks[1].host and not case.one_host:
        return "unverifiable", f"two networks have the host name {printable(case.ranks[0].host)}"
    found = [_one_way(case, host, way, carrier) for host in case.hosts for way in (0, 1)]
    worst, reason = min(found, key=lambda each: WORST.index(each[0]))
    if worst != "confirmed":
        return _no_wire(case, carrier) or (worst, reason)
    if not case.watched_both:
        return worst, f"only the counters of {printable(case.hosts[0].name)} were read"
    return worst, ""


def _no_wire(case: Case, carrier: str) -> tuple[Verdict, str] | None:
    """What counters cannot show between ranks on one machine, and what they show by standing still."""
    if not case.one_machine:
        return None
    over_loopback = case.one_host and any(_loopback(host) >= ENOUGH * case.each.least for host in case.hosts)
    if carrier.startswith("net:") and over_loopback:
        text = f"on one host the bytes go over lo, whatever the interface: {printable(carrier[4:])}"
        return "unverifiable", text
    still = not any(h.went_back() or h.saturated or h.blind or carriers(case, h) for h in case.hosts)
    if not (still and case.watched_both):
        return None
    if carrier.startswith("hca"):
        return "unverifiable", "no counter moved: through memory, or inside the HCA, which need not count it"
    if not case.one_host:
        return "unverifiable", "no counter moved: through the memory of the one machine, or the counters lag"
    return "contradicted", "no counter moved: the bytes went through memory"


def _loopback(host: Host) -> float:
    names = [source.name for source in host.sources if source.kind == "loopback"]
    return sum(flow.above for name, flow in host.flows[0].items() if name in names)


def elsewhere(case: Case, carrier: str) -> float:
    """The most bytes above idle that went one way, on one host, through other carriers."""
    ways = [(host, host.own[way], others(case, host, carrier)) for host in case.hosts for way in (0, 1)]
    return max((sum(max(0.0, own[name].above) for name in names) for _, own, names in ways), default=0.0)


@dataclass(frozen=True)
class _Way:
    """One direction on one host: what the carrier moved, and the others. `doing` begins the sentence about it."""

    case: Case
    flow: Flow
    others: dict[str, Flow]
    doing: str
    virtual: bool

    @property
    def want(self) -> Expected:
        return self.case.each

    @property
    def noticed(self) -> dict[str, Flow]:
        """The others that moved more than can be overlooked."""
        return {n: f for n, f in self.others.items() if f.above - f.idle / 2 > NOTICED * self.want.least}

    def explained(self) -> bool:
        """Whether the messages are what others moved: one of them, or all, alone or with the carrier."""
        found = self.noticed.values()
        flows = [*found, *(each.plus(self.flow) for each in found), total([self.flow, *found])]
        return bool(found) and any(explains(self.case, flow) for flow in flows)


def _one_way(case: Case, host: Host, way: int, carrier: str) -> tuple[Verdict, str]:
    names, own = asked(case, host, carrier), host.own[way]
    if doubt := _doubt(host, names):
        return "unverifiable", f"{printable(host.name)}: {doubt}"
    flows = own if carrier.startswith("hca") else host.flows[way]
    flow = total(flows[name] for name in names if name in flows)
    label = f"{printable(host.name)}: {_label(host, carrier, names)}"
    virtual = any(source.virtual for source in host.sources if source.name in names)
    beside = {name: own[name] for name in others(case, host, carrier)}
    found = _Way(case, flow, beside, f"{label} {WAYS[way]} {amount(flow.bytes)}", virtual)
    # Idle traffic was measured before; now it may be half of that, or once and a half.
    want, loose = found.want, flow.idle / 2
    surely = flow.plus(Flow(packets=-flow.idle_packets / 2))
    if flow.above < want.payload - loose or not want.could_be(surely, 1.0):
        return _too_little(found)
    if flow.idle >= NOTICED * want.least:
        anyway = f"{amount(flow.idle)} in {duration(case.seconds)} anyway"
        return "unverifiable", f"{label} moves {anyway}, beside a payload of {amount(want.payload)}"
    most = want.most(max(0.0, flow.packets))
    if flow.above > most + loose:
        text = f"{found.doing}, more than a payload of {amount(want.payload)} explains ({amount(most)})"
        return "unverifiable", text
    # An Ethernet driver may count RDMA in its interface as well, so only for interfaces.
    twice = [] if carrier.startswith("hca") else [n for n, other in beside.items() if explains(case, other, 1.0)]
    if twice:
        return "unverifiable", f"{found.doing}, and {listed(twice)} as much: either may be the messages"
    return "confirmed", ""


def _doubt(host: Host, names: list[str]) -> str:
    """Why the counters of these sources say nothing."""
    stack = {*names, *host.above(names), *host.below(names)}
    if blind := [name for name in names if name in host.blind]:
        return f"{listed(blind)} counts no bytes"
    if back := [name for name in host.went_back() if name in stack]:
        return f"the counters of {listed(back)} were reset"
    if full := [name for name in host.saturated if name in names]:
        return f"the counters of {listed(full)} are full"
    return ""


def _label(host: Host, carrier: str, names: list[str]) -> str:
    if not names or not all(any(source.name == name for source in host.sources) for name in names):
        return f"{printable(names[0] if names else carrier)} (not there)"
    return printable(names[0]) if len(names) == 1 else {"net": "all interfaces"}.get(carrier, "all ports")


def _too_little(way: _Way) -> tuple[Verdict, str]:
    """The carrier is contradicted where others account for the bytes, not by its own silence."""
    want, flow = way.want, way.flow
    packets = "" if flow.bytes < want.payload else f" in {flow.packets:.0f} packets"
    text = f"{way.doing}{packets}, the payload is {amount(want.payload)} in {want.messages} messages"
    if way.noticed:
        text += "; " + ", ".join(f"{printable(n)} {amount(f.bytes)}" for n, f in sorted(way.noticed.items()))
    if way.virtual:
        return "unverifiable", f"{text}; the counters of a virtual function may stand still"
    little = flow.bytes < ENOUGH * want.payload or not want.could_be(flow, ENOUGH)
    return "contradicted" if little and way.explained() else "unverifiable", text
