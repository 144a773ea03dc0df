"""What four MPIs printed about the wire, recorded in two namespaces on 1 December 2026: Open MPI 5.0.11 and 4.1.4,
MPICH 5.0.2, Intel MPI 2021.18.1. Lines that say nothing of the wire are left out."""

from pathlib import Path

import pytest

from pingpong.evidence.said import of

DATA = Path(__file__).parent / "data/said"
MPIS = {"openmpi4": "Open MPI", "openmpi5": "Open MPI", "mpich": "MPICH", "intelmpi": "Intel MPI"}


def said(recording):
    """By the switch that made it speak: the names, of all that it said."""
    found = {}
    for each in of((DATA / recording).read_bytes(), MPIS[recording.partition("-")[0]]):
        found.setdefault(each.by, set()).update(each.names)
    return found


@pytest.mark.parametrize(
    ("recording", "names"),
    [
        ("openmpi5-one-host-sm", {"ompi_display_comm": {"shm"}, "btl_base_verbose": {"shm"}}),
        ("openmpi5-one-host-tcp", {"ompi_display_comm": {"tcp"}}),
        ("openmpi5-one-host-ucx", {"ompi_display_comm": {"shm"}}),
        ("openmpi5-two-hosts-ob1", {"ompi_display_comm": {"tcp"}, "btl_base_verbose": {"tcp"}}),
        ("openmpi5-two-hosts-ofi", {"ompi_display_comm": {"ofi"}, "mtl_ofi_verbose": {"ib0"}}),
        ("openmpi4-one-host-vader", {"btl_base_verbose": {"shm"}}),
        ("openmpi4-two-hosts-ob1", {"btl_base_verbose": {"tcp"}}),
        ("openmpi4-one-host-ofi", {"mtl_ofi_verbose": {"ib0"}}),
        ("openmpi4-two-hosts-ucx", {"UCX_LOG_LEVEL": {"ib0"}}),
        ("mpich-two-hosts-ofi", {"MPIR_CVAR_DEBUG_SUMMARY": {"tcp"}}),
        ("mpich-two-hosts-ucx", {"UCX_LOG_LEVEL": {"ib0"}, "UCX_PROTO_INFO": {"ib0"}}),
        ("intelmpi-two-hosts-tcp", {"I_MPI_DEBUG": {"tcp", "ib0"}}),
    ],
)
def test_the_carrier_that_each_mpi_names(recording, names):
    assert said(recording) == names


def test_open_mpi_5_with_ucx_names_the_device_in_three_ways():
    wanted = {"ompi_display_comm": {"ib0"}, "UCX_LOG_LEVEL": {"ib0"}, "UCX_PROTO_INFO": {"ib0"}}
    assert said("openmpi5-two-hosts-ucx") == wanted


@pytest.mark.parametrize("recording", ["mpich-one-host", "intelmpi-one-host-shm"])
def test_what_describes_the_network_module_says_nothing_of_shared_memory(recording):
    assert said(recording) == {}


def test_the_words_are_kept():
    (spoke,) = of((DATA / "openmpi5-one-host-tcp").read_bytes(), "Open MPI")
    assert spoke.text == "on-host: all connections are tcp"


def test_the_table_of_protocols_is_kept_by_size():
    tables = [s for s in of((DATA / "mpich-two-hosts-ucx").read_bytes(), "MPICH") if s.by == "UCX_PROTO_INFO"]
    assert len(tables) == 1
    assert tables[0].text.startswith("0 tcp/ib0; 1..65528 tcp/ib0; ")


def test_a_rank_on_its_own_host_does_not_make_a_carrier_between_hosts():
    """With four ranks on two hosts "on-host" is about other pairs."""
    output = b"  on-host:  all connections are self sm\n  off-host: all connections are ucx=rc_mlx5;mlx5_0:1\n"
    (spoke,) = of(output, "Open MPI")
    assert spoke.names == ["mlx5_0:1"]


def test_both_interfaces_of_a_striped_endpoint_are_named():
    (spoke,) = of(b"UCX  INFO  ucp_context_0 inter-node cfg#1 tag(tcp/eth0 tcp/ib0)\n", "MPICH")
    assert spoke.names == ["eth0", "ib0"]


def test_prefixes_nul_bytes_and_broken_encodings_do_no_harm():
    output = b"[1,0]<stderr>:\xff\xfe[n1:7] mca: bml: Using s\0m btl for send to [[1,1],1] on node n\0001\n\xc3"
    (spoke,) = of(output, "Open MPI")
    assert (spoke.names, spoke.text) == (["shm"], "using sm to send to node n1")


@pytest.mark.parametrize("mpi", ["Open MPI", "MPICH", "Intel MPI", "", "MVAPICH"])
def test_output_about_something_else_says_nothing(mpi):
    assert of(b"", mpi) == of(b"hello\n| a | b |\n100 %\n", mpi) == []
