"""Who compiles the native loops when many start, what cannot disturb the compiler, and when it is given up."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pingpong import store
from pingpong.native import cache, programs

PINGPONG = str(Path(sys.executable).with_name("pingpong"))
PREPARE = str(Path(__file__).parent / "programs" / "prepare.py")

# Notes each start of the compiler.
COUNTING = """
import os, sys
if "pingpong.native.compiler" in sys.orig_argv:
    with open(os.environ["COMPILERS"], "a") as file:
        file.write(f"{os.getpid()}\\n")
"""


def start(folder, *, home, **more):
    """A process that gets the native loops ready; its compilers are noted in folder/compilers."""
    (folder / "python").mkdir(exist_ok=True)
    (folder / "python" / "sitecustomize.py").write_text(COUNTING)
    facts = {"XDG_CACHE_HOME": str(home), "TMPDIR": str(folder), "PYTHONPATH": str(folder / "python")}
    env = dict(os.environ) | facts | {"COMPILERS": str(folder / "compilers")} | more
    return subprocess.Popen(
        [sys.executable, PREPARE], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ready(process):
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0 and out.splitlines()[-1] == "ready", err
    return out


def compilers(folder):
    path = folder / "compilers"
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def is_locked(folder):
    with (folder / ".lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_of_many_that_start_at_once_one_compiles_and_all_get_the_programs(tmp_path):
    together = [start(tmp_path, home=tmp_path / "home") for _ in range(6)]
    for process in together:
        ready(process)
    assert len(compilers(tmp_path)) == 1
    later = ready(start(tmp_path, home=tmp_path / "home"))
    assert "compiling" not in later and len(compilers(tmp_path)) == 1


def test_one_that_is_killed_while_it_compiles_holds_up_nobody(tmp_path):
    (tmp_path / "python" / "numba").mkdir(parents=True)
    (tmp_path / "python" / "numba" / "__init__.py").write_text("import time; time.sleep(600)")
    process = start(tmp_path, home=tmp_path / "home")
    try:
        while not compilers(tmp_path) and process.poll() is None:
            time.sleep(0.02)
        assert is_locked(tmp_path / "home" / "pingpong")
        process.kill()
        process.communicate(timeout=20)
        # Its compiler still runs.
        assert not is_locked(tmp_path / "home" / "pingpong")
    finally:
        for pid in compilers(tmp_path):
            os.kill(pid, signal.SIGKILL)


def test_one_that_is_stopped_while_it_compiles_is_waited_for_a_while_only(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "PATIENCE", 0.1)
    folder = tmp_path / "pingpong"
    with cache.Cache(folder).lock(), cache.Cache(folder).lock():
        assert is_locked(folder)
    assert not is_locked(folder)


@pytest.mark.parametrize(
    ("numba", "reason"),
    [
        ("raise SystemExit", "exit status 0"),
        ("print('numba'); raise SystemExit(3)", "exit status 3"),
        ("print('{}', flush=True); import os; os.kill(os.getpid(), 9)", "it died of SIGKILL"),
        ("import sys; sys.exit('no licence\\n\\n')", "no licence"),
    ],
)
def test_what_the_compiler_said_last_is_the_reason(tmp_path, monkeypatch, numba, reason):
    (tmp_path / "numba.py").write_text(numba)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(programs.UnavailableError) as caught:
        programs._compile(["blocking"], 8, False)
    assert str(caught.value) == f"numba could not compile them: {reason}"


def test_a_compiler_that_never_ends_is_ended(tmp_path, monkeypatch):
    (tmp_path / "numba.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(programs, "PATIENCE", 0.5)
    with pytest.raises(programs.UnavailableError, match=r"^numba could not compile them in 0.5 s$"):
        programs._compile(["blocking"], 8, False)


def test_no_folder_and_settings_of_numba_that_would_make_no_code(tmp_path):
    """The code stays in memory; neither the user's variables nor a file or a module where he works matter."""
    (tmp_path / f"pingpong-{os.geteuid()}").write_text("not a folder")
    (tmp_path / ".numba_config.yaml").write_text("disable_jit: 1\n")
    (tmp_path / "numba.py").write_text("")
    env = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    env |= {"HOME": "/proc/nowhere", "TMPDIR": str(tmp_path)}
    env |= {"NUMBA_DISABLE_JIT": "1", "NUMBA_NUM_THREADS": "many", "NUMBA_OPT": "0", "NUMBA_CPU_NAME": "z80"}
    done = subprocess.run(
        [PINGPONG, "run", "-k", "blocking", "-m", "8", "-n", "60", "-o", "r.json"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    points = store.load(tmp_path / "r.json").runs[0].points
    samples = [(p.loop, sum(len(v.seconds) for v in p.visits)) for p in points]
    assert samples == [("native", 60), ("mpi4py", 60)]
