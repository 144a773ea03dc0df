"""The classic log, held against the two logs in seeds/ and hand-worked lines."""

import csv
import re
from pathlib import Path

import msgspec
import pytest

from pingpong.model import Failure, Mismatch, Payload, Rank, Warn
from pingpong.texts import launches, log
from tests.builders import CLOCK, plan, point, run, session

SEEDS = Path(__file__).parent.parent / "seeds"
LOGS = ["pong-tcp-eth0.csv", "pong-ipoib-ib0.csv"]
LINE = re.compile(r"^ *(\d+) bytes took +([\d.]+) usec \( *([\d.]+) MB/sec\)$")


def seed(name):
    with (SEEDS / name).open() as file:
        return list(csv.DictReader(file))


def round_trip(row):
    """Seconds, from the rate: it has more digits than the printed time. 2 * bytes / time is the rate in 10^6."""
    return 2 * int(row["bytes"]) / float(row["mb_per_s"]) / 1e6


def points_of(rows):
    return [point(r["section"], int(r["bytes"]), [[round_trip(r)]]) for r in rows]


@pytest.mark.parametrize("name", LOGS)
def test_the_old_log_is_printed_again_to_the_last_digit(name):
    rows = seed(name)
    text = launches.text(session(points_of(rows)))
    printed = [found.groups() for line in text.splitlines() if (found := LINE.match(line))]
    assert len(rows) == len(printed) == 54
    # One row of the 108 has a rate of three digits that gives another whole microsecond than the printed one.
    told = [(r["bytes"], r["round_trip_us"], r["mb_per_s"]) for r in rows]
    same = [want == got for want, got in zip(told, printed, strict=True)]
    assert [row for row, ok in zip(told, same, strict=True) if not ok] == (
        [("8", "146", "0.109")] if name == LOGS[1] else []
    )


@pytest.mark.parametrize("name", LOGS)
def test_the_sections_and_their_order_are_those_of_the_old_log(name):
    lines = launches.text(session(points_of(seed(name)))).splitlines()
    heads = [line.strip() for line in lines if line.startswith("  ") and not line.strip()[0].isdigit()]
    assert heads == ["Asynchronous ping-pong", "Bi-directional asynchronous ping-pong"]
    assert [line for line in lines if line.startswith("Hello")] == ["Hello from 1 of 2", "Hello from 0 of 2"]


@pytest.mark.parametrize("name", LOGS)
def test_the_closing_line_is_over_all_sections(name):
    """Max rate and half the least round trip; the two rows get the digits that the closing line tells of them."""
    (summary,) = [row for row in seed("pong-logs.csv") if row["log"] == name]
    rows = seed(name)
    best = max(rows, key=lambda r: float(r["mb_per_s"]))
    least = min(rows, key=round_trip)
    points = [
        point(
            r["section"],
            int(r["bytes"]),
            [
                [
                    2 * int(r["bytes"]) / float(summary["max_rate_mb_per_s"]) / 1e6
                    if r is best
                    else 2 * float(summary["min_latency_us"]) / 1e6
                    if r is least
                    else round_trip(r)
                ]
            ],
        )
        for r in rows
    ]
    assert launches.text(session(points)).splitlines()[-1] == (
        f"Max rate = {summary['max_rate_mb_per_s']} MB/sec  Min latency = {summary['min_latency_us']} usec"
    )
    assert (best["section"], least["section"]) == ("asynchronous", "bidirectional")


@pytest.mark.parametrize(
    ("kernel", "size", "usec", "line"),
    [
        # The layout is the C program's " %7d bytes took %9.0f usec (%8.3f MB/sec)".
        # 2 * 1048576 / 18320 = 114.4734
        ("asynchronous", 1048576, 18320, " 1048576 bytes took     18320 usec ( 114.473 MB/sec)"),
        # 2 * 8 / 121 = 0.13223
        ("blocking", 8, 121, "       8 bytes took       121 usec (   0.132 MB/sec)"),
        # 2 * 128 / 256 = 1
        ("blocking", 128, 256, "     128 bytes took       256 usec (   1.000 MB/sec)"),
        # 2 * 64 / 239 = 0.53556
        ("blocking", 64, 239, "      64 bytes took       239 usec (   0.536 MB/sec)"),
        # per direction: 4 * 1048576 / 8997.9 / 2 = 233.0713; aggregate would be 466.143
        ("bidirectional", 1048576, 8997.9, " 1048576 bytes took      8998 usec ( 233.071 MB/sec)"),
        # 4 * 512 / 35.048 / 2 = 29.2171
        ("bidirectional", 512, 35.048, "     512 bytes took        35 usec (  29.217 MB/sec)"),
    ],
)
def test_lines_by_hand(kernel, size, usec, line):
    assert log.size_line(point(kernel, size, [[usec * 1e-6]])) == line
    assert log.size_line(point(kernel, size, [[10 * usec * 1e-6]], steps=10)) == line  # ten steps a sample


@pytest.mark.parametrize(
    ("usec", "printed"),
    [
        (0.4731, "0.473"),
        (0.5, "0.500"),  # C's and Python's %.0f print 0: half to even
        (0.51, "1"),
        (0.09999, "0.100"),
        (0.01234, "0.0123"),
        (1.4, "1"),
        (1.5, "2"),
        (2.5, "2"),
        (119.6, "120"),
    ],
)
def test_whole_microseconds_and_three_digits_where_that_would_be_zero(usec, printed):
    assert f" took {printed:>9s} usec (" in log.size_line(point(size=8, visits=[[usec * 1e-6]]))


def test_size_zero_has_a_time_and_no_rate():
    assert log.size_line(point(size=0, visits=[[3e-6]])) == "       0 bytes took         3 usec (   0.000 MB/sec)"
    text = launches.text(session([point(size=0, visits=[[3e-6]])]))
    assert "Max rate = 0.000000 MB/sec  Min latency = 1.500000 usec" in text


def test_two_modes_are_both_in_the_line():
    visits = [[0.26e-6]] * 14 + [[0.71e-6]] * 6
    assert "  2 modes: 0.260 usec in 70 %, 0.710 usec in 30 % of the visits" in log.size_line(point(visits=visits))


def wrong(byte=17, rank=1):
    return Payload(wrong=[Mismatch(rank=rank, visit=3, slot=0, byte=byte, expected=1, found=2)])


def test_a_wrong_payload_is_named():
    line = log.size_line(point(visits=[[1e-6]] * 5, payload=wrong()))
    assert line.endswith("WRONG PAYLOAD at byte 17 on rank 1")


def test_an_invalid_point_is_named_and_has_no_figures():
    line = log.size_line(point(size=64, visits=[[1e-6, 0.0, -1e-6]]))
    assert line.startswith("      64 bytes")
    assert "no valid time: the clock stood still or stepped back in 2 of 3 samples" in line
    assert "inf" not in line and "MB/sec" not in line


def test_a_wrong_payload_is_named_on_an_invalid_point_too():
    assert "WRONG PAYLOAD" in log.size_line(point(visits=[[0.0]], payload=wrong()))


def test_a_run_without_any_valid_time_says_so():
    text = launches.text(session([point(visits=[[0.0]])]))
    assert text.splitlines()[-1] == "No time was measured."
    assert "inf" not in text and "nan" not in text


def test_a_partial_run_is_marked_with_its_reason():
    failure = Failure(reason="the time limit of 60 s is over", exit=124)
    text = launches.text(session([point(visits=[[1e-6]])], status="partial", failure=failure))
    assert text.splitlines()[-1] == "# partial result: the time limit of 60 s is over"
    killed = launches.text(session([point(visits=[[1e-6]])], status="partial"))
    assert killed.splitlines()[-1].startswith("# partial result: ")
    assert "partial" not in launches.text(session([point(visits=[[1e-6]])]))


def test_the_head_says_what_was_run_where_and_by_whom():
    ranks = [Rank(rank=0, host="n1", pid=1), Rank(rank=1, host="n2", pid=2)]
    warnings = [Warn(code="unbound", text="ranks 0, 1 not bound")]
    lines = launches.text(session([], ranks=ranks, warnings=warnings)).splitlines()
    assert lines[0].startswith("# pingpong 0.1.0, ")
    assert "# rank 0 on host n1, rank 1 on host n2; Open MPI 5.0.11, started by Open MPI mpiexec" in lines
    assert "# first message and answer 85.0 µs (connects), second 5.00 µs" in lines
    assert "# warning: ranks 0, 1 not bound" in lines
    assert "Timer accuracy of ~1.000000 usecs" in lines


def test_the_timer_accuracy_is_printed_as_the_old_log_did():
    clock = msgspec.structs.replace(CLOCK, wtime_step=2**-20)  # what both old logs print
    assert "Timer accuracy of ~0.953674 usecs" in launches.text(session([], clock=clock))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"method": "classic"}, "classic method: one timed round trip a size"),
        ({"method": "fixed", "samples": 100}, "100 samples"),
        ({"method": "duration", "seconds": 60.0}, "each second, for 60 s"),
        ({"budget": 10.0}, "budget 10 s"),
    ],
)
def test_the_first_line_says_which_method_made_the_numbers(more, said):
    first = launches.text(session([], plan=plan(**more))).splitlines()[0]
    assert said in first


def test_an_imported_run_needs_neither_plan_nor_ranks():
    text = launches.text(
        session([point(visits=[[2e-6]])], plan=None, ranks=[], connections=[], mpi=None, clock=None)
    )
    assert text.splitlines()[0] == "# pingpong 0.1.0, imported"
    assert "1024 bytes took         2 usec (1024.000 MB/sec)" in text


def test_warnings_of_points_are_said_with_their_point():
    made = point(size=8, visits=[[1e-6]], warnings=[Warn(code="harness", text="the harness costs 5.0 %")])
    assert "# warning: blocking 8: the harness costs 5.0 %" in launches.text(session([made]))


def test_a_kernel_of_a_newer_version_gets_its_name_as_title():
    text = launches.text(session([point("blocking", visits=[[1e-6]]), point("quantum", visits=[[1e-6]])]))
    assert "\n  quantum\n" in text


# A watch with -D


WATCH = plan(sizes=[1024], method="duration", seconds=3.0)


def watched(visits, **more):
    return session([point(visits=visits, steps=2, **more)], plan=WATCH)


def test_a_watch_has_a_line_for_each_second():
    # per step: 1, 2, 6 µs and 2, 4 µs; 2 * 1024 B / 2 µs = 1024 MB/s, / 3 µs = 682.667 MB/s
    lines = launches.text(watched([[2e-6, 12e-6, 4e-6], [8e-6, 4e-6]])).splitlines()
    at = lines.index("  Ping-pong, 1K bytes, every second")
    first, second = (re.split(r" {2,}| (?=\()", line.strip()) for line in lines[at + 2 : at + 4])
    assert first == ["0 s", "median 2.00 usec", "(1024.000 MB/sec)", "min 1.00", "max 6.00 usec"]
    assert second == ["1 s", "median 3.00 usec", "( 682.667 MB/sec)", "min 2.00", "max 4.00 usec"]


def test_a_second_in_which_the_clock_failed_is_named():
    text = launches.text(watched([[2e-6], [0.0], []]))
    assert text.count("no valid time") == 3  # two seconds, and the line for the size


def test_a_watch_of_a_kernel_of_a_newer_version_is_printed():
    assert "1K bytes, every second" in launches.text(watched([[2e-6]], kernel="quantum"))


@pytest.mark.parametrize("warnings", [[], [Warn(code="harness", text="the harness costs 5.0 %")]])
def test_what_is_printed_of_a_growing_watch_is_the_beginning_of_its_log(warnings):
    """The lines come as the visits do; the current second is left until it is over."""
    visits = [[2e-6], [4e-6], [6e-6]]
    printed, start = "", 0
    for n in range(1, 4):
        grown = session([point(visits=visits[:n], stop=None, warnings=warnings)], plan=WATCH, status="partial")
        text, start = log.more(grown.runs[0], start)
        printed += text
    whole = launches.text(session([point(visits=visits, warnings=warnings)], plan=WATCH))
    assert whole.startswith(printed)
    assert printed.count(" s  median ") == 2 and whole.count(" s  median ") == 3


def test_control_characters_in_a_file_do_not_reach_the_terminal():
    """A result may come from anyone: an escape sequence in a host's name could clear the screen or worse."""
    ranks = [Rank(rank=0, host="n1\x1b[2J", pid=1), Rank(rank=1, host="n2\r\nMax rate = 9", pid=2)]
    made = run([point(visits=[[1e-6]])], ranks=ranks, warnings=[Warn(code="x", text="\x1b]0;title\x07")])
    text = launches.text(session([], **{name: getattr(made, name) for name in ("ranks", "warnings")}))
    assert not set(text) & {"\x1b", "\x07", "\r"}
    assert "\nMax rate = 9" not in text


def test_a_headline_of_two_modes_carries_a_warning():
    """Half of the visits of 8 bytes take 1 µs and half 3 µs; the other size is calm."""
    split = point(size=8, visits=[[1e-6], [3e-6]] * 10)
    calm = point(size=1024, visits=[[8e-6]] * 20)
    text = launches.text(session([split, calm]))
    assert "# warning: Min latency is of blocking 8, whose visits fall into 2 modes" in text
    assert "Max rate is of" not in text
