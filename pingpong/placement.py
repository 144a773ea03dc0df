"""What the reader should know about where the ranks ran. Pure functions over the facts of the ranks."""

from collections import Counter

from pingpong.model import Rank, Warn

DISTURBED = "disturbed"  # the code of its warnings
WAITED = 0.01  # of the time that was measured


def where(ranks: list[Rank]) -> str:
    """Always said: "both ranks on host n1", or "rank 0 on host n1, rank 1 on host n2"."""
    hosts = [rank.host for rank in ranks]
    if len(ranks) == 2 and hosts[0] == hosts[1]:
        return f"both ranks on host {hosts[0]}"
    return ", ".join(f"rank {rank.rank} on host {rank.host}" for rank in ranks)


def warnings(ranks: list[Rank]) -> list[Warn]:
    """The warnings of placement, each once."""
    found = [_crowded(ranks), _stopped(ranks), _shared(ranks), _unbound(ranks), _governor(ranks)]
    return [warn for warn in found if warn]


def disturbances(ranks: list[Rank]) -> list[Warn]:
    """For each rank that had to wait for its CPU: whatever it measured then was partly something else."""
    found = []
    for rank in ranks:
        if rank.measured and rank.waited is not None and rank.waited > WAITED * rank.measured:
            share = 100 * rank.waited / rank.measured
            why = "its quota is used up" if _short_of_time(ranks, rank.host) else _who_else(ranks, rank)
            text = (
                f"rank {rank.rank} on host {rank.host} waited for its CPU {share:.0f} % of the time "
                f"(taken away {rank.preempted} times): {why}"
            )
            found.append(Warn(code=DISTURBED, text=text))
    return found


def _who_else(ranks: list[Rank], rank: Rank) -> str:
    """What took a rank's CPU may be what every run has beside it, where no CPU is left for that."""
    count = sum((each.machine or each.host) == (rank.machine or rank.host) for each in ranks)
    if rank.usable is None or rank.usable > count:
        return "something else runs there"
    own = f"if only pingpong's own launcher and the system ({count} ranks, {rank.usable} CPUs)"
    return f"something else runs there, {own}"


def _crowded(ranks: list[Rank]) -> Warn | None:
    for host, count in Counter(rank.host for rank in ranks).items():
        usable = next((r.usable for r in ranks if r.host == host), None)
        if usable is not None and count > usable:
            cpus = "CPU" if usable == 1 else "CPUs"
            text = f"{count} ranks on host {host}, which has {usable} usable {cpus}: they wait for each other"
            return Warn(code="oversubscribed", text=text)
    return None


def _stopped(ranks: list[Rank]) -> Warn | None:
    for host, count in Counter(rank.host for rank in ranks).items():
        if quota := _short_of_time(ranks, host):
            who, cpus = (
                "1 rank" if count == 1 else f"{count} ranks",
                "1 CPU" if quota == 1 else f"{quota:.3g} CPUs",
            )
            text = f"{who} on host {host}, where a quota allows the time of {cpus}: the system stops them in turns"
            return Warn(code="quota", text=text)
    return None


def _short_of_time(ranks: list[Rank], host: str) -> float | None:
    """The quota of a host's ranks where it is less than a CPU for each of them."""
    quotas = [rank.quota for rank in ranks if rank.host == host]
    least = min((quota for quota in quotas if quota is not None), default=None)
    return least if least is not None and least < len(quotas) else None


def _shared(ranks: list[Rank]) -> Warn | None:
    for i, a in enumerate(ranks):
        for b in ranks[i + 1 :]:
            if a.host == b.host and a.cores and len(set(a.cores)) == 1 and set(a.cores) == set(b.cores):
                text = f"ranks {a.rank} and {b.rank} share one core of host {a.host}"
                return Warn(code="shared-core", text=text)
    return None


def _unbound(ranks: list[Rank]) -> Warn | None:
    loose = [rank for rank in ranks if len(set(rank.cores)) > 1]
    if not loose:
        return None
    who = "rank" if len(loose) == 1 else "ranks"
    text = f"{who} {', '.join(str(r.rank) for r in loose)} not bound to a core: the system may move them"
    return Warn(code="unbound", text=text)


def _governor(ranks: list[Rank]) -> Warn | None:
    for rank in ranks:
        for governor in rank.governors:
            if governor != "performance":
                text = (
                    f"the CPU governor of rank {rank.rank} on host {rank.host} is {governor}, not performance: "
                    "the clock rate may vary"
                )
                return Warn(code="governor", text=text)
    return None
