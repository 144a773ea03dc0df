#!/usr/bin/env python3
"""How steady the figures are: beside a busy process, and in the time of a default run.

    python scripts/steadiness.py --osu DIR --rounds 5 -o steadiness.json

For each round, in turn: osu_latency and our blocking ping-pong, quiet and beside a process that keeps one CPU
busy; then a default `pingpong run` and osu_latency with osu_bibw over the same sizes, 8 bytes to 8 MiB. Prints how
far the busy process moves each figure, and what share of our points is within one per cent after what time.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import click
import peers
from versus import PINGPONG, Bench, setup

from pingpong import environment, launchers, stats, store
from pingpong.measure.stopping import TOLERANCE
from pingpong.units import size_text

SIZES = [8, 65536]


@contextmanager
def busy_process() -> Iterator[None]:
    """One process that wants a CPU all the time, on the first of ours."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(other.pid, {min(os.sched_getaffinity(0))})
        yield
    finally:
        other.kill()
        other.wait()


def headline(bench: Bench) -> tuple[dict[int, float], bool]:
    """Our half round trips, and whether the run says that it was disturbed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        sizes = ",".join(map(str, SIZES))
        bench.start([*PINGPONG, "--loop", "native", "-k", "blocking", "-m", sizes, "-o", str(path)])
        (run,) = store.load(path).runs
    times = {p.size: stats.one_way(p, median(stats.visit_medians(p))) for p in run.points}
    return times, any(warn.code == "disturbed" for warn in run.warnings)


def beside(bench: Bench, osu: Path) -> dict[str, Any]:
    """One round of the first half: figures in seconds by size, quiet and busy."""
    peer = peers.osu(osu)
    found: dict[str, Any] = {"osu": {}, "ours": {}, "said": {}}
    for state, other in (("quiet", nullcontext), ("busy", busy_process)):
        with other():
            found["osu"][state] = bench.peer(peer)
            found["ours"][state], found["said"][state] = headline(bench)
    return found


def whole(bench: Bench, osu: Path) -> dict[str, float]:
    """One round of the second half: seconds of both, and the share of our points within the tolerance."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "pingpong", "run", "-o", str(path)],
            capture_output=True,
            check=True,
            timeout=120,
        )
        ours = time.monotonic() - began
        (run,) = store.load(path).runs
    summaries = [stats.summarize(point) for point in run.points]
    within = [s.interval is not None and s.interval.reach(s.median or 0.0) <= TOLERANCE for s in summaries]
    reaches = [s.interval.reach(s.median or 0.0) for s in summaries if s.interval]
    began = time.monotonic()
    for program in ("osu_latency", "osu_bibw"):
        bench.start([str(osu / program), "-m", "8:8388608"])
    return {
        "ours": ours,
        "osu": time.monotonic() - began,
        "share": sum(within) / len(within),
        "reach": median(reaches),
    }


FIGURES: dict[str, Callable[[dict[str, Any], str, int], float]] = {
    "our headline": lambda found, state, size: found["ours"][state][size],
    "osu_latency mean": lambda found, state, size: found["osu"][state]["mean"][size],
    "osu_latency P50": lambda found, state, size: found["osu"][state]["P50"][size],
}


def report(rounds: list[dict[str, Any]]) -> Iterator[str]:
    yield "moved by a busy process on one CPU (busy / quiet - 1: median of the rounds, least and most)"
    for size in SIZES:
        for name, figure in FIGURES.items():
            moved = [100 * (figure(r, "busy", size) / figure(r, "quiet", size) - 1) for r in rounds]
            around = f"({min(moved):+.1f} to {max(moved):+.1f})"
            yield f"  {size_text(size):>4} {name:18} {median(moved):+9.1f} %   {around}"
    quiet, busy = (sum(r["said"][state] for r in rounds) for state in ("quiet", "busy"))
    yield f"  said that it was disturbed: {busy} of {len(rounds)} busy runs, {quiet} of {len(rounds)} quiet ones"
    yield "a default run against osu_latency and osu_bibw, 8 bytes to 8 MiB"
    for w in (r["whole"] for r in rounds):
        times = f"{w['ours']:.2f} s / {w['osu']:.2f} s = {w['ours'] / w['osu']:.2f}"
        near = (
            f"{100 * w['share']:.0f} % of the points within 1 %, the median point within {100 * w['reach']:.1f} %"
        )
        yield f"  {times}; {near}"


@click.command()
@click.option("--osu", type=click.Path(path_type=Path), required=True, help="Folder of osu_latency and osu_bibw.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="JSON with every round.")
def main(osu: Path, rounds: int, output: Path) -> None:
    """Measure how steady our figures and OSU's are."""
    if output.exists() or not output.parent.is_dir():
        raise click.UsageError(f"{output} exists or has no folder; choose another -o")
    if missing := [name for name in ("osu_latency", "osu_bibw") if not (osu / name).exists()]:
        raise click.UsageError(f"there is no {missing[0]} in {osu}")
    mpi = environment.probe_mpi()
    bench = Bench(launchers.find(mpi["name"], mpi["version"], os.environ.get("PATH", "")), [8, 65536])
    session: dict[str, Any] = setup(bench, [peers.osu(osu)]) | {"rounds": []}
    for number in range(rounds):
        session["rounds"].append(beside(bench, osu) | {"whole": whole(bench, osu)})
        output.write_text(json.dumps(session, indent=1) + "\n")
        click.echo(f"\r{number + 1} of {rounds} rounds", nl=False, err=True)
    click.echo(err=True)
    click.echo(f"{session['mpi']}, {session['machine']['cpu']}, {session['date']}, two ranks, blocking ping-pong")
    click.echo("\n".join(report(session["rounds"])))


if __name__ == "__main__":
    main()
