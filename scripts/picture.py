"""The ratios of versus.py as a picture: every pair a dot, the interval a bar, grouped by what is compared."""

from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from pingpong import stats
from pingpong.units import size_text

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito: for all eyes
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "versus"}

Ratios = dict[str, dict[tuple[str, str, str, str], dict[int, list[float]]]]  # peer -> comparison -> size -> pairs


def draw(path: Path, session: dict[str, Any], ratios: Ratios) -> None:
    """Write the picture of a session's ratios."""
    groups = [
        (peer, how, sizes) for peer, by in ratios.items() for how, sizes in by.items() if any(sizes.values())
    ]
    with mpl.rc_context(STYLE):
        rows = sum(len(sizes) + 1.3 for *_, sizes in groups)
        figure = Figure(figsize=(8, 0.9 + 0.21 * rows), layout="constrained")
        axes = figure.add_subplot()
        colours = {peer: COLOURS[n % len(COLOURS)] for n, peer in enumerate(ratios)}
        ticks, labels, at = [], [], 0.0
        for peer, (theirs, run, statistic, loop), sizes in groups:
            axes.text(
                0.0, at, f"{loop} {statistic} of {run} / {peer} {theirs}", transform=axes.get_yaxis_transform(),
                color=colours[peer], weight="bold", va="center",
            )  # fmt: skip
            for size, found in sizes.items():
                at += 1
                _row(axes, at, found, colours[peer])
                ticks.append(at)
                labels.append(size_text(size))
            at += 1.3
        axes.axvline(1, color="0.3", linewidth=0.8)
        axes.set_yticks(ticks, labels)
        axes.set_ylim(at - 0.3, -0.8)
        axes.set_xscale("log")
        low = min(min(found) for *_, sizes in groups for found in sizes.values())
        high = max(max(found) for *_, sizes in groups for found in sizes.values())
        close = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 1.8, 2)
        marks = [
            m
            for m in (close if high < 4 * low else (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10))
            if low < m * 1.1 < 1.2 * high
        ]
        axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
        axes.minorticks_off()
        axes.set_xlabel(
            "our time / theirs (left of 1: ours is shorter); dots: pairs of launches, bar: 95 % interval"
        )
        axes.set_ylabel("bytes")
        machine = session["machine"]["cpu"]
        title = f"{session['mpi']}, {machine}, two ranks, {session['date'][:10]}, {len(session['pairs'])} pairs"
        axes.set_title(title, fontsize=8, color="0.35", loc="left")
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _row(axes: Any, at: float, found: list[float], colour: str) -> None:
    axes.plot(found, [at] * len(found), ".", color=colour, alpha=0.3, markersize=5, markeredgewidth=0)
    interval = stats.median_interval(found)
    if interval:
        axes.plot([interval.low, interval.high], [at, at], color=colour, linewidth=2.5, solid_capstyle="butt")
    axes.plot([median(found)], [at], "|", color=colour, markersize=10, markeredgewidth=2)
