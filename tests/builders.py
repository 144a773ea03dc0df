"""Made-up records and a made-up link for the tests of the pure modules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings

from pingpong.model import Clock, Connection, Harness, Mismatch, Mpi, Plan, Point, Rank, Run, Session, Visit

# The same examples in every run, and no limit on the time that one takes on a busy machine.
steady = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])

# legs, messages, directions: typed from the table of kernels in docs/design.md, not read from the package.
FACTS = {"blocking": (2, 2, 1), "asynchronous": (2, 2, 1), "bidirectional": (2, 4, 2)}

HARNESS = Harness(sample=100e-9, step=10e-9)
CLOCK = Clock(name="made up", wtime_step=1e-6, step=20e-9, cost=40e-9, harness={"mpi4py": HARNESS})


def point(
    kernel: str = "blocking",
    size: int = 1024,
    visits: Sequence[Sequence[float]] = (),
    steps: int = 1,
    **more: Any,
) -> Point:
    """A point with the given samples by visit, in seconds."""
    legs, messages, directions = FACTS.get(kernel, (2, 2, 1))
    facts = {"loop": "mpi4py", "time": "half-trip", "lead_in": 0, "samples": 30, "stop": "precise"}
    facts |= {"legs": legs, "messages": messages, "directions": directions}
    made = [Visit(t0=float(n), seconds=list(seconds)) for n, seconds in enumerate(visits)]
    return Point(kernel=kernel, size=size, steps=steps, visits=made, **(facts | more))


def run(points: Sequence[Point] = (), **more: Any) -> Run:
    """A complete run between two ranks on one host."""
    facts: dict[str, Any] = {
        "launch": 1,
        "started": "2026-11-30T19:00:00+00:00",
        "source": "pingpong 0.1.0",
        "status": "complete",
        "plan": Plan(kernels=["blocking"], sizes=[1024], method="visits", budget=10.0, seed=7),
        "mpi": Mpi(name="Open MPI", version="5.0.11", standard="3.1", launcher="Open MPI mpiexec"),
        "clock": CLOCK,
        "ranks": [Rank(rank=n, host="n1", pid=100 + n, cpus=[n], cores=[f"0:{n}"], usable=8) for n in (0, 1)],
        "connections": [Connection(lead=0, peer=1, first=85e-6, second=5e-6)],
    }
    return Run(points=list(points), **(facts | more))


def session(points: Sequence[Point] = (), **more: Any) -> Session:
    """A session of one run."""
    return Session(schema=1, id="0" * 32, command=["pingpong", "run"], seed=7, runs=[run(points, **more)])


def plan(**more: Any) -> Plan:
    return Plan(**({"kernels": ["blocking"], "sizes": [8], "method": "visits", "budget": 10.0, "seed": 5} | more))


@dataclass
class Call:
    """A visit that a schedule asked of the link, and how long it took in all."""

    index: int
    number: int
    steps: int
    lead_in: int
    samples: int
    patience: float
    took: float


@dataclass
class FakeLink:
    """A lead's end whose steps take `step(size)` seconds of a clock that nothing else moves.

    `noise` is the relative spread of the visits and, a fifth of it, of the samples in them. `shown` turns the true
    samples into what the clock of the samples says. Like the watchdog of a rank it ends a visit that outlasts
    the patience it was given.
    """

    step: Callable[[int], float]
    noise: float = 0.0
    shown: Callable[[list[float]], list[float]] = lambda seconds: seconds
    wrong: dict[tuple[int, int], Mismatch] = field(default_factory=dict)
    time: float = 0.0
    points: list[Point] = field(default_factory=list)
    patiences: list[float] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(11)

    def now(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        self.time += seconds

    def open(self, point: Point, patience: float) -> None:
        self.points.append(point)
        self.patiences.append(patience)

    def visit(
        self, index: int, number: int, steps: int, lead_in: int, samples: int, patience: float
    ) -> tuple[list[float], list[Mismatch]]:
        step = self.step(self.points[index].size)
        factors = self._random.normal(1, self.noise) * self._random.normal(1, self.noise / 5, samples)
        seconds = [steps * step * float(f) for f in factors]
        took = 10e-6 + lead_in * step + sum(seconds)
        self.time += took
        self.patiences.append(patience)
        self.calls.append(Call(index, number, steps, lead_in, samples, patience, took))
        assert took <= patience, f"the watchdog ends a visit of {took:.1f} s after {patience:.1f} s"
        wrong = self.wrong.get((index, number))
        return self.shown(seconds), [wrong] if wrong else []


class Silent:
    """A record that keeps nothing."""

    def patience(self, seconds: float) -> None: ...

    def point(self, point: Point) -> None: ...

    def visit(self, index: int, visit: Visit, ok: bool) -> None: ...

    def update(self, index: int, point: Point) -> None: ...
