"""The lead's record of a run: model in memory, journal on disk, nothing written while a visit runs."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from pingpong import store
from pingpong.model import Failure, Point, Run, Session, Visit


class Recorder:
    """Writes a session with one run as it grows. `live` is called with the session after every visit.

    All methods raise OSError when the disk is full; the journal then holds what came before.
    """

    def __init__(self, path: Path, session: Session, live: Callable[[Session], None] | None = None) -> None:
        self.session, self.run = session, session.runs[0]
        self._live = live
        self.path = path
        self._journal = store.Journal(path)
        self._patience = 0.0
        self._writing = False
        self._interrupt: Callable[[], None] | None = None

    def begin(self) -> None:
        """Write the heads of session and run."""
        runs, self.session.runs = self.session.runs, []
        points, self.run.points = self.run.points, []
        self._write("session", self.session)
        self._write("run", self.run)
        self.session.runs, self.run.points = runs, points

    def patience(self, seconds: float) -> None:
        """Tell who follows the journal how long it may have to wait for the next line."""
        if seconds > 1.2 * self._patience:
            self._patience = seconds
            self._write("patience", round(seconds, 1))

    def point(self, point: Point) -> None:
        self._write("point", _head(point))

    def visit(self, index: int, visit: Visit, ok: bool) -> None:
        self._write("visit", (index, ok, visit.t0, visit.seconds))
        if self._live:
            self._live(self.session)

    def update(self, index: int, point: Point) -> None:
        self._write("update", {"index": index, "point": store.to_builtins(_head(point))})

    def end(self, failure: Failure | None = None) -> None:
        """Close the journal with its last line; the run is complete if nothing failed."""
        self.run.status, self.run.failure = ("partial" if failure else "complete"), failure
        self._write("end", {"status": self.run.status, "failure": store.to_builtins(failure) if failure else None})
        self._journal.close()

    def finish(self) -> None:
        """Replace the journal by the final JSON; where there is no room for both, the journal is the result."""
        with contextlib.suppress(OSError):
            store.save(self.session, self.path)

    def leave(self, failure: Failure) -> None:
        """From a signal handler or the watchdog: write the end and exit at once, but never inside a line."""

        def go() -> None:
            try:
                self.end(failure)
            finally:
                os._exit(failure.exit)

        if self._writing:
            self._interrupt = go
        else:
            go()

    def _write(self, kind: str, value: object) -> None:
        self._writing = True
        try:
            self._journal.write(kind, value)
        finally:
            self._writing = False
        if self._interrupt:
            interrupt, self._interrupt = self._interrupt, None
            interrupt()


def _head(point: Point) -> Point:
    """The point without its visits, which have lines of their own."""
    head = Point(**{name: getattr(point, name) for name in point.__struct_fields__})
    head.visits = []
    return head


def claim(output: Path | None, folder: Path) -> Path:
    """The path of a result that does not exist yet: `output`, or a new name in `folder`.

    Raises FileExistsError, FileNotFoundError, NotADirectoryError or PermissionError before anything is measured.
    """
    if output is None:
        stamp = time.strftime("pingpong-%Y%m%d-%H%M%S")
        names = [f"{stamp}.json", *(f"{stamp}-{n}.json" for n in range(2, 100))]
        output = next(folder / name for name in names if not (folder / name).exists())
    if output.exists():
        raise FileExistsError(f"{output} exists already; results are never overwritten: choose another -o")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"the folder {output.parent} does not exist; -o needs one that does")
    probe = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise PermissionError(f"cannot write in {output.parent} ({error.strerror}); choose another -o") from None
    return output


def new_session(run: Run, command: list[str]) -> Session:
    """A session with one run."""
    from uuid import uuid4

    from pingpong.model import DEFINITIONS, SCHEMA

    return Session(
        schema=SCHEMA,
        id=uuid4().hex,
        command=command,
        seed=run.plan.seed if run.plan else 0,
        definitions=DEFINITIONS,
        runs=[run],
    )
