"""What is measured when: calibration, then shuffled passes of visits until each point may stop.

Knows no MPI and no kernel: it drives anything that can `open` a point and `visit` it, so the whole pipeline runs
in tests on a link that is made of recorded or synthetic samples.
"""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from pingpong.measure.stopping import FEWEST_VISITS, precise, shares
from pingpong.model import Clock, Harness, Mismatch, Plan, Point, Visit, Warn
from pingpong.stats import HARNESS_LIMIT

SAMPLES = 30  # in a visit, if time allows
SPACING = 0.1  # seconds from the beginning of a pass to that of the next
SETTLED = 2.0  # seconds over which visits must be spread before they can be precise: see docs/design.md
HARNESS_MARGIN = 4 / 3  # in steps: what follows may be faster than the trial
RESOLUTION_LIMIT = 0.001  # of a sample
LONG_LEAD_IN = 0.02  # seconds: above it one untimed step has to do
MOST_STEPS = 2**16
LONG_TRIAL = 0.5  # seconds: a trial above it is long enough whatever the clock of the samples says
FAST = 1e-3  # seconds: so short a first sample may be mostly the cold start
SLOW = 0.05  # seconds: after a step above it one more is trial enough
WATCH_VISIT = 0.25  # seconds: several a second, so that each line has some
LEFT_OVER = 0.05  # seconds of a watch that are not worth another visit
BLIND_SAMPLE = 1e-3  # seconds, where the clock of the samples says nothing
DURATION_SAMPLE = 1e-3  # seconds: keeps a file of a long watch small
STALL = 7.0  # seconds, beside 20 times what was expected: TCP may go on 6.2 s after a loss (docs/exit-codes.md)


def spin(seconds: float) -> None:
    """Wait without sleeping: an idle core would lower its clock rate and be slow to wake up."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


class Field(Protocol):
    """The lead's end of a pair, or what stands for it in a test."""

    def open(self, point: Point, patience: float) -> None: ...

    def visit(
        self, index: int, number: int, steps: int, lead_in: int, samples: int, patience: float
    ) -> tuple[list[float], list[Mismatch]]:
        """`samples` times of `steps` steps in seconds, after `lead_in` untimed steps, and wrong payloads."""
        ...


class Record(Protocol):
    """Where the schedule says what happened, between visits."""

    def patience(self, seconds: float) -> None:
        """The next word may take so long."""

    def point(self, point: Point) -> None:
        """The next point, which gets the next index."""

    def visit(self, index: int, visit: Visit, ok: bool) -> None:
        """A finished visit; `ok` if its payloads were right."""

    def update(self, index: int, point: Point) -> None:
        """What is known of a point besides its visits has changed."""


@dataclass
class _Cost:
    """Seconds: what a visit takes before its samples, and a step."""

    fixed: float
    step: float


class Schedule:
    """Measures `points` as `plan` says; every finished visit goes to `record` at once."""

    def __init__(
        self,
        plan: Plan,
        points: list[Point],
        field: Field,
        record: Record,
        clock: Clock,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = spin,
    ) -> None:
        self._plan, self.points, self._field, self._record = plan, points, field, record
        self._clock, self._now, self._pause = clock, now, pause
        self._random = random.Random(plan.seed)
        self._cost: dict[int, _Cost] = {}
        self._medians: list[list[float]] = [[] for _ in points]
        self._every, self._phase = [1] * len(points), dict[int, int]()  # which passes a point takes part in
        self._start = now()

    def run(self) -> None:
        """Measure everything; `self.points` then hold the visits and why each stopped."""
        self._start = self._now()
        if self._plan.method == "classic":
            self._classic()
            return
        for index in range(len(self.points)):
            self._calibrate(index)
        if self._plan.method == "duration":
            self._watch_one()
        else:
            self._passes()

    def _elapsed(self) -> float:
        return self._now() - self._start

    def _classic(self) -> None:
        """One timed step a size in the order of the log, and nothing before it."""
        for index, point in enumerate(self.points):
            patience = self._first_patience(index)
            self._record.patience(patience)
            self._field.open(point, patience)
            self._record.point(point)
            self._visit(index, 1)
            point.first = point.visits[0].seconds[0]
            self._cost[index] = _Cost(0.0, max(point.first, 1e-9))
            self._stop(index, "once")

    # Calibration

    def _calibrate(self, index: int) -> None:
        """Find how many steps make a sample, how many steps lead in, and what a visit costs."""
        point = self.points[index]
        patience = self._first_patience(index)
        self._record.patience(patience)
        self._field.open(point, patience)
        (point.first,), wrong = self._field.visit(index, 0, 1, 0, 1, patience)
        self._note(index, wrong)
        point.steps, cost = self._block(index, point.first)
        point.steps = self._plan.steps or point.steps
        point.lead_in = self._plan.lead_in if self._plan.lead_in is not None else _lead_in(point.steps, cost.step)
        self._cost[index] = _Cost(cost.fixed + point.lead_in * cost.step, cost.step)
        point.samples = SAMPLES
        self._record.point(point)

    def _block(self, index: int, first: float) -> tuple[int, _Cost]:
        """The fewest steps that make a long enough sample, and the cost of a visit without lead-in.

        The first step of a size may be far slower than the next ones (it may connect, or register memory), so
        trials decide: short ones as long as the last step was slow.
        """
        steps, sample = 1, first
        while True:
            lead_in, samples = _trial(steps, sample)
            began = self._now()
            patience = self._patience(self.points[index], 4 * max(sample, first))
            self._record.patience(patience)
            seconds, wrong = self._field.visit(index, 0, steps, lead_in, samples, patience)
            self._note(index, wrong)
            spent, total = self._now() - began, lead_in + samples * steps
            sample = median(seconds)
            needed = self._sample_needed(self._harness(self.points[index]), sample / steps)
            if sample >= needed or steps >= MOST_STEPS or spent > LONG_TRIAL:
                break
            steps = _grown(steps, sample, needed)
        if sample <= 0:  # a clock that does not go: named later, by the samples; planned without it
            step = max(spent / total, 1e-9)
            return _whole(BLIND_SAMPLE / step), _Cost(0.0, step)
        step = sample / steps
        return min(steps, _whole(needed / step)), _Cost(max(0.0, spent - total * step), step)

    def _note(self, index: int, wrong: list[Mismatch]) -> None:
        self.points[index].payload.wrong += wrong

    def _harness(self, point: Point) -> Harness:
        return self._clock.harness.get(point.loop, Harness(sample=0.0, step=0.0))

    def _sample_needed(self, harness: Harness, step: float) -> float:
        """Seconds that a sample must last for clock and harness to be small in it."""
        if self._plan.method == "duration":
            return DURATION_SAMPLE
        resolution = (self._clock.resolution or self._clock.step or math.inf) / RESOLUTION_LIMIT
        # steps * step >= (per sample + steps * per step) / limit, solved for steps * step
        share = 1 - harness.step / HARNESS_LIMIT / step if step > 0 else 0.0
        return max(resolution, HARNESS_MARGIN * harness.sample / HARNESS_LIMIT / share if share > 0.1 else 0.0)

    def _warn_of_harness(self, index: int) -> None:
        point, step = self.points[index], median(self._medians[index])
        harness = self._harness(point)
        cost = harness.sample / point.steps + harness.step
        if step > 0 and cost > HARNESS_LIMIT * step:
            text = "the harness costs more than 1 % of a sample"
            point.warnings.append(Warn(code="harness", text=text))

    # Patience: how long the watchdogs wait

    def _patience(self, point: Point, expected: float) -> float:
        return STALL + 20 * max(expected, 0.0) + 4 * point.size / 1e8  # the last: writing and checking payloads

    def _first_patience(self, index: int) -> float:
        """Before a size is known: what the nearest size leads to expect, or 250 kB/s for the very first point."""
        size = self.points[index].size
        if not self._cost:
            return 30 + 4 * size / 1e6
        nearest = min(self._cost, key=lambda i: (abs(self.points[i].size - size), -i))
        growth = max(1.0, size / max(self.points[nearest].size, 64))
        return self._patience(self.points[index], 4 * growth * self._cost[nearest].step)

    def _visit_time(self, index: int, samples: int) -> float:
        cost = self._cost.get(index, _Cost(0.0, 0.0))
        return cost.fixed + samples * self.points[index].steps * cost.step

    # Visits

    def _visit(self, index: int, samples: int) -> None:
        point = self.points[index]
        number = len(point.visits) + 1
        patience = self._patience(point, self._visit_time(index, samples))
        if index not in self._cost:
            patience = self._first_patience(index)
        began = self._elapsed()
        seconds, wrong = self._field.visit(index, number, point.steps, point.lead_in, samples, patience)
        visit = Visit(t0=round(began, 6), seconds=seconds)
        point.visits.append(visit)
        self._medians[index].append(median(seconds) / point.steps)
        point.payload.checked += not wrong
        self._record.visit(index, visit, not wrong)
        if wrong:
            self._note(index, wrong)
            self._record.update(index, point)

    def _stop(self, index: int, why: str) -> None:
        self.points[index].stop = why
        if self._plan.method != "classic":  # where a sample is one step, as it was then
            self._warn_of_harness(index)
        self._record.update(index, self.points[index])

    def _passes(self) -> None:
        """Visit all unfinished points in a new random order, again and again."""
        self._share_the_budget()
        active, passes, next_pass, over = list(range(len(self.points))), 0, 0.0, False
        self._record.patience(
            max(self._patience(p, self._visit_time(i, p.samples)) for i, p in enumerate(self.points))
        )
        while active:
            due = [index for index in active if over or self._is_due(index, passes)]
            passes += 1
            if not due:
                continue
            # Visits that follow each other closely see the same moment of the machine: see docs/design.md.
            if self._plan.method == "visits":
                self._pause(max(0.0, next_pass - self._now()))
            began = self._now()
            next_pass = began + SPACING
            self._random.shuffle(due)
            for index in due:
                self._visit(index, self._samples(index))
            over = over or self._elapsed() + (self._now() - began) / 2 >= self._plan.budget
            active = [index for index in active if not self._stops(index, over)]

    def _share_the_budget(self) -> None:
        if self._plan.method == "fixed":
            return
        costs = [(self._cost[i].fixed, self._visit_time(i, 1) - self._cost[i].fixed) for i in self._cost]
        for index, share in enumerate(shares(costs, SAMPLES, SPACING)):
            self.points[index].samples, self._every[index] = share
        rare = [index for index, every in enumerate(self._every) if every > 1]
        self._phase = {index: number for number, index in enumerate(rare)}

    def _is_due(self, index: int, passes: int) -> bool:
        return (passes + self._phase.get(index, 0)) % self._every[index] == 0

    def _samples(self, index: int) -> int:
        if self._plan.samples is None:
            return self.points[index].samples
        return min(SAMPLES, self._plan.samples - sum(len(v.seconds) for v in self.points[index].visits))

    def _stops(self, index: int, over: bool) -> bool:
        why, visits = None, self.points[index].visits
        if self._plan.samples is not None:
            why = "fixed" if self._samples(index) == 0 else None
        elif visits and visits[-1].t0 - visits[0].t0 >= SETTLED and precise(self._medians[index]):
            why = "precise"
        elif over and len(visits) >= FEWEST_VISITS:
            why = "budget"
        if why:
            self._stop(index, why)
        return why is not None

    def _watch_one(self) -> None:
        """Visits of a quarter of a second to the one point until the time is over; the length follows the link."""
        assert self._plan.seconds is not None
        sample = max(self._visit_time(0, 1) - self._cost[0].fixed, 1e-9)
        began = self._now()
        while (left := self._plan.seconds - (self._now() - began)) > LEFT_OVER:
            before, samples = self._now(), max(1, round(min(WATCH_VISIT, left) / sample))
            self._visit(0, samples)
            sample = max((self._now() - before) / samples, 1e-9)
        self._stop(0, "duration")


def _trial(steps: int, sample: float) -> tuple[int, int]:
    """Lead-in and samples of a trial: after a slow sample as few as can be, after a fast one enough to settle."""
    if sample > SLOW:
        return 0, 1
    return (max(steps, 30), 9) if 0 < sample < FAST else (steps, 3)


def _grown(steps: int, sample: float, needed: float) -> int:
    """More steps, towards a sample of `needed` seconds; at most sixteen times as many."""
    factor = min(16.0, 1.2 * needed / sample) if sample > 0 else 16.0
    return min(MOST_STEPS, max(steps + 1, _whole(steps * factor)))


def _whole(value: float) -> int:
    return max(1, math.ceil(min(value, MOST_STEPS)))


def _lead_in(steps: int, step: float) -> int:
    return 3 * steps if 3 * steps * step <= LONG_LEAD_IN else 1
