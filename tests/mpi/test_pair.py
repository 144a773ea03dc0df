"""Lead and peer with the real schedule: what a run measures on two ranks, and what it notices."""

import numpy as np
import pytest
from mpi4py import MPI

from pingpong import plans, stats
from pingpong.evidence.meter import Elsewhere
from pingpong.measure import pair as pairs
from pingpong.measure import payload
from pingpong.measure.buffers import Buffers, aligned
from pingpong.measure.pool import Pool
from pingpong.measure.schedule import Schedule
from pingpong.model import Clock

pytestmark = pytest.mark.mpi(min_size=2)

CLOCK = Clock(name="test", wtime_step=5e-8, step=5e-8, cost=5e-8)
COMM = MPI.COMM_WORLD.Dup() if MPI.Is_initialized() else None
CONTROL = MPI.COMM_WORLD.Dup() if MPI.Is_initialized() else None


class Ignore:
    """A record that forgets."""

    def patience(self, seconds): ...
    def point(self, point): ...
    def visit(self, index, visit, ok): ...
    def update(self, index, point): ...


def measured(plan, lead_class=pairs.Lead, peer_class=pairs.Peer):
    """The points of `plan` on the lead, and the exit code that both ranks were told."""
    me = COMM.rank
    needed = plans.buffers_needed(plan)
    cold = plan.cache == "cold"
    buffers = Pool(1 << 20, *needed, me, 1 - me) if cold else Buffers(max(plan.sizes), *needed)
    cls = lead_class if me == 0 else peer_class
    end = cls(COMM, CONTROL, 1 - me, buffers, lambda seconds: None, (Elsewhere(), Elsewhere()))
    points = plans.points(plan)
    if me == 0:
        Schedule(plan, points, end, Ignore(), CLOCK).run()
        end.end(7)
        code = 7
    else:
        code = end.serve(points)
    assert CONTROL.allgather(code) == [7, 7]
    return CONTROL.bcast(points)


def test_all_points_of_a_plan_are_measured_and_checked():
    points = measured(plans.make(sizes="0,8,1K,64K", samples=60, seed=1))
    assert len(points) == 24
    for point in points:
        summary = stats.summarize(point)
        assert summary.invalid is None and summary.median > 0
        assert summary.samples == 60
        assert point.payload.checked == len(point.visits) and point.payload.wrong == []
        assert point.first > 0 and point.stop == "fixed"


def test_cold_buffers_are_checked_too_and_every_step_uses_other_memory():
    points = measured(plans.make(sizes="0,8,1K,64K", samples=60, seed=1, cache="cold"))
    assert len(points) == 24 and {p.params["cache"] for p in points} == {"cold"}
    for point in points:
        assert stats.summarize(point).invalid is None
        assert point.payload.checked == len(point.visits) and point.payload.wrong == []


@pytest.mark.parametrize("loop", ["native", "mpi4py"])
def test_a_wrong_byte_in_cold_buffers_is_named(loop):
    class Spoiling(pairs.Peer):
        def _first_wrong(self, opened, visit):
            opened.into[0].base[...] = 0  # all that was received, wherever
            return super()._first_wrong(opened, visit)

    plan = plans.make(kernels=["blocking"], sizes="8", samples=30, seed=1, cache="cold", loop=loop)
    (point,) = measured(plan, peer_class=Spoiling)
    assert {(w.rank, w.byte, w.found) for w in point.payload.wrong} == {(1, 0, 0)}


def test_classic_makes_one_timed_step_a_size_in_order():
    points = measured(plans.make(sizes="8:64", classic=True, seed=1))
    assert [(p.kernel, p.size) for p in points][:4] == [("blocking", s) for s in (8, 16, 32, 64)]
    assert all(len(p.visits) == 1 and len(p.visits[0].seconds) == 1 and p.steps == 1 for p in points)
    assert all(p.lead_in == 0 and p.stop == "once" for p in points)


class Corrupting(pairs.Peer):
    """A peer whose byte 5 of every arriving message is wrong."""

    def _visit(self, opened, number, block):
        honest = payload.first_wrong

        def spoiled(into, sender, visit):
            into[0][5] ^= 0xFF
            return honest(into, sender, visit)

        payload.first_wrong = spoiled
        try:
            super()._visit(opened, number, block)
        finally:
            payload.first_wrong = honest


def test_a_wrong_byte_on_the_peer_is_named_by_the_lead():
    points = measured(plans.make(kernels=["blocking"], sizes="8", samples=30, seed=1), peer_class=Corrupting)
    wrong = points[0].payload.wrong
    assert wrong, "the wrong byte was not noticed"
    assert {(w.rank, w.slot, w.byte) for w in wrong} == {(1, 0, 5)}
    assert all(w.found == w.expected ^ 0xFF for w in wrong)
    assert points[0].payload.checked == 0


def test_a_clock_that_stands_still_makes_the_point_invalid():
    class Frozen(pairs.Lead):
        tick = staticmethod(lambda: 1_000_000)

    plan = plans.make(kernels=["blocking"], sizes="8", samples=30, seed=1, loop="mpi4py")
    points = measured(plan, lead_class=Frozen)
    summary = stats.summarize(points[0])
    assert summary.median is None and "stood still" in summary.invalid


def test_buffers_are_page_aligned_and_apart():
    buffers = Buffers(100, 1, 2)
    arrays = [*buffers.out(100, 1), *buffers.into(100, 2)]
    assert all(a.ctypes.data % 4096 == 0 for a in arrays)
    assert not any(np.shares_memory(a, b) for a in arrays for b in arrays if a is not b)
    assert aligned(0).size == 0
