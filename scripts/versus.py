#!/usr/bin/env python3
"""pingpong beside other programs: whole launches, interleaved, same MPI, same placement, same sizes.

    python scripts/versus.py --osu DIR --imb PATH --mpi4py --omb-py DIR --netpipe PATH --pairs 15 -o versus.json

Prints for each size the ratio of our figure to the peer's with its 95 % interval over the pairs, keeps every pair
that was ever run in the JSON file, and draws the ratios. The programs must be built with the MPI that mpi4py
loads.
"""

import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, median
from typing import Any

import click
import peers
from peers import Figures, Peer

from pingpong import across, environment, launchers, stats, store
from pingpong.model import Point
from pingpong.units import UnitError, parse_sizes, size_text

PINGPONG = [sys.executable, "-m", "pingpong", "run", "--here"]
# Our runs: blocks of steps as by default, and each step timed by itself as the programs do that time each trip.
OURS = {"blocks": ["-n", "1000"], "steps": ["-n", "10000", "--steps", "1"]}
TIME_LIMIT = 120.0  # seconds for a launch


class LaunchError(Exception):
    """A program that did not come to its end; the message has what it printed."""


@dataclass
class Bench:
    """Starts two ranks of a program the way `pingpong run` does."""

    launcher: launchers.Launcher
    sizes: list[int]

    def start(self, program: list[str], extra: dict[str, str] | None = None) -> str:
        """Everything that the program prints."""
        line = self.launcher.command(2, program, environment.own_cpus(), environment.own_cores(), [])
        env = dict(os.environ) | self.launcher.environment() | (extra or {})
        done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=TIME_LIMIT, check=False)
        if done.returncode:
            raise LaunchError(f"{' '.join(line)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def peer(self, peer: Peer) -> Figures:
        found: Figures = {}
        for command in peer.commands(self.sizes):
            for statistic, by_size in peer.parse(self.start(command, peer.environment)).items():
                found.setdefault(statistic, {}).update(by_size)
        return {name: {s: t for s, t in by_size.items() if s in self.sizes} for name, by_size in found.items()}

    def ours(self, options: list[str]) -> tuple[Figures, float]:
        """The figures of a run by loop and statistic, and the share of it that a rank waited for its CPU."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.json"
            sizes = ",".join(map(str, self.sizes))
            self.start([*PINGPONG, "-k", "blocking", "-m", sizes, "-o", str(path), *options])
            (run,) = store.load(path).runs
        found: Figures = {}
        for point in run.points:
            for statistic, value in statistics_of(point).items():
                found.setdefault(f"{point.loop} {statistic}", {})[point.size] = value
        waited = max((rank.waited or 0.0) / (rank.measured or 1.0) for rank in run.ranks)
        return found, waited


def statistics_of(point: Point) -> dict[str, float]:
    """One-way seconds: of all samples alike (mean, P50), the least mean of a visit, and our own estimate."""
    samples = [seconds / point.steps for visit in point.visits for seconds in visit.seconds]
    least = min(mean(visit.seconds) for visit in point.visits) / point.steps
    figures = {"mean": mean(samples), "P50": median(samples), "least": least}
    figures["median"] = median(stats.visit_medians(point))
    return {name: stats.one_way(point, value) for name, value in figures.items()}


def one_pair(bench: Bench, chosen: list[Peer], rng: random.Random) -> dict[str, Any]:
    """Each program once, in a new order: figures by program and statistic."""
    order = [*OURS, *(peer.name for peer in chosen)]
    rng.shuffle(order)
    by_name = {peer.name: peer for peer in chosen}
    pair: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "order": order, "waited": {}}
    pair["figures"] = {}
    for name in order:
        if name in by_name:
            pair["figures"][name] = bench.peer(by_name[name])
        else:
            pair["figures"][name], pair["waited"][name] = bench.ours(OURS[name])
    return pair


def ratios(pairs: list[dict[str, Any]], peer: str, against: tuple[str, str, str, str], size: int) -> list[float]:
    """Ours divided by theirs, pair by pair."""
    theirs, run, statistic, loop = against
    found = []
    for pair in pairs:
        ours = pair["figures"][run].get(f"{loop} {statistic}", {}).get(size)
        other = pair["figures"].get(peer, {}).get(theirs, {}).get(size)
        if ours and other:
            found.append(ours / other)
    return found


def table(pairs: list[dict[str, Any]], chosen: list[Peer], sizes: list[int]) -> list[str]:
    """The ratios with their intervals, and in how many modes ours and theirs came out."""
    lines = [
        f"{'ours / theirs':42} {'bytes':>6} {'ratio':>7} {'95 % interval':>15} {'pairs':>6}  µs ours / theirs"
    ]
    for peer in chosen:
        for against in peer.against:
            theirs, run, statistic, loop = against
            name = f"{loop} {statistic} ({run}) / {peer.name} {theirs}"
            for size in sizes:
                found = ratios(pairs, peer.name, against, size)
                if not found:
                    continue
                interval = stats.median_interval(found)
                low_high = f"{interval.low:.3f} - {interval.high:.3f}" if interval else "too few pairs"
                ours, other = (
                    median(pair["figures"][who][what][size] for pair in pairs) * 1e6
                    for who, what in ((run, f"{loop} {statistic}"), (peer.name, theirs))
                )
                lines.append(
                    f"{name:42} {size_text(size):>6} {median(found):7.3f} {low_high:>15} {len(found):6}"
                    f"  {ours:.4g} / {other:.4g}"
                )
    return lines


def spreads(pairs: list[dict[str, Any]], chosen: list[Peer], size: int) -> list[str]:
    """How much each program's figure differs from launch to launch, and the modes that it falls into."""
    names = [("blocks", "native median", "our headline"), ("blocks", "native mean", "our mean")]
    names += [
        (p.name, theirs, f"{p.name} {theirs}") for p in chosen for theirs in dict.fromkeys(a[0] for a in p.against)
    ]
    lines = [f"launch to launch at {size_text(size)} bytes: interquartile spread, and modes"]
    for who, what, label in names:
        values = [pair["figures"][who][what][size] for pair in pairs]
        spread = across.spread(values)
        modes = ", ".join(f"{m.value * 1e6:.3g} µs in {m.share * len(values):.0f}" for m in spread.modes) or "one"
        lines.append(f"  {label:20} {spread.median * 1e6:8.4g} µs  {100 * spread.between:5.1f} %  modes: {modes}")
    return lines


def setup(bench: Bench, chosen: list[Peer]) -> dict[str, Any]:
    mpi = environment.probe_mpi()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(word).name if word.startswith("/") else word for word in sys.argv],
        "mpi": f"{mpi['name']} {mpi['version']}",
        "machine": {key: environment.host_facts().get(key) for key in ("cpu", "cpus", "kernel")},
        "software": environment.software_facts({})["packages"] | {"system": platform.platform()},
        "sizes": bench.sizes,
        "methods": {peer.name: peer.method for peer in chosen},
    }


def before(output: Path) -> dict[str, Any]:
    """The sessions that the file has already, before anything is measured."""
    if not output.parent.is_dir() or output.is_dir():
        raise click.UsageError(f"{output} cannot be written: -o needs the name of a file in a folder that exists")
    try:
        kept = json.loads(output.read_text()) if output.exists() else {"sessions": []}
    except ValueError:
        kept = None
    if not isinstance(kept, dict) or not all("pairs" in each for each in kept.get("sessions", [{}])):
        raise click.UsageError(f"{output} is not a file of this program; choose another -o")
    return kept


@click.command()
@click.option("--osu", type=click.Path(path_type=Path), help="Folder of osu_latency (OSU Micro-Benchmarks 7).")
@click.option("--imb", type=click.Path(path_type=Path), help="The program IMB-MPI1.")
@click.option("--mpi4py", is_flag=True, help="python -m mpi4py.bench pingpong.")
@click.option("--omb-py", type=click.Path(path_type=Path), help="Folder with OMB-Py's run.py.")
@click.option("--netpipe", type=click.Path(path_type=Path), help="The program NPmpi.")
@click.option("-m", "--sizes", default="8,1K,64K,1M", show_default=True)
@click.option("--pairs", type=click.IntRange(1), default=15, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the order in each pair.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="JSON; pairs are added to it."
)
@click.option("--plot", type=click.Path(path_type=Path), help="Picture of the ratios (needs matplotlib).")
def main(sizes: str, pairs: int, seed: int, output: Path, plot: Path | None, **paths: Any) -> None:
    """Measure pingpong and its peers side by side."""
    mpi = environment.probe_mpi()
    if "error" in mpi:
        raise click.UsageError(f"no MPI library: {mpi['error']}")
    try:
        bench = Bench(launchers.find(mpi["name"], mpi["version"], os.environ.get("PATH", "")), parse_sizes(sizes))
    except (UnitError, launchers.LauncherError) as error:
        raise click.UsageError(str(error)) from None
    python = Path(sys.executable)
    chosen = [
        *([peers.osu(paths["osu"])] if paths["osu"] else []),
        *([peers.imb(paths["imb"])] if paths["imb"] else []),
        *([peers.mpi4py_bench(python)] if paths["mpi4py"] else []),
        *([peers.omb_py(paths["omb_py"], python)] if paths["omb_py"] else []),
        *([peers.netpipe(paths["netpipe"])] if paths["netpipe"] else []),
    ]
    if not chosen:
        raise click.UsageError("name at least one peer, as in --osu DIR or --mpi4py")
    for command in (command for peer in chosen for command in peer.commands(bench.sizes)):
        if not (shutil.which(command[0]) and all(Path(w).exists() for w in command if w.endswith(".py"))):
            raise click.UsageError(f"there is no program {' '.join(w for w in command[:2] if '/' in w)}")
    kept = before(output)
    session = setup(bench, chosen) | {"seed": seed, "pairs": []}
    kept["sessions"].append(session)
    rng = random.Random(seed)
    for number in range(pairs):
        try:
            session["pairs"].append(one_pair(bench, chosen, rng))
        except (LaunchError, subprocess.TimeoutExpired) as error:
            session.setdefault("failed", []).append(str(error))
            click.echo(f"pair {number + 1} failed: {error}", err=True)
        output.write_text(json.dumps(kept, indent=1) + "\n")
        click.echo(f"\r{number + 1} of {pairs} pairs", nl=False, err=True)
    click.echo(err=True)
    done = json.loads(json.dumps(session["pairs"]), object_hook=_sizes_are_numbers)
    if not done:
        raise click.ClickException("no pair came to its end")
    click.echo(f"{session['mpi']}, {session['machine']['cpu']}, {session['date']}, two ranks, blocking ping-pong")
    for peer in chosen:
        click.echo(f"{peer.name}: {peer.method}")
    click.echo("\n".join(["", *table(done, chosen, bench.sizes), "", *spreads(done, chosen, min(bench.sizes))]))
    if plot:
        from picture import draw

        draw(
            plot,
            session,
            {p.name: {a: {s: ratios(done, p.name, a, s) for s in bench.sizes} for a in p.against} for p in chosen},
        )


def _sizes_are_numbers(found: dict[str, Any]) -> dict[Any, Any]:
    return {int(key) if key.isdecimal() else key: value for key, value in found.items()}


if __name__ == "__main__":
    main()
