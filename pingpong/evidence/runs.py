"""Findings for a point and for a whole run."""

from collections.abc import Iterable

from pingpong.evidence import memory, wire
from pingpong.evidence.amounts import Expected, expected, hosts, pair
from pingpong.evidence.case import MEMORY, NOTICED, UNKNOWN, WORST, Case, Finding, observed, shares
from pingpong.model import Point, Run
from pingpong.units import size_text


def of_point(run: Run, point: Point) -> Finding:
    """Which carrier moved the visits of a point, and whether it is the one that was asked for."""
    carrier = run.transport.carrier if run.transport else None
    case = case_of(run, point)
    return _judge(case, carrier) if case else _unknown(carrier)


def _judge(case: Case, carrier: str | None) -> Finding:
    if carrier is None:
        seen = observed(case)
        return Finding("observed", seen, memory.limit(case) if seen == MEMORY else shares(case))
    if carrier == "shm":
        verdict, reason = memory.verdict(case)
        return Finding(verdict, MEMORY if verdict == "confirmed" else observed(case), reason)
    verdict, reason = wire.verdict(case, carrier)
    return Finding(verdict, observed(case, carrier if verdict == "confirmed" else None), reason)


def of_run(run: Run) -> Finding:
    """The worst finding over the sizes; `observed` names which sizes went where.

    Where single sizes are in doubt only because the counters lag behind or other traffic hides small messages, the
    whole run is judged by its totals, if these leave no room for another carrier.
    """
    carrier = run.transport.carrier if run.transport else None
    found = [(point, of_point(run, point)) for point in run.points if point.visits]
    if not found:
        return _unknown(carrier)
    worst = min((finding.verdict for _, finding in found), key=WORST.index)
    seen = _ranges((point.size, finding.observed) for point, finding in found)
    worse = [(point, finding.reason) for point, finding in found if finding.verdict == worst]
    reason = _reason(worse, [point.size for point, _ in found])
    if worst == "unverifiable" and carrier:
        whole = _whole(run, carrier, [point for point, _ in worse])
        if whole:
            return Finding(whole.verdict, whole.observed, f"judged over all sizes together; alone: {reason}")
    return Finding(worst, seen, reason)


def _unknown(carrier: str | None) -> Finding:
    return Finding("unverifiable" if carrier else "observed", UNKNOWN, "no counters were read")


def case_of(run: Run, point: Point) -> Case | None:
    """What is to be judged at a point; None without visits, or without the ranks it was measured between."""
    ranks = pair(run, point)
    if ranks is None or not point.visits:
        return None
    if point.moved is None:
        return Case(ranks, expected([point]), [], 0.0, run.said)
    views = hosts(run, [rank.host for rank in ranks], point.moved.hosts, point.moved.seconds)
    return Case(ranks, expected([point]), views, point.moved.seconds, run.said)


def _whole(run: Run, carrier: str, doubtful: list[Point]) -> Finding | None:
    """What the totals of the run say, if it is `confirmed` and the doubtful sizes cannot have gone elsewhere."""
    case = _total(run)
    cases = [case_of(run, point) for point in doubtful]
    if case is None or case.one_machine or any(_was_reset(each) for each in cases):
        return None
    finding = _judge(case, carrier)
    room = NOTICED * expected(doubtful).least
    if finding.verdict != "confirmed" or finding.reason or wire.elsewhere(case, carrier) >= room:
        return None
    return finding


def _was_reset(case: Case | None) -> bool:
    return case is None or not case.watched_both or any(host.went_back() for host in case.hosts)


def _total(run: Run) -> Case | None:
    ranks = pair(run)
    watched = {each.host: each for each in run.evidence}
    if ranks is None or any(rank.host not in watched or not watched[rank.host].total for rank in ranks):
        return None
    seconds = max(watched[rank.host].seconds or 0.0 for rank in ranks)
    views = hosts(
        run, [rank.host for rank in ranks], {name: each.total for name, each in watched.items()}, seconds
    )
    want: Expected = expected(point for point in run.points if point.visits)
    return Case(ranks, want, views, seconds, run.said)


# Texts


def _reason(worse: list[tuple[Point, str]], sizes: list[int]) -> str:
    """One sentence for several sizes: that of the largest one, whose figures tell most."""
    told = [(point.size, reason) for point, reason in worse if reason]
    if not told:
        return ""
    size, reason = max(told)
    if len({reason for _, reason in told}) == 1 and len(told) == len(sizes):
        return reason
    if len(told) == 1:
        return f"at {size_text(size)}: {reason}"
    if len({size for size, _ in told}) == 1:
        return f"at {size_text(size)} {reason}"
    return f"{spans([size for size, _ in told], sizes)}, as at {size_text(size)}: {reason}"


def spans(chosen: list[int], every: list[int]) -> str:
    """Of the sizes of a run, which are chosen: "8 to 4K, 1M", or "all sizes"."""
    order, wanted = sorted(set(every)), set(chosen)
    if wanted == set(order):
        return "all sizes"
    found: list[list[int]] = []
    for before, size in zip([None, *order], order, strict=False):
        if size in wanted and found and found[-1][-1] == before:
            found[-1].append(size)
        elif size in wanted:
            found.append([size])
    ends = [dict.fromkeys((size_text(span[0]), size_text(span[-1]))) for span in found]
    return ", ".join(" to ".join(each) for each in ends)


def _ranges(seen: Iterable[tuple[int, str]]) -> str:
    """ "eth0 (8 to 4K), eth0 + ib0 (8K to 8M)"; the text alone if it is the same at all sizes."""
    by_size: dict[int, list[str]] = {}
    for size, text in sorted(seen):
        by_size.setdefault(size, []).append(text)
    by_text: dict[str, list[int]] = {}
    for size, texts in by_size.items():  # kernels may have gone different ways
        by_text.setdefault(" or ".join(dict.fromkeys(texts)), []).append(size)
    if len(by_text) == 1:
        return next(iter(by_text))
    every = list(by_size)
    return ", ".join(f"{text} ({spans(sizes, every)})" for text, sizes in by_text.items())
