"""What the list says can be had is had: each of its transports launches, with the MPI and host that are here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pingpong import environment, store
from pingpong.transports import Here, TransportError, listing, resolve, speaking

PROGRAM = str(Path(__file__).parent / "programs/carried.py")


@pytest.fixture(scope="module")
def where(launcher):
    mpi = environment.probe_mpi()
    return Here(mpi["name"], mpi["version"], launcher.path, hosts=1)


def launched(launcher, *transports):
    """The output of two ranks, and its line of figures."""
    arguments, variables = [], {}
    for transport in transports:
        arguments += transport.arguments
        variables |= transport.environment
    if launcher.family.name == "Open MPI":
        arguments += [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
        variables = {}
    program = [sys.executable, "-m", "mpi4py", PROGRAM]
    command = launcher.command(2, program, environment.own_cpus(), environment.own_cores(), arguments)
    done = subprocess.run(
        command,
        env=dict(os.environ) | launcher.environment() | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    output = (done.stdout + done.stderr).replace(b"\0", b"").decode(errors="replace")
    assert done.returncode == 0, output
    return output, next(json.loads(line) for line in output.splitlines() if line.startswith('{"sent"'))


def test_all_that_can_be_had_here(launcher, where):
    found = [entry.transport for entry in listing(where) if entry.transport]
    assert {"default", "shm", "shm-nocma", "tcp"} <= {transport.name for transport in found}
    for transport in found:
        _, moved = launched(launcher, transport)
        if (transport.carrier or "").startswith("net"):  # on one host all of the network passes the loopback
            assert moved["loopback"] >= moved["sent"], transport.name


def test_mpi_speaks_when_it_is_asked_to(launcher, where):
    output, _ = launched(launcher, resolve("tcp", where), speaking(where))
    expected = {
        "Open MPI": "all connections are tcp" if where.major >= 5 else "component ob1 selected",
        "MPICH": "tag(tcp/",
        "Intel MPI": "libfabric provider: tcp",
    }
    assert expected[where.mpi] in output


def test_an_interface_that_is_not_here_is_refused_before_anything_starts(where):
    with pytest.raises(TransportError, match="'nosuch0' here"):
        resolve("tcp@nosuch0", where)


def test_the_installation_itself_knows_what_is_misspelt(where):
    flags = {
        "Open MPI": "--mca btl_tcp_if_inclde eth0",
        "MPICH": "MPIR_CVAR_NOLOCALS=1",
        "Intel MPI": "I_MPI_FABRIC=shm",
    }
    right = {"Open MPI": "btl_tcp_if_include", "MPICH": "MPIR_CVAR_NOLOCAL", "Intel MPI": "I_MPI_FABRICS"}
    with pytest.raises(TransportError, match=right[where.mpi]):
        resolve(f"mine={flags[where.mpi]}", where)


# From the MPIs' manuals; some are of components that are not built in, some are listed nowhere.
DOCUMENTED = {
    "Open MPI": ["btl_openib_if_include", "btl_openib_allow_ib", "btl_vader_single_copy_mechanism",
                 "mpi_yield_when_idle", "plm_rsh_agent", "orte_base_help_aggregate", "rmaps_base_oversubscribe",
                 "hwloc_base_binding_policy", "coll_hcoll_enable", "opal_common_ucx_opal_mem_hooks",
                 "btl_tcp_links", "mpi_preconnect_mpi", "mtl_psm2_priority", "pml_yalla_priority",
                 "btl_smcuda_use_cuda_ipc"],
    "MPICH": ["MPIR_CVAR_CH4_OFI_CAPABILITY_SETS_DEBUG", "MPICH_ASYNC_PROGRESS", "MPIR_CVAR_ENABLE_GPU"],
    "Intel MPI": ["I_MPI_PIN_DOMAIN", "I_MPI_ADJUST_ALLREDUCE", "I_MPI_OFI_PROVIDER", "I_MPI_HYDRA_BOOTSTRAP"],
}  # fmt: skip
LIBRARIES = ["UCX_RNDV_THRESH", "UCX_IB_GID_INDEX", "UCX_MAX_RNDV_RAILS", "FI_PROVIDER_PATH", "FI_PSM2_DISCONNECT",
             "FI_VERBS_IFACE", "FI_OFI_RXM_USE_SRX", "PSM2_MULTIRAIL"]  # fmt: skip


def test_names_from_the_manuals_are_not_called_misspelt(where):
    flag = "--mca {} 1" if where.mpi == "Open MPI" else "{}=1"
    for name in DOCUMENTED[where.mpi]:
        resolve("mine=" + flag.format(name), where)
    for name in LIBRARIES:
        resolve(f"mine={name}=1", where)


def test_all_that_is_available_and_one_of_ones_own(where):
    own = {"Open MPI": "mine=--mca btl tcp,self"}.get(where.mpi, "mine=FI_PROVIDER=tcp")
    command = [sys.executable, "-m", "pingpong", "run", "-t", own, "-t", "tcp", "--all-available", "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    available = {entry.name for entry in listing(where) if entry.transport}
    assert "tcp" in available and len(done.stdout.splitlines()) == len(available) + 1


def test_a_proof_is_required_only_of_what_asks_for_a_wire(tmp_path, where):
    command = [sys.executable, "-m", "pingpong", "run", "--require", "confirmed", "-m", "8", "-n", "10", "-q"]
    for asked in ("default", {"Open MPI": "mine=--mca btl tcp,self"}.get(where.mpi, "mine=FI_PROVIDER=tcp")):
        done = subprocess.run([*command, "-t", asked], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "asks for no wire that could be confirmed" in done.stderr, done.stderr
    everything = [*command, "--all-available", "--dry-run"]
    done = subprocess.run(everything, cwd=tmp_path, capture_output=True, text=True, check=True)
    available = [entry.transport for entry in listing(where) if entry.transport]
    assert len(done.stdout.splitlines()) == sum(transport.carrier is not None for transport in available)
    assert "left out, because they ask for no wire that could be confirmed: default" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_transports_that_all_fail_leave_a_table_and_their_reasons(tmp_path, where):
    command = [sys.executable, "-m", "pingpong", "run", "--all-available", "-m", "8", "-o", "r.json", "-q"]
    command += ["--mpiexec-args", "--no-such-option"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "Transports" in done.stdout and "failed" in done.stdout
    available = {entry.name for entry in listing(where) if entry.transport}
    runs = store.load(tmp_path / "r.json").runs
    assert {run.transport.name for run in runs} == available
    assert all(run.failure.command and "no-such-option" in " ".join(run.failure.output) for run in runs)
