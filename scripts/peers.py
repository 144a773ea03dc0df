"""The programs that versus.py holds pingpong against: how each is run, what its output says, how it measures.

A peer turns message sizes into command lines and their output into one-way times in seconds.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

Figures = dict[str, dict[int, float]]  # statistic -> size -> seconds

ROW = re.compile(r"^\s*(\d+)((?:\s+[\d.eE+-]+)+)\s*$")


@dataclass(frozen=True)
class Peer:
    """A program that measures a ping-pong.

    `commands(sizes)` are the programs of one measurement, without mpiexec; `parse` reads the output of one.
    `against` pairs each statistic of the peer with ours: (theirs, our run, our statistic, loop), see
    `versus.OURS`.
    """

    name: str
    commands: Callable[[list[int]], list[list[str]]]
    parse: Callable[[str], Figures]
    against: list[tuple[str, str, str, str]]
    method: str
    environment: dict[str, str] = field(default_factory=dict)


def rows(text: str) -> list[tuple[int, list[float]]]:
    """The lines that are a size and figures, whatever stands around them."""
    found = [match for line in text.splitlines() if (match := ROW.match(line))]
    return [(int(match[1]), [float(word) for word in match[2].split()]) for match in found]


def osu(folder: Path) -> Peer:
    """OSU Micro-Benchmarks 7: osu_latency with its percentiles."""

    def parse(text: str) -> Figures:
        columns = ("mean", "P50", "P90", "P99")
        found: Figures = {name: {} for name in columns}
        for size, values in rows(text):
            for name, value in zip(columns, values, strict=False):
                found[name][size] = value / 1e6
        return found

    return Peer(
        "osu_latency",
        lambda sizes: [[str(folder / "osu_latency"), "-z", "-m", f"{min(sizes)}:{max(sizes)}"]],
        parse,
        [
            ("mean", "blocks", "mean", "native"),
            ("mean", "steps", "mean", "native"),
            ("P50", "steps", "P50", "native"),
        ],
        "MPI_Wtime around each round trip, the mean of 10000 (1000 above 8 KiB) or their median; half of it",
    )


def imb(program: Path) -> Peer:
    """Intel MPI Benchmarks: IMB-MPI1 PingPong."""

    def commands(sizes: list[int]) -> list[list[str]]:
        words = ["PingPong", "-msgsize", ",".join(map(str, sizes)), "-iter", "2000", "-iter_policy", "off"]
        return [[str(program), *words]]

    def parse(text: str) -> Figures:
        return {"mean": {size: values[1] / 1e6 for size, values in rows(text) if len(values) == 3}}

    libraries = {"LD_LIBRARY_PATH": str(program.parent.parent / "lib")}
    return Peer(
        "IMB-MPI1",
        commands,
        parse,
        [("mean", "blocks", "mean", "native")],
        "one pair of readings around 2000 round trips; the slower of the two ranks' means, half of it",
        libraries if (program.parent.parent / "lib" / "libmpi.so.12").exists() else {},
    )


def mpi4py_bench(python: Path) -> Peer:
    """`python -m mpi4py.bench pingpong`."""

    def parse(text: str) -> Figures:
        lines = re.findall(r"^\s*(\d+)\s+[\d.]+ \| ([\d.e+-]+) ±", text, re.MULTILINE)
        return {"mean": {int(size): float(mean) for size, mean in lines}}

    return Peer(
        "mpi4py.bench",
        lambda sizes: [
            [str(python), "-m", "mpi4py.bench", "pingpong", "-m", f"{min(sizes)}", "-n", f"{max(sizes)}"]
        ],
        parse,
        [("mean", "blocks", "mean", "mpi4py"), ("mean", "steps", "mean", "mpi4py")],
        "MPI.Wtime around each round trip, the mean of 10000 (1000 above 16 KiB); sends memory never written to",
    )


def omb_py(folder: Path, python: Path) -> Peer:
    """The Python programs of the OSU Micro-Benchmarks."""

    def commands(sizes: list[int]) -> list[list[str]]:
        words = ["--benchmark", "latency", "--buffer", "numpy", "--min", f"{min(sizes)}", "--max", f"{max(sizes)}"]
        return [[str(python), str(folder / "run.py"), *words]]

    def parse(text: str) -> Figures:
        return {"mean": {size: values[0] / 1e6 for size, values in rows(text)}}

    return Peer(
        "OMB-Py",
        commands,
        parse,
        [("mean", "blocks", "mean", "mpi4py")],
        "one pair of readings around 10000 round trips (100 above 8 KiB); the mean of both ranks, half of it",
    )


def netpipe(program: Path) -> Peer:
    """NetPIPE 3: NPmpi, once for each size, because it chooses its sizes itself."""

    def commands(sizes: list[int]) -> list[list[str]]:
        words = ["-p", "0", "-n", "1000", "-o", "/dev/null"]
        return [[str(program), "-l", str(size), "-u", str(size), *words] for size in sizes]

    def parse(text: str) -> Figures:
        lines = re.findall(r"(\d+) bytes +\d+ times --> +[\d.]+ Mbps in +([\d.]+) usec", text)
        return {"least": {int(size): float(time) / 1e6 for size, time in lines}}

    return Peer(
        "NPmpi",
        commands,
        parse,
        [("least", "blocks", "least", "native")],
        "the least of seven means of 1000 round trips, half of it; one buffer for sending and receiving",
    )
