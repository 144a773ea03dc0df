"""The schedule on made-up links, in virtual time: no MPI, no clock."""

from itertools import pairwise
from math import ceil

import numpy as np
import pytest

from pingpong import stats
from pingpong.measure.schedule import Schedule
from pingpong.model import Clock, Harness, Mismatch
from pingpong.units import parse_sizes
from tests.builders import CLOCK, FakeLink, Silent, plan, point

SIZES = parse_sizes("8:8M")


def fast(size):
    """Shared memory: 1 µs and 10 GB/s each way."""
    return 2 * (1e-6 + size / 10e9)


def gigabit(size):
    """20 µs and 1 Gbit/s each way: 134 ms a step at 8 MiB."""
    return 2 * (20e-6 + size * 8 / 1e9)


def modem(size):
    """1 ms and 10 Mbit/s each way: 13.4 s a step at 8 MiB."""
    return 2 * (1e-3 + size * 8 / 10e6)


def measured(link, sizes=(8,), clock=CLOCK, record=None, kernels=("blocking",), **wanted):
    """The points of a whole run on the link."""
    points = [point(kernel, size, lead_in=0, samples=1, stop=None) for kernel in kernels for size in sizes]
    wanted = plan(sizes=list(sizes), kernels=list(kernels), **wanted)
    Schedule(wanted, points, link, record or Silent(), clock, link.now, link.pause).run()
    return points


def visits(link):
    """The calls of a link that are visits, without the calibration (whose number is 0)."""
    return [call for call in link.calls if call.number > 0]


def samples(point):
    return sum(len(visit.seconds) for visit in point.visits)


# A fast link


@pytest.fixture(scope="module")
def quiet():
    """All points in one pass: 30 samples and a lead-in of 3 take 28 ms at 4 MiB, 70 ms at all sizes."""
    link = FakeLink(fast, noise=0.002)
    return link, measured(link, parse_sizes("8:4M"))


def test_on_a_quiet_fast_link_every_point_is_precise(quiet):
    link, points = quiet
    assert {p.stop for p in points} == {"precise"}
    # Passes begin 0.1 s apart: 10 visits are spread over 0.9 s, 20 over 1.9 s and 40 over 3.9 s.
    assert {len(p.visits) for p in points} == {40}
    assert link.time < 5  # four seconds and the calibration
    for p in points:
        assert stats.summarize(p).median == pytest.approx(fast(p.size), rel=0.01)


def test_a_visit_has_thirty_samples_if_time_allows(quiet):
    _, points = quiet
    assert {len(visit.seconds) for p in points for visit in p.visits} == {30}
    assert {p.samples for p in points} == {30}


def test_every_pass_visits_each_active_point_once_in_another_order(quiet):
    link, points = quiet
    passes = {}
    for call in visits(link):
        passes.setdefault(call.number, []).append(call.index)
    assert [call.number for call in visits(link)] == sorted(call.number for call in visits(link))
    for number, order in passes.items():
        assert sorted(order) == [i for i, p in enumerate(points) if len(p.visits) >= number]
    orders = [tuple(passes[number]) for number in range(1, 11)]
    assert len(set(orders)) == 10 and tuple(range(len(points))) not in orders


def test_visits_say_when_they_began(quiet):
    _, points = quiet
    for p in points:
        begun = [visit.t0 for visit in p.visits]
        assert begun == sorted(set(begun)) and begun[0] > 0


def test_the_order_follows_the_seed():
    def orders(seed):
        link = FakeLink(fast)
        measured(link, SIZES, seed=seed)
        return [call.index for call in visits(link)]

    assert orders(1) == orders(1) != orders(2)


def test_all_kernels_are_shuffled_together():
    link = FakeLink(fast)
    measured(link, [8, 1024, 65536], kernels=["blocking", "asynchronous", "bidirectional"])
    first_pass = [call.index for call in visits(link)][:9]
    assert sorted(first_pass) == list(range(9))
    assert [index // 3 for index in first_pass] != sorted(index // 3 for index in first_pass)


def test_a_noisy_point_goes_on_until_the_budget_is_spent_when_others_have_stopped():
    random = np.random.default_rng(1)
    link = FakeLink(lambda size: fast(size) * (random.lognormal(0, 0.3) if size == 1024 else 1))
    calm, noisy = measured(link, [8, 1024], budget=5.0)
    assert (calm.stop, len(calm.visits)) == ("precise", 40)  # over 3.9 s; 20 take 1.9 s
    assert noisy.stop == "budget" and len(noisy.visits) == pytest.approx(50, abs=2)  # one each 0.1 s
    assert link.time == pytest.approx(5.0, rel=0.05)


def test_no_point_is_precise_before_its_visits_are_spread_over_two_seconds():
    """However calm it is: twenty visits of a point alone take 1.9 s, and 1.9 s is all this run has."""
    (p,) = measured(FakeLink(fast), [8], budget=1.95)
    assert p.stop == "budget" and len(p.visits) == pytest.approx(20, abs=1)


def test_ten_visits_are_enough_if_they_take_two_seconds():
    # Each point: 0.04 s of lead-in and a sample as long; ten of them are too much for 0.1 s, even a fifth of them:
    # 10 * 0.08 / 5 = 0.16 s a pass, so a visit each 0.8 s, and ten are spread over 7.2 s.
    points = measured(FakeLink(lambda size: 0.04), range(1, 11))
    assert {(p.stop, len(p.visits)) for p in points} == {("precise", 10)}
    for p in points:
        assert p.visits[-1].t0 - p.visits[0].t0 == pytest.approx(7.2, rel=0.05)


def test_visits_of_a_point_keep_a_distance():
    """However few points there are: what follows closely sees the same moment of the machine."""
    (p,) = measured(FakeLink(fast, noise=0.1), [8])
    between = [b.t0 - a.t0 for a, b in pairwise(p.visits)]
    assert between == pytest.approx([0.1] * len(between), abs=1e-3)


def test_the_first_step_of_a_size_is_reported():
    points = measured(FakeLink(fast), [8, 1024])
    assert [p.first for p in points] == pytest.approx([fast(8), fast(1024)])


def test_lead_in_is_untimed_and_said():
    link = FakeLink(fast)
    points = measured(link, SIZES)
    for p in points:
        assert p.lead_in >= 1
        assert {call.lead_in for call in visits(link) if link.points[call.index] is p} == {p.lead_in}


@pytest.mark.parametrize(
    "method", [{}, {"method": "fixed", "samples": 40}, {"method": "duration", "seconds": 2.0}]
)
def test_the_lead_in_that_was_asked_for_is_used(method):
    for steps in (0, 7):
        link = FakeLink(fast)
        measured(link, [8], lead_in=steps, **method)
        assert {call.lead_in for call in visits(link)} == {steps}


# A slow link


@pytest.mark.parametrize("step", [gigabit, modem], ids=["1 Gbit/s", "10 Mbit/s"])
def test_a_slow_link_ends_within_its_budget_or_after_five_visits(step):
    link = FakeLink(step, noise=0.1)
    points = measured(link, SIZES)
    assert {p.stop for p in points} == {"budget"}
    assert min(len(p.visits) for p in points) >= 5
    assert all(len(visit.seconds) >= 1 for p in points for visit in p.visits)
    calibration = sum(call.took for call in link.calls if call.number == 0)
    # five visits of each; a tenth more for the noise and the overhead
    five = 5 * sum((p.lead_in + p.samples * p.steps) * step(p.size) for p in points)
    assert link.time <= calibration + 10.0 + 1.1 * five
    assert link.time >= 10.0 / 1.1


def test_a_slow_step_is_repeated_once_in_calibration_and_not_in_the_lead_in():
    """Once, because a first step may be slow for reasons of its own: it connects, or registers memory."""
    link = FakeLink(modem)
    (p,) = measured(link, [8 * 2**20])
    assert (p.steps, p.lead_in) == (1, 1)
    assert [call.samples for call in link.calls if call.number == 0] == [1, 1]


def test_a_first_step_that_connects_does_not_pass_for_a_slow_link():
    link = FakeLink(lambda size: 1.3e-6 if link.calls else 0.08)
    (p,) = measured(link, [8])
    assert p.first == pytest.approx(0.08)
    assert p.steps == 45  # as for a link whose first step is fast


def test_visits_that_are_missing_at_the_end_come_at_once():
    # A visit is a lead-in of 1 s and a sample of 1 s. The 3 s are over after the first one; from then on each pass
    # has one: 2 s from visit to visit, without passes that wait for their turn.
    (p,) = measured(FakeLink(lambda size: 1.0), [8], budget=3.0)
    assert (p.stop, len(p.visits)) == ("budget", 5)
    assert [b.t0 - a.t0 for a, b in pairwise(p.visits)] == pytest.approx([2.0] * 4, rel=0.01)


@pytest.mark.parametrize("sizes", ["8:4M", "8:8M"])
def test_the_long_sizes_give_way_and_the_short_ones_do_not(sizes):
    """At 1 Gbit/s all of 8 bytes takes 1.3 ms (33 steps of 40 µs), and a step of 8 MiB takes 134 ms."""
    points = measured(FakeLink(gigabit, noise=0.1), parse_sizes(sizes))
    short, long = points[0], points[-1]
    assert {len(visit.seconds) for visit in short.visits} == {30}
    assert {len(visit.seconds) for visit in long.visits} == {1}  # as long as the one step of its lead-in
    assert 10 <= len(long.visits) < len(short.visits) <= 5 * len(long.visits) + 5


def test_half_of_a_long_visit_is_samples():
    # 1 MiB: 16.8 ms a step. 3 steps of lead-in would take more than 20 ms, so it has 1.
    # 256 KiB: 4.23 ms a step, 3 steps of lead-in, and as many samples (or 2: the lead-in is a matter of rounding)
    points = measured(FakeLink(gigabit), [2**18] * 20 + [2**20] * 20)
    assert {p.samples for p in points[:20]} <= {2, 3}
    assert {p.samples for p in points[20:]} == {1}


@pytest.mark.parametrize(
    ("sizes", "kernels"), [([1, 91, 92, 93, 94, 95], 1), ([1, 99], 5), ([1, 2, 3, 99], 5), ([1, 2, 3, 4, 99], 5)]
)
def test_rare_visits_are_spread_over_the_passes(sizes, kernels):
    """Five long points, each in one pass of five: one in every pass, whatever the order of the points is."""
    # A long visit has 48.5 ms of lead-in and a sample as long: five take 97 ms a pass if each comes once in five,
    # and 102 ms if one of them comes once in four. A short one has 33 steps of 1 µs: twenty at most take 1 ms.
    clock = Clock(name="x", wtime_step=1e-6, step=1e-9, cost=0.0)
    link = FakeLink(lambda size: 0.0485 if size > 90 else 1e-6)
    points = measured(link, sizes, clock=clock, kernels=[f"kernel{n}" for n in range(kernels)])
    long = [p for p in points if p.size > 90]
    assert {(p.samples, len(p.visits)) for p in points if p.size < 90} == {(30, 40)}  # over 3.9 s
    assert {(p.samples, len(p.visits)) for p in long} == {(1, 10)}  # over 4.5 s
    begun = sorted(visit.t0 for p in long for visit in p.visits)
    assert [b - a for a, b in pairwise(begun)] == pytest.approx([0.1] * 49, abs=0.005)


# Other methods


@pytest.mark.parametrize("asked", [1, 30, 31, 100])
def test_a_fixed_number_of_samples_is_exact(asked):
    link = FakeLink(fast)
    points = measured(link, [8, 1024, 2**20], method="fixed", samples=asked)
    assert [samples(p) for p in points] == [asked] * 3
    assert {p.stop for p in points} == {"fixed"}
    assert {len(p.visits) for p in points} == {ceil(asked / 30)}


def test_a_fixed_number_of_samples_has_no_budget():
    link = FakeLink(gigabit)
    (p,) = measured(link, [8 * 2**20], method="fixed", samples=100, budget=1.0)
    assert samples(p) == 100 and link.time > 100 * 0.134


def test_the_classic_method_times_one_step_a_size_in_order_and_nothing_before():
    link = FakeLink(fast)
    points = measured(link, SIZES, method="classic", kernels=["blocking", "bidirectional"])
    asked = [(c.index, c.number, c.steps, c.lead_in, c.samples) for c in link.calls]
    assert asked == [(index, 1, 1, 0, 1) for index in range(2 * len(SIZES))]
    assert [p.size for p in link.points] == SIZES * 2
    for p in points:
        assert (p.steps, p.lead_in, samples(p), p.stop) == (1, 0, 1, "once")
        assert p.visits[0].seconds == pytest.approx([fast(p.size)]) and p.first == p.visits[0].seconds[0]


@pytest.mark.parametrize(("step", "size"), [(fast, 8), (gigabit, 2**20), (gigabit, 8 * 2**20)])
def test_a_watch_makes_four_visits_a_second_until_its_time_is_over(step, size):
    link = FakeLink(step)
    (p,) = measured(link, [size], method="duration", seconds=10.0)
    assert p.stop == "duration"
    begun = [visit.t0 - p.visits[0].t0 for visit in p.visits]
    assert {int(second) for second in begun} == set(range(10))
    assert 36 <= len(begun) <= 42 or gigabit(size) > 0.1  # 134 ms a step: one, two or three fit
    watched = sum(call.took for call in visits(link))
    assert watched == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_watch_keeps_to_its_seconds_when_the_link_changes_after_calibration(factor):
    link = FakeLink(lambda size: fast(size) * (factor if link.time > 1.0 else 1.0))
    (p,) = measured(link, [8], method="duration", seconds=20.0)
    later = [visit for visit in p.visits if 5 < visit.t0 < 15]
    between = [b.t0 - a.t0 for a, b in pairwise(later)]
    assert between == pytest.approx([0.25] * len(between), rel=0.25)


def test_a_watch_of_a_step_longer_than_a_second_takes_it_as_it_is():
    link = FakeLink(modem)
    (p,) = measured(link, [2**20], method="duration", seconds=10.0)  # 1.68 s a step
    assert p.stop == "duration" and {len(visit.seconds) for visit in p.visits} == {1}


# Clocks that lie


def backwards(seconds):
    return [-s for s in seconds]


LIES = {
    "stands still": lambda seconds: [0.0] * len(seconds),
    "steps back": backwards,
    "steps back a second": lambda seconds: [s - 1.0 for s in seconds],
}


@pytest.mark.parametrize("method", ["visits", "fixed", "duration", "classic"])
@pytest.mark.parametrize("shown", LIES.values(), ids=LIES.keys())
def test_a_clock_that_lies_ends_and_makes_the_point_invalid(shown, method):
    link = FakeLink(fast, shown=shown)
    wanted = {"fixed": {"samples": 40}, "duration": {"seconds": 2.0}}.get(method, {})
    (p,) = measured(link, [8], method=method, **wanted)
    assert p.stop == {"visits": "budget", "classic": "once"}.get(method, method)
    assert "clock stood still or stepped back" in stats.summarize(p).invalid


def test_one_step_back_makes_the_point_invalid_and_disturbs_no_other():
    lied = []

    def once(seconds):
        if link.calls[-1].number == 5 and not lied:
            lied.append(True)
            return [-1.0, *seconds[1:]]
        return seconds

    link = FakeLink(fast, shown=once)
    points = measured(link, [8, 1024, 65536])
    assert lied and {p.stop for p in points} == {"precise"}
    invalid = [stats.summarize(p).invalid for p in points]
    assert sum(text is not None for text in invalid) == 1
    assert any(text and "1 of 1200 samples" in text for text in invalid)  # 40 visits


def test_a_clock_whose_step_was_never_seen_ends_too():
    """`step_and_cost` gives no step for it."""
    still = Clock(name="still", wtime_step=None, step=None, cost=0.0)
    (p,) = measured(FakeLink(fast, shown=LIES["stands still"]), [8], clock=still)
    assert stats.summarize(p).invalid


# The length of a block


@pytest.mark.parametrize("known", [True, False], ids=["resolution", "step only"])
@pytest.mark.parametrize(
    ("step", "resolution", "harness_sample", "harness_step", "steps"),
    [
        # resolution: n * step >= 1000 * resolution
        # harness: harness_sample + n * harness_step <= n * step / 100, and a third more of n
        (3e-6, 50e-9, 100e-9, 0.0, 17),  # n >= 50 / 3; n >= 4/3 * 100 / 30
        (1.3e-6, 20e-9, 100e-9, 10e-9, 45),  # n >= 20 / 1.3; 100 + 10 n <= 13 n: n >= 33.3, 4/3 of it is 44.4
        (0.27e-6, 1e-9, 2e-9, 0.0, 4),  # n >= 1 / 0.27 = 3.7; n >= 4/3 * 2 / 2.7
        (0.9e-6, 1e-9, 199e-9, 5e-9, 67),  # n >= 1.1; 199 + 5 n <= 9 n: n >= 49.75, 4/3 of it is 66.3
        (200e-6, 20e-9, 100e-9, 10e-9, 1),
        (20e-3, 20e-9, 100e-9, 10e-9, 1),
        (0.134, 20e-9, 100e-9, 10e-9, 1),
        (7e-6, 4e-3, 0.0, 0.0, 65536),  # a clock of 250 Hz: 571 429 steps, more than are ever taken
    ],
)
def test_a_sample_has_the_fewest_steps_that_hide_clock_and_harness(
    step, resolution, harness_sample, harness_step, steps, known
):
    """The step of a clock is as long as a reading takes, so it counts where the resolution is not known only."""
    clock = Clock(
        name="x",
        wtime_step=1e-6,
        step=50 * resolution if known else resolution,
        resolution=resolution if known else None,
        cost=0.0,
        harness={"mpi4py": Harness(sample=harness_sample, step=harness_step)},
    )
    (p,) = measured(FakeLink(lambda size: step), [8], clock=clock, method="fixed", samples=1)
    assert p.steps == steps
    assert p.warnings == []


def test_a_harness_that_cannot_be_hidden_is_a_warning_with_its_share():
    harness = {"mpi4py": Harness(sample=0.0, step=50e-9)}
    clock = Clock(name="x", wtime_step=1e-6, step=1e-9, cost=0.0, harness=harness)
    (p,) = measured(FakeLink(lambda size: 1e-6), [8], clock=clock)
    (warn,) = p.warnings
    assert warn.code == "harness" and "more than 1 %" in warn.text


def test_a_slow_first_step_does_not_shorten_the_blocks():
    """The first message of a size can take a hundred times as long as the next ones."""
    link = FakeLink(lambda size: 1.3e-6 if link.calls else 130e-6)
    (p,) = measured(link, [8])
    assert p.first == pytest.approx(130e-6)
    assert p.steps == 45  # as above


# Payloads and patience


def test_wrong_payloads_land_in_their_point_and_are_not_counted_as_checked():
    bad = Mismatch(rank=1, visit=3, slot=0, byte=17, expected=1, found=254)
    early = Mismatch(rank=0, visit=0, slot=0, byte=5, expected=1, found=254)
    link = FakeLink(fast, wrong={(1, 3): bad, (2, 0): early})
    points = measured(link, [8, 1024, 65536])
    assert points[0].payload.wrong == []
    assert points[1].payload.wrong == [bad]
    assert points[2].payload.wrong and set(map(id, points[2].payload.wrong)) == {id(early)}
    assert [p.payload.checked - len(p.visits) for p in points] == [0, -1, 0]


def test_a_wrong_payload_reaches_the_record_at_once():
    told = []

    class Listening(Silent):
        def update(self, index, point):
            told.append((index, point.stop, len(point.payload.wrong)))

    bad = Mismatch(rank=1, visit=1, slot=0, byte=0, expected=1, found=254)
    measured(FakeLink(fast, wrong={(0, 1): bad}), [8], record=Listening())
    assert told[0] == (0, None, 1)
    assert told[-1] == (0, "precise", 1)


@pytest.mark.parametrize("step", [fast, gigabit, modem])
def test_patience_is_six_seconds_at_least(step):
    link = FakeLink(step)
    measured(link, SIZES, budget=1.0)
    assert min(link.patiences) >= 6


@pytest.mark.parametrize("shown", LIES.values(), ids=LIES.keys())
def test_patience_is_six_seconds_at_least_whatever_the_clock_says(shown):
    heard = []

    class Deaf(FakeLink):
        def visit(self, index, number, steps, lead_in, samples, patience):
            heard.append(patience)
            return super().visit(index, number, steps, lead_in, samples, 60.0)

    measured(Deaf(fast, shown=shown), [8, 64, 1024], budget=1.0)
    assert min(heard) >= 6


def test_patience_grows_with_slow_links():
    def longest(step):
        link = FakeLink(step)
        measured(link, SIZES)
        return max(call.patience for call in visits(link))

    assert longest(fast) < longest(gigabit) < longest(modem)
    assert longest(modem) > 13.4 * 2  # a lead-in step and a sample


def test_the_record_hears_of_the_longest_patience_before_it_is_needed():
    heard = []

    class Listening(Silent):
        def patience(self, seconds):
            heard.append(seconds)

    link = FakeLink(modem)
    measured(link, [8, 8 * 2**20], record=Listening())
    assert max(heard) >= max(call.took for call in visits(link))
