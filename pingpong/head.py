"""What the record of a run says besides its points: MPI, clock, ranks, hosts, and what is missing."""

import os
from datetime import UTC, datetime
from typing import Any

from mpi4py import MPI

from pingpong import __version__, environment, parameters, placement, plans
from pingpong.kernels import KERNELS, Factory
from pingpong.measure import clock
from pingpong.measure.pair import Told
from pingpong.model import Connection, Mpi, Plan, Run, Watched
from pingpong.native import programs


def mpi_version() -> str:
    """Name and version of the MPI."""
    name, version = MPI.get_vendor()
    return f"{name} {'.'.join(map(str, version))}"


def describe(
    plan: Plan,
    launch: int,
    launcher: str | None,
    hosts: list[dict[str, Any]],
    connection: Connection,
    absent: list[plans.Absent],
) -> Run:
    """The record of a run that is about to begin; `hosts` are the facts that each rank gathered of itself."""
    ranks = [at["rank"] for at in hosts]
    facts = {"hosts": {at["rank"].host: at["facts"] for at in hosts}} | environment.software_facts(os.environ)
    levels = {MPI.THREAD_SINGLE: "single", MPI.THREAD_FUNNELED: "funneled"}
    levels |= {MPI.THREAD_SERIALIZED: "serialized", MPI.THREAD_MULTIPLE: "multiple"}
    name, version = MPI.get_vendor()
    if name == "Open MPI" and (files := parameters.all_of(environment.libraries(), os.environ)):
        facts["files"] = files
    mpi = Mpi(
        name=name,
        version=".".join(map(str, version)),
        standard=".".join(map(str, MPI.Get_version())),
        library=MPI.Get_library_version().strip("\0 \n").partition("\n")[0],
        launcher=launcher,
        thread_level=levels.get(MPI.Query_thread()),
    )
    return Run(
        launch=launch,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        source=f"pingpong {__version__}",
        status="partial",
        plan=plan,
        mpi=mpi,
        clock=clock.describe(MPI.Wtime, _empty_loops(), sum(plans.buffers_needed(plan)) if plan.pool else 0),
        ranks=ranks,
        connections=[connection],
        environment=facts,
        warnings=placement.warnings(ranks) + plans.native_warnings(plan, absent),
    )


def _empty_loops() -> dict[str, Factory]:
    """The loops that can be, of the kernel that shows what they cost."""
    empty = KERNELS["empty"]
    return {name: f for name, f in empty.loops.items() if name != "native" or programs.is_loaded("empty", False)}


def merged(hosts: list[dict[str, Any]]) -> list[plans.Absent]:
    """The native loops that any rank lacks, each once; with the host where it is not the only one."""
    several = len({h["rank"].host for h in hosts}) > 1
    found: dict[tuple[str, bool], plans.Absent] = {}
    for at in hosts:
        for each in at["absent"]:
            reason = f"{each.reason} (host {at['rank'].host})" if several else each.reason
            found.setdefault((each.kernel, each.large), each._replace(reason=reason))
    return list(found.values())


def watched(hosts: list[dict[str, Any]]) -> list[Watched]:
    """The counters of each host, the lead's first: one where both ranks are on the same.

    Hosts that are not the same must not have one name: they are called by their ranks then.
    """
    lead, peer = (at["rank"] for at in hosts)
    same = (lead.host, lead.machine, lead.network) == (peer.host, peer.machine, peer.network)
    if same:
        return [hosts[0]["watched"]]
    if lead.host == peer.host:
        for at in hosts:
            at["rank"].host = at["watched"].host = f"{lead.host} (rank {at['rank'].rank})"
    return [at["watched"] for at in hosts]


def note(run: Run, told: list[Told]) -> None:
    """Keep what the ranks tell at the end: how long they waited for their CPUs, and what their counters say."""
    for rank, each in zip(run.ranks, told, strict=True):
        found = each.waited
        rank.measured, rank.waited, rank.preempted = found.elapsed / 1e9, found.waited / 1e9, found.preempted
    for at, each in zip(run.evidence, told, strict=False):  # one host, or two
        at.errors, at.saturated, at.total, at.seconds = each.errors, each.saturated, each.total, each.seconds
    run.warnings += placement.disturbances(run.ranks)
