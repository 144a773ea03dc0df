import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from pingpong import store, texts
from pingpong.model import Failure, Mismatch, Payload, Rank, Warn
from pingpong.texts import FORMS, tables
from pingpong.units import parse_sizes
from tests.builders import plan, point, session

SIZES = parse_sizes("8:8M")


def visited(random, round_trip, visits=10, samples=30, noise=0.02):
    return [(round_trip * random.lognormal(0, noise, samples)).tolist() for _ in range(visits)]


def realistic(**more):
    """Three kernels over 21 sizes on a 1 Gbit/s link, with all the things that happen in a long run."""
    random = np.random.default_rng(1)
    points = [
        point(kernel, size, visited(random, 2 * (20e-6 + size * 8 / 1e9)), lead_in=3)
        for kernel in ("blocking", "asynchronous", "bidirectional")
        for size in SIZES
    ]
    points[1].visits[0].seconds[3] = 0.0
    points[2] = point(size=32, visits=[[2.6e-6] * 30] * 14 + [[7.1e-6] * 30] * 6, steps=10)
    points[3].payload = Payload(wrong=[Mismatch(rank=1, visit=3, slot=0, byte=7, expected=1, found=2)])
    points[4].warnings = [Warn(code="harness", text="the harness costs 1.2 % of a sample, more than 1 %")]
    points[5].visits, points[5].stop = [], None
    points[6] = point(size=512, visits=visited(random, 41e-6, visits=1280, samples=1), stop="budget")
    names = ["compute-0123.cluster.example.org", "compute-0124.cluster.example.org"]
    ranks = [Rank(rank=n, host=name, pid=n) for n, name in enumerate(names)]
    warnings = [Warn(code="unbound", text="ranks 0, 1 not bound to a core: the system may move them")]
    failure = Failure(reason="rank 0 on host compute-0123.cluster.example.org: nothing moved for 60 s", exit=124)
    facts = {"status": "partial", "ranks": ranks, "warnings": warnings, "failure": failure}
    return session(points, plan=plan(sizes=SIZES), **(facts | more))


def by_hand():
    """Two points whose figures are worked out here."""
    # round trips 2, 4, 6, 8, 10 µs in five visits of one step: median 6, interval 2 to 10 at 0.9375
    ping = point(size=1000, visits=[[2e-6], [10e-6], [4e-6], [8e-6], [6e-6]], stop="budget")
    both = point("bidirectional", size=1000, visits=[[6e-6]] * 5)
    return session([ping, both])


EXPECTED = [
    # half trip 3 µs (1 to 5); 2 * 1000 B / 6 µs = 333.3 MB/s
    {"kernel": "blocking", "seconds": 3e-6, "low": 1e-6, "high": 5e-6, "rate": 1e9 / 3, "aggregate": 1e9 / 3},
    # 4 * 1000 B / 6 µs in two directions
    {"kernel": "bidirectional", "seconds": 3e-6, "low": 3e-6, "high": 3e-6, "rate": 1e9 / 3, "aggregate": 2e9 / 3},
]


def assert_by_hand(rows):
    assert len(rows) == 2
    for row, want in zip(rows, EXPECTED, strict=True):
        assert row["kernel"] == want["kernel"] and int(row["size"]) == 1000
        for name in ("seconds", "low", "high"):
            assert float(row[name]) == pytest.approx(want[name])
        assert float(row["level"]) == 0.9375
        assert float(row["bytes_per_second"]) == pytest.approx(want["rate"])
        assert float(row["aggregate_bytes_per_second"]) == pytest.approx(want["aggregate"])
        assert (int(row["samples"]), int(row["visits"])) == (5, 5)
        assert row["p99"] in (None, "")  # five samples carry none


def test_csv_reads_back_with_the_same_numbers():
    assert_by_hand(list(csv.DictReader(io.StringIO(FORMS["csv"](by_hand())))))


def test_json_reads_back_with_the_same_numbers():
    assert_by_hand(json.loads(FORMS["json"](by_hand())))


def test_csv_and_json_agree_on_every_row_of_a_long_run():
    made = realistic()
    from_csv = list(csv.DictReader(io.StringIO(FORMS["csv"](made))))
    from_json = json.loads(FORMS["json"](made))
    assert len(from_csv) == len(from_json) == 63
    for cells, values in zip(from_csv, from_json, strict=True):
        assert list(cells) == list(values) and None not in cells.values()
        for name, value in values.items():
            if isinstance(value, float | int):
                assert float(cells[name]) == value
            elif value is None:
                assert cells[name] == ""


def test_rows_say_what_is_wrong_with_a_point():
    rows = json.loads(FORMS["json"](realistic()))
    assert "1 of 300 samples" in rows[1]["invalid"] and rows[1]["seconds"] is None
    # 2600 and 7100 ns a sample of ten steps of two legs
    assert [round(m["seconds"] * 1e9) for m in rows[2]["modes"]] == [130, 355]
    assert [m["share"] for m in rows[2]["modes"]] == [0.7, 0.3]
    assert rows[3]["wrong_payloads"] == 1
    assert rows[4]["warnings"] == ["the harness costs 1.2 % of a sample, more than 1 %"]
    assert rows[5]["invalid"] == "no samples" and rows[5]["stop"] is None


def test_a_completion_time_is_not_halved():
    put = point("put", size=1000, visits=[[4e-6]] * 5, time="completion", legs=1, messages=1, directions=1)
    (row,) = json.loads(FORMS["json"](session([put])))
    assert (row["time"], row["seconds"]) == ("completion", pytest.approx(4e-6))
    assert row["bytes_per_second"] == pytest.approx(250e6)
    assert "completion time" in FORMS["table"](session([put]))


def grid(text):
    """The lines of a table's rows: those that begin with a size."""
    return [line for line in text.splitlines() if re.match(r" *\d+[KMG]? +[\d.-]+ ", line)]


def test_the_rows_of_the_table_fit_in_80_columns_uncut():
    text = FORMS["table"](realistic())
    assert len(grid(text)) == 63
    assert max(map(len, grid(text))) <= 80
    assert "…" not in text


def test_every_line_of_the_table_form_fits_in_80_columns():
    long = [line for line in FORMS["table"](realistic()).splitlines() if len(line) > 80]
    assert long == []


def test_extreme_figures_are_not_cut_either():
    slowest = point(size=2**30, visits=[[2 * 859.0]] * 1280, stop=None)  # 10 Mbit/s
    fastest = point("bidirectional", size=2**30, visits=[[0.05] * 30] * 1280, stop="duration")
    noisy = point("asynchronous", size=1000000007, visits=[[1e-6], [1.0]] * 640, stop="budget")
    text = FORMS["table"](session([slowest, fastest, noisy]))
    assert "…" not in text and max(map(len, text.splitlines())) <= 80
    assert "859000000" in text  # µs half trip
    assert "42950" in text and "85899" in text  # 2 * 2^30 B / 0.05 s = 42949.67 MB/s, and both directions
    assert "38400" in text and "partial" in text and "duration" in text


def test_the_table_by_hand():
    ping, both = grid(FORMS["table"](by_hand()))
    # ±% is half of 1 to 5 around 3: 66.7
    assert ping.split() == ["1000", "3.00", "66.7", "-", "333.3", "333.3", "5", "5", "budget"]
    assert both.split() == ["1000", "3.00", "0.0", "-", "333.3", "666.7", "5", "5", "precise"]


def test_the_table_says_what_does_not_fit_in_a_column():
    text = FORMS["table"](realistic())
    joined = " ".join(text.split())
    assert "16: the clock stood still or stepped back in 1 of 300 samples" in joined
    assert "32: visits fall into modes: 0.130 µs (70 %), 0.355 µs (30 %)" in joined
    assert "64: 1 visits with a wrong payload" in joined
    assert "128: the harness costs 1.2 % of a sample, more than 1 %" in joined
    assert "256: no samples" in joined
    assert "partial result" in joined


def cells(line):
    """The cells of a Markdown row; an escaped bar is none."""
    return re.split(r"(?<!\\)\|", line)[1:-1]


def test_every_row_of_a_markdown_table_has_as_many_cells_as_its_head():
    text = FORMS["markdown"](realistic())
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 3 * (2 + 21)
    assert {len(cells(row)) for row in rows} == {9}
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Ping-pong (one-way time), mpi4py loop",
        "## Asynchronous ping-pong (one-way time), mpi4py loop",
        "## Bi-directional asynchronous ping-pong (one-way time), mpi4py loop",
    ]


def test_a_bar_in_a_text_from_a_file_makes_no_cell():
    rows = [
        r for r in FORMS["markdown"](session([point(visits=[[1e-6]], stop="a|b")])).splitlines() if r[:1] == "|"
    ]
    assert [len(cells(row)) for row in rows] == [9, 9, 9]


def test_markup_in_a_text_from_a_file_is_text():
    made = session([point(visits=[[1e-6]], stop="[red]x", warnings=[Warn(code="x", text="[bold]<b>loud</b>")])])
    assert "[red]x" in FORMS["table"](made) and "[bold]<b>loud</b>" in FORMS["table"](made)
    # four spaces make a block of code, in which nothing is markup
    assert not [line for line in FORMS["markdown"](made).splitlines() if "<b>" in line and line[:4] != "    "]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_takes_what_a_file_may_hold(form):
    """An empty run, a run without points or facts, a point without visits, size 0, a kernel nobody knows."""
    bare = {"plan": None, "ranks": [], "connections": [], "mpi": None, "clock": None}
    odd = [point(size=0, visits=[[1e-6]] * 5), point("quantum"), point(visits=[[0.0]]), point(visits=[[]])]
    for made in (session([]), session([], **bare), session(odd, **bare), session(odd)):
        text = FORMS[form](made)
        assert text.endswith("\n") and "inf" not in text.replace("info", "") and "nan" not in text
    nothing = session([])
    nothing.runs = []
    FORMS[form](nothing)


def test_size_zero_has_a_latency_and_a_rate_of_zero():
    (row,) = tables.rows(session([point(size=0, visits=[[3e-6]] * 5)]))
    assert row["seconds"] == pytest.approx(1.5e-6) and row["bytes_per_second"] == 0


def test_the_readme_shows_what_the_committed_result_says():
    """It names the files and how to print them."""
    root = Path(__file__).parents[1]
    readme = (root / "README.md").read_text()
    alone, name = dict.fromkeys(re.findall(r"pingpong show (results/\S+?\.json)", readme))
    blocks = [block.partition("\n")[2].rstrip() for block in readme.split("```")[1::2]]
    (log,) = [block for block in blocks if block.startswith("# pingpong ")]
    whole = texts.text(store.load(root / alone), texts.Options(form="log"))
    for part in log.split("\n…\n"):
        assert f"{part}\n" in whole
    session = store.load(root / name)
    (table,) = [block for block in blocks if block.startswith("transport ")]
    (wire,) = [block for block in blocks if block.startswith("# wire: ")]
    assert table in texts.text(session, texts.Options(form="table"))
    assert f"\n{wire}\n" in texts.text(session, texts.Options(form="log"))
