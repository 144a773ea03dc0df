"""`pingpong doctor --hosts nodeA,nodeB`: what is wrong between two hosts is said, and cured by what it advises."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pingpong
from tests.test_doctor import Said

from .conftest import HOSTS

PACKAGE = Path(pingpong.__file__).parent
BRIDGE = "ip link add docker0 type bridge && ip address add 172.17.0.1/16 dev docker0 && ip link set docker0 up"


@pytest.fixture(scope="module")
def doctor(lab):
    """What the doctor says on nodeA."""

    def ask(*args, hosts="nodeA,nodeB", cwd=None, **env):
        env = {"PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])} | env
        words = [f"{name}={value}" for name, value in env.items()]  # said on the host, they beat the lab's own
        command = ["env", *words, sys.executable, "-m", "pingpong", "doctor", "--hosts", hosts, *args]
        said = Said(lab.run("nodeA", command, timeout=90, cwd=cwd))
        assert said.status == (1 if "PROBLEM" in said.levels.values() else 0) and "Traceback" not in said.text, (
            said.text
        )
        return said

    return ask


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder that both hosts have."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def healthy(doctor, shared):
    """What the doctor says between healthy hosts: between such hosts each fault has been undone."""
    said = doctor(cwd=shared)
    assert said.status == 0 and list(shared.iterdir()) == [], said.text
    return said


IMPATIENT = """
import sys
if "--worker" in sys.orig_argv:
    from pingpong.doctor import rank
    rank.PATIENCE = 4.0
"""


@pytest.fixture
def impatient(tmp_path):
    """A PYTHONPATH with which ranks soon give up: for what they wait for in vain."""
    folder = tmp_path / "impatient"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(IMPATIENT)
    return {"PYTHONPATH": f"{PACKAGE.parent}:{folder}"}


def do(lab, host, line):
    done = lab.run(host, ["sh", "-ec", line])
    assert done.returncode == 0, done.stderr


LINKED = """for name in eth0 ib0; do n=0
until [ "$(cat /sys/class/net/$name/operstate)" = up ]; do n=$((n + 1)); [ $n -lt 100 ]; sleep 0.05; done; done"""


def undo(lab, host, line):
    """Undo a fault of links, and wait until both hosts see them up: the kernel takes up to a second."""
    do(lab, host, line)
    for each in HOSTS:
        do(lab, each, LINKED)


def level_of(said):
    """While messages go both ways, what may have kept them from it is a note."""
    return "note" if said.of("messages went both ways") else "PROBLEM"


def test_two_healthy_hosts(healthy):
    said = healthy
    assert said.of("rank 0 on host nodeA, rank 1 on host nodeB: messages went both ways") == ("ok", "")
    assert said.of("both hosts are in one network by eth0, ib0") == ("ok", "")
    assert said.of("the hosts share the folder of the result") == ("ok", "")
    # The lab's hosts are one machine; nothing else is to be noted of them, or of anything between them.
    level, _ = said.of("nodeA and nodeB are one machine (containers or namespaces)")
    others = [what for what in said if said.levels[what] != "ok" and "nodeB" in what]
    assert level == "note" and len(others) == 1


def test_an_mtu_that_differs(doctor, lab):
    lab.mtu("nodeB", "ib0", 9000)
    level, advice = doctor().of("ib0 has MTU 65520 on host nodeA and 9000 on host nodeB")
    assert level == "note" and advice.startswith("on nodeB: ip link set ib0 mtu 65520")
    do(lab, "nodeB", "ip link set ib0 mtu 65520")
    assert doctor().of("MTU") is None


def test_an_address_in_another_network(doctor, healthy, lab, impatient):
    lab.address("nodeB", "ib0", present=False)
    do(lab, "nodeB", "ip address add 10.99.2.2/24 dev ib0")
    try:
        said = doctor(**impatient)
        level, advice = said.of("ib0: 10.77.2.1/24 on host nodeA and 10.99.2.2/24 on host nodeB are two networks")
        assert level == level_of(said)
        assert advice == "give ib0 on nodeB an address in 10.77.2.0/24, if a switch joins them"
    finally:
        do(lab, "nodeB", "ip address del 10.99.2.2/24 dev ib0; ip address add 10.77.2.2/24 dev ib0")
    assert healthy.of("two networks") is None


# What gives ib0 of nodeB another name and an address in another network, and takes that back
ROUTED = """ip link set ib0 down; ip address del 10.77.2.2/24 dev ib0; ip link set ib0 name ib1
ip address add 10.99.2.2/24 dev ib1; ip link set ib1 up; ip route add 10.77.2.0/24 dev ib1"""
UNROUTED = """ip link set ib1 down; ip address del 10.99.2.2/24 dev ib1; ip link set ib1 name ib0
ip address add 10.77.2.2/24 dev ib0; ip link set ib0 up"""


def test_hosts_without_a_network_in_common(doctor, lab, tmp_path, mpi_name):
    """Routes stand in for a router: messages may pass."""
    if mpi_name == "Open MPI":
        file, more = tmp_path / "mca-params.conf", "OMPI_MCA_mca_base_param_files"
        file.write_text("btl_tcp_if_include = 10.77.2.0/24,10.99.2.0/24\n")
        chosen = {more: ",".join(filter(None, [str(file), os.environ.get(more)]))}
    else:
        chosen = {"UCX_NET_DEVICES": "ib0,ib1", "FI_TCP_IFACE": "ib0,ib1"}
    do(lab, "nodeB", ROUTED)
    do(lab, "nodeA", "ip route add 10.99.2.0/24 dev ib0")
    try:
        said = doctor(**chosen)
        level, advice = said.of("no interface of one host is in a network of the other")
        assert level == level_of(said)
        assert advice == "give two interfaces that a switch joins addresses in one network"
    finally:
        do(lab, "nodeA", "ip route del 10.99.2.0/24 dev ib0")
        undo(lab, "nodeB", UNROUTED)
    said = doctor(**chosen)
    assert said.status == 0 and said.of("both hosts are in one network by ib0"), said.text


# Before nodeB a switch, which has nodeA's cable in one port and that of nodeB's ib0 in another one, which is off
SWITCHED = """ip link set ib0 down; ip address del 10.77.2.2/24 dev ib0; ip link set ib0 name cable
ip link add ib0 mtu 65520 type veth peer name port mtu 65520; ip link add switch type bridge
for port in cable port; do ip link set $port master switch; done
ip address add 10.77.2.2/24 dev ib0; for part in cable switch ib0; do ip link set $part up; done"""
UNSWITCHED = """ip link del switch; ip link del ib0; ip link set cable down; ip link set cable name ib0
ip address add 10.77.2.2/24 dev ib0; ip link set ib0 up"""
FORGET = "ip neighbour flush dev ib0"  # the address has another card now


def test_an_interface_that_is_on_and_has_no_link(doctor, lab, impatient):
    do(lab, "nodeB", SWITCHED)
    try:
        said = doctor(**impatient)
        level, advice = said.of("ib0 is on and has no link on host nodeB")
        assert level == level_of(said)
        assert advice == "on nodeB: plug in the cable, or look at its switch port"
        undo(lab, "nodeB", "ip link set port up")
        do(lab, "nodeA", FORGET)
        said = doctor()
        assert said.of("no link") is None and said.of("one network by eth0, ib0"), said.text
    finally:
        undo(lab, "nodeB", UNSWITCHED)
        do(lab, "nodeA", FORGET)


BRIDGED = """ip address del 10.77.2.1/24 dev ib0; ip link add br0 type bridge; ip link set ib0 master br0
ip address add 10.77.2.1/24 dev br0; ip link set br0 up
until [ "$(cat /sys/class/net/br0/operstate)" = up ]; do sleep 0.05; done"""
UNBRIDGED = "ip link del br0; ip address add 10.77.2.1/24 dev ib0"


def test_a_bridge_has_the_address_of_its_port(doctor, lab):
    do(lab, "nodeA", BRIDGED)
    do(lab, "nodeB", FORGET)
    try:
        said = doctor()
        assert said.of("both hosts are in one network by ", "br0 and ib0") == ("ok", ""), said.text
        assert said.of("no address") is None
    finally:
        undo(lab, "nodeA", UNBRIDGED)
        do(lab, "nodeB", FORGET)


def test_an_address_that_is_missing(doctor, lab, impatient):
    lab.address("nodeB", "ib0", present=False)
    said = doctor(**impatient)
    level, advice = said.of("ib0 has no address on host nodeB, and 10.77.2.1/24 on host nodeA")
    assert level == level_of(said) and advice == "on nodeB: ip address add 10.77.2.N/24 dev ib0"
    do(lab, "nodeB", "ip address add 10.77.2.2/24 dev ib0")
    said = doctor()
    assert said.status == 0 and said.of("no address") is None


@pytest.mark.parametrize("host", HOSTS)
def test_an_interface_that_is_down(doctor, lab, impatient, host):
    do(lab, host, "ip link set ib0 down")
    try:
        said = doctor(**impatient)
        assert said.of("ib0 is down on host") == (level_of(said), f"on {host}: ip link set ib0 up")
        assert f"ib0 is down on host {host}" in said.text
    finally:
        undo(lab, host, "ip link set ib0 up")
    if host == HOSTS[0]:
        assert doctor().of("is down") is None


def test_the_interface_of_the_launcher_is_down(doctor, lab):
    """No launcher starts anything, and not all say why."""
    lab.link("eth0", up=False)
    said = doctor()
    assert said.of("eth0 is down on this host") == ("PROBLEM", "ip link set eth0 up")
    undo(lab, "nodeA", "ip link set eth0 up")
    assert doctor().status == 0


def test_the_same_address_on_both_hosts(doctor, lab, impatient, mpi_name):
    """As docker and libvirt give it to their bridges."""
    for host in HOSTS:
        do(lab, host, BRIDGE)
    try:
        said = doctor(**impatient)
        level, advice = said.of("docker0 has the address 172.17.0.1 on both hosts")
        assert level == level_of(said)
        if mpi_name == "Open MPI":
            assert (
                said.status == 1 and "--mca btl_tcp_if_exclude lo,docker0" in advice
            )  # it sends large messages there
            mended = doctor("--mpiexec-args", "--mca btl_tcp_if_exclude lo,docker0")
        else:
            variable = "FI_TCP_IFACE" if mpi_name == "Intel MPI" else "UCX_NET_DEVICES"
            assert f"{variable}=NAME" in advice
            mended = doctor(**{variable: "ib0"})
        assert mended.status == 0 and mended.of("docker0") is None, mended.text
    finally:
        for host in HOSTS:
            do(lab, host, "ip link del docker0")


def test_a_folder_that_is_not_shared(doctor, healthy):
    level, advice = doctor(cwd="/var/tmp").of("host nodeB does not share this folder")
    assert level == "note" and "a shared folder saves the detour" in advice
    assert healthy.of("does not share") is None


def test_a_name_that_does_not_resolve(doctor, healthy):
    level, advice = doctor(hosts="nodeA,nodeC").of("nodeC does not resolve")
    assert level == "PROBLEM" and advice.startswith("correct it")
    assert healthy.of("does not resolve") is None


def test_no_pingpong_on_the_other_host(doctor, healthy, lab):
    ask = "import pingpong; print(pingpong.__path__[0])"
    installed = subprocess.run(
        [sys.executable, "-c", ask], env={}, cwd="/", capture_output=True, text=True, check=False
    )
    places = sorted({str(PACKAGE), *installed.stdout.split()})
    do(lab, "nodeB", "\n".join(f"mount -t tmpfs empty {place}" for place in places))
    try:
        level, advice = doctor().of("host nodeB has no pingpong where this host has it")
        assert level == "PROBLEM" and advice == "install the same environment there at the same place"
    finally:
        do(lab, "nodeB", "\n".join(f"umount {place}" for place in places))
    assert healthy.of("has no pingpong") is None


VENDOR = """
import sys
if "--worker" in sys.orig_argv:
    import mpi4py
    mpi4py.rc.initialize = False
    from mpi4py import MPI
    name, version = MPI.get_vendor()
    MPI.get_vendor = lambda: (name, (*version[:-1], version[-1] + 1))
"""


def test_another_mpi_and_another_pingpong_on_the_other_host(doctor, healthy, lab, tmp_path):
    """Of MPI there is one here: on nodeB mpi4py says of it that it is the next release."""
    other = shutil.copytree(PACKAGE, tmp_path / "pingpong", ignore=shutil.ignore_patterns("__pycache__"))
    init = other / "__init__.py"
    init.write_text(init.read_text().replace(f'"{pingpong.__version__}"', '"9.9"'))
    lab.path("nodeB", "/var/tmp/sitecustomize.py").write_text(VENDOR)
    do(lab, "nodeB", f"mount --bind {other} {PACKAGE}")
    try:
        said = doctor(PYTHONPATH=f"{PACKAGE.parent}:/var/tmp")
        level, advice = said.of(f"not the same pingpong: {pingpong.__version__} on host nodeA, 9.9 on host nodeB")
        assert (level, advice) == (level_of(said), "install the same one on both hosts")
        assert said.of("not the same MPI") == (level, advice)
    finally:
        do(lab, "nodeB", f"umount {PACKAGE}; rm /var/tmp/sitecustomize.py")
    assert healthy.of("not the same") is None


def test_no_mpi4py_on_the_other_host(doctor, healthy, lab, impatient):
    mpi4py = subprocess.run(
        [sys.executable, "-c", "import mpi4py; print(mpi4py.__path__[0])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    do(lab, "nodeB", f"mount -t tmpfs empty {mpi4py}")
    try:
        level, advice = doctor(**impatient).of("host nodeB cannot load MPI")
        assert level == "PROBLEM" and "on nodeB" in advice
    finally:
        do(lab, "nodeB", f"umount {mpi4py}")
    assert healthy.of("cannot load MPI") is None


def test_no_mpi_on_the_other_host(doctor, healthy, lab, launcher):
    folder = launcher.path.parent
    if folder == Path("/usr/bin"):
        pytest.skip("the launcher lies among the system's programs")
    do(lab, "nodeB", f"mount -t tmpfs empty {folder}")
    try:
        level, advice = doctor().of("host nodeB has no MPI where this host has it")
        assert (level, advice) == ("PROBLEM", "install the same MPI there at the same place")
    finally:
        do(lab, "nodeB", f"umount {folder}")
    assert healthy.of("has no MPI") is None


# How launchers and MPIs are told of an interface
LAUNCHERS = ("PRTE_MCA_prte_if_include", "OMPI_MCA_oob_tcp_if_include", "HYDRA_IFACE", "I_MPI_HYDRA_IFACE")
MPIS = ("OMPI_MCA_btl_tcp_if_include", "UCX_NET_DEVICES", "FI_TCP_IFACE")


def test_a_host_that_cannot_connect_back(doctor, healthy, lab):
    """A firewall on the way from nodeB, which is opened, or which another interface leads around."""
    do(lab, "nodeB", "ip route add prohibit 10.77.1.1")
    try:
        level, advice = doctor().of("host nodeB cannot connect back to this host")
        assert level == "PROBLEM" and advice.startswith("open the firewall, or name the launcher's interface: ")
        assert any(name in advice for name in LAUNCHERS)
        said = doctor(**dict.fromkeys([*LAUNCHERS, *MPIS], "ib0"))
        assert said.status == 0, said.text
    finally:
        do(lab, "nodeB", "ip route del prohibit 10.77.1.1")
    assert healthy.of("connect back") is None


def test_an_interface_that_the_launcher_does_not_find(doctor, lab):
    level, advice = doctor(**dict.fromkeys(LAUNCHERS, "nosuch0")).of("the launcher finds no interface")
    assert level == "PROBLEM" and advice.startswith("name one that all hosts have, or unset ")
    assert any(name in advice for name in LAUNCHERS)
    assert doctor(**dict.fromkeys(LAUNCHERS, "eth0")).status == 0  # one that all hosts have


AGENTS = (
    "PRTE_MCA_plm_ssh_agent",
    "OMPI_MCA_plm_rsh_agent",
    "HYDRA_LAUNCHER_EXEC",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC",
)
LAB_RSH = Path(__file__).parents[2] / "scripts" / "lab-rsh"
UNABLE = "ssh does not start anything on host nodeB"  # Intel MPI keeps ssh's words for itself


@pytest.mark.parametrize(
    ("words", "what", "advice", "cure"),
    [
        (
            "Host key verification failed.",
            "ssh does not know the key of host nodeB",
            "run ssh nodeB true once",
            "ssh",
        ),
        (
            "root@nodeB: Permission denied (publickey,password).",
            "ssh may not log in to host nodeB without a password",
            "ssh-copy-id nodeB",
            "ssh-copy-id",
        ),
    ],
)
def test_ssh_that_does_not_log_in(doctor, tmp_path, words, what, advice, cure):
    """No sshd is here: a program in the place of ssh says what ssh does, until `cure` has been run for nodeB."""
    done, ssh, own = tmp_path / "done", tmp_path / "ssh", tmp_path / "ssh-copy-id"
    asked = f'[ "$*" = "nodeB true" ] && touch {done} && exit' if cure == "ssh" else ""
    ssh.write_text(
        f"#!/bin/sh\n{asked}\n[ -e {done} ] || {{ echo '{words}' >&2; exit 255; }}\nexec {LAB_RSH} \"$@\"\n"
    )
    own.write_text(f"#!/bin/sh\ntouch {done}\n")
    for program in (ssh, own):
        program.chmod(0o755)
    given = dict.fromkeys(AGENTS, str(ssh))
    said = doctor(**given)
    found = said.of(what) or said.of(UNABLE)
    assert found and found[0] == "PROBLEM", said.text
    assert found[1].startswith(advice) or said.of(UNABLE)
    subprocess.run([tmp_path / cure, "nodeB", *(["true"] if cure == "ssh" else [])], check=True)
    assert doctor(**given).status == 0


@pytest.mark.skipif(not shutil.which("ssh"), reason="there is no ssh")
def test_a_host_that_ssh_cannot_reach(doctor, healthy):
    """Nobody listens on nodeB's port 22."""
    said = doctor(**dict.fromkeys(AGENTS, shutil.which("ssh")))
    found = said.of("ssh cannot connect to host nodeB") or said.of(UNABLE)
    assert found and found[0] == "PROBLEM" and "ssh nodeB true" in found[1], said.text
    assert healthy.of("cannot connect") is None


def test_a_temporary_folder_that_only_one_host_has(doctor, healthy, lab):
    """As a batch system makes it for its first node."""
    do(lab, "nodeB", "mount -t tmpfs -o size=64k full /var/tmp")
    try:
        said = doctor(TMPDIR="/var/tmp")
        level, advice = said.of("/var/tmp on host nodeB does not take 1 MiB")
        assert level == level_of(said) and "TMPDIR" in advice
    finally:
        do(lab, "nodeB", "umount /var/tmp")
    assert healthy.of("does not take") is None
