"""`pingpong run` as a user types it: launched by itself, and under mpiexec."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pingpong import stats, store

PINGPONG = str(Path(sys.executable).with_name("pingpong"))
QUICK = ("-k", "blocking", "-m", "8:64", "-n", "60")


def run(*args, cwd, env=None, timeout=120):
    return subprocess.run(
        [PINGPONG, *args], cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=False
    )


def under_mpiexec(launcher, ranks, *args, cwd, env, timeout=120):
    command = launcher.command(ranks, [PINGPONG, *args], usable_cpus=1)
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture
def env(launcher):
    return dict(os.environ) | launcher.environment()


LINE = r" *(\d+) bytes took +([\d.]+) usec \( *([\d.]+) MB/sec\)"


def test_alone_it_launches_two_ranks_prints_the_log_and_says_where_the_result_is(tmp_path, mpi_name):
    done = run("run", "-m", "8:32", "-n", "60", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("# pingpong")
    assert any("both ranks on host" in line and mpi_name in line for line in lines)
    hello = lines.index("Hello from 1 of 2")
    assert lines[hello + 1] == "Hello from 0 of 2"
    assert re.fullmatch(r"Timer accuracy of ~\d+\.\d{6} usecs", lines[hello + 2])
    assert "  Asynchronous ping-pong" in lines and "  Bi-directional asynchronous ping-pong" in lines
    assert [int(m[1]) for line in lines if (m := re.match(LINE, line))] == [8, 16, 32] * 3
    assert re.fullmatch(r"Max rate = \d+\.\d{6} MB/sec  Min latency = \d+\.\d{6} usec", lines[-1])
    (result,) = tmp_path.iterdir()
    assert result.name.startswith("pingpong-") and f"result in {result}" in done.stderr


def test_every_text_is_printed_again_byte_for_byte(tmp_path):
    for form in ("log", "table", "csv"):
        done = run("run", *QUICK, "-f", form, "-o", f"{form}.json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        again = run("show", f"{form}.json", "-f", form, cwd=tmp_path)
        assert again.returncode == 0 and again.stdout == done.stdout


def test_took_times_rate_is_twice_the_size(tmp_path):
    """The log's arithmetic on a live run: MB/sec = 2 * bytes / time, from the file's own samples."""
    done = run("run", "-k", "blocking", "-m", "1M", "-n", "30", "-o", "a.json", cwd=tmp_path)
    usec, rate = (float(x) for x in re.search(LINE, done.stdout).groups()[1:])
    assert rate == pytest.approx(2 * 1048576 / usec, rel=0.6 / usec)


def test_under_mpiexec_it_measures_between_the_ranks_that_are_there(tmp_path, launcher, env):
    done = under_mpiexec(launcher, 2, "run", *QUICK, "-o", "d.json", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Hello from") == 2
    again = run("show", "d.json", cwd=tmp_path)
    assert again.stdout == done.stdout
    session = store.load(tmp_path / "d.json")
    assert session.runs[0].mpi.launcher and session.runs[0].mpi.thread_level == "single"


def test_the_file_holds_what_a_reader_needs(tmp_path):
    run("run", *QUICK, "-o", "a.json", cwd=tmp_path, env=None)
    data = json.loads((tmp_path / "a.json").read_text())
    (one,) = data["runs"]
    assert data["schema"] == 1 and one["status"] == "complete"
    assert data["command"][:2] == ["pingpong", "run"] and data["seed"] == one["plan"]["seed"]
    assert one["connections"][0]["first"] > 0
    assert {r["rank"] for r in one["ranks"]} == {0, 1} and all(r["host"] for r in one["ranks"])
    assert one["clock"]["step"] > 0 and one["clock"]["harness"]["mpi4py"]["sample"] >= 0
    assert one["environment"]["packages"]["mpi4py"]
    assert all(host["kernel"] for host in one["environment"]["hosts"].values())
    assert not [name for name in one["environment"]["variables"] if name.startswith("PMIX_S")]
    for point in one["points"]:
        assert sum(len(v["seconds"]) for v in point["visits"]) == 60
        assert point["steps"] >= 1 and point["stop"] == "fixed"
        assert point["payload"]["checked"] == len(point["visits"])


def test_the_harness_is_under_one_percent_of_a_sample(tmp_path):
    run("run", *QUICK, "-o", "a.json", cwd=tmp_path)
    (one,) = store.load(tmp_path / "a.json").runs
    assert {point.loop for point in one.points} == {"native", "mpi4py"}
    for point in one.points:
        harness = one.clock.harness[point.loop]
        cost = harness.sample + harness.step * point.steps
        middle = stats.summarize(point).median * point.steps
        warned = [w for w in point.warnings if w.code == "harness"]
        assert cost <= 0.01 * middle or warned


def test_a_watch_prints_a_line_a_second_and_again_with_show(tmp_path):
    done = run("run", "-D", "2.2", "-k", "blocking", "-m", "8", "-o", "w.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    seconds = [int(line.split()[0]) for line in done.stdout.splitlines() if " s  median " in line]
    assert seconds and seconds[0] == 0 and seconds == sorted(set(seconds))
    assert run("show", "w.json", cwd=tmp_path).stdout == done.stdout


def test_classic_says_so_and_makes_one_pass(tmp_path):
    done = run("run", "--classic", "-m", "8:64", "-o", "c.json", cwd=tmp_path)
    assert done.returncode == 0 and "classic method" in done.stdout.splitlines()[0]
    (one,) = store.load(tmp_path / "c.json").runs
    assert all(len(p.visits) == 1 and len(p.visits[0].seconds) == 1 for p in one.points)


def test_zero_bytes_are_a_message_too(tmp_path):
    done = run("run", "-m", "0,1", "-n", "30", "-o", "z.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r" 0 bytes took +[\d.]+ usec \( +0.000 MB/sec\)", done.stdout)


def test_mpiexec_arguments_reach_mpiexec(tmp_path, mpi_name):
    """They set a variable of this MPI, which the result keeps."""
    flag, variable = {
        "Open MPI": ("--mca pml ob1", ("OMPI_MCA_pml", "ob1")),
        "MPICH": ("-genv MPIR_CVAR_NOLOCAL 1", ("MPIR_CVAR_NOLOCAL", "1")),
        "Intel MPI": ("-genv I_MPI_FABRICS shm", ("I_MPI_FABRICS", "shm")),
    }[mpi_name]
    done = run("run", *QUICK, "--mpiexec-args", flag, "-o", "m.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    variables = store.load(tmp_path / "m.json").runs[0].environment["variables"]
    assert variables[variable[0]] == variable[1]


def test_a_launcher_that_fails_is_quoted(tmp_path):
    done = run("run", *QUICK, "--mpiexec-args", "--no-such-flag", "-o", "m.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "no-such-flag" in done.stderr and "nothing was measured" in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "m.json").exists()


def test_a_slow_link_ends_and_says_that_the_budget_stopped_it(tmp_path, env):
    programs = str(Path(__file__).parent / "programs")
    slow = env | {"HARM": "slow_link", "PYTHONPATH": programs}
    done = run("run", "--loop", "mpi4py", "-m", "2M:8M", "-o", "s.json", cwd=tmp_path, env=slow)
    assert done.returncode == 0, done.stderr
    points = store.load(tmp_path / "s.json").runs[0].points
    assert all(p.stop == "budget" and len(p.visits) >= 5 for p in points)
    assert all(1 <= len(v.seconds) < 30 for p in points for v in p.visits)
    assert all(f"{p.size} bytes took" in done.stdout for p in points)


def test_a_launcher_that_stumbles_at_its_start_is_started_again(tmp_path, launcher):
    """Open MPI's says so once in some hundred launches; here a stand-in does the first time."""
    stumbling = tmp_path / "mpiexec"
    stumbling.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec "{launcher.path}" --version\n'
        f'[ -e "{tmp_path}/again" ] && exec "{launcher.path}" "$@"\n'
        f'touch "{tmp_path}/again"\necho "The PMIx server\'s listener thread failed to start."\nexit 213\n'
    )
    stumbling.chmod(0o755)
    script = (
        "import sys; from pathlib import Path; from pingpong import cli, launchers;"
        f"launchers._candidates = lambda path: [Path({str(stumbling)!r})];"
        f"sys.exit(cli.main(['run', *{QUICK!r}, '-o', 'r.json']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "trying once more" in done.stderr and (tmp_path / "r.json").exists()


def test_a_run_beside_other_work_says_that_it_was_disturbed(tmp_path):
    busy = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(busy) for _ in os.sched_getaffinity(0)]
    try:
        done = run("run", "-k", "blocking", "-m", "8", "-o", "d.json", cwd=tmp_path)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert done.returncode == 0, done.stderr
    assert re.search(r"# warning: rank \d on host .* waited for its CPU \d+ % of the time", done.stdout)
    ranks = store.load(tmp_path / "d.json").runs[0].ranks
    assert all(0 <= rank.waited <= rank.measured and rank.preempted >= 0 for rank in ranks)


def test_several_launches_are_one_file_and_one_log(tmp_path):
    done = run("run", *QUICK, "--launches", "3", "--seed", "7", "-o", "l.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    session = store.load(tmp_path / "l.json")
    assert session.seed == 7 and [r.launch for r in session.runs] == [1, 2, 3]
    assert len({r.plan.seed for r in session.runs}) == 3 and {r.status for r in session.runs} == {"complete"}
    assert len({r.ranks[0].pid for r in session.runs}) == 3
    assert done.stdout.splitlines()[0].startswith("# pingpong 0.1.0, median over 3 launches, in each the median")
    assert len(re.findall(LINE, done.stdout)) == 4
    for form in ("log", "table"):
        assert run("show", "l.json", "-f", form, cwd=tmp_path).returncode == 0
    assert run("show", "l.json", cwd=tmp_path).stdout == done.stdout


def test_launches_are_made_by_pingpong_alone(tmp_path, launcher, env):
    done = under_mpiexec(launcher, 2, "run", *QUICK, "--launches", "3", cwd=tmp_path, env=env)
    assert done.returncode == 2 and "--launches starts mpiexec itself" in done.stderr
    assert list(tmp_path.iterdir()) == []
