"""What follows from having two loops: the points of a plan, what is said of a missing one, the figures of both."""

import csv
import io
import json

import pytest

from pingpong import plans, stats
from pingpong.kernels import KERNELS, Kernel
from pingpong.model import Warn
from pingpong.plans import Absent
from pingpong.texts import FORMS, launches
from tests.builders import plan, point, session

LARGE = 2**31  # the first size beyond 2^31 - 1
NUMBA = "numba is not installed"


# Plans


@pytest.mark.parametrize(
    ("asked", "loops", "needs_native"),
    [
        ({}, ["native", "mpi4py"], False),
        ({"loop": "both"}, ["native", "mpi4py"], False),
        ({"loop": "native"}, ["native"], True),
        ({"loop": "mpi4py"}, ["mpi4py"], False),
        ({"seconds": 1.0}, ["native"], False),
        ({"seconds": 1.0, "loop": "native"}, ["native"], True),
        ({"seconds": 1.0, "loop": "mpi4py"}, ["mpi4py"], False),
        ({"classic": True}, ["native", "mpi4py"], False),
        ({"samples": 5}, ["native", "mpi4py"], False),
    ],
)
def test_the_loops_of_a_plan(asked, loops, needs_native):
    made = plans.make(kernels=["blocking"], sizes="8", **asked)
    assert (made.loops, made.needs_native) == (loops, needs_native)


def test_a_watch_of_both_loops_is_refused():
    with pytest.raises(plans.PlanError, match=r"^-D measures one loop: choose --loop native or --loop mpi4py$"):
        plans.make(kernels=["blocking"], sizes="8", seconds=1.0, loop="both")


def loops_of(made, absent=()):
    return [(p.kernel, p.loop, p.size) for p in plans.points(made, absent)]


@pytest.mark.parametrize("asked", [{"loop": "both"}, {"loop": "native"}, {"seconds": 1.0}])
def test_the_mpi4py_loop_stands_in_for_an_absent_native_one(asked):
    made = plans.make(kernels=["blocking"], sizes="8", **asked)
    assert loops_of(made, [Absent("blocking", False, NUMBA)]) == [("blocking", "mpi4py", 8)]


def test_where_only_one_kernel_or_the_large_counts_are_absent_the_others_are_there():
    both = plans.make(kernels=["blocking,asynchronous"], sizes="8,2G", loop="both")
    absent = [Absent("asynchronous", False, NUMBA), Absent("blocking", True, "no large counts")]
    assert loops_of(both, absent) == [
        ("blocking", "native", 8),
        ("blocking", "mpi4py", 8),
        ("blocking", "mpi4py", LARGE),
        ("asynchronous", "native", LARGE),
        ("asynchronous", "mpi4py", 8),
        ("asynchronous", "mpi4py", LARGE),
    ]
    native = plans.make(kernels=["blocking"], sizes="8,2G", loop="native")
    assert loops_of(native, absent) == [("blocking", "native", 8), ("blocking", "mpi4py", LARGE)]


def test_what_is_absent_changes_nothing_where_the_mpi4py_loop_was_asked_for():
    made = plans.make(kernels=["blocking"], sizes="8", loop="mpi4py")
    assert plans.native_variants(made) == [] and plans.without_twin(made) == []
    assert loops_of(made, [Absent("blocking", False, NUMBA)]) == [("blocking", "mpi4py", 8)]


def test_large_counts_begin_where_an_int_ends():
    made = plans.make(kernels=["blocking"], sizes=f"8,{LARGE - 1},{LARGE}")
    assert [plans.is_large(size) for size in made.sizes] == [False, False, True]
    assert plans.native_variants(made) == [("blocking", False), ("blocking", True)]


def test_a_kernel_without_compiled_steps_has_no_native_loop(monkeypatch):
    monkeypatch.setitem(KERNELS, "plain", Kernel("plain", "Plain", legs=2, messages=2, directions=1))
    made = plans.make(kernels=["blocking,plain"], sizes="8")
    assert plans.without_twin(made) == [Absent("plain", False, "it has none")]
    assert [w.text for w in plans.native_warnings(made, plans.without_twin(made))] == [
        "no native loop for plain: it has none"
    ]


@pytest.mark.parametrize(
    ("absent", "sentences"),
    [
        ([], []),
        (
            [Absent(k, large, NUMBA) for k in ("blocking", "asynchronous") for large in (False, True)],
            [f"no native loop: {NUMBA}"],
        ),
        ([Absent("blocking", False, NUMBA)], [f"no native loop for blocking: {NUMBA}"]),
        (
            [Absent("blocking", True, "no _c"), Absent("asynchronous", True, "no _c")],
            ["no native loop for blocking, asynchronous over 2G bytes: no _c"],
        ),
        (
            [Absent("blocking", False, NUMBA), Absent("asynchronous", True, "no _c")],
            [f"no native loop for blocking: {NUMBA}", "no native loop for asynchronous over 2G bytes: no _c"],
        ),
    ],
)
def test_there_is_one_warning_for_each_reason(absent, sentences):
    made = plans.make(kernels=["blocking,asynchronous"], sizes="8,2G")
    assert plans.native_warnings(made, absent) == [Warn(code="native", text=text) for text in sentences]


def test_only_a_plan_that_needs_native_loops_is_refused_without_them():
    absent = [Absent("blocking", False, NUMBA)]
    assert plans.native_refusal(plans.make(kernels=["blocking"], sizes="8"), absent) is None
    needs = plans.make(kernels=["blocking"], sizes="8", loop="native")
    assert plans.native_refusal(needs, []) is None
    assert plans.native_refusal(needs, absent) == f"no native loop: {NUMBA}; --loop mpi4py does without"


# Figures. Round trips of 2 and 3 µs native and 3 and 3.5 µs with mpi4py, at 8 and 16 bytes.


def constant(loop, size, step, kernel="blocking", **more):
    return point(kernel, size, [[step] * 3] * 5, loop=loop, **more)


def both(**more):
    return session(
        [
            constant("native", 8, 2e-6),
            constant("native", 16, 3e-6),
            constant("mpi4py", 8, 3e-6),
            constant("mpi4py", 16, 3.5e-6),
        ],
        plan=plan(sizes=[8, 16], loops=["native", "mpi4py"]),
        **more,
    )


def one(loop):
    return session([constant(loop, 8, 2e-6)], plan=plan(loops=[loop]))


def test_the_native_point_is_preferred_where_only_the_loop_differs():
    points = [
        constant("mpi4py", 8, 3e-6),
        constant("native", 8, 2e-6),
        constant("mpi4py", 16, 3e-6),
        constant("mpi4py", 8, 3e-6, kernel="asynchronous"),
        constant("mpi4py", 8, 3e-6, params={"window": 64}),
    ]
    assert stats.preferred(points) == points[1:]
    assert stats.preferred([]) == [] and stats.preferred(points[:1]) == points[:1]


def test_what_python_adds_is_the_difference_of_the_half_trips():
    run = both().runs[0]
    # 3 / 2 - 2 / 2 and 3.5 / 2 - 3 / 2
    assert [(p.loop, p.size) for p, _ in stats.added(run.points)] == [("mpi4py", 8), ("mpi4py", 16)]
    assert [seconds for _, seconds in stats.added(run.points)] == pytest.approx([0.5e-6, 0.25e-6])


def test_nothing_is_added_where_one_of_the_two_has_no_time():
    frozen = constant("native", 8, 0.0)
    assert stats.added([frozen, constant("mpi4py", 8, 3e-6)]) == []
    assert stats.added([constant("native", 8, 2e-6), constant("mpi4py", 16, 3e-6)]) == []
    assert stats.added([constant("native", 8, 2e-6)]) == []


def test_a_completion_time_is_not_halved_in_what_is_added():
    pair = [constant(loop, 8, step, time="completion") for loop, step in (("native", 2e-6), ("mpi4py", 3e-6))]
    ((_, seconds),) = stats.added(pair)
    assert seconds == pytest.approx(1e-6)


def test_the_log_shows_the_native_loop_and_what_python_adds():
    lines = launches.text(both()).splitlines()
    assert lines[0].endswith(", native loop")
    # 2 * 8 / 2 and 2 * 16 / 3 bytes a microsecond
    assert [line for line in lines if " took " in line] == [
        "       8 bytes took         2 usec (   8.000 MB/sec)",
        "      16 bytes took         3 usec (  10.667 MB/sec)",
    ]
    assert "# mpi4py adds 0.500 µs a message (blocking, 8 bytes)" in lines
    assert lines[-1] == "Max rate = 10.666667 MB/sec  Min latency = 1.000000 usec"


def test_what_is_lost_in_noise_at_the_smallest_size_is_not_told_of_a_larger_one():
    steps = {("native", 8): 3e-6, ("mpi4py", 8): 2.9e-6, ("native", 16): 3e-6, ("mpi4py", 16): 4e-6}
    points = [constant(loop, size, step) for (loop, size), step in steps.items()]
    made = session(points, plan=plan(sizes=[8, 16], loops=["native", "mpi4py"]))
    assert "adds" not in launches.text(made)


@pytest.mark.parametrize("loop", ["native", "mpi4py"])
def test_the_log_of_one_loop_says_which(loop):
    text = launches.text(one(loop))
    assert text.splitlines()[0].endswith(f", {loop} loop") and "adds" not in text


def test_a_size_that_has_the_mpi4py_loop_alone_is_marked_in_the_log():
    mixed = session(
        [constant("native", 8, 2e-6), constant("mpi4py", 8, 3e-6), constant("mpi4py", LARGE, 1.0)],
        plan=plan(sizes=[8, LARGE], loops=["native", "mpi4py"]),
    )
    small, large = (line for line in launches.text(mixed).splitlines() if " took " in line)
    assert small.startswith("       8 bytes") and "loop" not in small
    assert large.startswith("2147483648 bytes") and large.endswith("  mpi4py loop")


def test_a_warning_of_the_loop_that_the_log_does_not_show_names_it():
    made = both()
    made.runs[0].points[2].warnings = [Warn(code="harness", text="made up")]
    made.runs[0].points[1].warnings = [Warn(code="harness", text="made up")]
    lines = launches.text(made).splitlines()
    assert "# warning: blocking 16: made up" in lines
    assert "# warning: blocking (mpi4py loop) 8: made up" in lines


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_the_table_has_both_loops_and_what_python_adds(form):
    text = FORMS[form](both())
    sections = text.partition("Ping-pong (one-way time), native loop")[2]
    native, mpi4py = sections.split("Ping-pong (one-way time), mpi4py loop")
    assert "adds" not in native.partition("mpi4py adds")[0]
    rows = [line.replace("|", " ").split() for line in mpi4py.splitlines()]
    figures = {row[0]: (row[1], row[-1]) for row in rows if row and row[0] in ("8", "16")}
    assert figures == {"8": ("1.50", "0.500"), "16": ("1.75", "0.250")}
    assert "adds" in mpi4py.partition("mpi4py adds")[0]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_every_row_has_its_loop_and_those_of_mpi4py_what_it_adds(form):
    text = FORMS[form](both())
    rows = json.loads(text) if form == "json" else list(csv.DictReader(io.StringIO(text)))
    assert [(row["loop"], int(row["size"])) for row in rows] == [
        ("native", 8),
        ("native", 16),
        ("mpi4py", 8),
        ("mpi4py", 16),
    ]
    assert [row["added_seconds"] or None for row in rows[:2]] == [None, None]
    assert [float(row["added_seconds"]) for row in rows[2:]] == pytest.approx([0.5e-6, 0.25e-6])
