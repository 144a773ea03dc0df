"""The side-by-side with other programs: what is read from their output, and the ratios."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def scripts():
    return importlib.import_module("peers"), importlib.import_module("versus")


def test_osu_latency_with_percentiles(scripts):
    text = """
# OSU MPI Latency Test v7.4
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)      P50 Tail Lat(us)      P90 Tail Lat(us)      P99 Tail Lat(us)
8                       0.37                  0.33                  0.49                  0.57
16                      0.42                  0.40                  0.50                  0.60
"""
    found = scripts[0].osu(Path("/x")).parse(text)
    assert found["mean"] == {8: pytest.approx(0.37e-6), 16: pytest.approx(0.42e-6)}
    assert found["P50"][8] == pytest.approx(0.33e-6)


def test_imb_pingpong(scripts):
    text = """
#---------------------------------------------------
# Benchmarking PingPong
# #processes = 2
#---------------------------------------------------
       #bytes #repetitions      t[usec]   Mbytes/sec
            8         2000         0.38        20.81
         1024         2000         0.85      1211.33
# All processes entering MPI_Finalize
"""
    assert scripts[0].imb(Path("/x/bin/IMB-MPI1")).parse(text)["mean"] == {
        8: pytest.approx(0.38e-6),
        1024: pytest.approx(0.85e-6),
    }


def test_mpi4py_bench(scripts):
    text = """# MPI PingPong Test
# Size [B]  Bandwidth [MB/s] | Time Mean [s] ± StdDev [s]  Samples
         8              5.97 | 1.3389410e-06 ± 1.1430e-06    10000
"""
    assert scripts[0].mpi4py_bench(Path("python")).parse(text)["mean"] == {8: 1.3389410e-06}


def test_omb_py_and_netpipe(scripts):
    text = "# OMB Python MPI Latency Test\n# Size (B)      Latency (us)\n8                       1.07\n"
    assert scripts[0].omb_py(Path("/x"), Path("python")).parse(text)["mean"] == {8: pytest.approx(1.07e-6)}
    text = "Now starting the main loop\n  0:       8 bytes  10000 times -->    187.20 Mbps in       0.33 usec\n"
    assert scripts[0].netpipe(Path("/x")).parse(text)["least"] == {8: pytest.approx(0.33e-6)}


def test_a_ratio_is_ours_by_theirs_in_the_same_pair(scripts):
    def pair(ours, theirs):
        return {"figures": {"blocks": {"native mean": {8: ours}}, "osu_latency": {"mean": {8: theirs}}}}

    pairs = [pair(2.0, 1.0), pair(3.0, 6.0), pair(1.0, None)]
    assert scripts[1].ratios(pairs, "osu_latency", ("mean", "blocks", "mean", "native"), 8) == [2.0, 0.5]


def test_pairs_are_run_printed_and_kept_with_those_of_before(tmp_path):
    output = tmp_path / "versus.json"
    command = [sys.executable, str(SCRIPTS / "versus.py"), "--mpi4py", "-m", "8,64", "-o", str(output)]
    for pairs in (1, 1):
        done = subprocess.run(
            [*command, "--pairs", str(pairs)], capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "mpi4py mean (blocks) / mpi4py.bench mean" in done.stdout and "modes" in done.stdout
    kept = json.loads(output.read_text())["sessions"]
    assert [len(session["pairs"]) for session in kept] == [1, 1]
    for each in (pair for session in kept for pair in session["pairs"]):
        assert set(each["order"]) == {"blocks", "steps", "mpi4py.bench"}
        assert 0 < each["figures"]["blocks"]["native mean"]["8"] < 1


def test_without_a_peer_or_with_one_that_is_not_there_it_says_so(tmp_path):
    command = [sys.executable, str(SCRIPTS / "versus.py"), "-o", str(tmp_path / "v.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "name at least one peer" in done.stderr
    done = subprocess.run([*command, "--osu", "/nowhere"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "/nowhere/osu_latency" in done.stderr
