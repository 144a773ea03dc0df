"""The lab itself: two hosts that share a machine, but neither network nor memory nor temporary files."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import HOSTS, LAB, NETWORKS, bring_up, empty

pytestmark = pytest.mark.lab

ODD = ["a b", "$HOME", "it's", '"quoted"', "", "*", "back\\slash", "two\nlines", "-x", ";", "größe"]

# Says how many bytes a second came in; the receiver's clock runs from the first byte to the last.
RECEIVE = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 5000))
print("listening", flush=True)
connection, peer = server.accept()
total = len(connection.recv(1))
start = time.perf_counter()
while data := connection.recv(1 << 20):
    total += len(data)
print(total / (time.perf_counter() - start))
"""
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 5000)) as connection:
    for _ in range(25):
        connection.sendall(bytes(1_000_000))
"""
ASK = "import socket, sys; print(*sorted({a[4][0] for a in socket.getaddrinfo(sys.argv[1], None)}))"
RANK = """
import socket
from mpi4py import MPI
names = MPI.COMM_WORLD.gather(socket.gethostname())
if names: print(*names)
"""
TEN_MEGABYTES = """
from mpi4py import MPI
world = MPI.COMM_WORLD
buffer = bytearray(10_000_000)
world.Send(buffer, 1) if world.rank == 0 else world.Recv(buffer, 0)
"""


def run(*words, **popen):
    """scripts/lab by itself, outside of any lab."""
    done = subprocess.run([*LAB, *words], capture_output=True, text=True, timeout=60, check=False, **popen)
    return done.returncode, done.stdout, done.stderr


def wait_until(true):
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def transfer(lab, interface):
    """Bytes per second from nodeA to nodeB."""
    address = f"{NETWORKS[interface]}.2"
    command = [sys.executable, "-c", RECEIVE, address]
    receiver = lab.start("nodeB", command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert receiver.stdout.readline() == "listening\n", receiver.stderr.read()
    sent = lab.run("nodeA", [sys.executable, "-c", SEND, address])
    assert sent.returncode == 0, sent.stderr
    said, _ = receiver.communicate(timeout=30)
    return float(said)


# Network


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_sees_its_own_interfaces_and_no_other(lab, host):
    assert lab.run(host, ["ls", "/sys/class/net"]).stdout.split() == ["eth0", "ib0", "lo"]
    mtus = [lab.run(host, ["cat", f"/sys/class/net/{name}/mtu"]).stdout.strip() for name in ("eth0", "ib0")]
    assert mtus == ["1500", "65520"]


@pytest.mark.parametrize("host", HOSTS)
def test_names_are_known(lab, host):
    assert lab.run(host, ["hostname"]).stdout == f"{host}\n"
    for name, address in ("nodeA", "10.77.1.1"), ("nodeB", "10.77.1.2"), ("localhost", "127.0.0.1"):
        assert lab.run(host, [sys.executable, "-c", ASK, name]).stdout.split() == [address]


def test_eth0_is_shaped_and_ib0_is_several_times_faster(lab):
    eth0 = max(transfer(lab, "eth0") for _ in range(2))
    ib0 = max(transfer(lab, "ib0") for _ in range(3))
    assert eth0 < 1.05 * 125e6  # 1 Gbit/s, and a burst
    assert ib0 > 5 * eth0


def test_an_unplugged_cable_is_seen_at_the_other_end(lab):
    def carrier(interface):
        return lab.run("nodeB", ["cat", f"/sys/class/net/{interface}/carrier"]).stdout.strip()

    lab.link("ib0", up=False)
    assert (carrier("ib0"), carrier("eth0")) == ("0", "1")
    lab.link("ib0", up=True)
    assert carrier("ib0") == "1"
    transfer(lab, "ib0")


def test_addresses_and_mtus_change_and_come_back(lab):
    def seen():
        return lab.run("nodeB", ["ip", "-4", "-oneline", "addr", "show", "dev", "ib0"]).stdout

    assert "10.77.2.2/24" in seen()
    lab.address("nodeB", "ib0", present=False)
    assert seen() == ""
    lab.mtu("nodeB", "ib0", 9000)
    assert lab.run("nodeB", ["cat", "/sys/class/net/ib0/mtu"]).stdout == "9000\n"
    lab.mend()
    assert "10.77.2.2/24" in seen()
    assert lab.run("nodeB", ["cat", "/sys/class/net/ib0/mtu"]).stdout == "65520\n"


# Files and memory


@pytest.mark.parametrize("folder", ["/dev/shm", "/var/tmp"])
def test_each_host_has_a_folder_of_its_own(lab, folder):
    file = f"{folder}/only-here"
    assert lab.run("nodeA", ["sh", "-c", f"echo a >{file}"]).returncode == 0
    assert lab.run("nodeB", ["test", "-e", file]).returncode == 1
    assert lab.path("nodeA", file).read_text() == "a\n"
    assert not lab.path("nodeB", file).exists()
    assert not Path(file).exists()
    lab.path("nodeA", file).unlink()


def test_shared_memory_is_listed(lab):
    lab.run("nodeB", ["touch", "/dev/shm/segment"])
    assert (lab.shm("nodeA"), lab.shm("nodeB")) == ([], ["segment"])
    lab.path("nodeB", "/dev/shm/segment").unlink()


def test_temporary_files_go_to_the_folder_of_the_host(lab):
    made = lab.run("nodeB", ["mktemp"]).stdout.strip()
    assert made.startswith("/var/tmp/")
    lab.path("nodeB", made).unlink()


def test_other_folders_are_common(lab, tmp_path):
    assert lab.run("nodeA", ["touch", "seen"], cwd=tmp_path).returncode == 0
    assert lab.run("nodeB", ["ls"], cwd=tmp_path).stdout == "seen\n"


# Commands


def test_arguments_arrive_as_they_are(lab):
    said = lab.run("nodeB", [sys.executable, "-c", "import sys; print(ascii(sys.argv[1:]))", *ODD]).stdout
    assert said.strip() == ascii(ODD)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", -signal.SIGTERM), ("kill -9 $$", -9)]
)
def test_exit_codes_and_signals_pass_through(lab, script, code):
    assert lab.run("nodeB", ["sh", "-c", script]).returncode == code


def test_a_shell_tells_how_its_command_ended(lab):
    assert run("shell", "sh", "-c", "exit 3")[0] == 3
    assert run("shell", "sh", "-c", "kill -TERM $$")[0] == 128 + signal.SIGTERM


def test_a_closed_stdin_stays_closed(lab):
    command = f"{' '.join(LAB)} exec nodeB sh -c 'read line || echo nothing' <&-"
    done = lab.run("nodeA", ["sh", "-c", command])
    assert (done.returncode, done.stdout) == (0, "nothing\n")
    done = subprocess.run(
        f"{' '.join(LAB)} shell hostname <&-", shell=True, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "nodeA\n")


def test_a_pipe_that_nobody_reads_ends_the_writer_quietly(lab):
    done = lab.run("nodeB", ["sh", "-c", "yes | head -n 1"])
    assert (done.stdout, done.stderr) == ("y\n", "")


def test_a_command_that_is_not_there(lab):
    done = lab.run("nodeB", [*LAB, "exec", "nodeA", "no-such-command"])
    assert (done.returncode, done.stderr) == (127, "lab: cannot run no-such-command: No such file or directory\n")


def test_a_host_that_is_not_there(lab):
    done = lab.run("nodeB", [*LAB, "exec", "nodeC", "true"])
    assert (done.returncode, done.stderr) == (255, "lab: there is no host 'nodeC'; the lab has nodeA and nodeB\n")


def test_a_folder_that_only_the_other_host_has(lab):
    script = f"mkdir /var/tmp/mine; cd /var/tmp/mine; {' '.join(LAB)} exec nodeB true"
    done = lab.run("nodeA", ["sh", "-c", script])
    assert done.returncode == 255
    assert done.stderr == "lab: cannot go to /var/tmp/mine on this host: No such file or directory\n"
    lab.path("nodeA", "/var/tmp/mine").rmdir()


def test_the_stand_in_for_ssh_passes_no_environment_on(lab):
    agent = str(Path(LAB[1]).with_name("lab-rsh"))
    options = ["-x", "-l", "someone", "-oStrictHostKeyChecking=no"]
    command = [agent, *options, "me@nodeB", "echo $(hostname)", '"$SECRET"', "$TMPDIR"]
    done = lab.run("nodeA", command, env={"SECRET": "told"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "nodeB  /var/tmp\n", "")
    assert lab.run("nodeA", [agent, "nodeB", "exit 7"]).returncode == 7


# MPI


def hosts(launcher):
    open_mpi = launcher.family.name == "Open MPI"
    return ["--host", "nodeA,nodeB"] if open_mpi else ["-hosts", "nodeA,nodeB", "-ppn", "1"]


def test_mpiexec_needs_only_the_hosts(lab, launcher):
    done = lab.run("nodeA", [launcher.path, *hosts(launcher), "-n", "2", sys.executable, "-c", RANK])
    assert (done.returncode, done.stdout) == (0, "nodeA nodeB\n"), done.stderr


def test_messages_between_the_hosts_take_a_cable_and_not_shared_memory(lab, launcher):
    def received():
        said = lab.run("nodeB", ["sh", "-c", "cat /sys/class/net/[ei]*/statistics/rx_bytes"])
        return sum(map(int, said.stdout.split()))

    before = received()
    done = lab.run("nodeA", [launcher.path, *hosts(launcher), "-n", "2", sys.executable, "-c", TEN_MEGABYTES])
    assert done.returncode == 0, done.stderr
    assert received() - before >= 10_000_000


# Processes


def test_processes_are_found_signalled_and_killed(lab):
    job = lab.start("nodeB", ["sleep", "1000"], env={"TOKEN": "of this test"})
    wait_until(lambda: any(p.argv == ("sleep", "1000") for p in lab.processes("nodeB")))
    (found,) = (p for p in lab.processes("nodeB") if p.env.get("TOKEN") == "of this test")
    assert lab.processes("nodeA") == []
    lab.kill(found.pid)
    assert job.wait(10) == -signal.SIGKILL
    assert lab.processes("nodeB") == []


def test_a_job_gets_the_signals_of_its_handle(lab):
    script = "trap 'echo got it; exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    job = lab.start("nodeA", ["sh", "-c", script], stdout=subprocess.PIPE, text=True)
    assert job.stdout.readline() == "ready\n"
    job.terminate()
    assert job.communicate(timeout=10)[0] == "got it\n"
    assert job.returncode == 9


def test_a_time_limit_ends_a_command_and_shows_what_it_said(lab):
    with pytest.raises(subprocess.TimeoutExpired) as error:
        lab.run("nodeB", ["sh", "-c", "echo begun; sleep 1000"], timeout=1)
    assert error.value.output == "begun\n"
    lab.mend()
    wait_until(lambda: lab.processes("nodeB") == [])


# What is not of the lab


def test_nothing_is_killed_that_is_on_no_host(lab):
    with subprocess.Popen(["sleep", "1000"]) as other:
        try:
            lab.kill(other.pid)
            with pytest.raises(subprocess.TimeoutExpired):
                other.wait(0.5)
        finally:
            other.kill()


def test_no_folder_of_this_machine_is_emptied(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AssertionError, match="not a host's own"):
        empty(tmp_path, tmp_path)
    assert (tmp_path / "file").exists()


def test_a_hosts_folder_is_emptied_and_links_are_not_followed(lab, tmp_path):
    (tmp_path / "file").touch()
    script = f"cd /var/tmp; mkdir -p deep/er; touch deep/er/file .hidden; ln -s {tmp_path} link; ln -s no where"
    assert lab.run("nodeB", ["sh", "-c", script]).returncode == 0
    lab.mend()
    assert list(lab.path("nodeB", "/var/tmp").iterdir()) == []
    assert (tmp_path / "file").exists()


def test_a_lab_that_has_ended_has_no_processes_and_no_folders(lab):
    other = bring_up()
    other.end()
    assert [other.processes(host) for host in HOSTS] == [[], []]
    with pytest.raises(OSError):
        other.mend()
    assert other.start("nodeB", ["true"], stderr=subprocess.DEVNULL).wait(10) != 0
