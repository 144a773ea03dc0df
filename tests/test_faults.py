"""Bad luck, caused for real: killed, stopped and failing ranks, signals, a full disk, broken clocks and payloads.

Every test asserts the same three things: the exit code of docs/exit-codes.md, that nothing stays running, and that
what was measured can be shown.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pingpong import processes, store

pytestmark = pytest.mark.faults

PINGPONG = str(Path(sys.executable).with_name("pingpong"))
PROGRAMS = str(Path(__file__).parent / "programs")
MARK = "PINGPONG_TEST_MARK"
LONG = ("run", "-k", "blocking", "-m", "8:64K", "-n", "10000000", "-o", "r.json")
RANK_NAMES = (b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=", b"PMIX_RANK=")


class Job:
    """A `pingpong run` in the background, alone or under mpiexec, marked so that all of it can be found."""

    def __init__(self, folder, launcher, direct, args=LONG, **env):
        self.folder, self.mark = folder, f"{os.getpid()}-{time.monotonic_ns()}"
        self.environment = dict(os.environ) | launcher.environment() | {MARK: self.mark} | env
        command = [PINGPONG, *args]
        if direct:
            command = launcher.command(2, command, usable_cpus=2)
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def wait_for_visits(self):
        """Until the journal holds finished visits."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            path = self.folder / "r.json"
            if path.exists() and path.read_bytes().count(b'{"visit"') >= 100:
                return self
            time.sleep(0.1)
        raise AssertionError(f"no visits: {self.process.communicate()}")

    def all(self):
        """Every process with the mark, but the one that this test started itself."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and processes.state(int(folder.name)) not in "ZX":
                try:
                    environ = (folder / "environ").read_bytes()
                except OSError:
                    continue
                if f"{MARK}={self.mark}".encode() in environ.split(b"\0"):
                    found.append(int(folder.name))
        return found

    def rank(self, number):
        for pid in self.all():
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"pingpong" in command and any(name + b"%d" % number in variables for name in RANK_NAMES):
                return pid
        raise AssertionError(f"no rank {number}")

    def end(self, seconds=14):
        """Exit code and text; fails if it takes longer, or if anything is left running."""
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.clean()
            raise
        deadline = time.monotonic() + 3
        while (left := self.all()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.clean()
        assert left == [], f"still running: {left}"
        return self.process.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def clean(self):
        for pid in self.all():
            os.kill(pid, signal.SIGKILL)


def partial(folder):
    """The result loads, is marked partial, has visits, and `show` prints it."""
    session = store.load(folder / "r.json")
    (run,) = session.runs
    assert run.status == "partial"
    assert sum(len(point.visits) for point in run.points) > 0
    shown = subprocess.run([PINGPONG, "show", "r.json"], cwd=folder, capture_output=True, text=True, check=False)
    assert shown.returncode == 0 and "# partial result: " in shown.stdout and " bytes took " in shown.stdout
    return run


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("direct", [False, True], ids=["launched", "mpiexec"])
def test_a_rank_killed_with_sigkill(tmp_path, launcher, direct, rank):
    job = Job(tmp_path, launcher, direct).wait_for_visits()
    os.kill(job.rank(rank), signal.SIGKILL)
    code, _, err = job.end()
    run = partial(tmp_path)
    assert "Traceback" not in err
    if direct:
        assert code != 0  # mpiexec's own
    else:
        # MPICH's own error on the other rank may come before its mpiexec sees the signal.
        assert code == 1 and ("SIGKILL" in run.failure.reason or "MPI error" in run.failure.reason)
        assert "result in r.json (partial" in err.replace(str(tmp_path) + "/", "")


@pytest.mark.parametrize("which", [(1,), (0, 1)], ids=["peer", "both"])
def test_stopped_ranks_when_launched(tmp_path, launcher, which):
    job = Job(tmp_path, launcher, direct=False).wait_for_visits()
    for pid in [job.rank(number) for number in which]:
        os.kill(pid, signal.SIGSTOP)
    code, _, err = job.end()
    assert code == 124 and "Traceback" not in err
    assert "nothing move" in partial(tmp_path).failure.reason


@pytest.mark.parametrize("rank", [0, 1])
def test_a_stopped_rank_under_mpiexec(tmp_path, launcher, mpi_name, rank):
    job = Job(tmp_path, launcher, direct=True).wait_for_visits()
    os.kill(job.rank(rank), signal.SIGSTOP)
    code, _, err = job.end()
    # mpiexec has the last word: Intel's gives 255 for every early exit, MPICH's may give 9 of the rank it killed.
    assert code in {"Intel MPI": (255,), "MPICH": (124, 9)}.get(mpi_name, (124,))
    assert f"rank {1 - rank} on host" in err and "nothing moved for" in err
    partial(tmp_path)


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_to_pingpong(tmp_path, launcher, number, expected):
    job = Job(tmp_path, launcher, direct=False).wait_for_visits()
    job.process.send_signal(number)
    code, out, err = job.end()
    assert code == expected and "Traceback" not in err
    assert "# partial result: " in out and partial(tmp_path).failure.exit == expected


def test_a_terminated_mpiexec_leaves_a_result_that_says_so(tmp_path, launcher):
    job = Job(tmp_path, launcher, direct=True).wait_for_visits()
    job.process.send_signal(signal.SIGTERM)
    code, _, err = job.end()
    assert code != 0 and "Traceback" not in err
    partial(tmp_path)


def test_pingpong_itself_killed_with_sigkill(tmp_path, launcher):
    job = Job(tmp_path, launcher, direct=False).wait_for_visits()
    job.process.kill()
    code, _, _ = job.end()
    assert code == -signal.SIGKILL
    failure = partial(tmp_path).failure
    # A rank that has heard of it has done so by mpiexec's signal, and knows no more.
    assert failure is None or "SIGTERM, which mpiexec also sends when it is ended itself" in failure.reason


def test_the_time_limit(tmp_path, launcher):
    job = Job(tmp_path, launcher, direct=False, args=(*LONG, "--time-limit", "4"))
    code, _, err = job.end(30)
    assert code == 124 and "time limit of 4 s" in err
    partial(tmp_path)


@pytest.mark.parametrize("direct", [False, True], ids=["launched", "mpiexec"])
@pytest.mark.parametrize("who", ["lead", "peer"])
def test_an_exception_on_one_rank(tmp_path, launcher, direct, who):
    job = Job(tmp_path, launcher, direct, HARM=f"raise_on_{who}", PYTHONPATH=PROGRAMS)
    code, _, err = job.end(30)
    assert code == 1
    assert err.count("RuntimeError: a bug made for this test") == 1
    partial(tmp_path)


@pytest.mark.parametrize("direct", [False, True], ids=["launched", "mpiexec"])
def test_a_wrong_payload(tmp_path, launcher, direct):
    args = ("run", "-k", "blocking", "-m", "8,1K", "-n", "60", "-o", "r.json")
    job = Job(tmp_path, launcher, direct, args, HARM="corrupt", PYTHONPATH=PROGRAMS)
    code, out, err = job.end(60)
    assert code == 4
    points = store.load(tmp_path / "r.json").runs[0].points
    assert [(p.loop, p.size) for p in points if p.payload.wrong] == [("native", 1024), ("mpi4py", 1024)]
    assert {(w.rank, w.byte) for p in points for w in p.payload.wrong} == {(1, 17)}
    named = "wrong payload in blocking, 1K bytes: byte 17 on rank 1"
    assert named in err and "WRONG PAYLOAD at byte 17" in out


@pytest.mark.parametrize("harm", ["frozen_clock", "backward_clock"])
def test_a_broken_clock_is_named_and_gives_no_rate(tmp_path, launcher, harm):
    args = ("run", "--loop", "mpi4py", "-k", "blocking", "-m", "8", "-n", "60", "-o", "r.json")
    job = Job(tmp_path, launcher, False, args, HARM=harm, PYTHONPATH=PROGRAMS)
    code, out, _ = job.end(60)
    assert code == 1
    assert "no valid time: the clock stood still or stepped back" in out
    assert "inf" not in out and "nan" not in out and "Max rate" not in out


@pytest.mark.parametrize("direct", [False, True], ids=["launched", "mpiexec"])
def test_a_full_disk_keeps_what_was_measured(tmp_path, launcher, direct):
    """A tmpfs of 100 KiB in a mount namespace of its own; no rights are needed beyond user namespaces."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = [PINGPONG, "run", "-k", "blocking", "-m", "8:64", "-n", "20000", "-o", "r.json"]
    if direct:
        command = launcher.command(2, command, usable_cpus=2)
    # The mount ends with the namespace, so the result is copied out.
    script = 'mount -t tmpfs -o size=100k tmpfs "$0" && cd "$0" && "$@"; code=$?; cp r.json ..; exit $code'
    rights = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]
    env = dict(os.environ) | launcher.environment() | {"OMPI_ALLOW_RUN_AS_ROOT": "1"}
    env |= {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        ["unshare", *rights, "sh", "-c", script, str(disk), *command],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr and "Traceback" not in done.stderr
    assert " bytes took " in done.stdout and "# partial result: " in done.stdout
    assert direct or "No space left on device" in done.stdout
    partial(tmp_path)


def test_a_signal_ends_all_launches_whenever_it_comes(tmp_path, launcher):
    """Also while one launch is cleaned up, or before the next one begins."""
    args = ("run", "-k", "blocking", "-m", "8", "-n", "10", "--launches", "30", "-o", "r.json")
    job = Job(tmp_path, launcher, False, args)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        path = tmp_path / "r.json"
        if path.exists() and path.read_bytes().count(b'{"end"') >= 2:
            break
        time.sleep(0.01)
    os.kill(job.process.pid, signal.SIGTERM)
    code, _, err = job.end()
    assert code == 143 and "terminated (SIGTERM)" in err and "of 30 launches complete" in err
    assert 2 <= len(store.load(tmp_path / "r.json").runs) <= 4


def test_a_host_whose_name_nobody_knows_is_named(tmp_path):
    """RFC 2606 keeps .invalid free."""
    command = [PINGPONG, "run", "--hosts", "localhost,nosuch.invalid", "-m", "8", "-o", "r.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode in (1, 124)
    assert "the name nosuch.invalid does not resolve here: look at --hosts" in done.stderr
