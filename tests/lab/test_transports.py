"""Which wire carried the bytes between two hosts: confirmed where it did, never where it did not.

The links are an eth0 of 1 Gbit/s and an ib0 that is as fast as the machine's memory. Every silent fallback that
can be caused here is caused for real; what each MPI does by itself was found out beforehand.
"""

import json
import shlex
import sys

import pytest

from pingpong import evidence, store, wires

pytestmark = pytest.mark.lab

PINGPONG = [sys.executable, "-m", "pingpong"]
SHORT = ["-k", "blocking", "-n", "60", "-q"]
SIZES = ["-m", "8,1K,64K,1M"]
TWO = ["--hosts", "nodeA,nodeB"]


@pytest.fixture
def run(lab, tmp_path):
    """Run `pingpong run` on nodeA; the finished process and, by name, the transports of its result."""

    def go(*args, output="r.json", cwd=tmp_path, env=None):
        done = lab.run("nodeA", [*PINGPONG, "run", *SHORT, "-o", output, *args], timeout=200, cwd=cwd, env=env)
        path = lab.path("nodeA", str(cwd)) / output
        found = {w.transport.name: w for w in wires.of_session(store.load(path))} if path.exists() else {}
        return done, found

    return go


def test_both_links_are_confirmed_at_every_size_and_differ_as_they_do(run):
    done, found = run(*TWO, "-t", "tcp@eth0", "-t", "tcp@ib0", "-m", "8:4M:x8", "--require", "confirmed")
    assert done.returncode == 0, done.stderr + done.stdout
    eth0, ib0 = found["tcp@eth0"], found["tcp@ib0"]
    for wire, name in ((eth0, "eth0"), (ib0, "ib0")):
        assert (wire.finding.verdict, wire.finding.observed) == ("confirmed", name)
        (measured,) = wire.runs
        assert {rank.host for rank in measured.ranks} == {"nodeA", "nodeB"}
        for watched in measured.evidence:  # what the counters of either host say at the end
            visits = sum(point.moved.hosts[watched.host][name][0] for point in measured.points)
            assert watched.seconds > 0 and watched.total[name][0] >= visits

    def bandwidth(wire):  # at 2 MiB, where a shaped link has no burst left
        (point,) = (p for p in wire.runs[0].points if p.size == 2**21 and p.loop == "native")
        return 2 * point.size * point.steps / min(point.visits[0].seconds)

    assert bandwidth(ib0) / bandwidth(eth0) > 5
    last = done.stdout[done.stdout.index("\nTransports") :]
    assert "tcp@ib0" in last and "confirmed" in last and max(map(len, last.splitlines())) <= 80
    assert "hosts nodeA and nodeB are one machine" in done.stdout


# Variables that choose other ways, as users have them in ~/.bashrc.
CONTRARY = {
    "Open MPI": {
        "OMPI_MCA_btl_tcp_if_exclude": "eth0",
        "OMPI_MCA_btl": "^tcp",
        "OMPI_MCA_pml": "ucx",
        "MPI_UCX_TLS": "posix",
        "UCX_NET_DEVICES": "eth0",
        "FI_PROVIDER": "udp",
    },
    "MPICH": {"UCX_PROTOS": "^tcp", "UCX_NET_DEVICES": "eth0", "MPICH_CH4_NETMOD": "ofi", "FI_TCP_IFACE": "eth0"},
    "Intel MPI": {"I_MPI_FABRICS": "shm", "I_MPI_OFI_PROVIDER": "psm2", "FI_TCP_IFACE": "eth0"},
}
BY_NAME = {
    "Open MPI": ["tcp@ib0", "ucx:tcp@ib0", "ofi:tcp@ib0"],
    "MPICH": ["tcp@ib0", "ofi:tcp@ib0"],
    "Intel MPI": ["tcp@ib0"],
}


def test_variables_and_files_that_exist_already_do_not_change_a_transport_by_name(
    run, mpi_name, tmp_path, monkeypatch
):
    """Open MPI's file excludes what tcp@ib0 asks for, and chooses a provider that ofi:tcp@ib0 does not ask for."""
    monkeypatch.delenv("OMPI_MCA_mca_base_param_files", raising=False)
    (tmp_path / ".openmpi").mkdir()
    file = tmp_path / ".openmpi/mca-params.conf"
    file.write_text("btl_tcp_if_exclude = ib0\nmtl_ofi_provider_exclude = tcp\nbtl_tcp_eager_limit = 60000\n")
    asked = [word for name in BY_NAME[mpi_name] for word in ("-t", name)]
    env = CONTRARY[mpi_name] | {"HOME": str(tmp_path)}
    done, found = run(*TWO, *asked, "-m", "8,1M", "-x", "2", "--loop", "mpi4py", "--require", "confirmed", env=env)
    assert done.returncode == 0, done.stderr + done.stdout
    assert {name: wire.finding.observed for name, wire in found.items()} == dict.fromkeys(BY_NAME[mpi_name], "ib0")
    if mpi_name == "Open MPI":
        assert "left out for tcp@ib0: OMPI_MCA_btl_tcp_if_exclude=eth0; btl_tcp_if_exclude=ib0 in" in done.stdout
        assert f"heeded by MPI: btl_tcp_eager_limit=60000 in {file}" in done.stdout


STANDS_IN_THE_WAY = {
    "Open MPI": "OMPI_MCA_btl_tcp_disable_family=4",
    "MPICH": "UCX_TCP_AF_PRIO=inet6",
}


def test_a_variable_that_stays_is_named_where_the_launch_fails(run, mpi_name):
    if mpi_name not in STANDS_IN_THE_WAY:
        pytest.skip("none is known that makes Intel MPI fail")
    name, _, value = STANDS_IN_THE_WAY[mpi_name].partition("=")
    done, found = run(*TWO, "-t", "tcp@ib0", "-m", "8", env={name: value})
    assert done.returncode == 1
    ((_, failure),) = found["tcp@ib0"].failures
    assert f"heeded by MPI: {name}={value}; try without" in failure.hint
    assert failure.hint in " ".join(done.stdout[done.stdout.index("\nTransports") :].split())


def test_what_mpi_chooses_is_observed_size_by_size(run, mpi_name):
    """Open MPI 5 sends 8 B over one link and stripes 1 MiB over both; MPICH's UCX does the same."""
    done, found = run(*TWO, "-t", "default", *SIZES)
    assert done.returncode == 0, done.stderr
    finding = found["default"].finding
    assert finding.verdict == "observed"
    if mpi_name in ("Open MPI", "MPICH"):
        assert "eth0 + ib0 (striped)" in finding.observed and "(8 to " in finding.observed


NO_INTERFACE = {
    "Open MPI": "--mca pml ob1 --mca btl tcp,self",
    "MPICH": "MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp",
    "Intel MPI": "I_MPI_FABRICS=ofi FI_PROVIDER=tcp",
}


def test_tcp_without_an_interface_is_not_the_link_that_was_meant(run, mpi_name):
    """Open MPI and UCX stripe over both, libfabric takes one: judged as if another had been asked for."""
    done, found = run(*TWO, "-t", f"mine={NO_INTERFACE[mpi_name]}", *SIZES)
    assert done.returncode == 0, done.stderr
    seen = found["mine"].finding
    assert seen.verdict == "observed" and ("(striped)" in seen.observed) is (mpi_name != "Intel MPI")
    (measured,) = found["mine"].runs
    measured.transport.carrier = "net:eth0" if seen.observed == "ib0" else "net:ib0"
    assert evidence.of_run(measured).verdict in ("contradicted", "unverifiable")


def test_a_network_on_one_host_is_not_confirmed(run):
    """TCP between ranks of one host goes over lo, whatever the interface."""
    done, found = run("-t", "tcp@eth0", *SIZES)
    assert done.returncode == 0, done.stderr
    finding = found["tcp@eth0"].finding
    assert finding.verdict == "unverifiable" and finding.observed == "lo"
    done, _ = run("-t", "tcp@eth0", *SIZES, "--require", "confirmed", output="again.json")
    assert done.returncode == 3


def test_shared_memory_on_one_host_is_confirmed(run):
    done, found = run("-t", "shm", *SIZES, "--require", "confirmed")
    assert done.returncode == 0, done.stderr
    assert (found["shm"].finding.verdict, found["shm"].finding.observed) == ("confirmed", "shared memory")


# Flags that a user may type by hand: asked for a network, got memory, and MPI says nothing.
TO_MEMORY = {
    "Open MPI": ["UCX_NET_DEVICES=nosuch", "--mca pml ^ucx"],
    "MPICH": ["UCX_TLS=tcp", "FI_PROVIDER=tcp"],
    "Intel MPI": ["FI_PROVIDER=nosuch"],
}


def test_fallbacks_to_memory_are_observed_as_what_they_are(run, mpi_name, tmp_path):
    flags = [word for n, text in enumerate(TO_MEMORY[mpi_name]) for word in ("-t", f"mine{n}={text}")]
    done, found = run(*flags, "-m", "8,64K")
    assert done.returncode == 0 and len(found) == len(TO_MEMORY[mpi_name]), done.stderr
    assert {wire.finding.observed for wire in found.values()} == {"shared memory"}


def test_a_device_that_is_not_there_is_refused_or_fails(run, mpi_name):
    done, found = run(*TWO, "-t", "tcp@nosuch0", "-m", "8")
    assert done.returncode == 2 and found == {}
    assert "nosuch0" in done.stderr and "eth0" in done.stderr and done.stderr.count("\n") == 1
    done, found = run(*TWO, "-t", "psm2", "-m", "8")
    assert done.returncode == 2 and "psm2" in done.stderr


NOWHERE = {
    "Open MPI": "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include ib9",
    "MPICH": "MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp UCX_NET_DEVICES=ib9",
    "Intel MPI": "I_MPI_FABRICS=ofi FI_PROVIDER=tcp FI_TCP_IFACE=ib9",
}


def test_an_interface_that_does_not_exist_fails_or_is_seen_by_raw_flags(run, mpi_name):
    """Intel MPI takes another one and says nothing."""
    done, found = run(*TWO, "-t", f"mine={NOWHERE[mpi_name]}", "-m", "8,64K")
    if mpi_name == "Intel MPI":
        assert done.returncode == 0 and found["mine"].finding.observed in ("ib0", "eth0")
    else:
        assert done.returncode == 1 and found["mine"].failures[0][1].command


def test_one_that_fails_leaves_its_reason_and_the_rest_goes_on(run, mpi_name, tmp_path):
    bad = {
        "Open MPI": "bad=--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include nosuch0",
        "MPICH": "bad=MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp UCX_NET_DEVICES=nosuch0",
        "Intel MPI": "bad=I_MPI_FABRICS=ofi FI_PROVIDER=nosuch",
    }[mpi_name]
    done, found = run(*TWO, "-t", bad, "-t", "tcp@ib0", "--launches", "2", "-m", "8", "-f", "json")
    assert done.returncode in (1, 124)
    assert found["tcp@ib0"].complete == 2 and found["bad"].complete == 0
    for measured in found["bad"].runs:
        failure = measured.failure
        assert failure.command and failure.output and failure.exit in (1, 124)
        assert not any("\0" in line for line in failure.output)
    table = {row["transport"]: row for row in json.loads(done.stdout)["transports"]}
    assert table["bad"]["verdict"] is None and len(table["bad"]["failures"]) == 2
    assert table["tcp@ib0"]["verdict"] == "confirmed" and table["tcp@ib0"]["complete"] == 2
    # Both were launched twice, in rounds.
    order = [r.transport.name for r in store.load(tmp_path / "r.json").runs]
    assert sorted(order[:2]) == sorted(order[2:]) == ["bad", "tcp@ib0"]


def test_results_come_back_from_hosts_that_share_no_files(lab, run, tmp_path):
    """The lead runs on the other host, where the folder of the result is another one."""
    done, found = run("--hosts", "nodeB,nodeA", "-t", "tcp@ib0", *SIZES, cwd="/var/tmp")
    assert done.returncode == 0, done.stderr
    (measured,) = found["tcp@ib0"].runs
    assert measured.status == "complete" and found["tcp@ib0"].finding.verdict == "confirmed"
    assert not lab.path("nodeB", "/var/tmp/r.json").exists()
    shown = lab.run("nodeA", [*PINGPONG, "show", "r.json"], cwd="/var/tmp")
    assert shown.stdout == done.stdout
    for host in ("nodeA", "nodeB"):
        left = [p.name for p in lab.path(host, "/var/tmp").iterdir() if p.name.startswith("pingpong-")]
        assert left == []
    lab.path("nodeA", "/var/tmp/r.json").unlink()


def test_the_command_line_of_a_dry_run_works_when_typed(lab, mpi_name, tmp_path):
    """Also where variables are set that the transport leaves out; ranks bind themselves as in a run."""
    args = [*PINGPONG, "run", *TWO, "-t", "tcp@ib0", "-k", "blocking", "-m", "8", "-n", "60", "--dry-run"]
    env = CONTRARY[mpi_name]
    line = lab.run("nodeA", args, cwd=tmp_path, env=env).stdout
    assert shlex.split(line).count("-m") == 2 and not list(tmp_path.iterdir())
    done = lab.run("nodeA", ["sh", "-c", line], cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert "rank 1 on host nodeB" in done.stdout and "# wire: ib0" in done.stdout
    (result,) = tmp_path.iterdir()
    ranks = store.load(result).runs[0].ranks
    assert [len(rank.cores) for rank in ranks] == [1, 1]


def test_traffic_of_somebody_else_never_makes_a_wrong_word(lab, run):
    """A second process sends on ib0 while tcp@eth0 is measured, and on eth0 while tcp@eth0 is."""
    code = (
        "import socket, sys, time\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "while True:\n    s.sendto(bytes(1000), (sys.argv[1], 9)); time.sleep(0.002)\n"
    )
    for address in ("10.77.2.2", "10.77.1.2"):
        other = lab.start("nodeA", [sys.executable, "-c", code, address])
        try:
            done, found = run(*TWO, "-t", "tcp@eth0", *SIZES, output=f"{address}.json")
        finally:
            other.kill()
        assert done.returncode == 0, done.stderr
        assert found["tcp@eth0"].finding.verdict in ("confirmed", "unverifiable")
        assert "eth0" in found["tcp@eth0"].finding.observed


def test_openib_is_refused_and_its_fallback_seen(run, launcher):
    """Open MPI 4 takes TCP over both links where openib finds no device, and says one line; 5 has no openib."""
    done, found = run(*TWO, "-t", "openib", "-m", "8")
    assert done.returncode == 2 and "openib" in done.stderr and found == {}, done.stderr + done.stdout
    if launcher.family.name == "Open MPI" and launcher.version.startswith("4"):
        done, found = run(*TWO, "-t", "mine=--mca btl openib,tcp,self", *SIZES)
        assert done.returncode == 0, done.stderr
        assert "eth0 + ib0 (striped)" in found["mine"].finding.observed
        done, found = run("-t", "mine=--mca btl ^openib", "-m", "8,64K", output="one.json")
        assert found["mine"].finding.observed == "shared memory"
