"""The command line: parse, call, print. Heavy imports happen inside the command that needs them."""

import os
from pathlib import Path
from typing import Any

import click

from pingpong import __version__
from pingpong.cli.doctor import doctor
from pingpong.cli.options import text_options
from pingpong.cli.run import run
from pingpong.say import lost, open_streams, say
from pingpong.say import show as show_text


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
    return (code if isinstance(code, int) else 0) or int(lost())


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pingpong", message="%(prog)s %(version)s")
def cli() -> None:
    """Measure what a message between MPI ranks costs.

    \b
    pingpong run                      two ranks on this machine, launched for you
    mpiexec -n 2 pingpong run         the ranks that mpiexec started
    pingpong run --hosts n1,n2 -t tcp@eth0 -t ucx       transports side by side
    pingpong doctor                   what is in the way of measuring here
    pingpong transports               what can be asked of the MPI that is here
    pingpong show FILE                print a result again
    """


cli.add_command(run)
cli.add_command(doctor)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@text_options
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


@cli.command(hidden=True)
@click.argument("token")
def sweep(token: str) -> int:
    """End what the launch with this TOKEN has left on this host."""
    from pingpong import processes, temporary

    if not temporary.is_token(token):
        raise click.UsageError(f"{token!r} is not the token of a launch")
    processes.sweep(token)
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
