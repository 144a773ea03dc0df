from itertools import chain, count, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pingpong.measure.clock import harness_cost, now, stamped, step_and_cost, unstamped
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
    clock, stamps, lasts = Ticks(), [], []
    for last in stamped(lead_in, steps, samples, stamps, clock):
        clock.time += 3  # what a step takes
        lasts.append(last)
    total = lead_in + steps * samples
    assert lasts == [False] * (total - 1) + [True]
    begun = 1_000_000 + 3 * lead_in
    assert stamps == [begun + 3 * steps * n for n in range(samples + 1)]
    assert clock.read == samples + 1


def test_the_last_stamp_comes_after_the_last_step_not_before_it():
    clock, stamps = Ticks(), []
    iterator = stamped(0, 1, 1, stamps, clock)
    assert next(iterator) is True
    assert len(stamps) == 1
    assert next(iterator, None) is None
    assert len(stamps) == 2


@steady
@given(st.integers(1, 1000))
def test_the_peer_makes_as_many_steps_and_knows_the_last_one(total):
    assert list(unstamped(total)) == [False] * (total - 1) + [True]


def test_harness_cost_separates_what_a_sample_costs_from_what_a_step_costs():
    clock = Ticks(cost=40)

    def empty(steps):
        for _ in steps:
            clock.time += 7

    assert harness_cost(empty, clock) == pytest.approx((40e-9, 7e-9))


def test_harness_cost_is_never_negative():
    assert harness_cost(lambda steps: [None for _ in steps] and None, Ticks()) == (0, 0)
    slow_start = chain(repeat(1000, 150), repeat(0))  # the first pass through new code is slower
    clock = Ticks()

    def empty(steps):
        for _ in steps:
            clock.time += next(slow_start)

    sample, step = harness_cost(empty, clock)
    assert sample >= 0 and step >= 0
