"""Two hosts for the tests: `scripts/lab shell` in a user namespace that ends with its helper process.

Without the rights the tests are skipped, and with PINGPONG_LAB=required they fail. After each test the network is
as it was, and what the test left running on the hosts is killed.

The lab may end at any time, and its process ids be those of other processes then. So whatever is killed, entered
or removed is reached by handles of the lab's own processes, and by namespaces that stay open.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_processes import apart, everybody, handle, namespace, owned, read, send

LAB = [sys.executable, str(Path(__file__).parents[2] / "scripts" / "lab")]
HOSTS = ("nodeA", "nodeB")
NETWORKS = {"eth0": "10.77.1", "ib0": "10.77.2"}


class Job(subprocess.Popen):
    """A command on a host. Signals go to the command itself, not to the helper that waits for it."""

    def send_signal(self, sig):
        while self.poll() is None:
            for pid in children(self.pid):
                with contextlib.suppress(OSError), handle(pid) as process:
                    if pid in children(self.pid):  # still, so the handle is its own
                        send(process, sig)
                return
            time.sleep(0.005)  # it has not started yet


@dataclass(frozen=True)
class Process:
    """A process on a host; `pid` is the one that the test sees, not the one that the process sees."""

    pid: int
    argv: tuple[str, ...]
    env: dict[str, str]


def children(pid):
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def namespaces(pid):
    return [str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in ("net", "mnt")]


def described(pid, process):
    argv, env = (read(process, name, errors="replace") for name in ("cmdline", "environ"))
    pairs = (token.partition("=") for token in env.split("\0") if "=" in token)
    return Process(pid, tuple(argv.split("\0")[:-1]), {name: value for name, _, value in pairs})


def empty(folder, alike):
    """Remove all that is in a folder of a host, unless it is the one that this machine has by that name."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert os.fstat(opened).st_dev != Path(alike).stat().st_dev, f"{folder} is not a host's own"
        for entry in list(os.scandir(opened)):
            with contextlib.suppress(FileNotFoundError):
                remove = shutil.rmtree if entry.is_dir(follow_symlinks=False) else os.unlink
                remove(entry.name, dir_fd=opened)
    finally:
        os.close(opened)


class Lab:
    def __init__(self, helper):
        (first,) = children(helper.pid)
        self._own = children(first)
        self._helper = helper
        self._holders, self._networks = {}, {}
        with handle("self") as ours:
            for pid in self._own:
                holder = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY)
                host = read(holder, "comm").strip().removeprefix("lab:")
                if host not in HOSTS:
                    os.close(holder)
                    continue
                assert apart(owned(holder), owned(ours)), f"{host} is not apart from this machine"
                self._holders[host] = holder
                self._networks[host] = os.open("ns/net", os.O_RDONLY, dir_fd=holder)
        with handle(first) as process:
            kinds = {"user": "user", "mount": "mnt", "pid": "pid"}
            opened = {name: os.open(f"ns/{kind}", os.O_RDONLY, dir_fd=process) for name, kind in kinds.items()}
        self._enter = ["nsenter", "--preserve-credentials"]
        self._enter += [f"--{name}=/proc/{os.getpid()}/fd/{file}" for name, file in opened.items()]
        assert children(helper.pid) == [first] and children(first) == self._own, "the lab has ended"
        self._undo = {}

    def start(self, host, argv, env=None, cwd=None, **popen):
        """A Job: Popen with `argv` on `host`. `env` is added to the test's own; `cwd` is a folder of the host."""
        command = ["exec", host, "env", f"--chdir={cwd or Path.cwd()}", *map(str, argv)]
        return Job(self._inside(command), env=os.environ | (env or {}), **({"stdin": subprocess.DEVNULL} | popen))

    def _inside(self, words):
        """scripts/lab with `words`, where it sees this lab."""
        return [*self._enter, *LAB, *words]

    def run(self, host, argv, timeout=60, env=None, cwd=None):
        """What `argv` on `host` said and returned (-N where signal N ended it), as text.

        Raises TimeoutExpired with the output so far. Output goes through files: a pipe stays open as long as
        anything that a killed command left running.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:

            def said(file):
                file.seek(0)
                return file.read().decode(errors="replace")

            job = self.start(host, argv, env, cwd, stdout=out, stderr=err)
            try:
                job.wait(timeout)
            except subprocess.TimeoutExpired:
                job.kill()
                job.wait()
                raise subprocess.TimeoutExpired(argv, timeout, said(out), said(err)) from None
            return subprocess.CompletedProcess(argv, job.returncode, said(out), said(err))

    def processes(self, host):
        """What runs on `host`, without the lab itself."""
        network = os.fstat(self._networks[host]).st_ino
        found = []
        for pid, process in everybody():
            if pid not in self._own and namespace(process, "net") == network:
                with contextlib.suppress(OSError):  # it has ended
                    found.append(described(pid, process))
        return found

    def kill(self, pid, sig=signal.SIGKILL):
        """Send a signal to a process of `processes`; to one that has ended: nothing."""
        networks = [os.fstat(network).st_ino for network in self._networks.values()]
        with contextlib.suppress(OSError), handle(pid) as process:
            if namespace(process, "net") in networks:
                send(process, sig)

    def path(self, host, path):
        """Where the test finds `path` of `host`: also in the folders that only that host has."""
        return Path(f"/proc/{os.getpid()}/fd/{self._holders[host]}/root{path}")

    def shm(self, host):
        """Names in the /dev/shm of `host`."""
        return sorted(entry.name for entry in self.path(host, "/dev/shm").iterdir())

    def link(self, interface, up):
        """Plug or unplug the nodeA end of a cable."""
        self._undo[interface] = lambda: self.link(interface, True)
        subprocess.run(self._inside(["link", interface, "up" if up else "down"]), check=True, timeout=30)

    def address(self, host, interface, present):
        """Take the IPv4 address of an interface away, or give it back."""
        self._undo[host, interface, "address"] = lambda: self.address(host, interface, True)
        address = f"{NETWORKS[interface]}.{HOSTS.index(host) + 1}/24"
        self._do(host, "addr", "replace" if present else "del", address, "dev", interface)

    def mtu(self, host, interface, size):
        was = int(self.run(host, ["cat", f"/sys/class/net/{interface}/mtu"]).stdout)
        self._undo.setdefault((host, interface, "mtu"), lambda: self.mtu(host, interface, was))
        self._do(host, "link", "set", interface, "mtu", str(size))

    def _do(self, host, *words):
        done = self.run(host, ["ip", *words])
        assert done.returncode == 0, done.stderr

    def mend(self):
        for host in HOSTS:
            for process in self.processes(host):
                self.kill(process.pid)
            for folder in ("/dev/shm", "/var/tmp"):
                empty(self.path(host, folder), folder)
        for undo in list(self._undo.values()):
            undo()
        self._undo.clear()

    def end(self):
        self._helper.stdin.close()
        self._helper.wait(10)


def bring_up():
    """A lab of its own. Raises RuntimeError with what scripts/lab says where it cannot be had."""
    with tempfile.TemporaryFile() as said:
        helper = subprocess.Popen(
            [*LAB, "shell", "sh", "-c", "echo up; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
        )
        if helper.stdout.readline() != b"up\n":
            helper.wait()
            said.seek(0)
            raise RuntimeError(said.read().decode(errors="replace").strip())
    return Lab(helper)


@pytest.fixture(scope="session")
def lab():
    try:
        both = bring_up()
    except RuntimeError as error:
        (pytest.fail if os.environ.get("PINGPONG_LAB") == "required" else pytest.skip)(str(error))
    yield both
    both.end()


@pytest.fixture(autouse=True)
def mended(request):
    yield
    if "lab" in request.fixturenames:
        request.getfixturevalue("lab").mend()
