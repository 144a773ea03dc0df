"""The verdict on shared memory, which no counter counts: what stood still, and what MPI said."""

from pingpong.evidence.amounts import WAYS
from pingpong.evidence.case import ENOUGH, NOTICED, Case, Verdict, listed
from pingpong.model import Said
from pingpong.units import amount, printable


def verdict(case: Case) -> tuple[Verdict, str]:
    """Verdict and reason for the carrier "shm"."""
    want, (most, where) = case.each, _most(case)
    if most >= ENOUGH * want.least:
        return "contradicted", f"{where} {amount(most)}, the payload is {amount(want.payload)}"
    if most > NOTICED * want.least:
        return "unverifiable", f"{where} {amount(most)} of a payload of {amount(want.payload)}"
    if not case.one_machine:
        return "unverifiable", "the ranks are on two machines, and no counter moved the payload"
    word = next((said for said in case.said if "shm" in said.names), None)
    if word and case.watched_both:
        return "confirmed", ""
    if word:
        return "confirmed", f"no counters were read; {printable(word.by)} says so"
    if doubt := _doubt(case):
        return "unverifiable", doubt
    ports = [source.name for host in case.hosts for source in host.sources if source.kind == "hca"]
    return "confirmed", f"no counter moved; inside {listed(ports)} none would have to" if ports else ""


def _most(case: Case) -> tuple[float, str]:
    moved = [
        (flows[name].above, f"{printable(host.name)}: {printable(name)} {WAYS[way]}")
        for host in case.hosts
        for way in (0, 1)
        for flows in [host.own(way)]
        for name in case.joins(host)
    ]
    return max(moved, default=(0.0, ""))


def _doubt(case: Case) -> str:
    """Why counters that seem to stand still prove nothing."""
    if not case.watched_both:
        return "no counters were read, and MPI did not say"
    if back := [name for host in case.hosts for name in host.went_back()]:
        return f"the counters of {listed(back)} were reset"
    if full := [name for host in case.hosts for name in host.saturated]:
        return f"the counters of {listed(full)} are full"
    return ""
