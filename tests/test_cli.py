"""The command line: bad input gets one sentence and exit code 2 before anything is launched."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PINGPONG = str(Path(sys.executable).with_name("pingpong"))


def run(*args, cwd=None, **env):
    return subprocess.run(
        [PINGPONG, *args],
        cwd=cwd,
        env=dict(os.environ) | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def refused(done, *words):
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and done.stdout == ""
    sentences = [line for line in done.stderr.splitlines() if line.startswith("pingpong: ")]
    assert len(sentences) == 1, done.stderr
    for word in words:
        assert word in sentences[0]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("-k", "blokking"), ("'blokking'", "did you mean 'blocking'")),
        (("-m", "8x"), ("'8x'", "8:8M")),
        (("-m", "64:8"), ("64:8",)),
        (("-m", ""), ("size",)),
        (("-n", "0"), ("0",)),
        (("-D", "-1"), ("-D",)),
        (("-D", "5"), ("-D", "one kernel")),
        (("-n", "5", "--classic"), ("-n", "--classic")),
        (("--nosuch",), ("--nosuch",)),
        (("-f", "xml"), ("xml", "table")),
        (("-o", "/no/such/folder/x.json"), ("/no/such/folder",)),
        (("-o", "/sys/x.json"), ("/sys",)),
        (("--mpiexec-args", "it's"), ("--mpiexec-args",)),
        (("-m", "900000G"), ("pingpong: ",)),
        (("-t", "shm", "-t", "shm"), ("'shm' is asked for twice",)),
        (("-t", "m=FI_PROVIDER=tcp", "-t", "m=FI_PROVIDER=shm"), ("two transports", "'m'", "different")),
    ],
)
def test_bad_requests(tmp_path, args, words):
    refused(run("run", *args, cwd=tmp_path), *words)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_result_is_never_overwritten(tmp_path):
    (tmp_path / "x.json").write_text("precious")
    refused(run("run", "-o", "x.json", cwd=tmp_path), "x.json", "exists")
    assert (tmp_path / "x.json").read_text() == "precious"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"schema": 1, "runs": [', ("x.json", "middle")),
        (json.dumps({"hello": 1}), ("x.json", "'schema'")),
        ("", ("x.json", "empty")),
        ("\0" * 300, ("x.json", "nothing but zeros", "crashed")),
        ("\0\1\2", ("x.json",)),
    ],
)
def test_show_of_what_is_no_result(tmp_path, content, words):
    (tmp_path / "x.json").write_text(content)
    refused(run("show", "x.json", cwd=tmp_path), *words)


def test_show_of_a_missing_file(tmp_path):
    refused(run("show", "none.json", cwd=tmp_path), "none.json", "No such file")


def test_ranks_that_each_think_they_are_alone(tmp_path, mpi_name):
    """As under a srun without PMI: one sentence from the first rank, none from the second."""
    first = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}
    refused(run("run", cwd=tmp_path, **first), "every rank thinks it is alone", "srun", mpi_name)
    second = run("run", cwd=tmp_path, **(first | {"SLURM_PROCID": "1"}))
    assert second.returncode == 2 and "pingpong" not in second.stderr


@pytest.mark.parametrize("ranks", [1, 3])
def test_one_and_three_ranks(tmp_path, launcher, ranks):
    command = launcher.command(ranks, [PINGPONG, "run"], usable_cpus=1)
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=dict(os.environ) | launcher.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    refused(done, "2 ranks", f"started with {ranks}", launcher.family.name)
    assert list(tmp_path.iterdir()) == []


def test_no_mpi_library(tmp_path):
    """mpi4py loads the library that MPI4PY_LIBMPI names."""
    done = run("run", cwd=tmp_path, MPI4PY_LIBMPI="/no/such/libmpi.so", MPI4PY_MPIABI="openmpi")
    refused(done, "MPI library", "pip install")


def test_a_launcher_of_another_mpi_is_refused_with_both_names(tmp_path, mpi_name):
    """A copy of the interpreter's folder without mpiexec, and a foreign one on PATH."""
    other = "mpiexec (Open MPI) 9.9.9" if mpi_name != "Open MPI" else "HYDRA build details:\n    Version:  9.9.9"
    fake = tmp_path / "mpiexec"
    fake.write_text(f"#!/bin/sh\necho '{other}'\n")
    fake.chmod(0o755)
    script = (
        "import sys; from pathlib import Path; from pingpong import cli, launchers;"
        f"launchers._candidates = lambda path: [Path({str(fake)!r})]; sys.exit(cli.main(['run']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    refused(done, mpi_name, "MPICH" if mpi_name == "Open MPI" else "Open MPI")


def test_help_loads_no_heavy_module():
    script = (
        "import sys; from pingpong.cli import main; main(['run', '--help']);"
        "print([m for m in ('mpi4py', 'matplotlib', 'numpy', 'scipy', 'rich', 'msgspec') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_python_m_pingpong_equals_pingpong():
    module = subprocess.run(
        [sys.executable, "-m", "pingpong", "--help"], capture_output=True, text=True, check=True
    )
    assert module.stdout == run("--help").stdout


def test_kernels_lists_the_table():
    done = run("kernels")
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
        "blocking",
        "asynchronous",
        "bidirectional",
    ]


def test_formats_offered_are_the_forms_there_are():
    from pingpong import texts
    from pingpong.cli import options

    assert set(options.FORMATS) == set(texts.FORMS)


FILE = Path(__file__).parent.parent / "results/shm-openmpi-2026-12-01.json"


def shell(line, cwd):
    return subprocess.run(
        ["sh", "-c", line, PINGPONG, str(FILE)], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


RUN = "run -k blocking -m 8 -n 5 -o r.json"


@pytest.mark.parametrize(
    ("args", "stream"),
    [
        *((RUN, stream) for stream in (">&-", ">/dev/full", "2>&-", "2>/dev/full", ">&- 2>&-")),
        *(('show "$1"', stream) for stream in (">&-", ">/dev/full", "2>&-", "| head -n 1")),
        ("kernels", ">/dev/full"),
        ("--help", ">/dev/full"),
    ],
)
def test_a_stream_that_takes_nothing_is_no_traceback_and_stops_no_run(tmp_path, args, stream):
    done = shell(f'"$0" {args} {stream}', tmp_path)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert done.returncode == int(stream.startswith(">"))  # as other programs: what was to be printed is not there
    said = {">/dev/full": "cannot print: No space left on device", ">&-": "cannot print: Bad file descriptor"}
    assert said.get(stream, "") in done.stderr and done.stderr.count("cannot print") == (stream in said)
    if args.startswith("run"):
        assert run("show", "r.json", cwd=tmp_path).returncode == 0
        assert sorted(p.name for p in tmp_path.iterdir()) == ["r.json"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_an_encoding_without_our_letters_is_no_traceback(encoding):
    done = subprocess.run(
        [PINGPONG, "show", str(FILE), "-f", "table"],
        env=dict(os.environ) | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and b"Traceback" not in done.stderr


def test_a_name_that_is_not_utf8(tmp_path):
    name = os.fsdecode(b"\xff\xfe.json")
    done = run("run", "-k", "blocking", "-m", "8", "-n", "5", "-o", name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert r"result in \xff\xfe.json" in done.stderr  # as a shell takes it in $'…'


@pytest.mark.parametrize(
    "change",
    [
        lambda point: point.update(steps=0),
        lambda point: point.update(steps=10**400),
        lambda point: point.update(legs=0),
        lambda point: point.update(size=-8),
        lambda point: point.update(visits=[{"t0": 0.0, "seconds": [1e308] * 5}]),
    ],
)
def test_figures_that_no_run_can_have_are_refused(tmp_path, change):
    data = json.loads(FILE.read_text())
    change(data["runs"][0]["points"][0])
    (tmp_path / "x.json").write_text(json.dumps(data))
    refused(run("show", "x.json", cwd=tmp_path), "x.json")


@pytest.mark.parametrize("form", ["log", "table", "markdown", "csv", "json"])
def test_a_time_too_short_to_be_one_is_named_and_gives_no_rate(tmp_path, form):
    data = json.loads(FILE.read_text())
    data["runs"][0]["points"] = data["runs"][0]["points"][:1]
    data["runs"][0]["points"][0]["visits"] = [{"t0": 0.0, "seconds": [1e-320] * 5}]
    (tmp_path / "x.json").write_text(json.dumps(data))
    done = run("show", "x.json", "-f", form, cwd=tmp_path)
    assert done.returncode == 0 and "clock stood still" in done.stdout
    assert "inf" not in done.stdout and done.stderr == ""


def test_a_working_folder_that_is_gone(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    done = shell(f'cd "{folder}" && rmdir "{folder}" && "$0" run', tmp_path)
    refused(done, "current folder no longer exists")


def test_names_that_are_no_new_file(tmp_path):
    (tmp_path / "dangling.json").symlink_to("nowhere")
    refused(run("run", "-o", "dangling.json", cwd=tmp_path), "dangling.json exists")
    refused(run("run", "-o", ".", cwd=tmp_path), "folder")
    refused(run("run", "-o", "-", cwd=tmp_path), "not to stdout")
    refused(run("run", "-o", "x" * 300, cwd=tmp_path), "name too long")


def test_a_watch_longer_than_the_time_limit(tmp_path):
    refused(run("run", "-D", "10", "-k", "blocking", "-m", "8", "--time-limit", "4", cwd=tmp_path), "-D", "limit")


def test_without_a_home(tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "HOME"}
    done = subprocess.run(
        [PINGPONG, "run", "-k", "blocking", "-m", "8", "-n", "5", "-o", "h.json"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_disk_that_is_full_from_the_start(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    rights = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]
    script = (
        'mount -t tmpfs -o size=8k tmpfs "$0" && cd "$0" && cat /dev/zero >fill 2>&-;'
        '"$1" run -k blocking -m 8 -n 5 -o r.json; code=$?; ls >../left; exit $code'
    )
    done = subprocess.run(
        ["unshare", *rights, "sh", "-c", script, str(disk), PINGPONG],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and "No space left on device" in done.stderr
    assert "None" not in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "left").read_text().split() == ["fill"]


def test_the_second_of_two_runs_with_one_name_says_nothing_of_the_first(tmp_path):
    command = [PINGPONG, "run", "-k", "blocking", "-m", "8", "-n", "2000", "-o", "two.json"]
    both = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ends = [(*process.communicate(timeout=90), process.returncode) for process in both]
    assert sorted(code for *_, code in ends) == [0, 2]
    ((out, err, _),) = [end for end in ends if end[2] == 2]
    assert out == "" and "two.json" in err and "result in" not in err


def test_ctrl_c_before_anything_is_started(tmp_path):
    process = subprocess.Popen(
        [PINGPONG, "run"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(0.35)  # while the MPI library is asked for its name
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and "Traceback" not in err and "interrupted" in err


def test_transports_are_listed_with_their_flags(mpi_name):
    done = run("transports")
    flags = {
        "Open MPI": "--mca pml ob1 --mca btl tcp,self",
        "MPICH": "MPIR_CVAR_NOLOCAL=0",
        "Intel MPI": "I_MPI_FABRICS=shm",
    }
    assert done.returncode == 0 and done.stderr == ""
    assert flags[mpi_name] in done.stdout and "\nopenib" in done.stdout
    rows = json.loads(run("transports", "-f", "json").stdout)
    assert [row["carrier"] for row in rows if row["name"] == "shm"] == ["shm"]
