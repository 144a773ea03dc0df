"""Percentiles of the samples: the list that a user writes, the figures, and where each form puts them."""

import csv
import io
import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pingpong import stats, texts
from pingpong.units import UnitError, parse_percentiles, percentile_name
from tests.builders import plan, point, session, steady

PINGPONG = str(Path(sys.executable).with_name("pingpong"))
FILE = Path(__file__).parent.parent / "results/shm-openmpi-2026-12-01.json"
DEFAULT = (50.0, 90.0, 99.0, 99.9)


def pingpong(*args, cwd):
    return subprocess.run([PINGPONG, *args], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def text(made, form="log", percentiles=DEFAULT):
    return texts.text(made, texts.Options(form, percentiles))


def sections(made, form="log", percentiles=DEFAULT):
    """What the option adds after the text."""
    plain = texts.FORMS[form](made)
    whole = text(made, form, percentiles)
    assert whole.startswith(plain)
    return whole.removeprefix(plain)


def rows(lines):
    return [line.split() for line in lines.splitlines() if re.match(r" *\d+[KMG]? ", line)]


def ramp(n=101, **more):
    """Round trips of 2, 4, … 2n µs, so one-way times of 1, 2, … n µs, in one visit and out of order."""
    round_trips = np.random.default_rng(1).permutation(np.arange(1, n + 1)) * 2e-6
    return point(visits=[round_trips.tolist()], **more)


# The list


@pytest.mark.parametrize(
    ("written", "percents"),
    [
        ("50", [50.0]),
        ("50,90,99,99.9", [50.0, 90.0, 99.0, 99.9]),
        (" 99.9 , 50,50.0,050 ", [50.0, 99.9]),  # ascending, each once
        ("0.1,99.999", [0.1, 99.999]),
    ],
)
def test_lists(written, percents):
    assert parse_percentiles(written) == percents


@pytest.mark.parametrize(
    "written",
    [
        "",
        ",",
        "50,",
        "0",
        "0.0",
        "100",
        "100.5",
        "-5",
        "nan",
        "inf",
        "1e1",
        "p50",
        "50%",
        "x.json",
        "\u0665\u0660",
        "9" * 5000,
    ],
)
def test_what_is_no_percentile(written):
    with pytest.raises(UnitError, match="is not a percentile"):
        parse_percentiles(written)


@pytest.mark.parametrize(
    ("percent", "name"),
    [(50.0, "p50"), (99.9, "p99.9"), (10.0, "p10"), (0.00001, "p0.00001"), (99.99999, "p99.99999")],
)
def test_names_have_all_digits_and_no_more(percent, name):
    assert percentile_name(percent) == name


# The figures


def test_percentiles_by_hand():
    """Of 1, 2, … 101 µs p50 is 51 and p90 91; ten samples lie beyond p90, and one beyond p99."""
    assert rows(sections(session([ramp()]))) == [["1K", "1.00", "51.0", "91.0", "-", "-", "101", "101"]]


def test_samples_of_several_steps_are_averages():
    """Five steps of two legs a sample: one-way times are a tenth of the samples."""
    (row,) = rows(sections(session([ramp(steps=5)])))
    assert row == ["1K", "0.200", "10.2", "18.2", "-", "-", "20.2", "101", "5"]


def test_a_completion_time_is_not_halved():
    made = sections(session([ramp(kernel="put", time="completion", legs=1)]))
    assert rows(made) == [["1K", "2.00", "102", "182", "-", "-", "202", "101"]]
    assert "put (completion µs), mpi4py loop: percentiles" in made


def test_low_percentiles_need_ten_samples_below_them():
    """Of 1, 2, … 1001 µs p1 is 11 with ten below it, and nine lie below p0.9."""
    (row,) = rows(sections(session([ramp(1001)]), percentiles=(0.9, 1.0, 99.0, 99.1)))
    assert row == ["1K", "1.00", "-", "11.0", "991", "-", "1001", "1001"]


@steady
@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=300), st.sampled_from([1, 7]))
def test_percentiles_ascend_between_minimum_and_maximum(samples, steps):
    made = point(visits=[samples[:5], samples[5:]], steps=steps)
    summary = stats.summarize(made)
    values = [v for v in stats.one_way_percentiles(made, [1, 25, 50, 75, 99]) if v is not None]
    ends = [summary.minimum / 2, *values, summary.maximum / 2]
    assert all(a <= b * (1 + 1e-12) for a, b in pairwise(ends))
    assert bool(values) == (len(samples) >= 20)  # ten on either side of the median


# The sections


def test_a_section_for_each_kernel_and_loop_with_sizes_in_rows():
    made = session(
        [
            ramp(kernel=kernel, loop=loop, size=size)
            for kernel in ("blocking", "bidirectional")
            for size in (8, 1024)
            for loop in ("native", "mpi4py")
        ]
    )
    for form in ("log", "table", "markdown"):
        titles = [line.removeprefix("## ") for line in sections(made, form).splitlines() if "percentiles" in line]
        assert titles == [
            f"{title} (one-way µs), {loop} loop: percentiles"
            for title in ("Ping-pong", "Bi-directional asynchronous ping-pong")
            for loop in ("native", "mpi4py")
        ]
    assert [row[0] for row in rows(sections(made))] == ["8", "1K"] * 4


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ((82, 40, 2), "samples are averages over 2 to 82 steps: percentiles of averages"),
        ((82, 2, 1), "samples are averages over 2 to 82 steps where steps > 1: percentiles of averages"),
        ((7, 7, 7), "samples are averages over 7 steps: percentiles of averages"),
        ((1, 1, 1), None),
    ],
)
@pytest.mark.parametrize("form", ["log", "markdown"])
def test_averages_are_called_so(steps, line, form):
    lines = sections(session([ramp(size=2**n, steps=s) for n, s in enumerate(steps)]), form).splitlines()
    assert [found for found in lines if "averages" in found] == ([line] if line else [])
    heads = [found for found in lines if found.strip("| ").startswith("bytes")]
    assert len(heads) == 1 and ("steps" in heads[0]) == (line is not None)


def test_what_a_dash_means_is_said_where_there_is_one():
    said = '  "-": fewer than 10 samples lie beyond it'
    assert said in sections(session([ramp()])).splitlines()
    assert said not in sections(session([ramp()]), percentiles=(50.0,)).splitlines()


def test_points_without_times_say_why():
    made = session([point(size=8, visits=[[1e-6] * 40, [0.0]]), point(size=16)])
    lines = sections(made).splitlines()
    assert rows("\n".join(lines)) == [["8", *"------", "41"], ["16", *"------", "0"]]
    assert lines[-2:] == [
        "  8: the clock stood still or stepped back in 1 of 41 samples",
        "  16: no samples",
    ]


def test_markdown_rows_have_as_many_cells_as_their_head():
    lines = [line for line in sections(session([ramp(steps=3)]), "markdown").splitlines() if line[:1] == "|"]
    assert lines == [
        "| bytes | min | p50 | p90 | p99 | p99.9 | max | samples | steps |",
        "|" + "---:|" * 9,
        "| 1K | 0.333 | 17.0 | 30.3 | - | - | 33.7 | 101 | 3 |",
    ]


def test_names_from_a_file_are_data():
    made = session([ramp(kernel="a\x1b[2J<b>", loop="c\rd")])
    for form in ("log", "table", "markdown"):
        added = sections(made, form)
        assert not set(added) & {"\x1b", "\r"}
    assert "<b>" not in added


@steady
@given(
    st.lists(st.lists(st.floats(1e-7, 10), max_size=40), max_size=4),
    st.sampled_from([1, 82]),
    st.sampled_from(["log", "table"]),
)
def test_default_sections_fit_in_80_columns(visits, steps, form):
    made = session([point("bidirectional", size, visits, steps=steps) for size in (8, 1000000007)])
    assert max(map(len, sections(made, form).splitlines())) <= 80


def test_many_percentiles_are_wider_and_uncut():
    added = sections(session([ramp()]), percentiles=tuple(n / 10 for n in range(1, 1000)))
    assert "…" not in added
    assert len(rows(added)[0]) == 3 + 999 + 1


# CSV and JSON


def test_rows_get_columns_in_seconds():
    made = session([ramp(), point(size=8, visits=[[0.0]])])
    first, second = json.loads(text(made, "json"))
    assert first["p50"] == pytest.approx(51e-6) and first["p90"] == pytest.approx(91e-6)
    assert first["p99"] is None and first["p99.9"] is None
    assert [second[name] for name in ("p50", "p90", "p99", "p99.9")] == [None] * 4
    cells = list(csv.DictReader(io.StringIO(text(made, "csv"))))
    assert list(cells[0]) == list(first)
    assert (float(cells[0]["p50"]), cells[0]["p99.9"], cells[1]["p50"]) == (first["p50"], "", "")


def test_p99_is_the_column_that_is_always_there():
    made = session([ramp(1001)])
    (plain,) = json.loads(text(made, "json", ()))
    (row,) = json.loads(text(made, "json"))
    assert row["p99"] == plain["p99"] == pytest.approx(991e-6)


@pytest.mark.parametrize("form", texts.FORMS)
def test_without_the_option_nothing_changes(form):
    made = session([ramp()])
    assert text(made, form, ()) == texts.FORMS[form](made)


@pytest.mark.parametrize("form", texts.FORMS)
def test_every_form_takes_what_a_file_may_hold(form):
    bare = {"plan": None, "ranks": [], "connections": [], "mpi": None, "clock": None}
    odd = [point(size=0, visits=[[1e-6]] * 5), point("quantum"), point(visits=[[0.0]]), point(visits=[[]])]
    for made in (session([]), session(odd, **bare)):
        assert text(made, form).endswith("\n")


# The command line


@pytest.mark.parametrize("command", [("run",), ("show", str(FILE))])
@pytest.mark.parametrize("written", ["0", "100", "x", "50,,90", "-5"])
def test_bad_lists_are_refused_in_a_sentence(tmp_path, command, written):
    done = pingpong(*command, "--percentiles", written, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("pingpong: ") and list(tmp_path.iterdir()) == []


def test_a_file_that_was_taken_for_the_list_is_named(tmp_path):
    done = pingpong("show", "--percentiles", str(FILE), cwd=tmp_path)
    assert done.returncode == 2 and "--percentiles alone at the end" in done.stderr


def test_alone_the_option_has_the_default_list(tmp_path):
    alone = pingpong("show", str(FILE), "--percentiles", cwd=tmp_path).stdout
    assert alone == pingpong("show", "--percentiles", "99.9,50,90,99", str(FILE), cwd=tmp_path).stdout
    assert " p50 " in alone and " p99.9 " in alone


OPTIONS = [
    ("--percentiles", "--histogram"),
    ("--percentiles", "25,50,75", "--histogram", "-f", "markdown"),
    ("--histogram", "-f", "table", "--percentiles"),
    ("-f", "csv", "--percentiles", "50,99.9"),
]


def test_a_run_with_options_is_printed_again_byte_for_byte(tmp_path):
    run = ("run", "-k", "blocking", "-m", "8:64", "-n", "60", "-o", "x.json")
    done = pingpong(*run, *OPTIONS[0], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ": percentiles\n" in done.stdout and ": histograms\n" in done.stdout
    assert pingpong("show", "x.json", *OPTIONS[0], cwd=tmp_path).stdout == done.stdout
    log = pingpong("show", "x.json", cwd=tmp_path).stdout
    assert done.stdout.startswith(log) and "percentiles" not in log
    for options in OPTIONS[1:]:
        shown = pingpong("show", "x.json", *options, cwd=tmp_path)
        assert shown.returncode == 0 and shown.stdout, shown.stderr


def test_a_watch_prints_its_lines_and_then_the_sections(tmp_path):
    done = pingpong("run", "-D", "2.2", "-k", "blocking", "-m", "8", "-o", "w.json", *OPTIONS[0], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Hello from 0 of 2") == 1 and " s  median " in done.stdout
    assert done.stdout.count(": percentiles\n") == done.stdout.count(": histograms\n") >= 1
    assert pingpong("show", "w.json", *OPTIONS[0], cwd=tmp_path).stdout == done.stdout


def test_what_is_printed_of_a_growing_watch_is_the_beginning_of_the_whole():
    watch = plan(sizes=[1024], method="duration", seconds=3.0)
    visits = [[2e-6], [4e-6], [6e-6]]
    printed, _ = texts.log.more(session([point(visits=visits[:2], stop=None)], plan=watch).runs[0], 0)
    whole = texts.text(session([point(visits=visits)], plan=watch), texts.Options("log", DEFAULT, histogram=True))
    assert printed and whole.startswith(printed)
