"""Several launches of the same thing in one text: medians over launches, and how much the launches differ."""

from statistics import median

from pingpong import across, stats
from pingpong.across import Across, Spread
from pingpong.model import Point, Run, Session
from pingpong.texts import log, tables, wires
from pingpong.texts.tables import Sheet, Table
from pingpong.units import MB, MICRO, micros, significant, size_text
from pingpong.wires import of_session as wires_of


def text(session: Session) -> str:
    """The log of a session: launches that repeat each other as one, anything else run by run."""
    lines: list[str] = []
    for runs in across.groups(session):
        lines += [""] if lines else []
        lines += _lines(runs) if len(runs) > 1 else log.run_lines(runs[0])
    return log.joined(lines + tables.lines_of(_transports(session)))


def _transports(session: Session) -> list[Table]:
    """The comparison of the transports, where any were asked for."""
    found = wires_of(session)
    return [wires.table(found)] if found else []


def _lines(runs: list[Run]) -> list[str]:
    if not any(run.points for run in runs):
        return [*log.head(runs[0]), "", *closing(runs)]
    found = across.points(across.whole(runs))
    shown = stats.preferred([each.point for each in found])
    steps = {id(each.point): each for each in found}

    def line(point: Point) -> str:
        each = steps[id(point)]
        return log.took(point, each.step.median) + _modes(each)

    return head(runs) + log.sections(shown, line) + closing(runs)


def head(runs: list[Run], what: str = "round trip") -> list[str]:
    """The head of the first launch that measured something, which says that the figures are of several."""
    first, *rest = log.head(next((run for run in runs if run.points), runs[0]), what)
    source, _, method = first.partition(", ")
    count = len(across.whole(runs))
    of = f"{count} of {len(runs)}" if count < len(runs) else f"{count}"
    return [f"{source}, median over {of} launches, in each the {method}", *rest]


def _modes(each: Across) -> str:
    said = ""
    if each.step.modes:
        count = len(each.step.values)
        parts = [f"{significant(m.value / MICRO, 3)} usec in {round(m.share * count)}" for m in each.step.modes]
        said = f"  {len(parts)} modes: {', '.join(parts)} of the launches"
    mixed = f"  visits fall into modes in {each.mixed} of {len(each.step.values)} launches" if each.mixed else ""
    return said + mixed


def closing(runs: list[Run]) -> list[str]:
    """The spread, the headline with its interval, and the launches that failed."""
    measured = across.whole(runs)
    found, best = across.points(measured), across.headlines(measured)
    lines = [
        *log.wire(measured),
        *log.late_warnings(runs),
        *log.point_warnings(runs),
        *log.added(across.added(measured)),
    ]
    if len(measured) > 1:
        lines += _spread(found)
    if best and len(measured) > 1:
        lines += [_over("Max rate", best.rate, MB, "MB/sec"), _over("Min latency", best.latency, MICRO, "usec")]
    lines = ["", *lines, ""] if lines else [""]
    lines.append(log.best_line(best.rate.median, best.latency.median) if best else "No time was measured.")
    for run in runs:
        lines += [line.replace("partial result", f"launch {run.launch} is partial") for line in log.partial(run)]
    return lines


def _spread(found: list[Across]) -> list[str]:
    """The typical spread within a launch, where visits tell it, and between launches."""
    within = [each.within for each in found if each.within is not None]
    between = [each.step.between for each in found]
    parts = [f"{100 * median(within):.1f} % within a launch"] if within else []
    parts += [f"{100 * median(between):.1f} % between launches"] if between else []
    return [f"# interquartile spread, median over the points: {', '.join(parts)}"] if parts else []


def _over(what: str, figure: Spread, unit: float, name: str) -> str:
    """The interval of a closing figure, or its range, and its modes."""
    low, high = min(figure.values), max(figure.values)
    how = "range; an interval needs five launches"
    if figure.interval:
        low, high = figure.interval.low, figure.interval.high
        how = f"{100 * figure.interval.level:.0f} % interval"
    line = f"# {what} {significant(low / unit, 4)} to {significant(high / unit, 4)} {name} ({how})"
    if figure.modes:
        count = len(figure.values)
        parts = [f"{significant(m.value / unit, 4)} in {round(m.share * count)}" for m in figure.modes]
        line += f"; launches fall into {len(parts)} modes: {', '.join(parts)} of {count}"
    return line


# Times are one-way; "±%" is the interval over launches, "within%" and "between%" are interquartile spreads.
COLUMNS = ("bytes", "µs", "±%", "within%", "between%", "least", "most", "MB/s", "launches")


def sheets(session: Session) -> list[Sheet]:
    """The tables of a session: launches that repeat each other as one, anything else run by run."""
    grouped = across.groups(session)
    made = [_sheet(runs) if len(runs) > 1 else tables.sheet(runs[0]) for runs in grouped]
    compared = _transports(session)
    return [*made, Sheet([], compared, [])] if compared else made


def _sheet(runs: list[Run]) -> Sheet:
    found = across.points(across.whole(runs))
    made = []
    by_point = {id(each.point): each for each in found}
    for points in tables.groups([each.point for each in found]):
        same = [by_point[id(point)] for point in points]
        notes = [note for each in same if (note := _note(each))]
        made.append(Table(tables.title(points), COLUMNS, [_cells(each) for each in same], notes))
    return Sheet(head(runs, "time"), made, closing(runs))


def _cells(each: Across) -> list[str]:
    point, step = each.point, each.step

    def time(seconds: float) -> str:
        return micros(stats.one_way(point, seconds))

    return [
        size_text(point.size),
        time(step.median),
        f"{100 * step.interval.reach(step.median):.1f}" if step.interval else "-",
        f"{100 * each.within:.1f}" if each.within is not None else "-",
        f"{100 * step.between:.1f}" if len(step.values) > 1 else "-",
        time(min(step.values)),
        time(max(step.values)),
        significant(stats.bandwidth(point, step.median) / MB, 4),
        str(len(step.values)),
    ]


def _note(each: Across) -> str | None:
    modes, point = each.step.modes, each.point
    if not modes:
        return None
    count = len(each.step.values)
    parts = [f"{micros(stats.one_way(point, m.value))} µs in {round(m.share * count)}" for m in modes]
    return f"{size_text(point.size)}: launches fall into modes: {', '.join(parts)} of {count}"
