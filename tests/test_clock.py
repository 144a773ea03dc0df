import random
from contextlib import contextmanager
from itertools import chain, count, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pingpong.measure import clock as clocks
from pingpong.measure.clock import Block, now, resolution, step_and_cost
from tests.builders import steady


class Ticks:
    """A clock of integer nanoseconds that moves by `cost` at each reading and where it is told to."""

    def __init__(self, cost=0):
        self.time, self.cost, self.read = 1_000_000, cost, 0

    def __call__(self):
        self.read += 1
        self.time += self.cost
        return self.time


def test_the_step_is_the_smallest_difference_that_is_seen():
    # 1 ns at each reading, seen in steps of 16
    fine = count()
    step, cost = step_and_cost(lambda: next(fine) // 16 * 16)
    assert step == 16
    assert cost == pytest.approx(1, rel=0.01)


def test_where_reading_takes_longer_than_a_tick_the_step_is_the_reading():
    step, cost = step_and_cost(Ticks(cost=40))
    assert (step, cost) == (40, 40)


def test_a_clock_in_seconds_is_measured_in_seconds():
    ticks = count()
    step, cost = step_and_cost(lambda: next(ticks) * 2.0**-20)
    assert (step, cost) == (2.0**-20, 2.0**-20)


def test_a_clock_that_stands_still_has_no_step():
    assert step_and_cost(lambda: 5) == (None, 0)


def test_a_step_back_is_no_step():
    readings = chain([0, 10, 3, 13], count(20, 10))
    step, _ = step_and_cost(lambda: next(readings))
    assert step == 7  # from 13 to 20; from 10 to 3 is none


def test_the_clock_of_the_samples_is_integer_and_never_steps_back():
    readings = [now() for _ in range(1000)]
    assert all(isinstance(r, int) for r in readings) and readings == sorted(readings)


@steady
@given(st.integers(0, 20), st.integers(1, 20), st.integers(1, 10))
def test_a_visit_has_all_its_steps_and_stamps_before_and_after_each_sample(lead_in, steps, samples):
    clock, lasts = Ticks(), []
    block = Block(lead_in, steps, samples, clock)
    for last in block:
        clock.time += 3  # what a step takes
        lasts.append(last)
    total = lead_in + steps * samples
    assert lasts == [False] * (total - 1) + [True]
    begun = 1_000_000 + 3 * lead_in
    assert block.stamps == [begun + 3 * steps * n for n in range(samples + 1)]
    assert block.seconds() == pytest.approx([3e-9 * steps] * samples)
    assert clock.read == samples + 1


def test_the_last_stamp_comes_after_the_last_step_not_before_it():
    block = Block(0, 1, 1, Ticks())
    iterator = iter(block)
    assert next(iterator) is True
    assert len(block.stamps) == 1
    assert next(iterator, None) is None
    assert len(block.stamps) == 2


@steady
@given(st.integers(0, 20), st.integers(1, 20), st.integers(1, 10))
def test_the_peer_makes_as_many_steps_and_knows_the_last_one(lead_in, steps, samples):
    block = Block(lead_in, steps, samples)
    assert list(block) == [False] * (lead_in + steps * samples - 1) + [True]
    assert block.stamps == []


def empty_kernel(clock, takes):
    @contextmanager
    def factory(link):
        def both(steps):
            for _ in steps:
                clock.time += next(takes)

        yield both, both

    return factory


def test_the_harness_is_told_apart_in_samples_and_steps(monkeypatch):
    clock = Ticks(cost=40)
    monkeypatch.setattr(clocks, "now", clock)
    found = clocks.harness(empty_kernel(clock, repeat(7)))
    assert (found.sample, found.step) == pytest.approx((40e-9, 7e-9))


def test_the_cost_of_the_harness_is_never_negative(monkeypatch):
    clock = Ticks()
    monkeypatch.setattr(clocks, "now", clock)
    slow_start = chain(repeat(1000, 150), repeat(0))  # the first pass through new code is slower
    found = clocks.harness(empty_kernel(clock, slow_start))
    assert found.sample >= 0 and found.step >= 0


@pytest.mark.parametrize(
    ("tick", "told"),
    [(1, 1), (3, 1), (10, 10), (125 / 3, 125 / 3), (100, 100), (1e6, 1e6)],  # 125 / 3: a counter of 24 MHz
)
def test_the_resolution_is_the_tick_however_long_a_reading_takes(tick, told):
    """Readings 50 to 70 ns apart of a clock that counts ticks, as whole nanoseconds."""
    random_, passed = random.Random(1), 0.0

    def reading():
        nonlocal passed
        passed += 50 + 20 * random_.random()
        return int(passed // tick * tick)

    assert resolution(reading) == pytest.approx(told, rel=1e-3)


def test_a_clock_that_stands_still_has_no_resolution():
    assert resolution(lambda: 5) is None
