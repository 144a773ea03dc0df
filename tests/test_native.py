"""Runs with native loops: without numba, with another library between them and MPI, with errors of MPI."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pingpong import stats, store

from .test_cli import refused
from .test_faults import PROGRAMS, Job, partial

PINGPONG = str(Path(sys.executable).with_name("pingpong"))
QUICK = ("run", "-k", "blocking", "-m", "8", "-n", "60", "-o", "r.json")


@pytest.fixture
def run(tmp_path, launcher):
    """A quick run in tmp_path; `direct` under mpiexec, `python` before all else on PYTHONPATH."""

    def start(*args, direct=False, python=None, **env):
        command = [PINGPONG, *args]
        if direct:
            command = launcher.command(2, command, usable_cpus=1)
        env = dict(os.environ) | launcher.environment() | ({"PYTHONPATH": str(python)} if python else {}) | env
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=90, check=False
        )

    return start


def samples(folder):
    """How many each point has, by loop and size."""
    (one,) = store.load(folder / "r.json").runs
    return {(p.loop, p.size): sum(len(v.seconds) for v in p.visits) for p in one.points}


# Without numba. What stands in for it is found first, and what it does it does for real.

HIDING = """
from importlib import metadata

def distribution(name, honest=metadata.distribution):
    if name == "numba":
        raise metadata.PackageNotFoundError(name)
    return honest(name)

metadata.distribution = distribution
"""
CRASHING = """
import os, resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.kill(os.getpid(), 11)
"""
FAILED = "numba could not compile them: "
MISSING = "numba is not installed; pip install 'mpi-pingpong[native]' brings it"
STAND_INS = {
    "missing": ("sitecustomize.py", HIDING, MISSING),
    "half removed": ("numba-0.61.0.dist-info/RECORD", "", MISSING),
    "old": (
        "numba-0.50.0.dist-info/METADATA",
        "Metadata-Version: 2.1\nName: numba\nVersion: 0.50.0\n",
        "numba 0.50.0 is too old; 0.61 or newer is needed",
    ),
    "raising": (
        "numba.py",
        "raise ImportError('broken for this test')",
        FAILED + "ImportError: broken for this test",
    ),
    "crashing": ("numba.py", CRASHING, FAILED + "it died of SIGSEGV"),
}


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Puts one in place, with an empty cache; what is to be said of it."""

    def put(kind):
        name, content, reason = STAND_INS[kind]
        path = tmp_path / "python" / name
        path.parent.mkdir(parents=True)
        path.write_text(content)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "python"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        return reason

    return put


@pytest.mark.parametrize(
    ("kind", "direct", "args"),
    [
        ("missing", False, ()),
        ("crashing", True, ("--loop", "both")),
    ],
)
def test_without_numba_the_mpi4py_loop_runs_and_the_log_says_why(tmp_path, run, stand_in, kind, direct, args):
    reason = stand_in(kind)
    done = run(*QUICK, *args, direct=direct)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert lines.count(f"# warning: no native loop: {reason}") == 1
    assert lines[0].endswith(", mpi4py loop") and " bytes took " in done.stdout
    assert samples(tmp_path) == {("mpi4py", 8): 60}


def test_one_rank_without_numba_is_enough_for_neither_to_have_native_loops(tmp_path, run):
    done = run(*QUICK, direct=True, python=PROGRAMS, HARM="no_numba_on_peer")
    assert done.returncode == 0, done.stderr
    assert f"# warning: no native loop: {MISSING}" in done.stdout.splitlines()
    assert samples(tmp_path) == {("mpi4py", 8): 60}


def test_a_compiler_that_failed_is_not_asked_again_by_every_rank(tmp_path, run):
    """One that hangs would otherwise cost each of them its patience."""
    folder = tmp_path / "stand-in"
    folder.mkdir()
    asked = tmp_path / "asked"
    (folder / "numba.py").write_text(f"open({str(asked)!r}, 'a').write('x')\nraise ImportError('broken')\n")
    done = run(*QUICK, python=folder, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert "no native loop: numba could not compile them: ImportError: broken" in done.stdout
    assert asked.read_text() == "x"


@pytest.mark.parametrize("kind", STAND_INS)
def test_native_loops_that_cannot_be_are_refused_before_anything_is_launched(tmp_path, run, stand_in, kind):
    reason = stand_in(kind)
    done = run(*QUICK, "--loop", "native", "-q", "--mpiexec-args", "--no-such-flag")
    refused(done, f"no native loop: {reason}; --loop mpi4py does without")
    assert not (tmp_path / "r.json").exists()


def test_where_only_the_ranks_can_find_out_their_refusal_is_said(tmp_path, run, stand_in):
    """Without a cache nothing is compiled before the launch."""
    reason = stand_in("raising")
    (tmp_path / f"pingpong-{os.geteuid()}").write_text("not a folder")
    done = run(*QUICK, "--loop", "native", XDG_CACHE_HOME="/proc/nowhere", TMPDIR=str(tmp_path))
    refusal = f"no native loop: {reason}; --loop mpi4py does without"
    assert done.returncode == 2 and f"pingpong: {refusal}; nothing was measured" in done.stderr.splitlines()


def test_native_loops_that_cannot_be_are_refused_under_mpiexec_too(tmp_path, launcher, stand_in):
    reason = stand_in("raising")
    # Each rank notes its exit code, and ends with 0, so that the launcher ends neither.
    script = '"$0" "$@"; echo $? >code.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}'
    command = launcher.command(2, ["sh", "-c", script, PINGPONG, *QUICK, "--loop", "native", "-q"], usable_cpus=1)
    env = dict(os.environ) | launcher.environment()
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert [(tmp_path / f"code.{rank}").read_text() for rank in (0, 1)] == ["2\n", "2\n"]
    done.returncode = 2
    refused(done, f"no native loop: {reason}; --loop mpi4py does without")
    assert not (tmp_path / "r.json").exists()


# What ranks load


@pytest.mark.parametrize(
    ("args", "loaded"),
    [(("--loop", "mpi4py", "-n", "60"), ""), (("-D", "0.5"), "llvmlite")],
)
def test_ranks_load_what_their_loop_needs_and_never_numba(tmp_path, run, args, loaded):
    (tmp_path / "imports").mkdir()
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")} if not loaded else {}
    facts = {"HARM": "tell_imports", "IMPORTS": str(tmp_path / "imports")} | cache
    done = run("run", "-k", "blocking", "-m", "8", "-o", "r.json", *args, python=PROGRAMS, **facts)
    assert done.returncode == 0, done.stderr
    assert [path.read_text() for path in (tmp_path / "imports").iterdir()] == [loaded] * 2
    assert not (tmp_path / "cache").exists()
    (point,) = store.load(tmp_path / "r.json").runs[0].points
    assert point.loop == ("native" if loaded else "mpi4py")
    assert done.stdout.splitlines()[0].endswith(f", {point.loop} loop")


def test_a_watch_of_both_loops_is_refused(tmp_path, run):
    refused(run("run", "--loop", "both", "-D", "1", "-k", "blocking", "-m", "8"), "-D measures one loop")
    assert list(tmp_path.iterdir()) == []


def test_the_classic_method_makes_one_step_with_either_loop(tmp_path, run):
    done = run("run", "--classic", "-k", "blocking", "-m", "8:16", "-o", "r.json")
    assert done.returncode == 0, done.stderr
    assert samples(tmp_path) == {(loop, size): 1 for loop in ("native", "mpi4py") for size in (8, 16)}
    assert re.findall(r"^ +(\d+) bytes took", done.stdout, re.MULTILINE) == ["8", "16"]
    points = store.load(tmp_path / "r.json").runs[0].points
    native = [stats.summarize(p).median for p in points if p.loop == "native"]
    assert f"Min latency = {min(native) / 2 * 1e6:.6f} usec" in done.stdout


# Between the loops and MPI

COUNTER = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int PMPI_Send(const void *, int, void *, int, int, void *);
static long sends, large;

int MPI_Send(const void *buffer, int count, void *type, int rank, int tag, void *comm)
{
    sends++;
    return PMPI_Send(buffer, count, type, rank, tag, comm);
}

#ifdef LARGE
int PMPI_Send_c(const void *, long, void *, int, int, void *);
int MPI_Send_c(const void *buffer, long count, void *type, int rank, int tag, void *comm)
{
    sends++;
    return PMPI_Send_c(buffer, count, type, rank, tag, comm);
}
#endif

__attribute__((destructor)) static void tell(void)
{
    char path[4096];
    FILE *file;
    if (!sends)
        return;
    snprintf(path, sizeof path, "%s/%d", getenv("SENDS"), (int)getpid());
    file = fopen(path, "w");
    fprintf(file, "%ld", sends);
    fclose(file);
}
"""


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    """A profiler as the MPI standard describes them: it has MPI_Send, and calls PMPI_Send of the library."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    script = (
        "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_version()[0]);"
        "print(next(line.split()[-1] for line in open('/proc/self/maps') if '/libmpi.so' in line))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    standard, mpi = done.stdout.split()
    folder = tmp_path_factory.mktemp("counter")
    (folder / "counter.c").write_text(COUNTER)
    # mpi4py sends with large counts wherever MPI has them.
    flags = ["-shared", "-fPIC", *(["-DLARGE"] if int(standard) >= 4 else [])]
    command = [compiler, *flags, "-o", "counter.so", "counter.c", mpi, f"-Wl,-rpath,{Path(mpi).parent}"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "counter.so"


@pytest.mark.parametrize(("loop", "direct"), [("native", False), ("mpi4py", True)])
def test_a_library_between_the_loop_and_mpi_sees_every_message(tmp_path, run, counter, loop, direct):
    (tmp_path / "sends").mkdir()
    env = {"LD_PRELOAD": str(counter), "SENDS": str(tmp_path / "sends")}
    done = run(*QUICK, "--loop", loop, direct=direct, **env)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    (point,) = store.load(tmp_path / "r.json").runs[0].points
    steps = sum(point.lead_in + len(visit.seconds) * point.steps for visit in point.visits)
    sends = [int(path.read_text()) for path in (tmp_path / "sends").iterdir()]
    # Orders and reports are sent by mpi4py and few; so are the messages of the trials that find `steps`.
    assert len(sends) == 2 and min(sends) >= steps > 60


# Errors of MPI


@pytest.mark.faults
@pytest.mark.parametrize(
    ("loop", "harm", "direct", "rank", "said"),
    [
        ("native", "short_on_peer", False, 1, "truncate"),
        ("native", "nobody_on_lead", True, 0, "invalid rank"),
        ("mpi4py", "short_on_peer", True, 1, "truncate"),
    ],
)
def test_an_error_of_mpi_ends_the_run_with_one_sentence(tmp_path, launcher, loop, harm, direct, rank, said):
    args = ("run", "--loop", loop, "-k", "blocking", "-m", "8", "-n", "10000000", "-o", "r.json")
    job = Job(tmp_path, launcher, direct, args, HARM=harm, PYTHONPATH=PROGRAMS)
    code, _, err = job.end(30)
    assert code == 1 and "Traceback" not in err
    sentence = rf"MPI error on rank {rank} on host {socket.gethostname()}: .*\(in blocking, {loop} loop, 8 bytes\)"
    (found,) = {match[0] for match in re.finditer(sentence, err)}
    assert said in found.lower()
    assert "MPI error" not in err.replace(found, "")
    run = partial(tmp_path)
    # Only the lead writes there, or who started the launch.
    assert (direct and rank == 1) or run.failure.reason == found
