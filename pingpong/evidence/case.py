"""What is judged, which carriers the counters saw at work, and which the transport names."""

from dataclasses import dataclass
from typing import Literal

from pingpong.evidence.amounts import Expected, Flow, Host, one_machine, one_network
from pingpong.model import Rank, Said
from pingpong.units import printable

Verdict = Literal["confirmed", "contradicted", "unverifiable", "observed"]
WORST: tuple[Verdict, ...] = ("contradicted", "unverifiable", "confirmed", "observed")

ENOUGH, NOTICED = 0.9, 0.1  # of what was expected: nearly all of it, and some of it
MEMORY, NOTHING, UNKNOWN, STRIPED = "shared memory", "nothing moved", "unknown", "(striped)"


@dataclass(frozen=True)
class Finding:
    """What moved a point (or a run) and whether that is what was asked for.

    `observed` names the carrier: "ib0", "eth0 + ib0 (striped)", "shared memory", "lo", "nothing moved", or says
    "unknown". `reason` is one sentence with the figures; "" if plainly confirmed.
    """

    verdict: Verdict
    observed: str
    reason: str = ""


@dataclass(frozen=True)
class Case:
    """What is judged: `want` moved each way between the ranks in `seconds`; `hosts` are those watched."""

    ranks: tuple[Rank, Rank]
    want: Expected
    hosts: list[Host]
    seconds: float
    said: list[Said]

    @property
    def one_machine(self) -> bool:
        return one_machine(*self.ranks)

    @property
    def one_host(self) -> bool:
        """Whether the counters of one network see both ends."""
        return one_network(*self.ranks)

    @property
    def each(self) -> Expected:
        """What a counter should have seen, in each direction."""
        return self.want.both_ways() if self.one_host else self.want

    @property
    def watched_both(self) -> bool:
        return len(self.hosts) == len({rank.host for rank in self.ranks})

    def joins(self, host: Host) -> list[str]:
        """The sources that could carry a message between the two ranks: no loopback leaves its host."""
        return [s.name for s in host.sources if self.one_host or s.kind != "loopback"]

    def active(self, host: Host) -> list[str]:
        """Those of them that moved anything."""
        return [name for name in self.joins(host) if name in host.flows[0]]


# What moved


def carriers(case: Case, host: Host) -> dict[str, float]:
    """By source the bytes above idle that no source on it moved, both directions together, without mere noise."""
    moved = {
        name: sum(max(0.0, flows[name].above) for flows in host.own)
        for name in case.active(host)
        if all(case.each.could_be(flows[name], NOTICED) for flows in host.own)
        or any(explains(case, flows[name]) for flows in host.own)  # one way may be another than the way back
    }
    return {name: size for name, size in moved.items() if size > NOTICED * 2 * case.each.least}


def observed(case: Case, proven: str | None = None) -> str:
    """The carriers by name; by host, where hosts differ. Only those of the carrier that is `proven`, if one is."""
    texts = {host.name: _on(case, host, proven) for host in case.hosts}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    ways = [_two_ways(case, host, list(carriers(case, host))) for host in case.hosts]
    if all(ways) and len(ways) == 2 and ways[0] == ways[1][::-1] and list(texts.values()) == [*map(_both, ways)]:
        return " and ".join(
            f"{printable(way[0])} from {printable(host)}" for way, host in zip(ways, texts, strict=True)
        )
    return ", ".join(f"{text} on {printable(host)}" for host, text in texts.items()) or UNKNOWN


def _on(case: Case, host: Host, proven: str | None) -> str:
    if back := host.went_back():
        return f"{UNKNOWN} ({listed(back)} reset)"
    found = carriers(case, host)
    if proven:
        names = asked(case, host, proven)
        found = {name: moved for name, moved in found.items() if name in names} or found
    if not found:
        hidden = any(f[name].idle >= NOTICED * case.each.least for f in host.own for name in case.active(host))
        if host.saturated or host.blind or hidden:
            return UNKNOWN
        return MEMORY if case.one_host else NOTHING
    if there_and_back := _two_ways(case, host, list(found)):
        return _both(there_and_back)
    full = [name for name, moved in found.items() if moved >= ENOUGH * 2 * case.each.least]
    if exactly := [name for name in full if _is_explained(case, host, name)]:
        full = exactly  # what else moved is somebody else's
    text = " + ".join(sorted(map(printable, full or found)))
    return text if full or len(found) == 1 else f"{text} {STRIPED}"


def _two_ways(case: Case, host: Host, names: list[str]) -> tuple[str, ...]:
    """What carried the messages that were sent, and what those received, where each was one and not the same."""
    sent, received = ([n for n in names if explains(case, flows.get(n, Flow()))] for flows in host.own)
    if len(sent) != 1 or len(received) != 1 or sent == received:
        return ()
    return sent[0], received[0]


def _both(way: tuple[str, ...]) -> str:
    return " and ".join(
        f"{printable(name)} ({what})" for name, what in zip(way, ("sent", "received"), strict=True)
    )


def _is_explained(case: Case, host: Host, name: str) -> bool:
    """Whether it moved all messages in both directions, and no more than they explain."""
    return all(explains(case, host.flows[way].get(name, Flow()), 1.0) for way in (0, 1))


def explains(case: Case, flow: Flow, share: float = ENOUGH) -> bool:
    """Whether a flow is this share of the messages at least, and not something else that began in between."""
    most = case.each.most(max(0.0, flow.packets)) + flow.idle / 2
    return share * case.each.least <= flow.above <= most and case.each.could_be(flow, share)


def shares(case: Case) -> str:
    """Of striped messages on the first host: "eth0 52 %, ib0 48 %"; "" where they are not."""
    found = carriers(case, case.hosts[0]) if STRIPED in observed(case) else {}
    everything = sum(found.values())
    return ", ".join(f"{printable(name)} {100 * found[name] / everything:.0f} %" for name in sorted(found))


def listed(names: list[str]) -> str:
    """Names from a host as a list for people."""
    return ", ".join(map(printable, names))


# What was asked for


def asked(case: Case, host: Host, carrier: str) -> list[str]:
    """The sources of a host that the carrier names; one that is named is given even where it is not there."""
    kind, _, name = carrier.partition(":")
    if kind == "hca":
        ports = [s.name for s in host.sources if s.kind == "hca"]
        return [port for port in ports if not name or port == name or port.startswith(f"{name}:")]
    if name:
        return [name]
    nets = {s.name for s in host.sources if s.kind != "hca"} & set(case.joins(host))
    # What lies on another interface is counted there already.
    return [s.name for s in host.sources if s.name in nets and not nets & set(s.over)]


def others(case: Case, host: Host, carrier: str) -> list[str]:
    """The sources at work that are not of the carrier's stack.

    An IPoIB interface is in the stack of nothing but itself: what it moves is no native traffic of its port, and
    what its port moves besides is none of its own.
    """
    names = asked(case, host, carrier)
    below = host.below(names)
    stack = {*names, *below}
    if not carrier.startswith("hca"):
        stack = {*names, *host.above(names), *(name for name in below if host.kind(name) != "hca")}
    return [name for name in case.active(host) if name not in stack]
