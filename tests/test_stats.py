import math

import numpy as np
import pytest

from pingpong import stats
from tests.builders import point

TRIALS = 400


@pytest.mark.parametrize(
    ("n", "low", "high", "level"),
    [
        # level = 1 - 2 P(Binomial(n, 1/2) < k) for the k-th smallest and k-th largest
        (5, 1, 5, 1 - 2 * 1 / 2**5),  # 0.9375
        (10, 2, 9, 1 - 2 * (1 + 10) / 2**10),  # 0.9785; the 3rd and 8th would have 0.891
        (20, 6, 15, 1 - 2 * (1 + 20 + 190 + 1140 + 4845 + 15504) / 2**20),  # 0.9586; the 7th and 14th 0.885
    ],
)
def test_median_interval_by_hand(n, low, high, level):
    shuffled = np.random.default_rng(n).permutation(np.arange(1, n + 1) * 10.0)
    interval = stats.median_interval(shuffled)
    assert (interval.low, interval.high) == (low * 10, high * 10)
    assert interval.level == pytest.approx(level, abs=1e-12)


@pytest.mark.parametrize("n", range(5))
def test_fewer_than_five_values_carry_no_interval(n):
    assert stats.median_interval([1.0] * n) is None


@pytest.mark.parametrize("n", [*range(5, 60), 160])
def test_median_interval_is_the_narrowest_symmetric_one_that_reaches_the_level(n):
    def level(k):
        return 1 - sum(math.comb(n, i) for i in range(k)) / 2 ** (n - 1)

    enough = 0.945 if n >= 10 else 0.93  # docs/design.md: fewer than ten visits are never looked at
    interval = stats.median_interval([float(i) for i in range(1, n + 1)])
    k = int(interval.low)
    assert interval.high == n + 1 - k
    assert interval.level == pytest.approx(level(k)) and level(k) >= enough
    assert level(k + 1) < enough or k == n // 2


def test_reach_is_that_of_the_farther_end_and_never_small_without_a_center():
    interval = stats.Interval(0.98, 1.04, 0.95)
    assert interval.reach(1.0) == pytest.approx(0.04)
    assert interval.reach(1.02) == pytest.approx(0.04 / 1.02)
    assert stats.Interval(0.0, 0.0, 0.95).reach(0.0) == math.inf
    assert stats.Interval(-1.0, -1.0, 0.95).reach(-1.0) == math.inf


def test_independent_values_count_in_full_and_correlated_ones_for_fewer():
    random = np.random.default_rng(3)
    worth = [stats.independent(list(random.normal(size=200))) for _ in range(50)]
    assert np.mean(worth) > 180 and max(worth) <= 200
    steps = random.normal(size=4000)
    values = [0.0]
    for step in steps:
        values.append(0.6 * values[-1] + step)
    # n (1 - r) / (1 + r) with r = 0.6 is n / 4
    assert stats.independent(values) == pytest.approx(4001 / 4, rel=0.15)
    assert stats.independent([1.0] * 20) == 20
    # one huge outlier among independent values is not a correlation
    assert stats.independent([*random.normal(1, 0.01, 40), 1e6]) > 25


def test_an_interval_of_values_worth_fewer_is_wider():
    values = [float(i) for i in range(1, 41)]
    full, half = stats.median_interval(values), stats.median_interval(values, 20.4)
    # 20 independent values: the 6th of 20, so at 6/21 of the values: 6 * 41 // 21 = 11
    assert (half.low, half.high) == (11.0, 30.0) and full.low > half.low
    assert stats.median_interval(values, 4.9) is None
    assert stats.median_interval(values, 400.0) == full


@pytest.mark.parametrize(
    ("kernel", "moved"),
    [
        ("blocking", 2 * 1000),  # 2 messages in one direction at a time
        ("asynchronous", 2 * 1000),
        ("bidirectional", 4 * 1000 / 2),  # 4 messages, 2 directions
    ],
)
def test_bandwidth_is_per_direction_and_latency_half_a_round_trip(kernel, moved):
    made = point(kernel, size=1000)
    assert stats.bandwidth(made, 1e-5) == pytest.approx(moved / 1e-5)
    assert stats.one_way(made, 1e-5) == pytest.approx(0.5e-5)


def test_a_completion_time_is_the_step_itself():
    put = point("put", legs=1, messages=1, directions=1, time="completion")
    assert stats.one_way(put, 3e-6) == pytest.approx(3e-6)


@pytest.mark.parametrize(
    ("n", "q", "given"),
    [
        (999, 0.99, False),  # 9.99 samples lie beyond it
        (1000, 0.99, True),  # 10
        (99, 0.9, False),
        (100, 0.9, True),
        (19, 0.5, False),
        (20, 0.5, True),
        (100, 0.1, True),
        (9999, 0.999, False),
        (10000, 0.999, True),
    ],
)
def test_a_percentile_needs_ten_samples_beyond_it(n, q, given):
    value = stats.percentile(np.arange(n, dtype=float), q)
    assert (value is not None) == given
    if given:
        assert value == pytest.approx(q * (n - 1))  # of equally spaced values


def test_summary_by_hand():
    # two steps a sample; visit medians per step 1, 3, 2, 5, 4 µs
    visits = [[2e-6, 1e-6, 9e-6], [6e-6], [4e-6, 4e-6], [10e-6], [8e-6, 6e-6, 10e-6]]
    summary = stats.summarize(point(visits=visits, steps=2))
    assert summary.median == pytest.approx(3e-6)
    assert (summary.interval.low, summary.interval.high) == pytest.approx((1e-6, 5e-6))
    assert summary.minimum == pytest.approx(0.5e-6)
    assert (summary.samples, summary.visits) == (10, 5)
    assert summary.p99 is None and summary.modes == [] and summary.invalid is None


def test_the_median_is_over_visits_not_over_samples():
    # a long visit does not outvote two short ones
    summary = stats.summarize(point(visits=[[1e-6] * 100, [2e-6], [3e-6]]))
    assert summary.median == pytest.approx(2e-6)


def test_p99_is_given_for_a_thousand_samples():
    visits = [[1e-6] * 99 + [5e-6]] * 10 + [[5e-6] * 5 + [1e-6] * 5]
    assert stats.summarize(point(visits=visits)).p99 == pytest.approx(5e-6)  # 15 of 1010 are 5 µs


@pytest.mark.parametrize(("bad", "count"), [([0.0], 1), ([-1e-6], 1), ([0.0, -1e-3], 2), ([math.nan], 1)])
def test_samples_that_are_not_positive_make_a_point_invalid(bad, count):
    summary = stats.summarize(point(visits=[[1e-6] * 4, [1e-6, *bad]]))
    assert summary.median is None and summary.interval is None and summary.minimum is None
    assert f"{count} of {5 + len(bad)} samples" in summary.invalid


def test_a_clock_standing_still_gives_no_infinite_rate():
    still = point(visits=[[0.0] * 30] * 10)
    assert stats.summarize(still).median is None
    assert stats.headline([still]) is None
    good = point(size=1000, visits=[[2e-6]] * 10)
    assert stats.headline([still, good]).rate == pytest.approx(1e9)


@pytest.mark.parametrize("visits", [[], [[]]])
def test_a_point_without_samples_says_so(visits):
    assert stats.summarize(point(visits=visits)).invalid == "no samples"


def test_headline_takes_the_best_of_all_ping_pongs_and_no_completion_time():
    points = [
        point(size=8, visits=[[4e-6]]),  # half trip 2 µs, 4 MB/s
        point(size=1000, visits=[[1e-5]]),  # 200 MB/s
        point("bidirectional", size=1000, visits=[[8e-6]]),  # 4 µs, 4 * 1000 / 8e-6 / 2 = 250 MB/s
        point("put", size=10**6, visits=[[1e-6]], time="completion", legs=1, messages=1),
    ]
    headline = stats.headline(points)
    assert headline.rate == pytest.approx(250e6)
    assert headline.latency == pytest.approx(2e-6)
    assert stats.headline(points[-1:]) is None
    assert stats.headline([]) is None


def bimodal(random, n, share):
    """Medians of `n` visits, of which `share` lie at 0.13 µs and the others at 0.355 µs, with 2 % noise."""
    low = round(n * share)
    return np.repeat([0.13e-6, 0.355e-6], [low, n - low]) * random.normal(1, 0.02, n)


@pytest.mark.parametrize("share", [0.5, 0.7])
@pytest.mark.parametrize("n", [10, 20, 40, 80])
def test_two_modes_are_seen_as_two(n, share):
    random = np.random.default_rng(3)
    found = [stats.modes(random.permutation(bimodal(random, n, share))) for _ in range(TRIALS)]
    right = [modes for modes in found if len(modes) == 2]
    assert len(right) >= 0.95 * TRIALS
    for low, high in right:
        # the median of at least 3 values with 2 % noise is within 6 % (3 sigma) nearly always; 10 % is sure
        assert low.value == pytest.approx(0.13e-6, rel=0.1) and high.value == pytest.approx(0.355e-6, rel=0.1)
        assert (low.share, high.share) == pytest.approx((share, 1 - share))


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_two_modes_are_seen_when_each_visit_falls_by_chance(share):
    random = np.random.default_rng(4)

    def drawn():
        return np.where(random.random(80) < share, 0.13e-6, 0.355e-6) * random.normal(1, 0.02, 80)

    assert sum(len(stats.modes(drawn())) == 2 for _ in range(TRIALS)) >= 0.95 * TRIALS


def outlier(random, n):
    values = random.normal(1, 0.03, n)
    values[random.integers(n)] = 100
    return values


UNIMODAL = {
    "normal, 3 %": lambda random, n: random.normal(1, 0.03, n),
    "lognormal, 10 %": lambda random, n: random.lognormal(0, 0.1, n),
    "lognormal, 50 %": lambda random, n: random.lognormal(0, 0.5, n),
    "one huge outlier": outlier,
    "drift of 10 %": lambda random, n: np.linspace(1, 1.1, n) * random.normal(1, 0.01, n),
}


@pytest.mark.parametrize("n", [10, 20, 40, 80])
@pytest.mark.parametrize("make", UNIMODAL.values(), ids=UNIMODAL.keys())
def test_one_mode_is_not_split(make, n):
    random = np.random.default_rng(5)
    assert sum(stats.modes(make(random, n)) == [] for _ in range(TRIALS)) >= 0.95 * TRIALS


@pytest.mark.parametrize(("apart", "found"), [(1.08, 0), (1.15, 2)])
def test_groups_less_than_a_tenth_apart_are_one(apart, found):
    values = np.repeat([1.0, apart], 10) * np.random.default_rng(7).normal(1, 0.001, 20)
    assert len(stats.modes(values)) == found


def test_a_group_that_falls_into_two_is_split_again():
    # the gap before 100 is far wider than three times the spread (1) below it; then the one between 1 and 2 is
    values = np.repeat([1.0, 2.0, 100.0], 10) * np.random.default_rng(6).normal(1, 0.01, 30)
    assert [round(mode.value) for mode in stats.modes(values)] == [1, 2, 100]


@pytest.mark.parametrize("n", range(6))
def test_too_few_visits_have_no_modes(n):
    assert stats.modes([1.0, 9.0, 1.0, 9.0, 1.0, 9.0][:n]) == []
