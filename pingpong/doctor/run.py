"""The preflight from outside: start two ranks for some seconds, hear what they say, print what is found."""

import contextlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pingpong import environment, launch, launchers, temporary
from pingpong.doctor import facts, findings, lines, meeting, node, survey
from pingpong.doctor.facts import Finding, Launch
from pingpong.exits import FAILED, SIGNALLED, USAGE
from pingpong.hosts import HostsError, allocated, nameless
from pingpong.launches import travelling
from pingpong.model import Transport
from pingpong.native import cache, programs
from pingpong.say import quote, say, show
from pingpong.transports import Here, beforehand, spelling

AGAIN = 3.0  # seconds within which a launch that fails without a word is tried again
LIMIT = launch.Limit(30.0, "it took longer than 30 s")  # more than its ranks take to give up


def main(hosts: Sequence[str], mpiexec_args: Sequence[str], verbose: bool) -> int:
    """Print the findings for these hosts (none: this one) and return 1 if `pingpong run` would fail there."""
    try:
        hosts = hosts or allocated(os.environ, mpiexec_args)
    except HostsError as error:
        say(str(error))
        return USAGE
    found = [node.output_folder(survey.room(Path.cwd(), facts.OUTPUT))]
    asked = os.environ.get("TMPDIR")
    found += node.temporary(asked, asked and survey.room(Path(asked), 1).trouble, temporary.usable())
    if not temporary.usable():
        return _report(found, hosts)  # a launch keeps there what it prints
    mpi = environment.probe_mpi()
    if "error" in mpi:
        return _report([*found, meeting.no_library(mpi["error"])], hosts)
    try:
        launcher = launchers.find(mpi["name"], mpi["version"], os.environ.get("PATH", ""))
    except launchers.LauncherError as error:
        return _report([*found, meeting.no_launcher(str(error))], hosts)
    started = Launch(mpi["name"], mpi["version"], str(launcher.path), launcher.version, list(hosts))
    here = Here(mpi["name"], mpi["version"], launcher.path, max(1, len(hosts)))
    settings = beforehand.standing(mpi["files"], os.environ, here)
    started.given = [*mpiexec_args, *(f"{each.name}={each.value}" for each in settings)]
    own = Transport(name="", arguments=list(mpiexec_args))
    heeded = beforehand.beside(None, spelling.variables(own), settings, here).heeded
    with launch.deaf(), _folder() as folder:
        _start(started, launcher, mpiexec_args, folder, verbose)
        named = [each for each in heeded if each.by_user or not started.met]
        started.heeded = beforehand.told(named) if named else None
        with contextlib.suppress(OSError):
            started.wrote = {path.name for path in folder.iterdir()}
    if number := launch.held():  # also one that came when the launch had ended
        say(f"ended by {signal.Signals(number).name}")
        return SIGNALLED + number
    if len(started.surveys) < 2:
        started.own = survey.addresses()
        started.nameless = nameless(started.hosts)
    if "OMPI_ALLOW_RUN_AS_ROOT" in launcher.environment():
        found.append(node.root())
    found += [*findings.of(started), node.native_loops(_no_native(), _no_cache())]
    return _report(found, hosts)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder where the result would be written: ranks look whether they can see it, and leave a file in it."""
    try:
        path = Path(tempfile.mkdtemp(prefix=".pingpong-doctor-", dir=Path.cwd()))
    except OSError:
        yield Path("/nonexistent")
        return
    try:
        yield path
    finally:
        for _ in range(5):  # a late rank may leave its file in between
            shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                break
            time.sleep(0.1)


def _start(
    started: Launch, launcher: launchers.Launcher, extra: Sequence[str], folder: Path, verbose: bool
) -> None:
    """Launch the ranks and note what came of it."""
    env = launcher.environment() | os.environ
    program = [sys.executable, "-m", "pingpong", "doctor", "--worker", str(folder)]
    if started.hosts:
        bind = [] if launchers.places(extra) else ["--bind"]
        command = launcher.across(2, started.hosts, [*program, *bind], [temporary.TOKEN, *travelling(env)], extra)
    else:
        command = launcher.command(2, program, environment.own_cpus(), environment.own_cores(), extra)
    if verbose:
        say("starting " + shlex.join(command))
    again = time.monotonic() + AGAIN
    while True:
        ended = launch.launch(command, env, LIMIT, lambda _: None)
        if not (launch.stumbled(ended) or _wordless(ended)) or time.monotonic() > again:
            break
    started.status, started.limit, started.surveys = (
        ended.status,
        ended.limit or ended.useless,
        lines.hear(ended.output),
    )
    started.output = launch.telling(ended.output)
    if verbose:
        quote(started.output)


def _wordless(ended: launch.Ended) -> bool:
    """Whether a launcher gave up and did not pass on why, as Open MPI 5 and MPICH do now and then."""
    said = launch.telling(ended.output)
    silent = not said or ("Launch proxy failed" in said[0] and all(line.startswith("[mpiexec@") for line in said))
    return ended.status > 0 and silent and not ended.signal and not lines.hear(ended.output)


def _no_native() -> str | None:
    try:
        programs.fill_cache((), lambda _: None)
    except programs.UnavailableError as error:
        return str(error)
    return None


def _no_cache() -> bool:
    found = cache.open_cache()
    if found:
        found.close()
    return found is None


def _report(found: Sequence[Finding], hosts: Sequence[str]) -> int:
    """Problems first: they are what somebody waits for."""
    order = ("problem", "note", "ok")
    for finding in sorted(found, key=lambda f: order.index(f.level)):
        mark = finding.level.upper() if finding.level == "problem" else finding.level
        quoted = "".join(f"{'':9}  | {line}\n" for line in finding.quoted)
        advice = f"{'':9}{finding.advice}\n" if finding.advice else ""
        show(f"{mark:9}{finding.what}\n{quoted}{advice}")
    problems = sum(finding.level == "problem" for finding in found)
    run = "pingpong run" + (f" --hosts {','.join(hosts)}" if hosts else "")
    show(
        f"{run} can measure here\n"
        if not problems
        else f"{run} would fail: {problems} problem{'s'[: problems > 1]}\n"
    )
    return FAILED if problems else 0
