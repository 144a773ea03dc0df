"""Options that commands share: of what is printed, of hosts and of mpiexec."""

import functools
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pingpong.units import UnitError, parse_percentiles

FORMATS = ("log", "table", "csv", "json", "markdown")  # texts.FORMS, which this must not import for --help
ROWS_ONLY = ("csv", "json")
PERCENTILES = "50,90,99,99.9"


def _percentiles(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[float, ...]:
    try:
        return () if value is None else tuple(parse_percentiles(value))
    except UnitError as error:
        hint = "write a list like 50,99.9, or --percentiles alone at the end"
        raise click.BadParameter(f"{error}; {hint}") from None


def text_options(command: Callable[..., int]) -> Callable[..., int]:
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


def words(_context: click.Context, _parameter: click.Parameter, value: str) -> list[str]:
    """The words of --mpiexec-args, as a callback of click."""
    try:
        split = shlex.split(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} cannot be split into words: {error}") from None
    if {"-n", "-np", "--np", "-c"} & set(split):
        raise click.BadParameter("the number of ranks is always 2: leave out -n")
    return split


def hosts_of(names: str | None, file: Path | None) -> list[str]:
    """Those of --hosts or --hostfile; none if neither is given."""
    from pingpong import hosts

    if names is not None and file:
        raise click.UsageError("--hosts and --hostfile exclude each other")
    try:
        return hosts.named(names) if names is not None else hosts.listed(file) if file else []
    except hosts.HostsError as error:
        raise click.UsageError(str(error)) from None
