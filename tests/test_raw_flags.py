"""Flags as users type them: how they are read, and slips of the pen that MPI would ignore."""

import pytest

from pingpong.transports import TransportError, check, resolve

from .hosts import INSTALLED, here, tree

OPEN_MPI_5, OPEN_MPI_4, MPICH, INTEL = INSTALLED


@pytest.fixture
def machine(tmp_path):
    return tree(tmp_path)


@pytest.mark.parametrize(
    ("asked", "name", "environment", "arguments"),
    [
        ("mine=--mca pml ob1 --mca btl tcp,self", "mine", {}, ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]),
        ("a.b-2=UCX_TLS=tcp UCX_NET_DEVICES=ib0", "a.b-2", {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "ib0"}, []),
        (
            "m=UCX_TLS=tcp --mca pml ucx -x A=b c",
            "m",
            {"UCX_TLS": "tcp"},
            ["--mca", "pml", "ucx", "-x", "A=b", "c"],
        ),
        ("m=OMPI_MCA_btl=tcp,self", "m", {"OMPI_MCA_btl": "tcp,self"}, []),
        ("m=FI_PROVIDER='udp;ofi_rxd' X=", "m", {"FI_PROVIDER": "udp;ofi_rxd", "X": ""}, []),
        ("m=-x 'A=b c'", "m", {}, ["-x", "A=b c"]),
        ("m=-genv UCX_TLS=tcp", "m", {}, ["-genv", "UCX_TLS=tcp"]),
    ],
)
def test_label_variables_and_arguments(machine, asked, name, environment, arguments):
    transport = resolve(asked, here(*OPEN_MPI_5, machine))
    assert (transport.name, transport.environment, transport.arguments) == (name, environment, arguments)
    assert transport.carrier is None  # nothing is concluded from flags: it is only looked at what moves


def test_a_slip_in_the_arguments_for_mpiexec_is_refused_too(machine):
    with pytest.raises(TransportError, match=r"--mpiexec-args: .*'btl_tcp_if_includ'.*'btl_tcp_if_include'"):
        check(["--mca", "btl_tcp_if_includ", "eth0"], here(*OPEN_MPI_5, machine))
    check(["--mca", "btl_tcp_if_include", "eth0", "--bind-to", "none"], here(*OPEN_MPI_5, machine))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--mca=btl", "label"),
        ("2x=--mca btl tcp", "label"),
        ("UCX_TLS=tcp", "mine=UCX_TLS=tcp"),
        ("m=tcp", "'tcp' is neither NAME=VALUE nor an option"),
        ("m=UCX_TLS=tcp eth0", "'eth0'"),
        ("m=", "no flags"),
        ("m=it's", "cannot be split"),
        ("tcp=--mca btl tcp", "another label"),
        ("m=-n 4", "-n"),
        ("m=--mca pml ob1 -np 4", "-np"),
        ("m=--host a,b", "--host"),
        ("m=-hosts a,b", "-hosts"),
        ("m=--hostfile f", "--hostfile"),
        ("m=-ppn 1", "-ppn"),
        ("m=--map-by node", "--map-by"),
    ],
)
def test_what_is_no_transport(machine, asked, said):
    with pytest.raises(TransportError) as caught:
        resolve(asked, here(*OPEN_MPI_5, machine))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("mpi", "flags", "wrong", "right"),
    [
        (OPEN_MPI_5, "--mca tbl tcp,self", "parameter or framework 'tbl'", "'btl'"),
        (OPEN_MPI_5, "--mca pmll ucx", "parameter or framework 'pmll'", "'pml'"),
        (OPEN_MPI_4, "-mca btl tpc,self", "btl 'tpc'", "'tcp'"),
        (OPEN_MPI_5, "--gmca btl_tcp_if_inclde eth0", "parameter 'btl_tcp_if_inclde'", "'btl_tcp_if_include'"),
        (OPEN_MPI_5, "--mca pml ^uxc", "pml 'uxc'", "'ucx'"),
        (OPEN_MPI_5, "OMPI_MCA_bttl=tcp", "'bttl'", "'btl'"),
        (OPEN_MPI_5, "-x OMPI_MCA_btl=tpc,self", "btl 'tpc'", "'tcp'"),
        (OPEN_MPI_5, "-x UCX_TSL=tcp", "variable 'UCX_TSL'", "'UCX_TLS'"),
        (OPEN_MPI_4, "--mca btl sm,self", "btl 'sm'", "'vader'"),
        (OPEN_MPI_5, "--mca btl openib,self", "btl 'openib'", "removed in Open MPI 5: use ucx"),
        (OPEN_MPI_5, "--mca mtl psm2", "mtl 'psm2'", "it has ofi"),
        (MPICH, "MPIR_CVAR_NOLOCALS=1", "variable 'MPIR_CVAR_NOLOCALS'", "'MPIR_CVAR_NOLOCAL'"),
        (MPICH, "UCX_NET_DEVICE=ib0", "variable 'UCX_NET_DEVICE'", "'UCX_NET_DEVICES'"),
        (INTEL, "I_MPI_FABRIC=shm", "variable 'I_MPI_FABRIC'", "'I_MPI_FABRICS'"),
        (INTEL, "-genv I_MPI_FABRCIS shm", "variable 'I_MPI_FABRCIS'", "'I_MPI_FABRICS'"),
        (INTEL, "FI_TCP_IFCE=ib0", "variable 'FI_TCP_IFCE'", "'FI_TCP_IFACE'"),
    ],
)
def test_a_slip_is_refused_with_what_was_meant(machine, mpi, flags, wrong, right):
    """MPI would ignore most of these, and measure something else."""
    with pytest.raises(TransportError) as caught:
        resolve(f"m={flags}", here(*mpi, machine))
    assert wrong in str(caught.value) and right in str(caught.value)


@pytest.mark.parametrize(
    ("mpi", "flags"),
    [
        (OPEN_MPI_5, "--mca btl vader,self"),  # an alias that 5 accepts
        (OPEN_MPI_5, "--mca pml ^ucx --mca btl ^openib"),
        (OPEN_MPI_5, "--mca coll ^hcoll --mca coll_hcoll_priority 1"),  # a component that is elsewhere
        (OPEN_MPI_5, "--mca plm_ssh_agent x --mca rml x --mca ptl x --prtemca prte_if_inclde x"),  # the runtime's
        (OPEN_MPI_5, "--mca opal_common_ucx_tls any"),  # valid, but ompi_info does not list it
        (OPEN_MPI_5, "--mca io_romio321_version 1"),  # another number is another name
        (OPEN_MPI_5, "--mca btl_openib_allow_ib 1"),
        (OPEN_MPI_4, "--mca btl openib,self --mca btl_openib_allow_ib 1 --mca orte_tmpdir_base x"),
        (OPEN_MPI_5, "-x LD_LIBRARY_PATH --bind-to core --report-bindings"),
        (MPICH, "MPICH_OFI_NIC_POLICY=NUMA OMP_NUM_THREADS=1 FI_PSM2_LAZY_CONN=1 PSM2_DEVICES=self,hfi"),
        (INTEL, "I_MPI_DAPL_PROVIDER=x I_MPI_PIN=0 FI_LOG_LEVEL=warn"),
    ],
)
def test_what_may_be_valid_passes(machine, mpi, flags):
    assert resolve(f"m={flags}", here(*mpi, machine)).name == "m"
