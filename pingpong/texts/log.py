"""The classic log: the words and columns of the CentOS/Open MPI ping-pong logs that administrators know.

"took" is the full round trip; MB/sec is 2 * size / time with MB = 10^6 bytes, per direction in the third section.
"""

import shlex
from collections.abc import Callable, Sequence
from statistics import median

from pingpong import evidence, placement, stats, wires
from pingpong.kernels import KERNELS
from pingpong.model import Point, Run
from pingpong.units import MB, MICRO, duration, micros, printable, significant, size_text


def more(run: Run, start: int) -> tuple[str, int]:
    """What a growing watch adds to its log from visit `start` on, and where to go on; its beginning if that is 0.

    The current second is left for the next time: it may grow.
    """
    lines, end = _seconds(run.points[0], start, finished=False)
    return joined((_watch_head(run) if start == 0 and end else []) + lines), end


def joined(lines: list[str]) -> str:
    return "".join(printable(line) + "\n" for line in lines)


def run_lines(run: Run) -> list[str]:
    """The log of a run, line by line."""
    watched = run.plan is not None and run.plan.method == "duration" and run.points
    lines = [*_watch_head(run), *_seconds(run.points[0], 0, finished=True)[0]] if watched else head(run)
    return lines + sections(stats.preferred(run.points), size_line) + closing(run)


def sections(points: list[Point], line: Callable[[Point], str]) -> list[str]:
    """A section for each kernel, with the `line` of each of its points."""
    mixed = len({p.loop for p in points}) > 1
    lines: list[str] = []
    for number, kernel in enumerate(dict.fromkeys(p.kernel for p in points)):
        # The log's first section has no title; another kernel in its place gets one.
        lines += ["", f"  {title(kernel)}", ""] if number or kernel != "blocking" else [""]
        for point in points:
            if point.kernel == kernel:
                stands_in = mixed and point.loop != stats.NATIVE
                lines.append(line(point) + (f"  {point.loop} loop" if stands_in else ""))
    return lines


def head(run: Run, what: str = "round trip") -> list[str]:
    """What is said before the figures; `what` is the time that they are."""
    cold = ", cold buffers" if run.plan and run.plan.cache == "cold" else ""
    lines = [f"# {run.source}, {method(run, what)}{loop(run)}{cold}", *_transport(run), *_placement(run)]
    lines += [f"Hello from {rank.rank} of {len(run.ranks)}" for rank in reversed(run.ranks)]
    if run.clock and run.clock.wtime_step:
        lines.append(f"Timer accuracy of ~{run.clock.wtime_step / MICRO:.6f} usecs")
    elif run.clock:
        lines.append("Timer accuracy unknown: MPI_Wtime did not move")
    return lines


def loop(run: Run) -> str:
    """Who made the MPI calls of what is shown, with a comma before it."""
    if run.plan is None:
        return ""
    loops = {p.loop for p in stats.preferred(run.points)} or set(run.plan.loops[:1])
    return f", {stats.NATIVE if stats.NATIVE in loops else loops.pop()} loop" if loops else ""


def title(kernel: str) -> str:
    """A kernel's title; of one that this version does not know, its name."""
    return KERNELS[kernel].title if kernel in KERNELS else kernel


def method(run: Run, what: str = "round trip") -> str:
    """One line: which of the two methods made the numbers."""
    plan = run.plan
    if plan is None:
        return "imported"
    if plan.method == "classic":
        return "classic method: one timed round trip a size, no lead-in"
    if plan.method == "duration":
        return f"median {what} of each second, for {plan.seconds or 0:g} s"
    if plan.method == "fixed":
        return f"median {what} of {plan.samples} samples a size"
    return f"median {what} over shuffled visits (budget {plan.budget:g} s)"


def _transport(run: Run) -> list[str]:
    """What was asked of MPI, with the flags that did it."""
    if run.transport is None:
        return []
    variables = [f"{name}={shlex.quote(value)}" for name, value in run.transport.environment.items()]
    how = " ".join([*variables, shlex.join(run.transport.arguments)]).strip()
    return [f"# transport {run.transport.name}: {how or 'as MPI chooses'}"]


def _placement(run: Run) -> list[str]:
    if not run.ranks:
        return []
    lines = [f"# {placement.where(run.ranks)}"]
    if run.mpi:
        launcher = f", started by {run.mpi.launcher}" if run.mpi.launcher else ""
        lines[0] += f"; {run.mpi.name} {run.mpi.version}{launcher}"
    for c in run.connections:
        lines.append(f"# first message and answer {duration(c.first)} (connects), second {duration(c.second)}")
    return lines + [f"# warning: {warn.text}" for warn in run.warnings if warn.code != placement.DISTURBED]


def size_line(point: Point) -> str:
    """One line of the log: "N bytes took N usec ( R MB/sec)"."""
    summary = stats.summarize(point)
    if summary.median is None:
        line = f"{point.size:8d} bytes: no valid time: {summary.invalid}"
    else:
        line = took(point, summary.median)
    if summary.modes:
        parts = [f"{significant(m.value / MICRO, 3)} usec in {100 * m.share:.0f} %" for m in summary.modes]
        line += f"  {len(parts)} modes: {', '.join(parts)} of the visits"
    if point.payload.wrong:
        wrong = point.payload.wrong[0]
        line += f"  WRONG PAYLOAD at byte {wrong.byte} on rank {wrong.rank}"
    return line


def took(point: Point, step: float) -> str:
    """The line for a step of `step` seconds, without what may follow."""
    rate = stats.bandwidth(point, step) / MB
    return f"{point.size:8d} bytes took {_usec(step):>9s} usec ({rate:8.3f} MB/sec)"


def _usec(step: float) -> str:
    """Whole microseconds as the old log has them; where that would print 0, three significant digits."""
    whole = f"{step / MICRO:.0f}"
    return whole if whole != "0" else significant(step / MICRO, 3)


def _watch_head(run: Run) -> list[str]:
    point = run.points[0]
    return [*head(run), "", f"  {title(point.kernel)}, {size_text(point.size)} bytes, every second", ""]


def _seconds(point: Point, start: int, finished: bool) -> tuple[list[str], int]:
    """A line for each second of a watch from visit `start` on, and the first visit that is in none of them."""
    lines: list[str] = []
    times: list[float] = []
    current = 0
    for index in range(start, len(point.visits)):
        visit = point.visits[index]
        second = int(visit.t0 - point.visits[0].t0)
        if times and second != current:
            lines.append(_second(point, current, times))
            start, times = index, []
        current = second
        times += [s / point.steps for s in visit.seconds] or [0.0]
    if finished and times:
        lines.append(_second(point, current, times))
        start = len(point.visits)
    return lines, start


def _second(point: Point, second: int, times: list[float]) -> str:
    if min(times) <= 0:
        return f"{second:6d} s  no valid time: the clock stood still or stepped back"
    step = median(times)
    low, middle, high = (significant(value / MICRO, 3) for value in (min(times), step, max(times)))
    rate = stats.bandwidth(point, step) / MB
    return f"{second:6d} s  median {middle} usec ({rate:8.3f} MB/sec)  min {low}  max {high} usec"


def _doubts(what: str, point: Point) -> list[str]:
    """A warning where a headline figure is the median of two groups of visits rather than of one."""
    found = len(stats.summarize(point).modes)
    if not found:
        return []
    return [
        f"# warning: {what} is of {point.kernel} {size_text(point.size)}, whose visits fall into {found} modes"
    ]


def best_line(rate: float, latency: float) -> str:
    """The log's last line."""
    return f"Max rate = {rate / MB:.6f} MB/sec  Min latency = {latency / MICRO:.6f} usec"


def late_warnings(runs: list[Run]) -> list[str]:
    """What is known only when a run is over: a log that grows could not have it in its head."""
    found = [(run, warn) for run in runs for warn in run.warnings if warn.code == placement.DISTURBED]
    return [f"# warning: {f'launch {run.launch}: ' if len(runs) > 1 else ''}{warn.text}" for run, warn in found]


def point_warnings(runs: list[Run]) -> list[str]:
    """What is to be said of points, each sentence once with the sizes that it holds for."""
    sizes: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        shown = stats.preferred(run.points)
        for point in run.points:
            kernel = point.kernel if any(point is p for p in shown) else f"{point.kernel} ({point.loop} loop)"
            for warn in point.warnings:
                sizes.setdefault((kernel, warn.text), []).append(size_text(point.size))
    return [f"# warning: {kernel} {', '.join(dict.fromkeys(at))}: {text}" for (kernel, text), at in sizes.items()]


def added(found: list[tuple[Point, float]]) -> list[str]:
    """What Python adds to a message, at each kernel's smallest size."""
    smallest: dict[str, tuple[Point, float]] = {}
    for point, seconds in sorted(found, key=lambda pair: pair[0].size):
        if sum(len(visit.seconds) for visit in point.visits) >= stats.CARRIES:  # one message tells nothing
            smallest.setdefault(point.kernel, (point, seconds))
    # Where noise made the difference a gain, a larger size would only be noisier.
    parts = [
        f"{micros(s)} µs a message ({k}, {size_text(p.size)} bytes)" for k, (p, s) in smallest.items() if s > 0
    ]
    return [f"# mpi4py adds {', '.join(parts)}"] if parts else []


def closing(run: Run) -> list[str]:
    """The end of a run's log: what is to be said of single points, the headline, and why it is partial."""
    best = stats.headline(stats.preferred(run.points))
    lines = wire([run]) + late_warnings([run]) + point_warnings([run])
    if best:
        lines += _doubts("Max rate", best.fastest) + _doubts("Min latency", best.nearest)
    lines += added(stats.added(run.points))
    lines = ["", *lines, ""] if lines else [""]
    if best:
        lines += [best_line(best.rate, best.latency)]
    else:
        lines += ["No time was measured."]
    return lines + partial(run)


def wire(runs: Sequence[Run]) -> list[str]:
    """What carried the bytes of a run, or of launches that repeat each other, and what to be wary of."""
    measured = [run for run in runs if run.points and run.evidence]
    finding = wires.worst([evidence.of_run(run) for run in measured])
    if finding is None:
        return []
    transport = measured[0].transport
    line = f"# wire: {finding.observed}"
    if transport:
        line += (
            f"; {transport.name} is {finding.verdict}"
            if transport.carrier
            else f"; {transport.name} asked for none"
        )
    line += f": {finding.reason}" if finding.reason else ""
    texts = dict.fromkeys(warn.text for run in measured for warn in evidence.warnings(run))
    return [line, *(f"# warning: {text}" for text in texts)]


def partial(run: Run) -> list[str]:
    """Why there is no more of a run than this."""
    if run.status == "complete":
        return []
    reason = (
        run.failure.reason
        if run.failure
        else "it has no end: it still runs, was killed, or found no room for more"
    )
    return [f"# partial result: {reason}"]
