"""Bad luck between two hosts, caused for real, while pingpong measures.

After each fault: it ends within its limit with the right code and sentence, what was measured is on disk, and
neither a process nor a piece of shared memory is left on either host.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pingpong import evidence, store, transports

pytestmark = [pytest.mark.lab, pytest.mark.faults]

PINGPONG = [sys.executable, "-m", "pingpong"]
MEASURE = ["run", "-o", "r.json", "-k", "blocking"]
FOR_EVER = ["-m", "8:64K:x8", "-n", "10000000"]
HOSTS = ["nodeA", "nodeB"]
LIMIT = (
    40.0  # seconds in which all must be over: the ranks wait 6 s and more, mpiexec and the sweep take their time
)
DAEMONS = ("prted", "orted", "hydra_pmi_proxy")


def hydras_maps():
    return {path.name for path in Path("/tmp").glob("hydra_hwloc_*")}


class Job:
    """A measurement over ib0 in the background, started by `pingpong run` or by a hand-typed mpiexec."""

    def __init__(self, lab, launcher, folder, by_hand, what=FOR_EVER):
        self.lab, self.folder, self.by_hand = lab, folder, by_hand
        command, self.env = [*PINGPONG, *MEASURE, *what], {}
        if by_hand:
            here = transports.Here(launcher.family.name, launcher.version, launcher.path, 2, member=False)
            asked = transports.resolve("tcp@ib0", here)
            self.env = launcher.environment() | asked.environment
            command = launcher.across(2, HOSTS, command, asked.environment, asked.arguments)
        else:
            command += ["--hosts", ",".join(HOSTS), "-t", "tcp@ib0"]
        self.output = (folder / "output").open("wb")
        self.before, self.hydra = hydras_maps(), launcher.family.name == "MPICH"
        self.process = lab.start(
            "nodeA", command, env=self.env, cwd=folder, stdout=self.output, stderr=subprocess.STDOUT
        )

    def wait_for_visits(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            path = self.folder / "r.json"
            if path.exists() and path.read_bytes().count(b'{"visit"') >= 10:
                return self
            time.sleep(0.1)
        raise AssertionError(f"no visits: {self.said()}")

    def said(self):
        return (self.folder / "output").read_text(errors="replace")

    def rank(self, number):
        names = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
        for host in HOSTS:
            for each in self.lab.processes(host):
                if any(each.env.get(name) == str(number) for name in names) and "pingpong" in each.argv:
                    return each.pid
        raise AssertionError(f"no rank {number}")

    def daemon(self):
        return next(p.pid for p in self.lab.processes("nodeB") if Path(p.argv[0]).name in DAEMONS)

    def mpiexec(self):
        return next(
            p.pid
            for p in self.lab.processes("nodeA")
            if Path(p.argv[0]).name in ("mpiexec", "mpiexec.hydra", "prterun", "mpirun", "mpiexec.openmpi")
        )

    def end(self, limit=LIMIT):
        """Exit code and output. Fails if it takes too long or leaves anything."""
        began = time.monotonic()
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {limit} s: {self.said()}") from None
        self.took = time.monotonic() - began
        self.nothing_left(limit - self.took)
        return code, self.said()

    def nothing_left(self, seconds):
        deadline = time.monotonic() + max(seconds, 3)
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not left, self.said()

    def left(self):
        running = [(host, p.argv[:4]) for host in HOSTS for p in self.lab.processes(host)]
        found = [(host, self.lab.path(host, "/var/tmp")) for host in HOSTS]
        folders = [(host, path.name) for host, folder in found for path in folder.glob("pingpong-*")]
        maps = [name for name in hydras_maps() if name not in self.before] if self.hydra else []
        return running + folders + maps + [(host, name) for host in HOSTS for name in self.lab.shm(host)]

    def partial(self):
        (run,) = store.load(self.folder / "r.json").runs
        assert run.status == "partial" and sum(len(point.visits) for point in run.points) >= 10
        return run


@pytest.fixture(params=[False, True], ids=["launched", "mpiexec"])
def job(request, lab, launcher, tmp_path):
    return Job(lab, launcher, tmp_path, request.param).wait_for_visits()


def test_the_link_goes_down_for_good(job, lab):
    lab.link("ib0", False)
    code, said = job.end()
    run = job.partial()
    assert "nothing moved for" in run.failure.reason
    assert job.by_hand or "gave up: ib0 is down here" in run.failure.reason, run.failure
    assert code == 124 or (job.by_hand and code != 0)
    assert "nothing moved for" in said


def test_the_link_is_down_for_three_seconds(job, lab):
    """It goes on, and the outage stays visible."""
    lab.link("ib0", False)
    time.sleep(3)
    lab.link("ib0", True)
    time.sleep(5)  # TCP tries again up to 6.2 s after what was lost
    assert job.process.poll() is None, job.said()
    os.kill(job.rank(0), signal.SIGTERM)
    job.end()
    job.partial()
    shown = subprocess.run(
        [*PINGPONG, "show", "r.json"], cwd=job.folder, capture_output=True, text=True, check=True
    ).stdout
    # The sample that met the outage says how long it was; where it fell between samples, the log does.
    seen = re.search(
        r"# warning: (?:a sample of|\S+: a sample of)? ?([\d.]+) s .*may have (been down|stood still)", shown
    )
    assert seen and float(seen[1]) > 2.5, shown


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_is_killed(job, lab, rank):
    lab.kill(job.rank(rank))
    code, said = job.end()
    run = job.partial()
    assert code == 1 or (job.by_hand and code != 0)
    assert evidence.of_run(run).observed == "ib0"
    if not job.by_hand:
        host = HOSTS[rank]
        words = (
            f"{host} was ended by signal 9",
            f"rank {rank} on host {host} died",
            f"the rank on host {host} died",
        )
        assert any(word in run.failure.reason for word in words) or "MPI error" in run.failure.reason, run.failure
        assert "result in" in said


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_is_terminated(lab, launcher, tmp_path, rank):
    """It is over at once, and not taken for a link that hangs, nor the wrong one for dead."""
    job = Job(lab, launcher, tmp_path, False).wait_for_visits()
    lab.kill(job.rank(rank), signal.SIGTERM)
    code, said = job.end()
    reason = job.partial().failure.reason
    assert code == 1 and HOSTS[rank] in reason.partition(",")[0], reason
    assert "SIGTERM" in reason or f"rank {rank} on host {HOSTS[rank]} died" in reason, reason
    assert "doctor" not in said


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_is_stopped(job, lab, rank):
    lab.kill(job.rank(rank), signal.SIGSTOP)
    if job.by_hand:
        # The other rank gives up; the stopped one is in the hands of whoever stopped it, or of mpiexec.
        deadline = time.monotonic() + LIMIT
        while "nothing moved for" not in job.said() and time.monotonic() < deadline:
            time.sleep(0.2)
        assert "nothing moved for" in job.said()
        for host in HOSTS:
            for each in lab.processes(host):
                lab.kill(each.pid, signal.SIGCONT)
    code, said = job.end()
    job.partial()
    assert code in (1, 124) or (job.by_hand and code != 0)
    assert "nothing moved" in said or "nothing moves" in said


@pytest.mark.parametrize("by_hand", [False, True], ids=["launched", "mpiexec"])
def test_the_launchers_daemon_is_killed(lab, launcher, tmp_path, by_hand):
    """Open MPI ends the ranks, once with exit code 0; with MPICH they may go on to their end."""
    job = Job(lab, launcher, tmp_path, by_hand, ["-m", "8", "-D", "10"]).wait_for_visits()
    lab.kill(job.daemon())
    code, said = job.end()
    (run,) = store.load(job.folder / "r.json").runs
    assert run.points[0].visits
    if not by_hand:
        words = ("no daemon on host nodeB", "lost a rank or a daemon", "MPI error")
        assert code == 1 and any(word in said for word in words), said
        assert run.status == "partial" or "all was measured before" in said, said


def test_mpiexec_is_killed(job, lab):
    lab.kill(job.mpiexec())
    code, said = job.end()
    job.partial()
    assert code == 1 or job.by_hand
    if not job.by_hand:
        assert "mpiexec was ended by signal 9" in said


def test_mpiexec_is_terminated(lab, launcher, tmp_path):
    """No rank is accused of it."""
    job = Job(lab, launcher, tmp_path, False).wait_for_visits()
    lab.kill(job.mpiexec(), signal.SIGTERM)
    code, said = job.end()
    assert code == 1, said
    reason = job.partial().failure.reason
    assert " died" not in reason and ("which mpiexec also sends" in reason or "mpiexec ended" in reason), reason


def test_both_links_go_down(job, lab):
    lab.link("ib0", False)
    lab.link("eth0", False)
    if job.by_hand:
        # mpiexec cannot be told any more; the ranks and the daemon on the other host must end all the same.
        deadline = time.monotonic() + LIMIT
        while any(p.pid != job.process.pid for p in lab.processes("nodeB")) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert [p.argv for p in lab.processes("nodeB")] == [], job.said()
        assert lab.shm("nodeB") == []
        job.process.kill()
    else:
        code, said = job.end()
        assert code == 124 and "nothing moved for" in said, said
    job.partial()


@pytest.mark.parametrize("by_hand", [False, True], ids=["launched", "mpiexec"])
def test_the_other_host_has_no_address_on_the_link(lab, launcher, tmp_path, by_hand):
    lab.address("nodeB", "ib0", False)
    job = Job(lab, launcher, tmp_path, by_hand)
    code, said = job.end(100 if by_hand else LIMIT)
    if by_hand:  # the ranks wait for the first message, or in MPI_Init
        assert code != 0 and ("nothing moved for 20 s" in said or "Timeout (0:01:00)!" in said or "OFI" in said), (
            said
        )
        return
    assert code == 1 and "nothing was measured" in said, said
    assert "on host nodeB" in said or "host nodeB has no interface ib0" in said or "cannot use this device" in said
    (run,) = store.load(tmp_path / "r.json").runs
    assert run.failure and run.failure.command and run.transport.name == "tcp@ib0"


def test_the_disk_is_full_where_the_result_arrives(lab, launcher, tmp_path):
    """The lead runs on nodeB, which does not see nodeA's folder: what arrived is kept, and the launch is ended."""
    folder = lab.path("nodeA", "/var/tmp")
    assert lab.run("nodeA", ["mount", "-t", "tmpfs", "-o", "size=20k", "small", "/var/tmp"]).returncode == 0
    try:
        command = [
            "env",
            f"TMPDIR={tmp_path}",
            *PINGPONG,
            *MEASURE,
            "-m",
            "8",
            "-D",
            "60",
            "--hosts",
            "nodeB,nodeA",
        ]
        done = lab.run("nodeA", command, timeout=LIMIT, cwd="/var/tmp")
        assert done.returncode == 1 and "cannot write the result: No space left on device" in done.stderr
        assert "# partial result: cannot write the result: No space left on device" in done.stdout
        (run,) = store.load(folder / "r.json").runs
        assert sum(len(point.visits) for point in run.points) > 0
        running = [p.argv for host in HOSTS for p in lab.processes(host)]
        assert not [argv for argv in running if "pingpong" in argv], running
    finally:
        lab.run("nodeA", ["umount", "/var/tmp"])
