"""Histograms in plain characters: the rows by hand, and what holds for any samples."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pingpong import texts
from pingpong.texts import histogram
from tests.builders import point, session, steady

PINGPONG = str(Path(sys.executable).with_name("pingpong"))
FILE = Path(__file__).parent.parent / "results/shm-openmpi-2026-12-01.json"
ROW = re.compile(
    r"^ +(?P<open>< |>= )?(?P<label>[\d.]+) (?P<mark>[> ]) (?P<bar>#*|(mini|maxi)mum [\d.]+) +(?P<n>\d+)$"
)


def drawn(one_way, **more):
    """The histogram of a point with these one-way times in µs, in one visit."""
    return histogram.of(point(visits=[[2e-6 * float(t) for t in one_way]], **more))


def rows(lines):
    found = [ROW.match(line) for line in lines[1:]]
    assert all(found), lines
    return found


def table(lines):
    """(edge as printed, count) of each row."""
    return [((row["open"] or "") + row["label"], int(row["n"])) for row in rows(lines)]


# By hand


def test_rows_by_hand():
    """10, 11, … 19 µs, of the n-th n. The 28th of the 55 is 16: 21 are less. None lies beyond the outer fences."""
    times = [9 + n for n in range(1, 11) for _ in range(n)]
    lines = drawn(times, size=8)
    assert lines[0] == "8 bytes: 55 samples; median 16.0"
    assert table(lines) == [(str(9 + n), n) for n in range(1, 11)]
    assert [row["bar"] for row in rows(lines)] == ["#" * n for n in range(1, 11)]
    assert [row["label"] for row in rows(lines) if row["mark"] == ">"] == ["16"]
    assert {len(line) for line in lines[1:]} == {80}
    assert lines[1] == "  10   #" + " " * 70 + " 1"


def test_steps_and_legs_divide_the_samples():
    """A sample of four steps of two legs and 8 µs is a one-way time of 1 µs; completion times are not halved."""
    made = point(visits=[[8e-6, 8e-6, 16e-6]], steps=4)
    assert histogram.of(made)[0] == "1K bytes: 3 samples, averages over 4 steps; median 1.00"
    put = point("put", visits=[[8e-6, 8e-6, 16e-6]], steps=4, time="completion", legs=1)
    assert histogram.of(put)[0] == "1K bytes: 3 samples, averages over 4 steps; median 2.00"


def test_the_longest_bar_fills_the_line_and_the_others_are_to_scale():
    """Of 10 and 11 µs 1000 and 500: bars of the width that there is and half of it; one sample has a bar too."""
    lines = drawn([10.0] * 1000 + [11.0] * 500 + [12.0])
    bars = {row["label"]: len(row["bar"]) for row in rows(lines)}
    longest = bars["10.0"]
    assert max(map(len, lines)) == 80
    assert bars["11.0"] == -(-longest // 2) and bars["12.0"] == 1


def test_far_outliers_are_counted_in_an_open_row_with_the_maximum():
    """Quartiles 12 and 17: the outer fences are -3 and 32 µs, so 29 is still a row's and 40 and 5000 are not."""
    times = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19] * 10 + [29, 40, 5000]
    lines = drawn(times)
    assert table(lines)[-1] == (">= 30", 2)
    assert "maximum 5000" in lines[-1] and "#" not in lines[-1]
    assert table(lines)[:10] == [(str(t), 10) for t in range(10, 20)]
    assert table(lines)[-2] == ("29", 1)


def test_far_outliers_below_too():
    """1000 to 1009 µs and one of 2 µs."""
    lines = drawn([1000 + n for n in range(10)] * 10 + [2])
    assert table(lines) == [("< 1000", 1), *((str(1000 + n), 10) for n in range(10))]
    assert "minimum 2.00" in lines[1]


def test_two_modes_are_two_humps():
    random = np.random.default_rng(1)
    near = drawn([*random.normal(1.3, 0.02, 200), *random.normal(2.0, 0.03, 130)])
    assert "logarithmic" not in near[0]
    far = drawn([*random.normal(1.3, 0.02, 200), *random.normal(20, 0.4, 130)])
    assert far[0].endswith("; logarithmic bins")
    for lines, low, high in ((near, 1.1, 1.5), (far, 1.1, 1.5)):
        counts = [(float(row["label"]), int(row["n"])) for row in rows(lines)]
        assert sum(n for edge, n in counts if low < edge < high) == 200
        gap = [n for edge, n in counts if high <= edge < 1.7]
        assert gap and not any(gap)


def test_logarithmic_edges_are_powers_of_ten_and_equal_parts_between():
    """1 to 100 µs in twelve rows at most: five in a decade, 10^0.2 = 1.585, 10^0.4 = 2.512, …"""
    lines = drawn([1, 2, 3, 5, 10, 20, 30, 50, 80, 100])
    assert [row["label"] for row in rows(lines)][:6] == ["1.00", "1.58", "2.51", "3.98", "6.31", "10.0"]


def test_a_sample_on_an_edge_belongs_to_the_row_that_begins_there():
    """0.3, 0.4, … µs are no binary fractions: 3e-7 s is 0.3 µs to the last decimal digit only."""
    for times in (1, 20):
        lines = drawn([n / 10 for n in range(3, 14)] * times)
        assert table(lines) == [(f"{n / 10:.1f}", times) for n in range(3, 14)]


def test_a_coarse_clock_makes_no_comb():
    """Fifty successive ticks of 40 ns, each forty times: equally many in every row, but for the last."""
    lines = drawn([20 + 0.02 * n for n in range(50)] * 40)
    assert table(lines) == [*((f"{20 + 0.06 * n:.2f}", 120) for n in range(16)), ("20.96", 80)]


def test_the_median_is_the_estimate_that_the_other_texts_print():
    """Medians of the visits 1, 2 and 9 µs: the estimate is 2 µs, the median of the samples 9 µs."""
    made = point(visits=[[2e-6], [4e-6], [18e-6] * 5])
    lines = histogram.of(made)
    assert "median 2.00" in lines[0]
    (marked,) = [row["label"] for row in rows(lines) if row["mark"] == ">"]
    assert float(marked) <= 2.0


def test_the_mark_may_be_in_an_open_row():
    """Visits of one sample each at 100 µs, and fewer of many at 1 µs."""
    made = point(visits=[[2e-6 + n * 1e-9 for n in range(200)]] + [[200e-6]] * 2)
    lines = histogram.of(made)
    assert lines[-1].startswith("  >= ") and " > maximum 100 " in lines[-1]


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (point(visits=[[3e-6]]), "1K bytes: one sample, 1.50 µs"),
        (point(visits=[[6e-6]], steps=2), "1K bytes: one sample, an average over 2 steps, 1.50 µs"),
        (point(visits=[[3e-6] * 4, [3e-6]]), "1K bytes: 5 samples, all 1.50 µs"),
        (
            point(visits=[[3e-6, 0.0]]),
            "1K bytes: no valid time: the clock stood still or stepped back in 1 of 2 samples",
        ),
        (point(), "1K bytes: no samples"),
        (point(visits=[[]]), "1K bytes: no samples"),
    ],
)
def test_what_makes_no_histogram_is_one_line(made, line):
    assert histogram.of(made) == [line]


def test_nearly_all_equal():
    """96 times 1 µs and four times 5 µs: the bulk has no width at all."""
    lines = drawn([1.0] * 96 + [5.0] * 4)
    assert table(lines) == [("1.0000", 96), (">= 1.0001", 4)]


# For any samples

SAMPLES = st.one_of(
    st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=200),
    st.lists(st.floats(1e-6, 1.05e-6), min_size=1, max_size=200),
    st.lists(st.integers(1, 60).map(lambda n: n * 40e-9), min_size=1, max_size=200),
    st.lists(st.sampled_from([1e-6, 1.1e-6, 1e-3]), min_size=1, max_size=200),
)


@steady
@given(SAMPLES, st.sampled_from([1, 3, 82]))
def test_counts_add_up_in_rows_of_80_columns(samples, steps):
    lines = histogram.of(point("bidirectional", visits=[samples[:7], samples[7:]], steps=steps))
    assert max(map(len, lines)) <= 80
    if len(lines) == 1:
        assert len(samples) == 1 or max(samples) - min(samples) <= 1e-9 * max(samples)
        return
    found = rows(lines)
    assert sum(int(row["n"]) for row in found) == len(samples)
    assert len(found) <= histogram.ROWS + 4
    assert [row["mark"] for row in found].count(">") == 1
    assert all(bool(row["bar"]) == (int(row["n"]) > 0) for row in found)
    edges = [float(row["label"]) for row in found if not row["open"]]
    assert edges == sorted(set(edges)), "two rows with one label"
    open_ended = [int(row["n"]) for row in found if row["open"]]
    assert all(n <= max(1, len(samples) // 10) for n in open_ended)


@steady
@given(
    st.lists(st.floats(-1e9, 1e9), max_size=30),
    st.sampled_from([1, 2**62]),
    st.sampled_from([None, 1, 2**62]),
)
def test_no_figures_of_a_file_raise(samples, steps, legs):
    assert histogram.of(point(visits=[samples], steps=steps, legs=legs))


@steady
@given(st.lists(st.floats(1e-12, 1e9, exclude_min=True), min_size=2, max_size=30))
def test_any_valid_times_are_counted(samples):
    lines = histogram.of(point(visits=[samples], legs=1))
    assert len(lines) == 1 or sum(int(line.split()[-1]) for line in lines[1:]) == len(samples)


# The sections and the command line


def section(made, form):
    plain = texts.FORMS[form](made)
    whole = texts.text(made, texts.Options(form, histogram=True))
    assert whole.startswith(plain)
    return whole.removeprefix(plain)


def test_a_section_for_each_kernel_and_loop():
    made = session(
        [
            point(k, 8, visits=[[1e-6, 2e-6]], loop=loop)
            for k in ("blocking", "bidirectional")
            for loop in ("native", "mpi4py")
        ]
    )
    for form in ("log", "table", "markdown"):
        titles = [line for line in section(made, form).splitlines() if line.endswith(": histograms")]
        assert [title.removeprefix("## ") for title in titles] == [
            f"{title} (one-way µs), {loop} loop: histograms"
            for title in ("Ping-pong", "Bi-directional asynchronous ping-pong")
            for loop in ("native", "mpi4py")
        ]


def test_markdown_has_the_rows_in_a_block_of_code():
    made = session([point(size=size, visits=[[2e-6, 4e-6]]) for size in (8, 16)])
    before, block, after = section(made, "markdown").split("```")
    assert after == "\n" and "#" not in before.replace("## ", "")
    assert block.split("\n") == [
        "",
        *histogram.of(made.runs[0].points[0]),
        "",
        *histogram.of(made.runs[0].points[1]),
        "",
    ]


def test_names_from_a_file_are_data():
    made = session([point("a\x1b[2J<b>", visits=[[1e-6, 2e-6]], loop="c\r```")])
    for form in ("log", "table", "markdown"):
        assert not set(section(made, form)) & {"\x1b", "\r"}
    assert "<b>" not in section(made, "markdown")


@pytest.mark.parametrize("form", ["log", "table", "markdown"])
def test_every_form_takes_what_a_file_may_hold(form):
    bare = {"plan": None, "ranks": [], "connections": [], "mpi": None, "clock": None}
    odd = [point(size=0, visits=[[1e-6]] * 5), point("quantum"), point(visits=[[0.0]]), point(visits=[[]])]
    for made in (session([]), session(odd, **bare)):
        assert texts.text(made, texts.Options(form, histogram=True)).endswith("\n")


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("command", [("run",), ("show", str(FILE))])
def test_rows_have_no_place_for_it(tmp_path, form, command):
    done = subprocess.run(
        [PINGPONG, *command, "--histogram", "-f", form],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == "" and list(tmp_path.iterdir()) == []
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("pingpong: --histogram") and f"-f {form}" in sentence


def test_the_committed_result_is_drawn_whole(tmp_path):
    done = subprocess.run(
        [PINGPONG, "show", str(FILE), "--histogram"], capture_output=True, text=True, timeout=60, check=True
    )
    drawn_part = done.stdout.partition(": histograms\n")[2]
    assert " > #" in drawn_part and max(map(len, drawn_part.splitlines())) <= 80
