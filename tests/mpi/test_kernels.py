"""The contract that every kernel of the table keeps, on a real pair of ranks."""

import resource
from contextlib import contextmanager

import pytest
from mpi4py import MPI

from pingpong.kernels import KERNELS
from pingpong.measure import payload
from pingpong.measure.buffers import Buffers
from pingpong.measure.clock import Block
from pingpong.measure.pair import PairLink
from pingpong.native import loops as native

from .counting import CountingComm, CountingLibrary

pytestmark = pytest.mark.mpi(min_size=2)

SIZES = (0, 1, 8, 4096, 100_000)
STEPS = (1, 2, 7)
EVERY = [(name, loop) for name, k in KERNELS.items() for loop in k.loops]
every_kernel = pytest.mark.parametrize(("name", "loop"), EVERY, ids=[f"{n}-{lp}" for n, lp in EVERY])


class Pair:
    """A kernel opened on both ranks, with the means to look at what it did."""

    def __init__(self, name, loop, size, comm=None):
        self.kernel = KERNELS[name]
        self.me = MPI.COMM_WORLD.rank
        self.other = 1 - self.me
        buffers = Buffers(size, self.kernel.sends, self.kernel.receives)
        self.out = buffers.out(size, self.kernel.sends)
        self.into = buffers.into(size, self.kernel.receives)
        self.comm = comm or MPI.COMM_WORLD
        self.link = PairLink(self.comm, CONTROL, self.other, self.out, self.into)
        self.opened = self.kernel.loops[loop](self.link)

    def run(self, loops, steps):
        loops[self.me](Block(0, steps, 1))


CONTROL = MPI.COMM_WORLD.Dup() if MPI.Is_initialized() else None
SHADOW = MPI.COMM_WORLD.Dup() if MPI.Is_initialized() else None
COPY = MPI.COMM_WORLD.Dup() if MPI.Is_initialized() else None


def both_agree(fact):
    """The fact of both ranks, in the order of ranks; every assertion is made after talking, so nobody waits."""
    return CONTROL.allgather(fact)


@contextmanager
def counted(name, loop, size):
    """A pair whose communicator counts, with `meet` counted too."""
    comm = CountingComm(MPI.COMM_WORLD, SHADOW)
    pair = Pair(name, loop, size, comm)
    meet = pair.link.meet

    def meet_and_tell():
        meet()
        comm.met(pair.other)

    pair.link.meet = meet_and_tell
    library = CountingLibrary(comm)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "address", library.address)
        with pair.opened as loops:
            patch.undo()
            yield pair, loops, comm
    assert library.errors == []


def test_every_kernel_has_a_native_loop():
    assert [name for name, kernel in KERNELS.items() if "native" not in kernel.loops] == []


@every_kernel
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("copied", [False, True], ids=["world", "copy"])
def test_payload_arrives_in_every_receive_buffer(name, loop, size, copied):
    pair = Pair(name, loop, size, COPY if copied else MPI.COMM_WORLD)
    wrong = []
    with pair.opened as loops:
        for visit, steps in enumerate(STEPS):
            payload.write(pair.out, pair.me, visit)
            payload.clear(pair.into, pair.other, visit)
            pair.run(loops, steps)
            wrong.append(payload.first_wrong(pair.into, pair.other, visit))
    assert both_agree(wrong) == [[None] * 3, [None] * 3]


@every_kernel
@pytest.mark.parametrize("steps", STEPS)
def test_messages_legs_and_directions_are_those_of_the_table(name, loop, steps):
    with counted(name, loop, 8) as (pair, loops, comm):
        pair.run(loops, steps)
    both = both_agree((comm.sent, comm.received, comm.depth, dict(comm.senders_at)))
    sent, received = sum(b[0] for b in both), sum(b[1] for b in both)
    assert sent == received == pair.kernel.messages * steps
    if pair.kernel.messages:
        assert max(b[2] for b in both) == pair.kernel.legs * steps
        senders = [sum(1 for b in both if b[3].get(depth)) for depth in range(1, pair.kernel.legs * steps + 1)]
        assert set(senders) == {pair.kernel.directions}


@every_kernel
@pytest.mark.parametrize("steps", STEPS)
def test_nothing_is_left_posted_or_unreceived(name, loop, steps):
    with counted(name, loop, 8) as (pair, loops, comm):
        pair.run(loops, steps)
    CONTROL.Barrier()
    waiting = MPI.COMM_WORLD.Iprobe(pair.other, MPI.ANY_TAG)
    unfinished = sum(1 for request in comm.requests if not request.waited)
    assert both_agree((waiting, unfinished)) == [(False, 0), (False, 0)]


@pytest.mark.parametrize("loop", ["mpi4py", "native"])
@pytest.mark.parametrize("name", ["asynchronous", "bidirectional"])
@pytest.mark.parametrize("steps", STEPS)
def test_no_message_is_ever_unexpected(name, loop, steps):
    """The sender of each message can know, by what it was told before, that the receive is posted."""
    with counted(name, loop, 8) as (pair, loops, comm):
        pair.run(loops, steps)
        pair.run(loops, steps)  # a second visit follows on the first
    both = both_agree((comm.posted, comm.known_when_sending))
    for receiver, sender in ((0, 1), (1, 0)):
        posted, known = both[receiver][0], both[sender][1]
        assert len(posted) == len(known) > 0
        late = [k for k, (event, knew) in enumerate(zip(posted, known, strict=True)) if knew < event]
        assert late == [], f"messages {late} of rank {sender} may be unexpected"


@pytest.mark.parametrize("loop", ["mpi4py", "native"])
def test_the_counter_sees_an_unexpected_message(loop):
    """The blocking ping-pong posts no receive ahead, so the check above must be able to fail."""
    with counted("blocking", loop, 8) as (pair, loops, comm):
        pair.run(loops, 3)
    both = both_agree((comm.posted, comm.known_when_sending))
    assert any(knew < event for event, knew in zip(both[1][0], both[0][1], strict=True))


@every_kernel
def test_no_buffer_is_sent_and_received(name, loop):
    pair = Pair(name, loop, 4096)
    spans = [(a.ctypes.data, a.ctypes.data + a.size) for a in (*pair.out, *pair.into)]
    apart = all(a[1] <= b[0] for a, b in zip(sorted(spans), sorted(spans)[1:], strict=False))
    assert both_agree(apart) == [True, True]


@every_kernel
def test_opening_and_closing_many_times_leaks_nothing(name, loop):
    def open_close(times):
        for _ in range(times):
            pair = Pair(name, loop, 64)
            with pair.opened as loops:
                pair.run(loops, 1)

    open_close(300)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    open_close(1500)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert max(both_agree(grown)) < 1024  # KiB; 1500 leaked requests or buffers are more
