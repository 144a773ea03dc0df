"""Two hosts for the tests: `scripts/lab shell` in a user namespace that ends with its helper process.

Without the rights the tests are skipped, and with PINGPONG_LAB=required they fail. After each test the network is
as it was, and what the test left running on the hosts is killed.
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

LAB = [sys.executable, str(Path(__file__).parents[2] / "scripts" / "lab")]
HOSTS = ("nodeA", "nodeB")
NETWORKS = {"eth0": "10.77.1", "ib0": "10.77.2"}


class Job(subprocess.Popen):
    """A command on a host. Signals go to the command itself, not to the helper that waits for it."""

    def send_signal(self, sig):
        while self.poll() is None:
            for pid in children(self.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sig)
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


def process(entry):
    argv, env = ((entry / name).read_bytes().decode(errors="replace") for name in ("cmdline", "environ"))
    pairs = (token.partition("=") for token in env.split("\0") if "=" in token)
    return Process(int(entry.name), tuple(argv.split("\0")[:-1]), {name: value for name, _, value in pairs})


class Lab:
    def __init__(self, helper):
        (self._first,) = children(helper.pid)
        own = children(self._first)
        self._helper = helper
        self._holders = {Path(f"/proc/{pid}/comm").read_text().strip().removeprefix("lab:"): pid for pid in own}
        self._spaces = {host: namespaces(pid) for host, pid in self._holders.items()}
        self._own = {self._first, *own}
        self._undo = {}

    def _holder(self, host):
        """The process that holds a host; its number may be that of another one, whose files are not ours."""
        pid = self._holders[host]
        there = namespaces(pid)
        assert there == self._spaces[host] and not set(there) & set(namespaces("self")), f"{host} is gone"
        return pid

    def start(self, host, argv, env=None, cwd=None, **popen):
        """A Job: Popen with `argv` on `host`. `env` is added to the test's own; `cwd` is a folder of the host."""
        command = ["exec", host, "env", f"--chdir={cwd or Path.cwd()}", *map(str, argv)]
        return Job(self._inside(command), env=os.environ | (env or {}), **({"stdin": subprocess.DEVNULL} | popen))

    def _inside(self, words):
        """scripts/lab with `words`, where it sees this lab."""
        enter = ["nsenter", "--user", "--mount", "--pid", "--preserve-credentials", f"--target={self._first}"]
        return [*enter, *LAB, *words]

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
        network = Path(f"/proc/{self._holder(host)}/ns/net").readlink()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) not in self._own:
                with contextlib.suppress(OSError):  # it has ended, or belongs to somebody else
                    if (entry / "ns/net").readlink() == network:
                        found.append(process(entry))
        return found

    def kill(self, pid, sig=signal.SIGKILL):
        """Send a signal to a process of `processes`; to one that has ended: nothing."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sig)

    def path(self, host, path):
        """Where the test finds `path` of `host`: also in the folders that only that host has."""
        return Path(f"/proc/{self._holder(host)}/root{path}")

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
                for path in self.path(host, folder).iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for undo in list(self._undo.values()):
            undo()
        self._undo.clear()

    def end(self):
        self._helper.stdin.close()
        self._helper.wait(10)


@pytest.fixture(scope="session")
def lab():
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
            reason = said.read().decode(errors="replace").strip()
            (pytest.fail if os.environ.get("PINGPONG_LAB") == "required" else pytest.skip)(reason)
    both = Lab(helper)
    yield both
    both.end()


@pytest.fixture(autouse=True)
def mended(request):
    yield
    if "lab" in request.fixturenames:
        request.getfixturevalue("lab").mend()
