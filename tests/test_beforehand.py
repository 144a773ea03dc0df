"""Variables and files that were there before a launch: left out for a transport by name, heeded beside others.

What each of them does to a transport was tried with the real MPIs; tests/lab repeats the worst.
"""

import pytest

from pingpong import parameters
from pingpong.model import Transport
from pingpong.transports import TransportError, beforehand, resolve, spelling
from pingpong.transports.beforehand import beside, collect

from .hosts import INSTALLED, here, tree

OPEN_MPI_5, OPEN_MPI_4, MPICH, INTEL = INSTALLED
FILE = "/home/a/.openmpi/mca-params.conf"


@pytest.fixture
def before(tmp_path):
    """What becomes of variables, and of the parameters of one file, in launches of a transport."""

    def found(mpi, asked, variables, file=(), mpiexec_args=()):
        where = here(*mpi, tree(tmp_path, ["lo", "eth0", "ib0"]), hosts=1 if asked == "shm" else 2)
        transport = resolve(asked, where) if asked else None
        given = spelling.variables(Transport(name="", arguments=list(mpiexec_args)))
        given |= spelling.variables(transport) if transport else {}
        return beside(transport, given, collect(variables, {FILE: dict(file)} if file else {}, where), where)

    return found


def names(settings):
    return [setting.name for setting in settings]


@pytest.mark.parametrize(
    ("mpi", "asked", "name"),
    [
        (OPEN_MPI_5, "tcp@ib0", "OMPI_MCA_btl_tcp_if_exclude"),  # excludes btl_tcp_if_include: MPI_Init fails
        (OPEN_MPI_4, "tcp@ib0", "OMPI_MCA_btl_tcp_if_exclude"),
        (OPEN_MPI_5, "tcp", "OMPI_MCA_btl_tcp_if_include"),  # one interface instead of all
        (OPEN_MPI_5, "tcp", "OMPI_MCA_btl_base_exclude"),
        (OPEN_MPI_5, "shm", "OMPI_MCA_smsc"),  # would be shm-nocma
        (OPEN_MPI_4, "shm", "OMPI_MCA_btl_vader_single_copy_mechanism"),
        (OPEN_MPI_5, "ucx:tcp@ib0", "MPI_UCX_TLS"),  # believed before UCX_TLS
        (OPEN_MPI_5, "ucx:tcp@ib0", "OMPI_MCA_opal_common_ucx_tls"),
        (OPEN_MPI_5, "ofi:tcp@ib0", "FI_PROVIDER"),
        (OPEN_MPI_5, "ofi:tcp@ib0", "OMPI_MCA_mtl_ofi_provider_exclude"),
        (OPEN_MPI_5, "ofi:tcp", "FI_TCP_IFACE"),
        (MPICH, "tcp@ib0", "UCX_PROTOS"),
        (MPICH, "shm", "MPIR_CVAR_CH4_CMA_ENABLE"),  # a quarter of the bandwidth, and still memory
        (MPICH, "shm", "MPICH_CH4_NETMOD"),
        (MPICH, "ofi:udp", "FI_UDP_IFACE"),
        (INTEL, "shm", "I_MPI_SHM"),  # I_MPI_SHM=off: the ranks are killed
        (INTEL, "tcp", "FI_TCP_IFACE"),
    ],
)
def test_what_chooses_otherwise_is_left_out_for_a_transport_by_name(before, mpi, asked, name):
    found = before(mpi, asked, {name: "x"})
    assert names(found.left_out) == [name] and not found.heeded and not found.misspelt
    assert found.keeping(["python", "-m", "x"]) == ["env", "-u", name, "python", "-m", "x"]
    (warning,) = found.warnings(Transport(name=asked))
    assert (warning.code, warning.text) == ("left-out", f"set beforehand, and left out for {asked}: {name}=x")


@pytest.mark.parametrize("asked", [None, "default", "mine=--mca pml ob1"])
@pytest.mark.parametrize("name", ["OMPI_MCA_btl_tcp_if_exclude", "UCX_TLS", "FI_PROVIDER"])
def test_the_default_and_flags_of_ones_own_leave_all_as_it_is(before, asked, name):
    found = before(OPEN_MPI_5, asked, {name: "x"})
    assert names(found.heeded) == [name] and not found.left_out
    assert found.keeping(["python"]) == ["python"] and found.arguments == []
    assert found.hint == f"set beforehand, and heeded by MPI: {name}=x; try without"


@pytest.mark.parametrize(
    ("mpi", "asked", "name"),
    [
        (OPEN_MPI_5, "tcp@ib0", "OMPI_MCA_btl_tcp_if_include"),
        (OPEN_MPI_5, "tcp@ib0", "OMPI_MCA_pml"),
        (OPEN_MPI_5, "ucx:tcp@ib0", "UCX_NET_DEVICES"),
        (OPEN_MPI_5, "ucx", "UCX_TLS"),
        (MPICH, "tcp", "UCX_NET_DEVICES"),
        (MPICH, "tcp@ib0", "UCX_TLS"),
        (INTEL, "tcp@ib0", "I_MPI_FABRICS"),
    ],
)
def test_what_the_transport_sets_itself_is_overridden_and_not_unset(before, mpi, asked, name):
    """Open MPI's mpiexec hands its ranks --mca as a variable of that name."""
    found = before(mpi, asked, {name: "x"})
    assert not found.left_out and not found.heeded


@pytest.mark.parametrize("words", [["--mca", "btl_tcp_if_exclude", "eth0"], ["-x", "OMPI_MCA_btl_tcp_if_exclude"]])
def test_arguments_for_mpiexec_are_asked_for_too(before, words):
    found = before(OPEN_MPI_5, "tcp@ib0", {"OMPI_MCA_btl_tcp_if_exclude": "eth0"}, mpiexec_args=words)
    assert not found.left_out and not found.heeded


@pytest.mark.parametrize(
    ("mpi", "asked", "name"),
    [
        (OPEN_MPI_5, "tcp", "UCX_TLS"),  # another pml
        (OPEN_MPI_5, "tcp", "OMPI_MCA_mtl"),
        (OPEN_MPI_5, "ucx", "FI_PROVIDER"),
        (OPEN_MPI_5, "tcp", "OMPI_MCA_osc"),  # one-sided calls
        (MPICH, "tcp", "FI_PROVIDER"),  # another netmod
        (OPEN_MPI_5, "default", "I_MPI_FABRICS"),  # another MPI
        (MPICH, "default", "OMPI_MCA_pml"),
        (INTEL, "default", "MPICH_OFI_NIC_POLICY"),
        (OPEN_MPI_5, "default", "PRTE_MCA_plm_ssh_agent"),  # how ranks are started
        (OPEN_MPI_5, "default", "OMPI_MCA_btl_base_verbose"),  # what is printed
        (INTEL, "default", "I_MPI_DEBUG"),
    ],
)
def test_what_does_not_touch_the_messages_is_not_spoken_of(before, mpi, asked, name):
    found = before(mpi, asked, {name: "x"})
    assert not found.left_out and not found.heeded and not found.misspelt


@pytest.mark.parametrize(
    ("mpi", "asked", "name"),
    [
        (OPEN_MPI_5, "tcp@ib0", "OMPI_MCA_btl_tcp_disable_family"),
        (OPEN_MPI_5, "ucx:tcp@ib0", "UCX_TCP_AF_PRIO"),
        (MPICH, "tcp@ib0", "UCX_IB_GID_INDEX"),
        (INTEL, "tcp@ib0", "FI_TCP_PORT_LOW_RANGE"),
    ],
)
def test_what_a_site_may_need_stays_and_is_named_where_the_launch_fails(before, mpi, asked, name):
    found = before(mpi, asked, {name: "4"})
    assert not found.left_out and f"{name}=4; try without" in found.hint


# Files


def test_parameters_of_a_file_are_left_out_and_the_others_told_anew(before):
    """Open MPI can be kept from its files as a whole only."""
    file = {"btl_tcp_if_exclude": "ib0", "pml": "ucx", "btl_tcp_eager_limit": "70000", "mtl": "^ofi"}
    found = before(OPEN_MPI_4, "tcp@ib0", {"OMPI_MCA_mtl": "psm"}, file)
    (warning, _) = found.warnings(Transport(name="tcp@ib0"))
    assert warning.text == f"set beforehand, and left out for tcp@ib0: btl_tcp_if_exclude=ib0 in {FILE}"
    # pml is the transport's own, and mtl the variable's.
    assert found.arguments == ["--mca", "mca_base_param_files", "none", "--mca", "btl_tcp_eager_limit", "70000"]
    assert found.keeping(["python"]) == ["env", "-u", "OMPI_MCA_btl_tcp_if_exclude", "python"]


def test_files_that_choose_nothing_else_are_left_alone(before):
    found = before(OPEN_MPI_4, "tcp@ib0", {}, {"pml": "^ucx", "mtl": "^ofi", "btl_base_warn_unused": "0"})
    assert not found.left_out and not found.arguments and not found.heeded


def test_a_variable_is_believed_before_a_file(before):
    found = before(OPEN_MPI_5, "default", {"OMPI_MCA_pml": "ob1"}, {"pml": "ucx", "btl": "^tcp", "mtl": "^ofi"})
    assert found.hint.endswith(f"by MPI: OMPI_MCA_pml=ob1; btl=^tcp, mtl=^ofi in {FILE}; try without")


@pytest.mark.parametrize(
    ("mpi", "asked", "words", "named"),
    [
        (OPEN_MPI_5, "tcp@ib0", "--mca btl_tcp_if_include eth0", "btl_tcp_if_include"),  # mpiexec ends with 251
        (OPEN_MPI_5, "tcp@ib0", "--mca btl ^tcp", "btl"),
        (OPEN_MPI_4, "tcp@ib0", "--mca btl_tcp_if_exclude ib0", "btl_tcp_if_exclude"),
        (OPEN_MPI_5, "ucx:tcp@ib0", "-x UCX_TLS=rc", "UCX_TLS"),
        (OPEN_MPI_5, "ofi:tcp@ib0", "-x FI_PROVIDER=udp", "FI_PROVIDER"),
        (MPICH, "tcp@ib0", "-genv UCX_NET_DEVICES eth0", "UCX_NET_DEVICES"),
        (INTEL, "shm", "-genv I_MPI_SHM=off", "I_MPI_SHM"),
        (OPEN_MPI_5, "mine=--mca btl tcp,self", "--mca btl sm,self", "btl"),
    ],
)
def test_words_for_mpiexec_that_choose_otherwise_are_refused(tmp_path, mpi, asked, words, named):
    where = here(*mpi, tree(tmp_path, ["lo", "eth0", "ib0"]), hosts=1 if asked == "shm" else 2)
    with pytest.raises(TransportError, match=f"--mpiexec-args sets {named}, which transport .* chooses"):
        beforehand.check(words.split(), [resolve("default", where), resolve(asked, where)], where)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("tcp@ib0", "--mca pml ob1 --mca btl tcp,self"),  # the same once more
        ("tcp@ib0", "--mca btl_tcp_eager_limit 4096 --bind-to none"),
        ("ucx:tcp@ib0", "-x UCX_TLS"),  # passed on as the transport sets it
        ("default", "--mca btl tcp,self"),
        ("mine=--mca btl tcp,self", "--mca pml ob1"),
    ],
)
def test_words_for_mpiexec_that_choose_nothing_else_pass(tmp_path, asked, words):
    where = here(*OPEN_MPI_5, tree(tmp_path, ["lo", "eth0", "ib0"]), hosts=2)
    beforehand.check(words.split(), [resolve(asked, where)], where)


def test_files_are_found_and_read_as_open_mpi_does(tmp_path):
    users, own = tmp_path / "home/.openmpi/mca-params.conf", tmp_path / "mpi/etc/openmpi-mca-params.conf"
    runtime = tmp_path / "home/.prte/mca-params.conf"
    for path in (users, own, runtime):
        path.parent.mkdir(parents=True, exist_ok=True)
    users.write_text("# pml = cm\n  btl = tcp,self  \nmca_base_env_list = PASSWORD=x\nnonsense\npml=\n")
    own.write_text('btl_tcp_if_exclude = "lo,docker0"\n')
    runtime.write_text("plm_ssh_agent = ssh\n")
    libraries, env = [str(tmp_path / "mpi/lib/libmpi.so.40")], {"HOME": str(tmp_path / "home")}
    expected = {str(users): {"btl": "tcp,self", "pml": ""}, str(own): {"btl_tcp_if_exclude": "lo,docker0"}}
    assert parameters.of_messages(libraries, env) == expected
    assert list(parameters.of_messages(libraries, env)) == [str(users), str(own)]
    assert parameters.all_of(libraries, env) == expected | {str(runtime): {"plm_ssh_agent": "ssh"}}
    elsewhere = env | {"OMPI_MCA_mca_base_param_files": str(own)}
    assert list(parameters.of_messages(libraries, elsewhere)) == [str(own)]
    assert parameters.of_messages(libraries, env | {"OMPI_MCA_mca_base_param_files": "none"}) == {}
    assert parameters.of_messages([], {}) == {}


# Names


@pytest.mark.parametrize(
    ("mpi", "name", "right"),
    [
        (OPEN_MPI_5, "OMPI_MCA_tbl", "'btl'"),
        (OPEN_MPI_5, "OMPI_MCA_btl_tcp_if_inclde", "'btl_tcp_if_include'"),
        (OPEN_MPI_5, "UCX_TSL", "'UCX_TLS'"),
        (MPICH, "MPIR_CVAR_NOLOCALS", "'MPIR_CVAR_NOLOCAL'"),
        (INTEL, "I_MPI_FABRIC", "'I_MPI_FABRICS'"),
    ],
)
def test_a_slip_in_a_name_is_a_warning_with_what_was_meant(before, mpi, name, right):
    found = before(mpi, "default", {name: "x"})
    assert not found.heeded and not found.left_out and found.hint is None
    (warning,) = found.warnings(None)
    assert warning.code == "misspelt" and f"{name}=x" in warning.text and right in warning.text


def test_a_slip_in_a_file_is_one_too(before):
    found = before(OPEN_MPI_5, "tcp@ib0", {}, {"bttl": "tcp"})
    assert len(found.misspelt) == 1 and FILE in found.misspelt[0] and "'btl'" in found.misspelt[0]


def test_what_the_installation_always_does_is_a_hint_and_no_warning():
    """Debian's Open MPI has pml=^ucx for everybody."""
    setting = beforehand.Setting("OMPI_MCA_pml", "^ucx", "/etc/openmpi/openmpi-mca-params.conf")
    found = beforehand.Beside(heeded=[setting])
    assert found.warnings(None) == [] and "pml=^ucx in /etc/openmpi" in found.hint
