"""Native loops with the large counts of MPI 4 between two ranks, or the reason why there are none."""

import pytest
from mpi4py import MPI

from pingpong import plans
from pingpong.kernels import KERNELS, names
from pingpong.native import loops

from . import test_kernels as contract

pytestmark = pytest.mark.mpi(min_size=2)

SIZE = 4096
HAS_LARGE_COUNTS = MPI.Get_version() >= (4, 0)


@pytest.fixture
def absent(monkeypatch):
    """The native loops that cannot be where every message of SIZE bytes is a large one."""
    monkeypatch.setattr(plans, "LARGEST_COUNT", SIZE - 1)
    return loops.prepare(plans.make(loop="native", sizes=str(SIZE)), lambda sentence: None)


def payload_arrives_by_calls_with_large_counts(absent, name, monkeypatch):
    asked, address = [], loops.address
    monkeypatch.setattr(loops, "address", lambda symbol: asked.append(symbol) or address(symbol))
    contract.test_payload_arrives_in_every_receive_buffer(name, "native", SIZE, False)
    transfers = [symbol for symbol in asked if symbol != "MPI_Wait"]
    assert absent == [] and transfers and all(symbol.endswith("_c") for symbol in transfers)


def what_is_lacking_is_named(absent, name, _monkeypatch):
    assert name in names()
    assert [(each.kernel, each.large) for each in absent] == [(name, True) for name in KERNELS if name in names()]
    assert absent[0].reason == "this MPI has no MPI_Send_c, MPI_Recv_c"
    assert all("MPI_Isend_c" in each.reason and "MPI_Irecv_c" in each.reason for each in absent[1:])


@pytest.mark.parametrize("name", names())
def test_large_counts_are_used_where_they_are_and_named_where_they_are_not(absent, name, monkeypatch):
    check = payload_arrives_by_calls_with_large_counts if HAS_LARGE_COUNTS else what_is_lacking_is_named
    check(absent, name, monkeypatch)
