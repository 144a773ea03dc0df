"""What compiled code does with the words it is given: in place of MPI's functions stand some that write down."""

import ctypes
from itertools import pairwise
from types import SimpleNamespace

import pytest
from mpi4py import MPI

from pingpong import plans
from pingpong.kernels import KERNELS
from pingpong.measure.buffers import Buffers, message
from pingpong.measure.clock import Block, now
from pingpong.native import loops, programs

WIDE = MPI._sizeof(MPI.Comm) == 8
HANDLE = ctypes.c_int64 if WIDE else ctypes.c_int32
POINTER, INT, LONG = ctypes.c_int64, ctypes.c_int32, ctypes.c_int64
HUGE = 2**32 + 8
FAILURE = 15


class Library:
    """Functions with MPI's names and arguments that keep their calls; the one with number `failing` fails."""

    def __init__(self, failing=None):
        self.calls, self._failing, self._kept = [], failing, {}

    def address(self, symbol):
        if symbol not in self._kept:
            count = LONG if symbol.endswith("_c") else INT
            transfer = (POINTER, count, HANDLE, INT, INT, HANDLE)
            own = {"MPI_Send": (), "MPI_Recv": (POINTER,), "MPI_Isend": (POINTER,), "MPI_Irecv": (POINTER,)}
            name = symbol.removesuffix("_c")
            types = (POINTER, POINTER) if name == "MPI_Wait" else (*transfer, *own[name])

            def call(*arguments):
                self.calls.append((symbol, *arguments))
                return FAILURE if len(self.calls) == self._failing else 0

            self._kept[symbol] = ctypes.CFUNCTYPE(INT, *types)(call)
        return ctypes.cast(self._kept[symbol], ctypes.c_void_p).value


@pytest.fixture
def opened(monkeypatch):
    """A kernel's native loops on messages said to have `count` bytes, the calls that they make, and the link."""

    def start(name, count, failing=None):
        plan = plans.make(kernels=[name], sizes=str(count), loop="native")
        loops.prepare(plan, lambda sentence: None)
        library, kernel, buffers = Library(failing), KERNELS[name], Buffers(8, 1, 2)
        out, into = ([message(a) for a in arrays] for arrays in (buffers.out(8, 1), buffers.into(8, 2)))
        for each in (*out, *into):
            each[1] = count
        link = SimpleNamespace(comm=MPI.COMM_WORLD, other=1, out=out, into=into[: kernel.receives])
        link.meet = lambda: library.calls.append(("meet",))
        monkeypatch.setattr(loops, "address", library.address)
        return kernel.loops["native"](link), library.calls, link

    return start


def handle(of):
    return ctypes.c_int64(of.handle).value if WIDE else ctypes.c_int32(of.handle).value


def test_arguments_are_those_of_the_link(opened):
    both, calls, link = opened("blocking", 8)
    with both as (lead, _):
        lead(Block(0, 1, 1, now))
    sent, received = (m[0][0].address for m in (link.out, link.into))
    rest = (8, handle(MPI.BYTE), 1, 1, handle(MPI.COMM_WORLD))  # count, type, the other rank, TAG, communicator
    assert [call[:7] for call in calls] == [("meet",), ("MPI_Send", sent, *rest), ("MPI_Recv", received, *rest)]
    assert calls[2][7] != 0  # there is room for a status


@pytest.mark.parametrize(
    ("kernel", "transfers"),
    [("blocking", ["MPI_Send_c", "MPI_Recv_c"]), ("asynchronous", ["MPI_Irecv_c", "MPI_Isend_c"])],
)
def test_a_count_beyond_an_int_reaches_the_large_call_whole(opened, kernel, transfers):
    both, calls, _ = opened(kernel, HUGE)
    with both as (lead, _):
        lead(Block(0, 1, 1, now))
    assert [call[0] for call in calls if call[0] not in ("meet", "MPI_Wait")] == transfers
    assert [call[2] for call in calls if call[0] in transfers] == [HUGE, HUGE]


def test_a_lead_steps_and_reads_the_clock_as_often_as_it_is_told(opened):
    both, calls, _ = opened("blocking", 8)
    block = Block(2, 3, 4, now)
    before = now()
    with both as (lead, _):
        lead(block)
    after = now()
    assert [call[0] for call in calls] == ["meet"] + ["MPI_Send", "MPI_Recv"] * (2 + 3 * 4)
    assert len(block.stamps) == 4 + 1  # one before the first sample and one after each
    assert [before, *block.stamps, after] == sorted([before, *block.stamps, after])


def test_a_peer_answers_as_often_and_reads_no_clock(opened):
    both, calls, _ = opened("blocking", 8)
    block = Block(2, 3, 4)
    with both as (_, peer):
        peer(block)
    assert [call[0] for call in calls] == ["meet"] + ["MPI_Recv", "MPI_Send"] * (2 + 3 * 4)
    assert block.stamps == []


def test_receives_are_posted_before_the_ranks_meet_and_not_after_the_last_step(opened):
    both, calls, _ = opened("asynchronous", 8)
    with both as (_, peer):
        peer(Block(0, 2, 1))
    names = ["MPI_Irecv", "meet"]
    names += ["MPI_Wait", "MPI_Irecv", "MPI_Isend", "MPI_Wait"]
    names += ["MPI_Wait", "MPI_Isend", "MPI_Wait"]
    assert [call[0] for call in calls] == names
    requests = [call[7] for call in calls if call[0] in ("MPI_Irecv", "MPI_Isend")]
    size = MPI._sizeof(MPI.Request)
    assert {abs(a - b) for a, b in pairwise(requests)} <= {0, size}
    assert len(set(requests)) == 2


@pytest.mark.parametrize("failing", [1, 4])
def test_an_error_code_ends_the_loop_at_that_call(opened, failing):
    both, calls, link = opened("blocking", 8, failing)
    with both:
        block = loops._Block(KERNELS["blocking"].native, link)
        block.plan(Block(2, 3, 4, now))
        assert programs.program("blocking", False)(block.address, 0) == FAILURE
    assert len(calls) == failing


def test_what_no_step_may_do_is_refused_by_the_compiler():
    """Numba would call its own library, or Python, for it: such code could not be kept."""
    compiler = pytest.importorskip("pingpong.native.compiler")
    from pingpong.native import Twin

    def printing(mpi, last):
        print(mpi)
        return 0

    with pytest.raises(RuntimeError, match=r"^compiled steps would need "):
        compiler.compile_twin(Twin(printing, printing), 8, False)
