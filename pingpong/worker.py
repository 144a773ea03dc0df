"""A rank under mpiexec: pair up, measure; the lead writes.

Everything that costs time (imports, reading the host) happens before MPI starts, so that the two ranks leave
initialisation together and the first message is the first thing that they do.
"""

import contextlib
import faulthandler
import gc
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpi4py

from pingpong import environment, launchers, plans, recorder, relay, store, temporary
from pingpong.evidence.meter import Elsewhere, Meter
from pingpong.exits import FAILED, MPIEXECS, SIGNALLED, TIMED_OUT, USAGE, complaints, exit_code, leave
from pingpong.guard import Guard
from pingpong.measure.schedule import Schedule
from pingpong.model import Connection, Failure, Point, Rank, Session, Watched
from pingpong.request import Request
from pingpong.say import say
from pingpong.watchdog import Watchdog

# The C tools ask for no thread support either; mpi4py's default costs time in every call.
mpi4py.rc.initialize = False
mpi4py.rc.thread_level = "single"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # mpi4py's word about a foreign launcher: said better below
    from mpi4py import MPI

    from pingpong import head
    from pingpong.measure import clock
    from pingpong.measure.buffers import Buffers
    from pingpong.measure.pair import Lead, Peer
    from pingpong.measure.pool import Pool
    from pingpong.native import loops

START_LIMIT = 60.0  # seconds for initialisation
CONNECT_LIMIT = 20.0  # seconds for the first message, for which both ranks are there
LAST_WORDS = 0.3  # seconds for the launcher to pass on what was printed, before Abort makes it drop the rest


def main(request: Request) -> int:
    """Measure as one of two ranks and return the exit code, the same on both."""
    start = launchers.started_by(os.environ)
    library = head.mpi_version()
    if start and launchers.foreign(start, MPI.get_vendor()[0]):
        _refuse(start, launchers.wrong_number(start, library, 1))
        return USAGE
    temporary.settle()
    guard = Guard()
    if request.bind:
        environment.bind((start and start.rank) or 0)
    place = environment.rank_facts(0)
    host = {"rank": place, "facts": environment.host_facts(), "meter": Meter(place.host)}
    quiet = request.quiet or not request.show or bool(start and start.rank)
    absent = plans.absent_all(request.plan, request.no_native)
    host["absent"] = absent or loops.prepare(request.plan, lambda sentence: None if quiet else say(sentence))
    _initialise()
    world = MPI.COMM_WORLD
    if world.size != 2:
        if world.rank == 0:
            _refuse(start, launchers.wrong_number(start, library, world.size))
        _finalise()
        guard.release()
        return USAGE
    rank = _Rank(request, start, host)
    try:
        code = rank.measure()
    except BaseException as error:
        reason = rank.note(error)
        if isinstance(error, MPI.Exception | MemoryError):  # the other rank, the link or the host: no bug of ours
            say(reason)
        else:
            sys.stderr.write(traceback.format_exc())
            sys.stderr.flush()
        time.sleep(LAST_WORDS)
        world.Abort(FAILED)  # without it the other rank would wait for ever
        os._exit(FAILED)  # some Aborts return
    _finalise()
    guard.release()
    if request.machine != environment.identity() and (token := os.environ.get(temporary.TOKEN)):
        temporary.remove(token)  # on the other host the one who launched this does so
    return code


def _refuse(start: launchers.Start | None, sentence: str) -> None:
    """One rank says it; the others give it time, because a launcher ends all ranks when the first one ends."""
    if start and start.rank:
        time.sleep(3 * LAST_WORDS)
    else:
        say(sentence)


def _initialise() -> None:
    # MPI_Init holds the interpreter, so only faulthandler's own thread can end a start that hangs.
    faulthandler.dump_traceback_later(START_LIMIT, exit=True)
    MPI.Init_thread(MPI.THREAD_SINGLE)
    faulthandler.cancel_dump_traceback_later()


def _finalise() -> None:
    # MPI_Finalize holds it too, and waits for the other rank.
    faulthandler.dump_traceback_later(START_LIMIT, exit=True)
    MPI.Finalize()
    faulthandler.cancel_dump_traceback_later()


class _Rank:
    """One rank of the pair, from the first message to the exit code."""

    def __init__(
        self,
        request: Request,
        start: launchers.Start | None,
        host: dict[str, Any],
    ) -> None:
        self._request, self._plan, self._show = request, request.plan, request.show
        self._start, self._host = start, host
        self._world = MPI.COMM_WORLD
        self._me, self._other = self._world.rank, 1 - self._world.rank
        host["rank"].rank = self._me
        self._absent: list[plans.Absent] = []
        self._recorder: recorder.Recorder | None = None
        self._meter, self._watched = host.pop("meter"), list[Watched]()
        self._who = f"rank {self._me} on host {socket.gethostname()}"
        carrier = request.transport.carrier if request.transport else None
        self._watchdog = Watchdog(self._who, self._expired, request.time_limit, carrier)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)

    def measure(self) -> int:
        self._watchdog.arm(CONNECT_LIMIT)
        connection = self._connect()
        self._watchdog.arm(START_LIMIT)
        self._control = self._world.Dup()
        lead = self._me == 0
        memory = {"memory": environment.available_memory(), "cache": environment.last_level_cache()}
        self._host["watched"] = self._meter.at_rest()
        facts = self._control.gather(self._host | memory)
        refused = self._control.bcast(self._prepare(facts, connection) if facts else None)
        if refused:
            if lead:
                say(refused)
            return USAGE
        points, pool, watched = self._control.bcast(
            (plans.points(self._plan, self._absent), self._plan.pool, self._watched)
        )
        end = (Lead if lead else Peer)(
            self._world,
            self._control,
            self._other,
            self._buffers(pool),
            self._watchdog.arm,
            self._meters(watched),
        )
        gc.collect()
        gc.disable()  # no collection while a visit runs
        code = end.serve(points) if isinstance(end, Peer) else self._lead(end, points)
        gc.enable()
        self._watchdog.disarm()
        return code

    def _buffers(self, pool: int | None) -> Buffers | Pool:
        needed = plans.buffers_needed(self._plan)
        if pool is None:
            return Buffers(max(self._plan.sizes), *needed)
        self._watchdog.arm(START_LIMIT + pool / 1e8)  # touching it takes its time
        return Pool(pool, *needed, self._me, self._other)

    def _meters(self, watched: list[Watched]) -> list[Meter | Elsewhere]:
        """The counters of lead and peer; where both are on one host, the lead reads them."""
        self._watched = watched
        meters: list[Meter | Elsewhere] = [Elsewhere(w.host, tuple(w.idle)) for w in watched]
        meters += [Elsewhere()] * (2 - len(watched))
        if self._me < len(watched):
            self._meter.host = watched[self._me].host
            meters[self._me] = self._meter
        return meters

    def _connect(self) -> Connection:
        """The first two round trips of the pair, timed by the lead: nothing was said before them."""
        byte = bytearray(1)
        stamps = [clock.now()]
        for _ in range(2):
            if self._me == 0:
                self._world.Send(byte, self._other)
                self._world.Recv(byte, self._other)
            else:
                self._world.Recv(byte, self._other)
                self._world.Send(byte, self._other)
            stamps.append(clock.now())
        first, second = ((b - a) / 1e9 for a, b in pairwise(stamps))
        return Connection(lead=0, peer=1, first=first, second=second)

    # The lead

    def _prepare(self, hosts: list[Any], connection: Connection) -> str | None:
        """Make the run's head and claim the result file; a sentence if that, or the plan, cannot be."""
        ranks: list[Rank] = [h["rank"] for h in hosts]
        self._watched = head.watched(hosts)
        if len(self._request.hosts) > 1 and len(self._watched) < 2:
            return (
                f"both ranks are on host {ranks[0].host}, and {' and '.join(self._request.hosts)} were asked for"
            )
        self._plan.pool = plans.pool_for(self._plan, [at["cache"] for at in hosts])
        for rank, at in zip(ranks, hosts, strict=True):
            crowd = Counter(r.host for r in ranks)[rank.host]
            refused = plans.refusal(self._plan, head.mpi_version(), MPI.Get_version(), crowd, at["memory"])
            if refused:
                return refused
        self._absent = head.merged(hosts)
        if refused := plans.native_refusal(self._plan, self._absent):
            return refused
        launcher = self._start.launcher if self._start else None
        run = head.describe(self._plan, self._request.launch, launcher, hosts, connection, self._absent)
        run.transport, run.evidence = self._request.transport, self._watched
        run.warnings += self._request.warnings
        session = recorder.new_session(run, self._request)
        try:
            path, lines = self._journal()
            self._recorder = recorder.Recorder(path, session, self._live() if self._show else None, lines)
            self._recorder.begin()
        except OSError as error:
            return (
                str(error) if error.errno is None else f"{self._request.output or 'the result'}: {error.strerror}"
            )
        return None

    def _journal(self) -> tuple[Path, recorder.Lines | None]:
        """Where the result goes: to the file begun here, by way of mpiexec to another host, or to a new one."""
        output, machine = self._request.output, self._request.machine
        if machine is None or output is None:
            return recorder.claim(output), None
        here = machine == environment.identity() and output.exists()
        return output, store.Journal(output, again=True) if here else relay.Sender()

    def _live(self) -> Callable[[Session], None]:
        show = self._show
        assert show is not None
        return lambda session: show(session, False)

    def _lead(self, end: Lead, points: list[Point]) -> int:
        record = self._recorder
        assert record is not None
        assert record.run.clock is not None
        record.run.points = points
        for point in points:
            point.lead, point.peer = 0, 1
        failure = None
        try:
            Schedule(self._plan, points, end, record, record.run.clock).run()
            head.note(record.run, end.told())
            record.end()
        except OSError as error:  # of the journal: MPI's errors are MPI.Exception
            failure = Failure(reason=f"cannot write the result: {error.strerror}", exit=FAILED)
            record.run.status, record.run.failure = "partial", failure
            with contextlib.suppress(OSError):
                record.end(failure)  # shorter than what found no room
        code = exit_code(record.run, failure)
        end.end(code)
        # The peer is free; from here on only a disk can be slow.
        self._watchdog.arm(START_LIMIT)
        if not failure:
            record.finish()
        self._report(record, failure)
        return code

    def _report(self, record: recorder.Recorder, failure: Failure | None) -> None:
        if failure:
            say(f"{failure.reason}; what was measured before is kept in {record.path}")
        if self._show:
            self._show(record.session, True)
            for sentence in complaints(record.run):
                say(sentence)
            say(f"result in {record.path}")

    # Ends that nobody planned

    def note(self, error: BaseException) -> str:
        """Write in the result what ended this rank, and return the sentence."""
        kind = "MPI error" if isinstance(error, MPI.Exception) else type(error).__name__
        said = " ".join([str(error), *getattr(error, "__notes__", [])]).split()
        reason = f"{kind} on {self._who}: {' '.join(said)}"
        with contextlib.suppress(OSError, ValueError):
            if self._recorder:
                self._recorder.end(Failure(reason=reason, exit=FAILED))
        return reason

    def _expired(self, sentence: str) -> None:
        self._leave(Failure(reason=sentence, exit=TIMED_OUT))

    def _signalled(self, number: int, _frame: Any) -> None:
        reason = f"{self._who}: ended by {signal.Signals(number).name}"
        if number == signal.SIGTERM:
            reason += MPIEXECS
        if self._show:  # else whoever launched it tells, by what mpiexec says
            with contextlib.suppress(OSError):
                os.write(2, f"pingpong: {reason}\n".encode())  # `say` may have been interrupted
        self._leave(Failure(reason=reason, exit=SIGNALLED + number))

    def _leave(self, failure: Failure) -> None:
        with contextlib.suppress(OSError):
            if self._recorder:
                self._recorder.leave(failure)
                return
        leave(failure.exit)
