import pytest

from pingpong import plans
from pingpong.model import Plan
from pingpong.units import UnitError

GIB = 2**30


def test_the_default_is_every_kernel_over_21_sizes_by_visits():
    plan = plans.make()
    assert plan.kernels == ["blocking", "asynchronous", "bidirectional"]
    assert plan.sizes == [2**n for n in range(3, 24)]
    assert plan.method == "visits"


@pytest.mark.parametrize(
    ("asked", "kernels"),
    [
        (["bidirectional", "blocking"], ["bidirectional", "blocking"]),
        (["blocking,asynchronous"], ["blocking", "asynchronous"]),
        (["blocking, asynchronous", "blocking"], ["blocking", "asynchronous"]),
    ],
)
def test_kernels_can_be_lists_and_each_counts_once(asked, kernels):
    assert plans.make(kernels=asked).kernels == kernels


@pytest.mark.parametrize(
    ("asked", "near"),
    [("blokking", "blocking"), ("async", "asynchronous"), ("bidirectionnal", "bidirectional"), ("BLOCKING", None)],
)
def test_an_unknown_kernel_is_refused_with_the_nearest_one(asked, near):
    with pytest.raises(plans.PlanError) as caught:
        plans.make(kernels=[asked])
    assert repr(asked) in str(caught.value)
    assert near is None or f"did you mean {near!r}?" in str(caught.value)
    assert "blocking, asynchronous, bidirectional" in str(caught.value)


@pytest.mark.parametrize("asked", ["", "blocking,", "zzzzzz", "empty"])
def test_what_is_near_to_nothing_or_hidden_is_refused_with_the_list(asked):
    with pytest.raises(plans.PlanError, match="Kernels: blocking, asynchronous, bidirectional") as caught:
        plans.make(kernels=[asked])
    assert "did you mean 'empty'" not in str(caught.value)


def test_bad_sizes_are_refused():
    with pytest.raises(UnitError, match="'8X'"):
        plans.make(sizes="8X")


def test_perturbation_is_applied_to_every_size():
    assert plans.make(sizes="64,1K", perturbation=3).sizes == [61, 64, 67, 1021, 1024, 1027]


@pytest.mark.parametrize(
    ("asked", "method"),
    [
        ({"samples": 100}, "fixed"),
        ({"classic": True}, "classic"),
        ({"seconds": 10.0, "kernels": ["blocking"], "sizes": "8"}, "duration"),
        ({"lead_in": 0}, "visits"),
    ],
)
def test_the_method_follows_from_what_was_asked(asked, method):
    assert plans.make(**asked).method == method


@pytest.mark.parametrize(
    "asked",
    [
        {"sizes": "8,16", "kernels": ["blocking"]},
        {"sizes": "8", "kernels": ["blocking", "asynchronous"]},
        {"sizes": "8"},
        {"kernels": ["blocking"]},
        {"sizes": "64", "kernels": ["blocking"], "perturbation": 3},
    ],
)
def test_a_watch_of_several_points_is_refused(asked):
    with pytest.raises(plans.PlanError, match="-D measures one kernel at one size"):
        plans.make(seconds=10.0, **asked)


@pytest.mark.parametrize(
    ("asked", "flags"),
    [
        ({"samples": 5, "seconds": 1.0}, ["-n", "-D"]),
        ({"samples": 5, "classic": True}, ["-n", "--classic"]),
        ({"seconds": 1.0, "classic": True}, ["-D", "--classic"]),
        ({"samples": 5, "seconds": 1.0, "classic": True}, ["-n", "-D", "--classic"]),
        ({"lead_in": 0, "classic": True}, ["-x", "--classic"]),
    ],
)
def test_flags_that_exclude_each_other_are_named(asked, flags):
    with pytest.raises(plans.PlanError) as caught:
        plans.make(kernels=["blocking"], sizes="8", **asked)
    assert all(flag in str(caught.value) for flag in flags)


def test_the_seed_is_kept_or_made_up():
    assert plans.make(seed=0).seed == 0
    assert len({plans.make().seed for _ in range(5)}) > 1


def test_points_are_in_the_order_of_the_log_and_carry_what_the_design_says_of_their_kernel():
    points = plans.points(plans.make(kernels=["bidirectional", "blocking"], sizes="8,16"))
    assert [(p.kernel, p.loop, p.size) for p in points] == [
        ("bidirectional", "native", 8),
        ("bidirectional", "native", 16),
        ("bidirectional", "mpi4py", 8),
        ("bidirectional", "mpi4py", 16),
        ("blocking", "native", 8),
        ("blocking", "native", 16),
        ("blocking", "mpi4py", 8),
        ("blocking", "mpi4py", 16),
    ]
    assert [(p.legs, p.messages, p.directions, p.time) for p in points[3:5]] == [
        (2, 4, 2, "half-trip"),
        (2, 2, 1, "half-trip"),
    ]


def plan(largest, kernels=("blocking",)):
    return Plan(kernels=list(kernels), sizes=[8, largest], method="visits", budget=10.0, seed=1)


def test_counts_beyond_an_int_need_mpi_4():
    text = plans.refusal(plan(2**31), "Open MPI 5.0.11", [3, 1], 1, None)
    assert "2147483648 bytes" in text and "Open MPI 5.0.11" in text and "MPI 3.1" in text and "2147483647" in text
    assert plans.refusal(plan(2**31), "MPICH 5.0.2", [4, 0], 1, None) is None
    assert plans.refusal(plan(2**31), "MPICH 5.0.2", [4, 1], 1, None) is None
    assert plans.refusal(plan(2**31 - 1), "Open MPI 5.0.11", [3, 1], 1, None) is None


@pytest.mark.parametrize(
    ("kernels", "ranks", "gib"),
    [
        (["blocking"], 1, 2),  # one buffer to send, one to receive
        (["blocking"], 2, 4),
        (["bidirectional"], 1, 3),  # ping and pong are received apart
        (["bidirectional"], 2, 6),
        (["blocking", "bidirectional"], 2, 6),  # the same buffers serve all kernels
    ],
)
def test_memory_is_refused_by_ranks_and_buffers(kernels, ranks, gib):
    asked = plan(GIB, kernels)
    # nine tenths of what is free may be used
    assert plans.refusal(asked, "MPICH", [4, 0], ranks, int(gib * GIB / 0.9) + 1024) is None
    text = plans.refusal(asked, "MPICH", [4, 0], ranks, gib * GIB)
    assert f"{gib}.0 GiB" in text and "1G" in text and "-m" in text


def test_unknown_memory_refuses_nothing():
    assert plans.refusal(plan(2**40), "MPICH", [4, 0], 2, None) is None


def test_the_default_fits_in_a_small_container():
    # 2 ranks * 3 buffers * 8 MiB = 48 MiB
    assert plans.refusal(plans.make(), "Open MPI", [3, 1], 2, 64 * 2**20) is None
