"""Progress on stderr while a launched run measures: silent when that is not a terminal, or asked to be quiet."""

import contextlib
import sys
import time
from collections.abc import Iterator
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from pingpong import stats
from pingpong.model import Plan, Run, Session
from pingpong.units import duration, size_text

REPAINT = 1.0  # seconds: painting takes time on cores that are being measured


class Progress:
    """A bar with the share of the time that is over, the points done and the last figure."""

    def __init__(self, plan: Plan, quiet: bool, launches: int = 1) -> None:
        self._plan, self._launches = plan, launches
        self._shown = not quiet and sys.stderr.isatty()
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
        self._task = self._bar.add_task("starting two ranks", total=1.0)
        self._painted = self._began = 0.0
        self._launch = 0

    def __enter__(self) -> "Progress":
        if self._shown:
            self._bar.start()
            self._bar.refresh()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._bar.stop()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Room for other lines on the terminal."""
        if self._shown:
            self._bar.stop()
        yield
        if self._shown:
            self._bar.start()

    def update(self, session: Session, launch: int) -> None:
        """Paint the state of the session in its latest launch, at most once a second."""
        now = time.monotonic()
        if launch != self._launch:
            self._launch, self._began = launch, now
        if not self._shown or now - self._painted < REPAINT or not session.runs:
            return
        self._painted = now
        text, share = self._state(session.runs[-1], now - self._began)
        if self._launches > 1:
            text, share = f"launch {launch} of {self._launches}: {text}", (launch - 1 + share) / self._launches
        self._bar.update(self._task, description=text, completed=share)
        self._bar.refresh()

    def _state(self, run: Run, elapsed: float) -> tuple[str, float]:
        points = run.points
        total = max(len(points), len(self._plan.kernels) * len(self._plan.sizes) * len(self._plan.loops))
        visited = [p for p in points if p.visits]
        if not visited:
            return f"calibrating {len(points)} of {total} points", 0.0
        latest = max(visited, key=lambda p: p.visits[-1].t0)
        step = stats.visit_medians(latest)[-1]
        figure = (
            f"{latest.kernel} ({latest.loop}) {size_text(latest.size)}: {duration(stats.one_way(latest, step))}"
        )
        done = sum(1 for p in points if p.stop)
        share = elapsed / (self._plan.seconds or self._plan.budget)
        if self._plan.samples:
            share = sum(len(v.seconds) for p in points for v in p.visits) / (self._plan.samples * total)
        return f"{done} of {total} points done; {figure}", min(1.0, max(share, done / total))
