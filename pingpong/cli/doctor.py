"""`pingpong doctor`: what is in the way of measuring."""

import os
from pathlib import Path

import click

from pingpong.cli.options import hosts_of, words


@click.command()
@click.option("--hosts", metavar="LIST", help="Two hosts, comma-separated; default: the batch system's, or here.")
@click.option("--hostfile", type=click.Path(path_type=Path), help="The hosts in a file, one a line.")
@click.option("--mpiexec-args", default="", metavar="ARGS", callback=words, help="More arguments for mpiexec.")
@click.option("-v", "--verbose", is_flag=True, help="Say what is started and what it printed.")
@click.option("--worker", hidden=True, type=click.Path(path_type=Path))
@click.option("--bind", hidden=True, is_flag=True)
def doctor(
    hosts: str | None,
    hostfile: Path | None,
    mpiexec_args: list[str],
    verbose: bool,
    worker: Path | None,
    bind: bool,
) -> int:
    """Look for what would keep `pingpong run` from measuring on the same hosts, in seconds."""
    if worker:
        from pingpong.doctor import rank

        return rank.main(worker, bind)
    from pingpong import launchers
    from pingpong.doctor import run as preflight

    if launchers.started_by(os.environ):
        raise click.UsageError("the doctor starts mpiexec itself: leave out mpiexec or srun")

    return preflight.main(hosts_of(hosts, hostfile), mpiexec_args, verbose)
