"""Several launches: figures over launches by hand, and the texts that show them."""

import pytest

from pingpong import across, exits, recorder, store
from pingpong.model import Failure, Plan, Warn
from pingpong.request import Job, Request, of_orders
from pingpong.texts import FORMS

from .builders import plan, point, run, session

MICRO = 1e-6


def launches(steps, loop="native", **more):
    """A session with one blocking point of 8 bytes in each launch; `steps` are its median round trips in µs."""
    made = session([])
    made.runs = [
        run([point(size=8, loop=loop, visits=[[s * MICRO] * 2] * 5)], launch=n, plan=plan(seed=n), **more)
        for n, s in enumerate(steps, 1)
    ]
    return made


def test_runs_that_differ_in_their_seed_alone_belong_together():
    made = launches([1, 2, 3])
    made.runs[1].plan.sizes = [8, 16]
    assert [[r.launch for r in runs] for runs in across.groups(made)] == [[1, 3], [2]]


def test_a_launch_is_one_value_however_many_visits_it_has():
    made = launches([1, 2, 9])
    made.runs[2].points[0].visits *= 100
    (each,) = across.points(made.runs)
    assert each.step.values == pytest.approx([1e-6, 2e-6, 9e-6])
    assert each.step.median == pytest.approx(2e-6)
    assert each.step.interval is None  # three values carry none
    assert each.within == 0.0
    # quartiles of 1, 2, 9 by linear interpolation: 1.5 and 5.5
    assert each.step.between == pytest.approx((5.5 - 1.5) / 2)


def test_ten_launches_carry_the_interval_from_the_second_to_the_ninth():
    (each,) = across.points(launches([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).runs)
    assert (each.step.interval.low, each.step.interval.high) == pytest.approx((2e-6, 9e-6))
    assert each.step.interval.level == pytest.approx(1 - 2 * 11 / 1024)  # P(fewer than 2 of 10 below the median)


def test_the_headline_is_the_median_of_the_headlines_of_the_launches():
    best = across.headlines(launches([1, 2, 9]).runs)
    assert best.latency.median == pytest.approx(1e-6)  # half of 2 µs
    assert best.rate.median == pytest.approx(2 * 8 / 2e-6)


def test_launches_in_two_modes_are_shown_as_two():
    text = FORMS["log"](launches([0.26, 0.7, 0.26, 0.71, 0.27, 0.26]))
    assert "8 bytes took" in text and "2 modes: 0.260 usec in 4, 0.705 usec in 2 of the launches" in text
    assert "launches fall into 2 modes: 0.1300 in 4, 0.3525 in 2 of 6" in text
    table = FORMS["table"](launches([0.26, 0.7, 0.26, 0.71, 0.27, 0.26]))
    assert "8: launches fall into modes: 0.130 µs in 4, 0.353 µs in 2 of 6" in " ".join(table.split())


def test_the_log_of_several_launches_has_one_section_and_says_how_they_differ():
    text = FORMS["log"](launches([2, 4, 3, 5, 6]))
    lines = text.splitlines()
    assert lines[0].startswith("# pingpong 0.1.0, median over 5 launches, in each the median round trip")
    assert sum(" bytes took " in line for line in lines) == 1
    assert "       8 bytes took         4 usec (   4.000 MB/sec)" in lines
    # quartiles 3 and 5 of 2, 3, 4, 5, 6
    assert any("0.0 % within a launch, 50.0 % between launches" in line for line in lines)
    assert "# Min latency 1.000 to 3.000 usec (94 % interval)" in lines  # 1 - 2 / 32 = 0.9375
    assert lines[-1] == "Max rate = 4.000000 MB/sec  Min latency = 2.000000 usec"


def test_few_launches_give_a_range_and_say_so():
    assert "# Min latency 1.000 to 2.000 usec (range; an interval needs five launches)" in FORMS["log"](
        launches([2, 4])
    )


def test_what_python_adds_is_the_median_over_launches():
    made = launches([1, 2, 3])
    for each, extra in zip(made.runs, (4, 2, 6), strict=True):
        native = each.points[0].visits[0].seconds[0]
        each.points.append(point(size=8, loop="mpi4py", visits=[[native + extra * MICRO] * 2] * 5))
    assert "# mpi4py adds 2.00 µs a message (blocking, 8 bytes)" in FORMS["log"](made)  # half of 4


def test_a_launch_that_failed_is_named_and_the_others_are_shown():
    made = launches([1, 2, 3])
    made.runs[1].points, made.runs[1].status = [], "partial"
    made.runs[1].failure = Failure(reason="mpiexec ended with status 7", exit=1)
    text = FORMS["log"](made)
    assert "# launch 2 is partial: mpiexec ended with status 7" in text
    assert "median over 2 of 3 launches" in text
    assert text.count(" bytes took ") == 1
    for each in made.runs:
        each.points = []
    assert "No time was measured." in FORMS["log"](made) and FORMS["table"](made)


def test_a_launch_that_measured_a_part_takes_no_part_in_the_figures():
    made = launches([2, 4, 900])
    made.runs[2].status, made.runs[2].failure = "partial", Failure(reason="interrupted", exit=130)
    text = FORMS["log"](made)
    assert "Min latency = 1.500000 usec" in text  # half of 3, the median of 2 and 4
    assert "# Min latency 1.000 to 2.000 usec" in text and "# launch 3 is partial: interrupted" in text


def test_what_cannot_be_told_is_not_called_zero():
    made = launches([2, 4])
    for each in made.runs:
        each.points[0].visits = each.points[0].visits[:1]
    assert "within a launch" not in FORMS["log"](made) and "between launches" in FORMS["log"](made)
    made.runs.pop()
    made.runs.append(
        made.runs[0].__class__(launch=2, source="pingpong 0.1.0", status="partial", plan=plan(seed=2))
    )
    text = FORMS["log"](made)
    assert "median over 1 of 2 launches" in text and "between launches" not in text and " to " not in text


def test_a_disturbed_launch_is_named_with_its_number():
    made = launches([1, 2])
    made.runs[1].warnings = [Warn(code="disturbed", text="rank 0 waited")]
    assert "# warning: launch 2: rank 0 waited" in FORMS["log"](made)


def test_rows_of_csv_and_json_stay_one_a_launch_and_point():
    assert FORMS["csv"](launches([1, 2, 3])).count("blocking") == 3


# Seeds, orders and the file


def request(path, **more):
    return Request(
        Plan(kernels=["blocking"], sizes=[8], method="fixed", budget=1.0, seed=5), path, [], None, **more
    )


def test_each_launch_has_a_seed_of_its_own_that_follows_from_the_one_asked_for(tmp_path):
    asked = request(tmp_path / "r.json", launches=4)
    seeds = [asked.plan_of(n).seed for n in (1, 2, 3, 4)]
    assert seeds[0] == 5 and len(set(seeds)) == 4
    assert seeds == [request(None).plan_of(n).seed for n in (1, 2, 3, 4)]
    told = of_orders(asked.orders(Job(3, None), "here"), tmp_path / "r.json")
    assert (told.launch, told.machine, told.id, told.plan.seed) == (3, "here", asked.id, seeds[2])


def test_a_launch_that_was_killed_in_the_middle_of_a_line_does_not_spoil_the_next(tmp_path):
    path = tmp_path / "r.json"
    asked = request(path, launches=3)
    recorder.begin(path, asked)
    first = recorder.new_session(run([], launch=1, status="partial"), asked)
    mine = recorder.Recorder(path, first, lines=store.Journal(path, again=True))
    mine.begin()
    mine.point(point(size=8, visits=[]))
    path.write_bytes(path.read_bytes() + b'{"visit":[0,tr')
    recorder.settle(path, asked, Job(1, None), Failure(reason="killed", exit=1), [])
    recorder.settle(path, asked, Job(2, None), Failure(reason="never began", exit=1), [])
    made = recorder.new_session(run([], launch=3, status="partial"), asked)
    third = recorder.Recorder(path, made, lines=store.Journal(path, again=True))
    third.begin()
    third.end()
    third.finish()
    made = recorder.finish(path, {})
    assert made == store.load(path)
    assert [(r.launch, r.status, r.failure and r.failure.reason) for r in made.runs] == [
        (1, "partial", "killed"),
        (2, "partial", "never began"),
        (3, "complete", None),
    ]


def test_the_worst_code_of_several_launches_counts_and_a_wrong_payload_first():
    assert exits.worst([0, 0]) == 0
    assert exits.worst([0, 1]) == 1
    assert exits.worst([0, 124, 1]) == 124
    assert exits.worst([124, 4]) == 4
    assert exits.worst([1, 3, 124]) == 3
    assert exits.worst([3, 4]) == 4
