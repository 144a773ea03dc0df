"""What a launch leaves behind is found by its token and removed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pingpong import guard, processes, temporary

SLEEP = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"]


def started(token, command=SLEEP):
    child = subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ) | {temporary.TOKEN: token})
    child.stdout.readline()
    return child


def wait_until(true, seconds=5):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_sweep_ends_the_processes_of_one_launch_and_no_others():
    mine, other = started("one"), started("another")
    try:
        assert processes.carrying("one") == [mine.pid]
        processes.sweep("one")
        assert mine.wait(5) == -9
        assert other.poll() is None
    finally:
        other.kill()
        mine.kill()


def test_a_host_with_more_to_do_than_cpus_is_told(monkeypatch):
    spinning = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() + 2)]
    try:
        wait_until(lambda: f"threads want the {os.cpu_count()} CPUs of this host" in processes.crowded())
        monkeypatch.setattr(os, "cpu_count", lambda: 10**6)
        assert processes.crowded() == ""
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def test_a_guard_removes_what_a_killed_rank_leaves_and_nothing_that_somebody_uses():
    """Segments by the names that MPICH gives them: of this rank, of two other processes, and one from before."""
    mine, used, opened, old = (Path(f"/dev/shm/mpich_shm_test{os.getpid()}_{n}") for n in range(4))
    hold = (
        "import mmap, sys, time\nf = open(sys.argv[1], 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 4096)\n"
    )
    keep = hold + "print(1, flush=True); time.sleep(60)"
    guarded = "from pingpong.guard import Guard; g = Guard()\n" + keep
    old.touch()
    time.sleep(0.1)
    try:
        other = started("another", [sys.executable, "-c", keep, str(used)])
        third = started(
            "another", [sys.executable, "-c", keep.replace("; m = mmap", "; m = lambda *_: mmap"), str(opened)]
        )
        rank = started("held", [sys.executable, "-c", guarded, str(mine)])
        assert mine.exists() and temporary.folder("held").is_dir()
        rank.kill()
        rank.wait()
        wait_until(lambda: not mine.exists() and not temporary.folder("held").exists())
        assert used.exists() and opened.exists() and old.exists()
    finally:
        other.kill()
        third.kill()
        for path in (mine, used, opened, old):
            path.unlink(missing_ok=True)


def test_a_rank_that_ends_well_is_left_alone_by_its_guard(tmp_path):
    code = "from pingpong.guard import Guard; g = Guard(); print(g.process.pid, flush=True); g.release(); input()"
    env = dict(os.environ) | {temporary.TOKEN: "kept", "TMPDIR": str(tmp_path)}
    rank = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True
    )
    guard_pid = int(rank.stdout.readline())
    wait_until(lambda: processes.state(guard_pid) in "ZX")
    assert (tmp_path / "pingpong-kept").is_dir()
    rank.communicate("\n")


@pytest.mark.parametrize("there", [True, False])
def test_a_rank_gets_a_folder_for_temporary_files_whether_or_not_tmpdir_is_there(tmp_path, there):
    """Hydra passes TMPDIR on to hosts where nobody has made it."""
    base = tmp_path / "base"
    base.mkdir()
    folder = (base if there else Path("/no/such/place")) / "pingpong-t0"
    code = "import os, tempfile; from pingpong import temporary; temporary.settle(); "
    code += "print(os.environ['TMPDIR'], tempfile.gettempdir(), temporary.base())"
    env = dict(os.environ) | {"TMPDIR": str(folder), temporary.TOKEN: "t0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    chosen, used, others = map(Path, done.stdout.split())
    try:
        assert chosen == used and chosen.name == "pingpong-t0" and chosen.stat().st_mode & 0o777 == 0o700
        assert chosen.parent == others
        assert (chosen == folder) is there
    finally:
        chosen.rmdir()


def test_a_daemon_that_lost_its_mpiexec_ends_after_its_rank(tmp_path):
    """A program with the name of a launcher's daemon, whose child gives up as a rank does."""
    daemon, rank = tmp_path / "prted", "from pingpong.guard import Guard; Guard()"
    daemon.symlink_to("/bin/bash")
    # Bash renames nothing: the process has the name of the link that was started.
    script = f"{sys.executable} -c '{rank}'; echo done; while :; do sleep 0.1; done"
    process = subprocess.Popen([daemon, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"done\n"
    time.sleep(0.5)
    assert process.poll() is None, "it must have the time to tell its mpiexec"
    assert process.wait(guard.FAREWELL + 10) < 0


def test_the_daemon_of_a_persistent_dvm_is_left_alone(tmp_path):
    """prte starts daemons that serve the jobs of many prun."""
    daemon, code = tmp_path / "prted", "from pingpong import guard; print(guard._daemon())"
    daemon.symlink_to("/bin/bash")
    for namespace, ours in (("prterun-n1-77@1", True), ("prte-n1-77@3", False)):
        script = f"PMIX_NAMESPACE={namespace} {sys.executable} -c '{code}'; :"
        said = subprocess.run([daemon, "-c", script], capture_output=True, text=True, check=True).stdout
        assert (said.strip() != "None") is ours


def test_a_guard_waits_for_the_end_of_its_process_whatever_becomes_of_its_object():
    """Python closes what nobody refers to any more; the process, and its memory, may be there for long."""
    code = "from pingpong.guard import Guard; print(Guard().process.pid, flush=True); input()"
    rank = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    guard_pid = int(rank.stdout.readline())
    time.sleep(0.5)
    assert processes.state(guard_pid) not in "ZX"
    rank.communicate("\n")
    wait_until(lambda: processes.state(guard_pid) in "ZX")
