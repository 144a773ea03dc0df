"""The lead's record of a run: model in memory, journal on disk, nothing written while a visit runs."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import structs

from pingpong import __version__, store
from pingpong.exits import leave
from pingpong.model import DEFINITIONS, SCHEMA, Failure, Point, Run, Said, Session, Visit, Warn
from pingpong.request import Job, Request
from pingpong.say import say
from pingpong.units import printable

LOCKED = 2.0  # seconds that the watchdog waits for a line to be finished


class Lines(Protocol):
    """Where the lines of a journal go."""

    def write(self, kind: str, value: Any) -> None: ...

    def close(self) -> None: ...


class Recorder:
    """Writes the last run of a session as it grows. `live` is called with the session after every visit.

    With `lines` the run is added to a journal that somebody else has begun and will finish.

    All methods raise OSError when the disk is full; the journal then holds what came before.
    """

    def __init__(
        self,
        path: Path,
        session: Session,
        live: Callable[[Session], None] | None = None,
        lines: Lines | None = None,
    ) -> None:
        self.session, self.run = session, session.runs[-1]
        self._live, self._again = live, lines is not None
        self.path = path
        self._journal: Lines = lines or store.Journal(path)
        self._patience, self._over = 0.0, False
        self._lock = threading.Lock()
        self._interrupt: Callable[[], None] | None = None

    def begin(self) -> None:
        """Write the heads of session and run."""
        try:
            if not self._again:
                self._write("session", structs.replace(self.session, runs=[]))
            self._write("run", structs.replace(self.run, points=[]))
        except OSError:
            if not self._again:
                self.path.unlink()  # nothing is measured yet, and the file would be in the way of the next try
            raise

    def patience(self, seconds: float) -> None:
        """Tell who follows the journal how long it may have to wait for the next line."""
        if not 0.8 * self._patience <= seconds <= self._patience:
            self._patience = seconds
            self._write("patience", round(seconds, 1))

    def point(self, point: Point) -> None:
        """Write a new point, which gets the next index."""
        self._write("point", structs.replace(point, visits=[]))

    def visit(self, index: int, visit: Visit, ok: bool) -> None:
        """Write a finished visit of a point; `ok` if its payloads were right."""
        moved = self.run.points[index].moved
        self._write("visit", [index, ok, visit.t0, visit.seconds, *([store.to_builtins(moved)] if moved else [])])
        if self._live:
            self._live(self.session)

    def update(self, index: int, point: Point) -> None:
        """Write a point again, as it is now."""
        self._write("update", {"index": index, "point": store.to_builtins(structs.replace(point, visits=[]))})

    def end(self, failure: Failure | None = None) -> None:
        """Close the journal with its last line; the run is complete if nothing failed. Later ends are ignored."""
        if self._over:
            return
        self.run.status, self.run.failure = ("partial" if failure else "complete"), failure
        run = self.run
        told: dict[str, Any] = {"status": run.status, "failure": store.to_builtins(failure) if failure else None}
        # What grew while it measured, or is known only now.
        for name in ("ranks", "warnings", "evidence"):
            told[name] = [store.to_builtins(each) for each in getattr(run, name)]
        self._over = True
        try:
            self._write("end", told)
            self._whole(self._journal.close)
        except OSError:
            self._over = False
            raise

    def finish(self) -> None:
        """Replace the journal by the final JSON; where there is no room for both, the journal is the result."""
        if not self._again:
            with contextlib.suppress(OSError):
                store.save(self.session, self.path)

    def leave(self, failure: Failure) -> None:
        """From a signal handler or the watchdog: write the end and exit at once, but never inside a line."""

        def go() -> None:
            try:
                self.end(failure)
            finally:
                leave(failure.exit)

        if self._lock.acquire(timeout=0.0 if threading.current_thread() is threading.main_thread() else LOCKED):
            self._lock.release()
            go()
        elif threading.current_thread() is threading.main_thread():
            self._interrupt = go  # a signal came in the middle of a line: when it is finished
        else:
            os._exit(failure.exit)  # the disk hangs

    def _write(self, kind: str, value: object) -> None:
        self._whole(lambda: self._journal.write(kind, value))

    def _whole(self, action: Callable[[], None]) -> None:
        """Do what no signal must interrupt."""
        with self._lock:
            action()
        if self._interrupt:
            interrupt, self._interrupt = self._interrupt, None
            interrupt()


def claim(output: Path | None) -> Path:
    """The path of a result that does not exist yet: `output`, or a new name in the working folder.

    Raises OSError with one sentence, before anything is measured.
    """
    try:
        folder = Path.cwd()
    except OSError:
        raise FileNotFoundError("the current folder no longer exists; go to another one") from None
    if output is None:
        # With the process, because jobs of an array start in the same second.
        stamp = time.strftime(f"pingpong-%Y%m%d-%H%M%S-{os.getpid()}")
        names = [f"{stamp}.json", *(f"{stamp}-{n}.json" for n in range(2, 100))]
        output = next(folder / name for name in names if not (folder / name).exists())
    try:
        return _free(output)
    except OSError as error:
        if error.errno is None:
            raise
        raise PermissionError(f"cannot write {output} ({error.strerror}); choose another -o") from None


def _free(output: Path) -> Path:
    if output == Path("-"):
        raise FileNotFoundError(
            "a result goes into a file, not to stdout; -o needs a name (-f json prints it too)"
        )
    if output.is_dir():
        raise IsADirectoryError(f"{output} is a folder; -o needs the name of a file")
    if os.path.lexists(output):
        raise store.taken(output)
    if not output.parent.is_dir():
        raise FileNotFoundError(f"the folder {output.parent} does not exist; -o needs one that does")
    probe = output.with_name(f".pingpong-{os.getpid()}.tmp")
    probe.touch(exist_ok=False)
    probe.unlink()
    return output


def begin(path: Path, request: Request) -> None:
    """Begin the journal of a session, to which each launch adds its run. Raises OSError."""
    journal = store.Journal(path)
    try:
        journal.write("session", new_session(None, request))
    except OSError:
        path.unlink()  # nothing is measured yet, and the file would be in the way of the next try
        raise
    finally:
        journal.close()


def settle(
    path: Path,
    request: Request,
    job: Job,
    failure: Failure | None,
    said: list[Said],
    warnings: Sequence[Warn] = (),
) -> None:
    """After a launch: see that the journal has a run of it with an end, and what MPI said of the wire."""
    with contextlib.suppress(OSError, store.FormatError):
        journal = store.Journal(path, again=True)
        run = next((run for run in store.load(path).runs if run.launch == job.number), None)
        if run is None:
            run = Run(launch=job.number, source=f"pingpong {__version__}", status="partial", failure=failure)
            run.plan, run.transport, run.warnings = request.plan_of(job.number), job.transport, list(warnings)
            journal.write("run", run)
        elif run.status != "complete":
            journal.write("end", {"status": run.status, "failure": store.to_builtins(failure)})
        if said:
            journal.write("said", [store.to_builtins(each) for each in said])
        journal.close()


def finish(path: Path, failures: Mapping[int, Failure], keep: bool = True) -> Session | None:
    """Replace the journal by the final JSON, and return the session; None if it cannot be read.

    `failures` by launch are for runs for whose end the journal had no room. Unless it is to be kept in any case,
    a file in which nothing was measured goes away.
    """
    try:
        session = store.load(path)
        if not keep and not any(run.points for run in session.runs):
            path.unlink()
            return None
    except (OSError, store.FormatError):
        return None
    for run in session.runs:
        if run.status != "complete":
            run.failure = run.failure or failures.get(run.launch)
    try:
        store.save(session, path)
    except OSError as error:
        say(f"{path} stays a journal (pingpong show reads it): {error.strerror}")
    return session


def new_session(run: Run | None, request: Request) -> Session:
    """A session with one run, or none yet."""
    return Session(
        schema=SCHEMA,
        id=request.id,
        command=[printable(word) for word in request.command],
        seed=request.plan.seed,
        definitions=DEFINITIONS,
        runs=[run] if run else [],
    )
