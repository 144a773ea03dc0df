"""`pingpong run`: from its options to a request, and from a session to what is printed."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pingpong.cli.options import hosts_of, text_options, words
from pingpong.say import show as show_text
from pingpong.units import SIZE_HELP, UnitError

if TYPE_CHECKING:
    from pingpong.model import Session

# The options that say what is measured, as opposed to where and how it is started and shown.
MEASURED = (
    "kernels", "sizes", "perturb", "loop", "samples", "steps", "cache", "lead_in", "seconds", "classic", "seed",
)  # fmt: skip


def _positive(_context: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise click.BadParameter("it must be greater than 0")
    return value


@click.command()
@click.option("-k", "--kernels", multiple=True, metavar="NAMES", help="Kernels, comma-separated; default: all.")
@click.option("-m", "--sizes", default="8:8M", show_default=True, help=f"Message sizes in bytes: {SIZE_HELP}.")
@click.option("--perturb", type=click.IntRange(1), help="Also each size this many bytes smaller and larger.")
@click.option(
    "--loop",
    type=click.Choice(("both", "native", "mpi4py")),
    help="Who makes the MPI calls: compiled code, or Python; default: both, where numba is.",
)
@click.option("-n", "--samples", type=click.IntRange(1), help="Exactly this many samples a point.")
@click.option(
    "--steps",
    type=click.IntRange(1, 2**16),
    help="Steps in a sample; default: as few as keep the harness under 1 %; 1 times each step by itself.",
)
@click.option(
    "--cache",
    type=click.Choice(("warm", "cold")),
    default="warm",
    show_default=True,
    help="cold: each step sends and receives other memory, out of more than the last-level cache holds.",
)
@click.option("-x", "--lead-in", type=click.IntRange(0), help="Untimed steps before each visit's samples.")
@click.option(
    "-D", "--seconds", type=float, callback=_positive, help="One kernel and size for SECONDS, a line a second."
)
@click.option(
    "--launches",
    type=click.IntRange(1),
    default=1,
    help="Whole launches, one after the other, of each transport in turn.",
)
@click.option("--classic", is_flag=True, help="The old log's method: one timed pass a size, no lead-in.")
@text_options
@click.option(
    "-t",
    "--transport",
    "asked",
    multiple=True,
    metavar="NAME",
    help="A transport to measure, such as tcp@eth0 (see pingpong transports), or raw flags: 'mine=--mca …'.",
)
@click.option(
    "--all-available", is_flag=True, help="Also all transports that pingpong transports calls available."
)
@click.option("--hosts", metavar="LIST", help="Two hosts, comma-separated; default: the batch system's, or here.")
@click.option("--hostfile", type=click.Path(path_type=Path), help="The hosts in a file, one a line.")
@click.option(
    "--require", type=click.Choice(("confirmed",)), help="Exit with 3 unless each transport's wire is confirmed."
)
@click.option("--dry-run", is_flag=True, help="Print the command lines and start nothing.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Result file; default: a new one here.")
@click.option(
    "--mpiexec-args",
    default="",
    metavar="ARGS",
    callback=words,
    help="More arguments for mpiexec: --mca flags, hosts, binding.",
)
@click.option(
    "--time-limit",
    type=float,
    callback=_positive,
    help="End the run after SECONDS; default: an hour, and -D as long as it needs.",
)
@click.option("--seed", type=click.IntRange(0), help="Of the order of visits; default: random, and recorded.")
@click.option(
    "--here/--launch", default=None, help="Be one of the ranks, or launch them; default: see who started this."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@click.option("-v", "--verbose", is_flag=True, help="Say what is started and what MPI printed.")
@click.option("--worker", hidden=True, metavar="ORDERS")
@click.option("--bind", hidden=True, is_flag=True)  # for a rank: bind yourself to a core
def run(text: dict[str, Any], output: Path | None, here: bool | None, worker: str | None, **options: Any) -> int:
    """Measure ping-pongs between two ranks.

    Under mpiexec, mpirun or srun with two ranks it measures between those; alone it launches two ranks here.
    """
    from pingpong import launchers, plans
    from pingpong.request import Request, of_orders

    command = ["pingpong", *sys.argv[1:]]
    if worker is not None:
        from pingpong import worker as rank

        return rank.main(of_orders(worker, output, options["bind"]))
    try:
        plan = plans.make(
            kernels=options["kernels"],
            sizes=options["sizes"],
            perturbation=options["perturb"],
            samples=options["samples"],
            lead_in=options["lead_in"],
            seconds=options["seconds"],
            classic=options["classic"],
            seed=options["seed"],
            loop=options["loop"],
            cache=options["cache"],
            steps=options["steps"],
        )
    except (plans.PlanError, UnitError) as error:
        raise click.UsageError(str(error)) from None
    asked = {name: options[name] for name in ("launches", "mpiexec_args", "quiet", "verbose", "bind")}
    watch = plan.seconds or 0.0
    asked["time_limit"] = options["time_limit"] or max(3600.0, 2 * watch)
    if watch > asked["time_limit"]:
        raise click.UsageError(f"-D {watch:g} is longer than --time-limit {asked['time_limit']:g}")
    if watch and (asked["launches"] > 1 or options["all_available"] or len(options["asked"]) > 1):
        raise click.UsageError("-D watches one launch: leave out --launches, and all transports but one")
    asked |= {name: options[name] for name in ("all_available", "require", "dry_run")}
    asked |= {"asked": list(options["asked"]), "hosts": hosts_of(options["hosts"], options["hostfile"])}
    asked["words"] = _words_of(click.get_current_context(), MEASURED)
    if asked["require"] and not (asked["asked"] or asked["all_available"]):
        raise click.UsageError("--require confirmed needs a transport to confirm: add -t")
    request = Request(plan, output, command, show=_Printer(text), **asked)
    if here if here is not None else launchers.started_by(os.environ) is not None:
        from pingpong import worker as rank

        starting = {"--launches": request.launches > 1, "-t": request.asked, "--hosts": request.hosts}
        starting |= {"--all-available": request.all_available, "--dry-run": request.dry_run}
        for flag, given in starting.items():
            if given:
                raise click.UsageError(f"{flag} starts mpiexec itself: leave out mpiexec or srun")
        return rank.main(request)
    from pingpong import controller

    return controller.run(request)


def _words_of(context: click.Context, names: Sequence[str]) -> list[str]:
    """The options among `names` that the user typed, as words of a command line."""
    typed: list[str] = []
    for option in context.command.params:
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            value = context.params[option.name]
            for each in value if isinstance(value, tuple) else (value,):
                typed += [option.opts[0]] if each is True else [option.opts[0], str(each)]
    return typed


class _Printer:
    """Prints a session on stdout: whole at the end, and for a watch with -D the log's lines as they come."""

    def __init__(self, text: dict[str, Any]) -> None:
        self._text = text
        self._printed: list[str] = []
        self._next = 0  # the first visit that is not printed yet

    def __call__(self, session: "Session", finished: bool) -> None:
        from pingpong import texts

        if finished:
            whole = texts.text(session, texts.Options(**self._text))
            show_text(whole.removeprefix("".join(self._printed)))
            return
        run = session.runs[0] if session.runs else None
        watched = run and run.plan and run.plan.method == "duration"
        if self._text["form"] != "log" or not run or not watched or not any(p.visits for p in run.points):
            return
        lines, self._next = texts.log.more(run, self._next)
        self._printed.append(lines)
        show_text(lines)
