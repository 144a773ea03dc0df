"""The verdict on shared memory, which no counter counts: what stood still, and what MPI said."""

from pingpong.evidence.amounts import WAYS, Flow
from pingpong.evidence.case import NOTICED, Case, Verdict, explains, listed
from pingpong.units import amount, printable


def verdict(case: Case) -> tuple[Verdict, str]:
    """Verdict and reason for the carrier "shm"."""
    flow, where = _most(case)
    if flow.above > NOTICED * case.each.least:
        text = f"{where} {amount(flow.bytes)}, the payload is {amount(case.each.payload)}"
        return "contradicted" if explains(case, flow) else "unverifiable", text
    if not case.one_machine:
        return "unverifiable", "the ranks are on two machines, and no counter moved the payload"
    word = next((said for said in case.said if said.names == ["shm"]), None)
    if word:
        return "confirmed", "" if case.watched_both else f"no counters were read; {printable(word.by)} says so"
    doubt = _doubt(case)
    return ("unverifiable", doubt) if doubt else ("confirmed", limit(case))


def limit(case: Case) -> str:
    """What counters that stand still do not tell from shared memory."""
    ports = [source.name for host in case.hosts for source in host.sources if source.kind == "hca"]
    return f"no counter moved; inside {listed(ports)} none would have to" if ports else ""


def _most(case: Case) -> tuple[Flow, str]:
    """The source and direction that moved most, as the beginning of a sentence."""
    moved = [
        (own[name], f"{printable(host.name)}: {printable(name)} {WAYS[way]}")
        for host in case.hosts
        for way in (0, 1)
        for own in [host.own[way]]
        for name in case.active(host)
        if case.each.could_be(own[name], NOTICED)
    ]
    return max(moved, key=lambda each: each[0].above, default=(Flow(), ""))


def _doubt(case: Case) -> str:
    """Why counters that seem to stand still prove nothing."""
    if not case.watched_both:
        return "no counters were read, and MPI did not say"
    if back := [name for host in case.hosts for name in host.went_back()]:
        return f"the counters of {listed(back)} were reset"
    if full := [name for host in case.hosts for name in host.saturated]:
        return f"the counters of {listed(full)} are full"
    return ""
