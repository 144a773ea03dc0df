"""What cannot be, and what should not have happened: warnings beside the figures of a run."""

from itertools import pairwise
from statistics import median

from pingpong.evidence.amounts import one_machine, pair
from pingpong.evidence.case import STRIPED, asked, carriers, listed, observed, shares
from pingpong.evidence.runs import case_of, spans
from pingpong.model import Point, Run, Warn
from pingpong.units import amount, duration, printable, size_text

TOO_FAST = 0.5e-6  # seconds: no message passes between two hosts in less
OUTAGE, LONGER = 1.0, 1000.0  # seconds, and medians, that a sample took at least
PAYLOAD = 4e-8  # seconds a byte, for writing and checking a payload
RETRANSMITS = 0.01  # of the packets sent
BEYOND = 1.02  # times a link's speed
# Grow wherever a link is loaded; worth knowing beside a bandwidth, and nothing is broken.
WAITS = ("port_xmit_wait",)


def warnings(run: Run) -> list[Warn]:
    """The warnings of the wire, each once. Their codes are stable."""
    found = [_same_machine(run), _loopback(run), _striped(run), *_errors(run), _retransmits(run), _standstill(run)]
    for point in run.points:
        found += [_outage(point), _beyond_speed(run, point)]
    return [warn for warn in found if warn]


def _same_machine(run: Run) -> Warn | None:
    ranks = pair(run)
    if ranks is None or ranks[0].host == ranks[1].host:
        return None
    a, b = (printable(rank.host) for rank in ranks)
    if ranks[0].machine and ranks[1].machine:
        if one_machine(*ranks):
            return Warn(code="one-machine", text=f"hosts {a} and {b} are one machine: no wire lies between them")
        return None
    trips = [min(v.seconds) / p.steps / p.legs for p in run.points if p.legs for v in p.visits if v.seconds]
    if trips and min(trips) < TOO_FAST:
        text = f"a half trip of {duration(min(trips))} between hosts {a} and {b}: they are one machine"
        return Warn(code="one-machine", text=text)
    return None


def _loopback(run: Run) -> Warn | None:
    """Between ranks of one host, where nobody asked for it: some MPIs take TCP without a word if memory fails."""
    if run.transport and (run.transport.arguments or run.transport.environment):
        return None
    for case in filter(None, (case_of(run, point) for point in run.points)):
        loopbacks = {source.name for host in case.hosts for source in host.sources if source.kind == "loopback"}
        if case.one_host and (name := observed(case)) in loopbacks:
            text = (
                f"ranks on one host exchanged messages over {name} (TCP), not through memory: flags or variables"
            )
            return Warn(code="loopback", text=f"{text} say so, or /dev/shm has no room (pingpong doctor)")
    return None


def _striped(run: Run) -> Warn | None:
    cases = [(point.size, case_of(run, point)) for point in run.points]
    found = [(size, case) for size, case in cases if case and STRIPED in observed(case)]
    if not found:
        return None
    largest, case = max(found, key=lambda each: each[0])
    sizes = spans([size for size, _ in found], [point.size for point in run.points])
    text = f"{sizes}: messages were spread over several carriers ({shares(case)} at {size_text(largest)})"
    return Warn(code="striped", text=text)


def _carried(run: Run) -> dict[str, set[str]]:
    """By host the sources that moved messages, or should have, and what lies on or below them."""
    carrier = run.transport.carrier if run.transport else None
    found: dict[str, set[str]] = {}
    for case in filter(None, (case_of(run, point) for point in run.points)):
        for host in case.hosts:
            names = {*carriers(case, host), *(asked(case, host, carrier) if carrier and carrier != "shm" else ())}
            found.setdefault(host.name, set()).update(names, host.below(names), host.above(names))
    return found


def _errors(run: Run) -> list[Warn]:
    found, carried = [], _carried(run)
    for watched in run.evidence:
        for counter, grew in sorted(watched.errors.items()):
            source, _, name = counter.partition(" ")
            if grew <= 0 or source not in carried.get(watched.host, ()):
                continue
            waits = name in WAITS
            what = f"{printable(counter)} grew by {grew} on host {printable(watched.host)}"
            text = f"{what}: packets waited for credits" if waits else what
            found.append(Warn(code="wire-waits" if waits else "wire-errors", text=text))
    return found


def _retransmits(run: Run) -> Warn | None:
    """TCP counts for all interfaces together: no matter where it carried none of the messages."""
    carried = _carried(run)
    for watched in run.evidence:
        again = watched.errors.get("tcp RetransSegs", 0)
        nets = {s.name for s in watched.sources if s.kind != "hca"} & carried.get(watched.host, set())
        sent = sum(
            numbers[2]
            for point in run.points
            if point.moved
            for name, numbers in point.moved.hosts.get(watched.host, {}).items()
            if name in nets
        )
        if again > 1 and again > RETRANSMITS * sent > 0:
            share = f"{100 * again / sent:.2g} % of the packets"
            text = f"TCP sent {again} segments ({share}) again on host {printable(watched.host)}: packets get lost"
            return Warn(code="retransmits", text=text)
    return None


def _outage(point: Point) -> Warn | None:
    samples = [seconds for visit in point.visits for seconds in visit.seconds]
    if not samples or max(samples) <= max(OUTAGE, LONGER * median(samples)):
        return None
    sample = f"a sample of {duration(max(samples))} at {size_text(point.size)}"
    text = f"{sample}: the link may have been down for a moment"
    return Warn(code="outage", text=text)


def _standstill(run: Run) -> Warn | None:
    """An outage that no sample saw, because it fell between them: time that no visit accounts for."""
    visits = sorted(((v.t0, p, v) for p in run.points for v in p.visits), key=lambda each: each[0])
    worst, where = 0.0, None
    for (began, point, visit), (following, _, _) in pairwise(visits):
        lead_in = point.lead_in * median(visit.seconds or [0.0]) / point.steps
        lost = following - began - sum(visit.seconds) - lead_in - PAYLOAD * point.size
        worst, where = max((worst, where), (lost, point), key=lambda each: each[0])
    if where is None or worst <= OUTAGE:
        return None
    text = f"{duration(worst)} went by beside the samples at {size_text(where.size)}"
    return Warn(code="outage", text=f"{text}: the link, or a rank, may have stood still")


def _beyond_speed(run: Run, point: Point) -> Warn | None:
    """The payload took less time than the links that carried it need: a speed, a clock or a counter is wrong."""
    case = case_of(run, point)
    times = [seconds for visit in point.visits for seconds in visit.seconds]
    if case is None or not times or median(times) <= 0:
        return None
    rate = point.size * point.messages * point.steps / median(times) / point.directions
    for host in case.hosts:
        names = carriers(case, host)
        stack = {*names, *host.below(names)}
        speeds = [source.speed for source in host.sources if source.name in stack and source.speed]
        if speeds and rate > BEYOND * sum(speeds):
            links = f"the links of {listed(list(names))} on host {printable(host.name)}"
            text = (
                f"{amount(rate)}/s at {size_text(point.size)}, more than {links} carry ({amount(sum(speeds))}/s)"
            )
            return Warn(code="beyond-speed", text=text)
    return None
