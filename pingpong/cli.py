"""The command line: parse, call, print. Heavy imports happen inside the command that needs them."""

import functools
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pingpong import __version__
from pingpong.say import open_streams, say
from pingpong.say import show as show_text
from pingpong.units import SIZE_HELP, UnitError, parse_percentiles

if TYPE_CHECKING:
    from pingpong.model import Session

FORMATS = ("log", "table", "csv", "json", "markdown")  # texts.FORMS, which this must not import for --help
ROWS_ONLY = ("csv", "json")
PERCENTILES = "50,90,99,99.9"
USAGE = 2


def main(args: list[str] | None = None) -> int:
    """Run the command line and return its exit code; never raises for what a user did."""
    open_streams()
    try:
        code = cli.main(args, prog_name="pingpong", standalone_mode=False)
    except click.ClickException as error:
        say(error.format_message().rstrip("."))
        return error.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        say("interrupted (Ctrl-C); nothing was measured")
        return 130
    except OSError as error:
        show_text("")  # if it was stdout that has no room, say so in the usual words
        say(f"{error.filename or 'cannot go on'}: {error.strerror or error}")
        return 1
    return code if isinstance(code, int) else 0


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pingpong", message="%(prog)s %(version)s")
def cli() -> None:
    """Measure what a message between MPI ranks costs.

    \b
    pingpong run                      two ranks on this machine, launched for you
    mpiexec -n 2 pingpong run         the ranks that mpiexec started
    pingpong show FILE                print a result again
    """


def _positive(_context: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise click.BadParameter("it must be greater than 0")
    return value


def _words(_context: click.Context, _parameter: click.Parameter, value: str) -> list[str]:
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} cannot be split into words: {error}") from None
    if {"-n", "-np", "--np", "-c"} & set(words):
        raise click.BadParameter("the number of ranks is always 2: leave out -n")
    return words


def _percentiles(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[float, ...]:
    try:
        return () if value is None else tuple(parse_percentiles(value))
    except UnitError as error:
        hint = "write a list like 50,99.9, or --percentiles alone at the end"
        raise click.BadParameter(f"{error}; {hint}") from None


def _text_options(command: Callable[..., int]) -> Callable[..., int]:
    """The options of what is printed, alike for `run` and `show`; `command` gets the keywords of texts.Options."""

    @click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="log", show_default=True)
    @click.option(
        "--percentiles",
        is_flag=False,
        flag_value=PERCENTILES,
        metavar="[LIST]",
        callback=_percentiles,
        help=f"Also percentiles of the samples of each point; without a LIST {PERCENTILES}.",
    )
    @click.option(
        "--histogram",
        is_flag=True,
        help=f"Also a histogram of the samples of each point; not with {' and '.join(ROWS_ONLY)}.",
    )
    @functools.wraps(command)
    def gathered(form: str, percentiles: tuple[float, ...], histogram: bool, **rest: Any) -> int:
        if histogram and form in ROWS_ONLY:
            raise click.UsageError(f"--histogram is a drawing, and -f {form} has rows only: leave one of them out")
        return command(text={"form": form, "percentiles": percentiles, "histogram": histogram}, **rest)

    return gathered


@cli.command()
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
    "--launches", type=click.IntRange(1), default=1, help="Whole launches, one after the other, in one file."
)
@click.option("--classic", is_flag=True, help="The old log's method: one timed pass a size, no lead-in.")
@_text_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Result file; default: a new one here.")
@click.option(
    "--mpiexec-args",
    default="",
    metavar="ARGS",
    callback=_words,
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
def run(text: dict[str, Any], output: Path | None, here: bool | None, worker: str | None, **options: Any) -> int:
    """Measure ping-pongs between two ranks.

    Under mpiexec, mpirun or srun with two ranks it measures between those; alone it launches two ranks here.
    """
    from pingpong import launchers, plans
    from pingpong.request import Request, of_orders

    command = ["pingpong", *sys.argv[1:]]
    if worker is not None:
        from pingpong import worker as rank

        return rank.main(of_orders(worker, output))
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
    asked = {name: options[name] for name in ("launches", "mpiexec_args", "quiet", "verbose")}
    watch = plan.seconds or 0.0
    asked["time_limit"] = options["time_limit"] or max(3600.0, 2 * watch)
    if watch > asked["time_limit"]:
        raise click.UsageError(f"-D {watch:g} is longer than --time-limit {asked['time_limit']:g}")
    if watch and asked["launches"] > 1:
        raise click.UsageError("-D watches one launch: leave out --launches")
    request = Request(plan, output, command, show=_Printer(text), **asked)
    if here if here is not None else launchers.started_by(os.environ) is not None:
        from pingpong import worker as rank

        if request.several:
            raise click.UsageError("--launches starts mpiexec itself: leave out mpiexec or srun")
        return rank.main(request)
    from pingpong import controller

    return controller.run(request)


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


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@_text_options
def show(file: Path, text: dict[str, Any]) -> int:
    """Print a result FILE as `pingpong run` printed it, or in another form.

    Reads the file of a run that is still going or was killed, too.
    """
    from pingpong import store, texts

    try:
        session = store.load(file)
    except store.FormatError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"cannot read {file}: {error.strerror}") from None
    if not session.runs:
        raise click.UsageError(f"{file} has no run in it: nothing was measured")
    show_text(texts.text(session, texts.Options(**text)))
    return 0


@cli.command()
def kernels() -> None:
    """List the kernels."""
    from pingpong.kernels import KERNELS, names

    click.echo(f"{'kernel':15}{'legs':>5}{'messages':>10}{'directions':>12}  time        section of the log")
    for kernel in (KERNELS[name] for name in names()):
        counts = f"{kernel.legs:5}{kernel.messages:10}{kernel.directions:12}"
        click.echo(f"{kernel.name:15}{counts}  {kernel.time:11} {kernel.title}")


@cli.command()
@click.option("-f", "--format", "form", type=click.Choice(("table", "json")), default="table", show_default=True)
def transports(form: str) -> int:
    """List what can be asked of the MPI that is here (-t), with the flags that do it, or why it cannot be had."""
    from pingpong import environment, launchers
    from pingpong.texts import transports as texts
    from pingpong.transports import Here, listing

    mpi = environment.probe_mpi()
    if "error" in mpi:
        raise click.UsageError(f"no MPI library: {mpi['error']}")
    try:
        launcher = launchers.find(mpi["name"], mpi["version"], os.environ.get("PATH", ""))
    except launchers.LauncherError as error:
        raise click.UsageError(str(error)) from None
    entries = listing(Here(mpi["name"], mpi["version"], launcher.path, hosts=1))
    show_text(texts.json_text(entries) if form == "json" else "\n".join(texts.table(entries)) + "\n")
    return 0
