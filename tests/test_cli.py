"""The command line: bad input gets one sentence and exit code 2 before anything is launched."""

import json
import os
import subprocess
import sys
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
    from pingpong import cli, texts

    assert set(cli.FORMATS) == set(texts.FORMS)
