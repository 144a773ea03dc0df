"""When a point stops, and that the interval which it then has covers the truth as often as it says."""

from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pingpong.measure.schedule import SETTLED
from pingpong.measure.stopping import Share, is_look, precise, shares
from pingpong.stats import independent, median_interval
from tests.builders import steady

MOST = 80  # visits in these simulations
COVERED = 0.93
SAMPLES = 30

# Real round trips; where and when they were measured stands in the file.
_LINES = (Path(__file__).parent / "data/stream-blocking-1K.txt").read_text().splitlines()
RECORDED = np.array([float(word) for line in _LINES if not line.startswith("#") for word in line.split()])


def test_looks_come_after_10_20_40_and_so_on_only():
    assert [n for n in range(1000) if is_look(n)] == [10, 20, 40, 80, 160, 320, 640]


def test_precise_is_an_interval_within_one_percent():
    # of ten values the interval is from the 2nd to the 9th
    narrow = [1.0, 2.0, 1.0, 0.991, 1.0, 1.009, 0.5, 1.0, 1.0, 1.0]  # 0.9 % to either side
    wide = [1.0, 2.0, 1.0, 0.991, 1.0, 1.011, 0.5, 1.0, 1.0, 1.0]  # 1.1 % above
    assert precise(narrow) and not precise(wide)


def test_values_that_come_in_runs_are_not_precise():
    """The same ten values one after the other: neighbours resemble each other, so they count for fewer."""
    assert not precise([0.5, 0.991, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.009, 2.0])


@pytest.mark.parametrize("n", [0, 1, 5, 9, 11, 15, 19, 21, 30, 39, 50, 79])
def test_between_looks_nothing_is_precise(n):
    assert not precise([1.0] * n)


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_clock_that_stands_still_or_steps_back_is_never_precise(value):
    assert not precise([value] * 10)


# How points share the time: costs are (before the samples, a sample) in seconds.


def test_all_points_get_most_samples_in_every_pass_if_they_fit():
    # 10 * (0.001 + 30 * 0.001) = 0.31
    assert shares([(0.001, 0.001)] * 10, 30, 0.32) == [Share(30, 1)] * 10


def test_the_long_points_get_fewer_samples_first():
    # 100 short ones need 100 * 30 µs = 3 ms; 0.497 s are left for the long one: 0.1 s before 3 samples of 0.1 s
    assert shares([(0.0, 1e-6)] * 100 + [(0.1, 0.1)], 30, 0.5) == [Share(30, 1)] * 100 + [Share(3, 1)]


@pytest.mark.parametrize(
    ("long", "seconds", "expected"),
    [
        # 3 ms for the short ones as above
        ((0.1, 0.1), 0.1, Share(1, 3)),  # 97 ms left; a visit of 200 ms: 100 ms a pass in 2, 67 ms in 3
        ((0.105, 0.01), 0.06, Share(10, 4)),  # 57 ms; 105 ms before 10 * 10 ms: 68 ms a pass in 3, 51 ms in 4
        ((0.1, 0.0001), 0.06, Share(30, 2)),  # 57 ms; never more than 30 samples: 103 ms, 51.5 ms a pass in 2
    ],
)
def test_then_they_get_fewer_visits_with_as_long_in_samples_as_before_them(long, seconds, expected):
    assert shares([(0.0, 1e-6)] * 100 + [long], 30, seconds) == [Share(30, 1)] * 100 + [expected]


def test_no_point_is_visited_in_fewer_than_one_pass_of_five():
    assert shares([(10.0, 10.0)] * 3, 30, 0.1) == [Share(1, 5)] * 3
    assert shares([(10.0, 10.0)] * 3, 30, 0.0) == [Share(1, 5)] * 3


def test_short_points_are_not_cut_for_long_ones_that_are_too_long_anyway():
    """The long one takes 20 s / 5 a pass: the 30 µs of the short one do not matter."""
    assert shares([(0.0, 1e-6), (10.0, 10.0)], 30, 0.5) == [Share(30, 1), Share(1, 5)]


COSTS = st.lists(st.tuples(st.floats(0, 10), st.floats(1e-6, 10)), min_size=1, max_size=30)


def poorest(costs, most):
    """As long in samples as before them, but a sample at least; in one pass of five."""
    return [Share(max(1, min(most, int(fixed / sample))), 5) for fixed, sample in costs]


def average(costs, chosen):
    """Seconds that a pass takes on average."""
    return sum((fixed + n * sample) / every for (fixed, sample), (n, every) in zip(costs, chosen, strict=True))


@steady
@given(COSTS, st.integers(1, 30), st.floats(0.01, 100))
def test_every_point_gets_a_sample_in_one_of_five_passes_at_least(costs, most, seconds):
    found = shares(costs, most, seconds)
    assert len(found) == len(costs)
    assert all(1 <= samples <= most and 1 <= every <= 5 for samples, every in found)


@steady
@given(COSTS, st.integers(1, 30), st.floats(0.01, 100))
def test_a_pass_takes_no_longer_than_it_may_but_for_long_points_and_equal_shares(costs, most, seconds):
    total, least = average(costs, shares(costs, most, seconds)), average(costs, poorest(costs, most))
    # The long ones at their poorest, and of the rest each no more than an equal share.
    assert total <= max(seconds, least + seconds) * (1 + 1e-9)


@steady
@given(COSTS, st.integers(1, 30), st.floats(1.001, 3))
def test_no_visit_is_cut_that_would_have_fitted(costs, most, room):
    whole = [Share(most, 1)] * len(costs)
    assert shares(costs, most, room * average(costs, whole)) == whole


# Coverage: the whole rule on streams with a known truth.


LOOKS = [n for n in range(1, 1000) if is_look(n)]


def ended(medians, most, fewest=0):
    """How many visits the rule makes on a stream of visit medians: until precise at a look, or `most`.

    From `fewest` on they are spread over enough time to stop; 0 where a pass takes so long that any look may.
    """
    return next((n for n in LOOKS if fewest <= n <= most and precise(medians[:n])), most)


def coverage(streams, truth, most=MOST):
    """The share of the streams (one a row) whose final interval has the truth in it."""
    hits = 0
    for medians in streams.tolist():
        seen = medians[: ended(medians, most)]
        interval = median_interval(seen, independent(seen))
        hits += interval is not None and interval.low <= truth <= interval.high
    return hits / len(streams)


def ar1(random, shape, correlation, sigma):
    """Stationary normal AR(1) along the last axis, with standard deviation `sigma`."""
    noise = random.normal(0, sigma, shape)
    values = np.empty(shape)
    values[..., 0] = noise[..., 0]
    for i in range(1, shape[-1]):
        values[..., i] = correlation * values[..., i - 1] + np.sqrt(1 - correlation**2) * noise[..., i]
    return values


# ±1 % is reached at the first look with 0.5 %, in the middle with 2 %, and hardly ever with 20 %.
@pytest.mark.parametrize("sigma", [0.005, 0.01, 0.02, 0.2])
def test_coverage_on_independent_lognormal_visits(sigma):
    streams = np.random.default_rng(1).lognormal(0, sigma, (2000, MOST))
    assert coverage(streams, truth=1.0) >= COVERED


@pytest.mark.parametrize(
    ("most", "sigma", "trials"),
    [(80, 0.03, 15_000), (68, 0.03, 15_000), (36, 0.025, 15_000), (320, 0.055, 2_000)],
)
def test_coverage_where_looking_costs_most(most, sigma, trials):
    """The spread at which most points are stopped by one of several looks; the budget may end at any visit."""
    streams = np.random.default_rng(2).lognormal(0, sigma, (trials, most))
    assert coverage(streams, truth=1.0, most=most) >= COVERED


@pytest.mark.parametrize("sigma", [0.02, 0.05])
def test_coverage_with_samples_that_depend_on_each_other_inside_visits(sigma):
    random = np.random.default_rng(3)

    def medians(trials, visits):
        samples = np.exp(ar1(random, (trials, visits, SAMPLES), 0.9, sigma))
        return np.median(samples, axis=2)

    truth = np.median(medians(1000, 100))  # of 100 000 visits: its own error is a hundredth of an interval
    assert coverage(medians(1000, MOST), truth) >= COVERED


def test_the_interval_over_consecutive_samples_does_not_cover():
    """The reason for the rule: with as many samples from one visit a nominal 95 % interval covers half that."""
    random = np.random.default_rng(4)
    streams = np.exp(ar1(random, (1000, SAMPLES * 10), 0.9, 0.02))
    intervals = [median_interval(row) for row in streams]
    covered = np.mean([i.low <= 1.0 <= i.high for i in intervals])
    assert all(i.level >= COVERED for i in intervals)
    assert covered < 0.6


def test_coverage_on_visits_with_two_modes():
    random = np.random.default_rng(5)
    slow = random.random((1500, MOST)) < 0.3
    streams = np.where(slow, 0.355, 0.13) * random.lognormal(0, 0.02, slow.shape)
    # the overall median is the 0.5 / 0.7 quantile of the fast mode
    truth = 0.13 * np.exp(0.02 * NormalDist().inv_cdf(0.5 / 0.7))
    assert coverage(streams, truth) >= COVERED


@pytest.mark.parametrize("sigma", [0.005, 0.02])
def test_coverage_with_one_huge_outlier(sigma):
    random = np.random.default_rng(6)
    streams = random.lognormal(0, sigma, (1500, MOST))
    streams[np.arange(len(streams)), random.integers(0, 10, len(streams))] *= 1000  # before the first look
    assert coverage(streams, truth=1.0) >= COVERED


def test_coverage_on_a_slow_drift():
    """10 % over the whole run, in noise that keeps the rule going to its end: no rule can know a later drift."""
    random = np.random.default_rng(7)
    drift = np.linspace(1, 1.1, MOST)
    streams = drift * random.lognormal(0, 0.05, (1500, MOST))
    truth = np.median(np.linspace(1, 1.1, 100_001) * random.lognormal(0, 0.05, 100_001))
    assert np.mean([ended(row, MOST) == MOST for row in streams.tolist()]) > 0.95
    assert coverage(streams, truth) >= COVERED


def test_coverage_on_recorded_visits():
    random = np.random.default_rng(8)
    streams = random.choice(RECORDED, (2000, MOST))
    assert len(RECORDED) > 2000
    assert coverage(streams, truth=np.median(RECORDED)) >= COVERED


def test_the_interval_over_consecutive_recorded_visits_does_not_cover():
    """Shuffled passes spread the visits of a point: 40 in a row tell what the machine did in one second."""
    starts = range(0, len(RECORDED) - 40, 10)
    intervals = [median_interval(RECORDED[at : at + 40]) for at in starts]
    truth = np.median(RECORDED)
    assert np.mean([i.low <= truth <= i.high for i in intervals]) < 0.6


# The recording in the order of time: a visit each 26.6 ms, 226 in the six seconds of a run.
APART, BUDGET = 26.6e-3, 226


def in_time_order(spacing, settled=SETTLED, most=BUDGET):
    """For starts all over the recording: after how many seconds the rule stops, and whether the interval covers.

    A run has every `spacing`-th visit; the truth is the median of the six seconds from its start.
    """
    seconds, covered = [], []
    for at in range(0, len(RECORDED) - BUDGET, 7):
        recorded = RECORDED[at : at + BUDGET]
        visits = recorded[::spacing][:most].tolist()
        medians = visits[: ended(visits, len(visits), 1 + settled / (spacing * APART))]
        interval = median_interval(medians, independent(medians))
        seconds.append((len(medians) - 1) * spacing * APART)
        covered.append(interval is not None and interval.low <= np.median(recorded) <= interval.high)
    return np.array(seconds), np.array(covered)


def test_coverage_on_recorded_visits_in_time_order_as_the_schedule_makes_them():
    seconds, covered = in_time_order(spacing=4)  # 0.106 s
    assert seconds.min() >= 2 and seconds.max() <= 6
    assert covered.mean() >= COVERED


def test_without_that_distance_the_rule_would_not_cover_if_it_could_stop_at_once():
    """Neighbouring visits that happen to agree say nothing of the next seconds: hence the two that must pass."""
    seconds, covered = in_time_order(spacing=1, settled=0)
    assert covered.mean() < COVERED
    hasty = seconds < SETTLED
    assert hasty.sum() >= 20 and covered[hasty].mean() < 0.6
    assert in_time_order(spacing=1)[1].mean() >= COVERED


def test_ten_visits_in_one_second_do_not_cover_the_six():
    """At the distance that the schedule keeps, and whatever their interval: to count visits does not do."""
    assert in_time_order(spacing=4, settled=0, most=10)[1].mean() < 0.7
