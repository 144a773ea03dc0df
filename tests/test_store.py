import json
import os
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pingpong import recorder, relay, store
from pingpong.measure.schedule import Schedule
from pingpong.model import (
    SCHEMA,
    Connection,
    Failure,
    Mismatch,
    Moved,
    Payload,
    Printed,
    Rank,
    Session,
    Visit,
    Warn,
)
from pingpong.request import Request
from tests.builders import CLOCK, FakeLink, plan, point, run, session, steady


def everything():
    """A session in which every kind of record occurs, as the file has it."""
    full = point(
        size=1024,
        visits=[[1e-6, 2e-6], [3e-6]],
        steps=2,
        lead=0,
        peer=1,
        first=9e-6,
        params={"window": 64},
        counts={"sent": 5},
        moved=Moved(seconds=2.5, hosts={"n1": {"eth0": [9000, 9100, 12, 13]}}),
        payload=Payload(checked=1, wrong=[Mismatch(rank=1, visit=2, slot=0, byte=7, expected=1, found=2)]),
        warnings=[Warn(code="harness", text="the harness costs much")],
    )
    printed = point("asynchronous", printed=[Printed(quantity="latency", statistic="mean", value=1.5, unit="us")])
    made = session(
        [full, printed],
        status="partial",
        environment={"hosts": {"n1": {"cpu": "x"}}},
        warnings=[Warn(code="unbound", text="not bound")],
        failure=Failure(reason="killed", exit=1, command=["mpiexec"], output=["signal 9"]),
    )
    return json.loads(msgspec.json.encode(store.to_builtins(made)))


def newer(data):
    """The same with a key at every record that this version does not know."""
    (the_run,) = data["runs"]
    full, printed = the_run["points"]
    records = [data, the_run, the_run["plan"], the_run["mpi"], the_run["clock"], the_run["failure"]]
    records += [*the_run["ranks"], *the_run["connections"], *the_run["warnings"], full, printed]
    records += [
        *full["visits"],
        full["payload"],
        *full["payload"]["wrong"],
        *full["warnings"],
        *printed["printed"],
    ]
    for n, record in enumerate(records):
        record["zz_newer"] = {"number": n, "text": ["ä", None]}
    assert len(records) == 18  # of all 13 classes of pingpong.model
    return data


def written(path, data):
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return path


# The final file


def test_a_session_comes_back_as_it_was_saved(tmp_path):
    made = msgspec.convert(everything(), Session)
    store.save(made, tmp_path / "a.json")
    assert store.load(tmp_path / "a.json") == made


def test_the_file_says_seconds_and_words_that_others_can_read(tmp_path):
    store.save(session([point(visits=[[1.25e-6]])]), tmp_path / "a.json")
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["schema"] == SCHEMA
    (p,) = data["runs"][0]["points"]
    assert (p["kernel"], p["size"], p["visits"]) == ("blocking", 1024, [{"t0": 0.0, "seconds": [1.25e-6]}])


def test_keys_of_a_newer_version_survive_at_every_level(tmp_path):
    before = newer(everything())
    loaded = store.load(written(tmp_path / "a.json", before))
    store.save(loaded, tmp_path / "b.json")
    assert json.loads((tmp_path / "b.json").read_text()) == before


def test_saving_leaves_nothing_else_and_replaces_what_was_there(tmp_path):
    path = written(tmp_path / "a.json", b"old")
    store.save(session(), path)
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
    assert store.load(path) == session()


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = written(tmp_path / "a.json", b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.save(session(), path)
    assert path.read_bytes() == b"old" and [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_clock_whose_step_was_never_seen_can_be_read_again(tmp_path):
    """The step is infinite then, for which JSON has no number."""
    still = msgspec.structs.replace(CLOCK, wtime_step=float("inf"))
    store.save(session([point(visits=[[1e-6]])], clock=still), tmp_path / "a.json")
    assert store.load(tmp_path / "a.json").runs[0].points[0].visits[0].seconds == [1e-6]


# Files that are no result


def test_a_file_that_ends_in_the_middle_says_where(tmp_path):
    whole = json.dumps(everything()).encode()
    for cut in range(1, len(whole) - 1, 37):
        path = written(tmp_path / "a.json", whole[:cut])
        with pytest.raises(store.FormatError) as caught:
            store.load(path)
        assert str(path) in str(caught.value)
        place = re.search(r"(?:after|byte) (\d+)", str(caught.value))
        assert place and abs(int(place[1]) - cut) <= 5  # inside a word such as true, its beginning


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"\n \n", "nothing but"),
        (b"\0" * 4096, "nothing but"),
        (b"[]", "schema"),
        (b"{}", "schema"),
        (b"17", "schema"),
        (b'{"schema": 1}', "runs"),
        (b'{"benchmarks": [], "version": "1.0"}', "schema"),
        (b"# OSU MPI Latency Test\n0 1.2\n", "JSON"),
        (b"{'schema': 1}", "byte 1"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "byte 0"),
        (b"\xff\xfe{\0}\0", "byte 0"),
        (b'{"schema": 1, "id": "\xff\xff", "runs": []}', "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'{"a":' * 100_000, "JSON"),
        (json.dumps(everything()).encode() + b"\0\0\0", "byte"),
    ],
)
def test_a_file_that_is_no_result_is_refused_with_its_path(tmp_path, data, said):
    path = written(tmp_path / "a.json", data)
    with pytest.raises(store.FormatError) as caught:
        store.load(path)
    assert str(path) in str(caught.value) and said in str(caught.value)
    assert "\n" not in str(caught.value)


@steady
@given(st.binary(max_size=200))
def test_any_bytes_are_a_result_or_a_format_error(tmp_path, data):
    for start in (b"", b'{"session":', b'{"schema":1,"runs":['):
        with pytest.raises(store.FormatError):
            store.load(written(tmp_path / "a.json", start + data))


@pytest.mark.parametrize("schema", [SCHEMA + 1, 99, 0, -1, "1", None, 1.5, True, []])
def test_a_schema_that_cannot_be_read_is_refused(tmp_path, schema):
    path = written(tmp_path / "a.json", everything() | {"schema": schema})
    with pytest.raises(store.FormatError) as caught:
        store.load(path)
    assert str(path) in str(caught.value) and "schema" in str(caught.value)


def test_a_newer_schema_names_both_versions(tmp_path):
    with pytest.raises(store.FormatError, match=r"schema 99; this version of pingpong reads 1 to 1"):
        store.load(written(tmp_path / "a.json", everything() | {"schema": 99}))


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("id",), 5),
        (("runs",), {}),
        (("runs", 0), "x"),
        (("runs", 0, "points"), None),
        (("runs", 0, "points", 0, "size"), "1K"),
        (("runs", 0, "points", 0, "size"), 1.5),
        (("runs", 0, "points", 0, "steps"), None),
        (("runs", 0, "points", 0, "visits"), [5]),
        (("runs", 0, "points", 0, "visits", 0, "seconds"), ["a"]),
        (("runs", 0, "points", 0, "visits", 0, "seconds"), 5),
        (("runs", 0, "points", 0, "visits", 0, "t0"), "now"),
        (("runs", 0, "points", 0, "payload"), []),
        (("runs", 0, "ranks", 0, "host"), 7),
        (("runs", 0, "plan"), []),
        (("runs", 0, "points", 0, "moved"), {"seconds": 1.0, "hosts": {"n1": {"eth0": [1]}}}),
        (("runs", 0, "points", 0, "moved"), {"seconds": 1e300, "hosts": {}}),
        (("runs", 0, "evidence"), [{"host": "n1", "idle": {"eth0": [0.0, -1.0, 0.0, 0.0]}}]),
        (("runs", 0, "evidence"), [{"host": "n1", "total": {"eth0": [1, 2, 3, 2**63]}}]),
    ],
)
def test_wrong_types_are_refused_with_path_and_place(tmp_path, where, value):
    data = everything()
    inner = data
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    path = written(tmp_path / "a.json", data)
    with pytest.raises(store.FormatError) as caught:
        store.load(path)
    assert str(path) in str(caught.value)
    named = [key for key in where if isinstance(key, str)][-1]
    assert f".{named}" in str(caught.value)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        store.load(tmp_path / "a.json")


# The journal


def measured(path, live=None):
    """A recorder that has recorded a small run on a made-up link, to the line that ends it."""
    link = FakeLink(lambda size: 2e-6 + size / 1e9, noise=0.001)
    link.wrong[(1, 4)] = Mismatch(rank=1, visit=4, slot=0, byte=7, expected=1, found=2)
    points = [point("blocking", size, stop=None, samples=1) for size in (8, 1024)]
    record = recorder.Recorder(path, session(points, status="partial"), live)
    record.begin()
    wanted = plan(sizes=[8, 1024], seed=3)
    Schedule(wanted, points, link, record, CLOCK, link.now, link.pause).run()
    record.end()
    return record


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """The bytes of a short journal, with a point that was measured, one wrong payload and an end."""
    path = tmp_path_factory.mktemp("journal") / "a.json"
    points = [point(stop=None)]
    record = recorder.Recorder(path, session(points, status="partial", ranks=[], connections=[]))
    record.begin()
    record.patience(7.5)
    record.point(points[0])
    for number in (1, 2):
        visit = Visit(t0=0.25 * number, seconds=[1e-6, 1.5e-6])
        points[0].visits.append(visit)
        points[0].payload.checked += 1
        record.visit(0, visit, True)
    points[0].stop = "precise"
    record.update(0, points[0])
    record.end()
    return path.read_bytes()


def test_the_journal_holds_what_the_final_file_holds(tmp_path):
    path = tmp_path / "a.json"
    record = measured(path)
    lines = path.read_bytes().splitlines()
    assert len(lines) > 5 and [list(json.loads(line)) for line in (lines[0], lines[-1])] == [["session"], ["end"]]
    from_journal = store.load(path)
    record.finish()
    assert len(path.read_bytes().splitlines()) == 1
    assert store.load(path) == from_journal == record.session
    first, second = from_journal.runs[0].points
    assert from_journal.runs[0].status == "complete"
    assert first.payload == Payload(checked=len(first.visits))
    assert len(second.payload.wrong) == 1 and second.payload.checked == len(second.visits) - 1


def test_keys_of_a_newer_version_survive_in_a_journal_too(tmp_path):
    data = newer(everything())
    (the_run,) = data["runs"]
    points, the_run["points"] = the_run["points"], []
    lines = [{"session": data | {"runs": []}}, {"run": the_run}, *({"point": p} for p in points)]
    path = written(tmp_path / "a.json", b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    store.save(store.load(path), path)
    the_run["points"] = points
    assert json.loads(path.read_text()) == data


def test_a_kind_of_line_that_a_newer_version_writes_is_passed_over(tmp_path, journal):
    first, *rest = journal.splitlines(keepends=True)
    path = written(tmp_path / "a.json", first + b"".join([*rest[:1], b'{"zz_newer": [1, 2]}\n', *rest[1:]]))
    assert store.load(path) == store.load(written(tmp_path / "b.json", journal))


def test_a_journal_torn_anywhere_keeps_every_whole_line(tmp_path, journal):
    path = tmp_path / "a.json"
    for cut in range(1, len(journal) + 1):
        path.write_bytes(journal[:cut])
        kinds = [next(iter(json.loads(line))) for line in journal[:cut].split(b"\n")[:-1]]
        if not kinds:
            with pytest.raises(store.FormatError) as caught:
                store.load(path)
            assert str(path) in str(caught.value)
            continue
        loaded = store.load(path)
        assert len(loaded.runs) == kinds.count("run")
        points = [p for r in loaded.runs for p in r.points]
        assert len(points) == kinds.count("point")
        assert sum(len(p.visits) for p in points) == sum(p.payload.checked for p in points) == kinds.count("visit")
        assert [p.stop for p in points] == (["precise"] if "update" in kinds else [None] * len(points))
        assert [r.status for r in loaded.runs] == (
            ["complete"] if "end" in kinds else ["partial"] * len(loaded.runs)
        )


def test_zeros_after_a_crash_count_as_a_torn_line(tmp_path, journal):
    path = written(tmp_path / "a.json", journal + b"\0" * 100)
    assert store.load(path) == store.load(written(tmp_path / "b.json", journal))


BROKEN = {
    "garbage": b"\xff\xfe\x00",
    "no JSON": b"{oops}",
    "a number": b"17",
    "a list": b"[]",
    "two kinds": b'{"point": {}, "run": {}}',
    "zeros": b"\0\0\0",
    "deep": b'{"point":' * 100_000,
    "a point without keys": b'{"point": {}}',
    "a visit of no point": b'{"visit": [7, true, 0.5, [1e-6]]}',
    "a visit of a point before the first": b'{"visit": [-1, true, 0.5, [1e-6]]}',
    "a visit that is none": b'{"visit": 5}',
    "a visit without samples": b'{"visit": [0, true, 0.5]}',
    "samples that are no list": b'{"visit": [0, true, 0.5, 5]}',
    "samples that are text": b'{"visit": [0, true, 0.5, ["a"]]}',
    "no samples but null": b'{"visit": [0, true, 0.5, null]}',
    "a time that is text": b'{"visit": [0, true, "now", [1e-6]]}',
    "a check that is a number": b'{"visit": [0, 1000, 0.5, [1e-6]]}',
    "an update of no point": b'{"update": {"index": 7, "point": {}}}',
    "an update without a point": b'{"update": {"index": 0}}',
    "patience that is text": b'{"patience": "long"}',
    "patience that is null": b'{"patience": null}',
    "an end without a status": b'{"end": {}}',
    "a status that is a number": b'{"end": {"status": 5, "failure": null}}',
    "a failure without a reason": b'{"end": {"status": "partial", "failure": {"exit": 1}}}',
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_what_stands_before_a_broken_line_is_kept_and_the_line_named(tmp_path, journal, line):
    lines = journal.splitlines()
    at = next(n for n, whole in enumerate(lines) if whole.startswith(b'{"visit"')) + 3
    path = written(tmp_path / "a.json", b"\n".join([*lines[:at], line, *lines[at:], b""]))
    (the_run,) = store.load(path).runs
    assert the_run.status == "partial"
    assert str(path) in the_run.failure.reason and f"line {at + 1}" in the_run.failure.reason
    before = sum(whole.startswith(b'{"visit"') for whole in lines[:at])
    assert sum(len(p.visits) for p in the_run.points) == before > 0


def test_a_journal_that_is_broken_from_the_start_is_refused_with_its_line(tmp_path, journal):
    first = journal.splitlines()[0]
    path = written(tmp_path / "a.json", first + b"\n" + b'{"run": 5}\n')
    with pytest.raises(store.FormatError, match="line 2"):
        store.load(path)


KINDS = ["session", "run", "point", "visit", "update", "patience", "end"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["index", "point", "status"]), inner)
    ),
    max_leaves=8,
)


@steady
@given(st.sampled_from(KINDS), JSON)
def test_any_value_in_a_line_is_read_or_a_format_error(tmp_path, journal, kind, value):
    path = written(tmp_path / "a.json", journal + json.dumps({kind: value}).encode() + b"\n")
    try:
        store.load(path)
    except store.FormatError as error:
        assert str(path) in str(error)


@steady
@given(st.binary(max_size=50))
def test_any_bytes_after_a_journal_are_a_torn_line_or_a_format_error(tmp_path, journal, data):
    path = written(tmp_path / "a.json", journal + data)
    try:
        assert store.load(path).runs[0].points[0].stop == "precise"
    except store.FormatError as error:
        assert str(path) in str(error) and b"\n" in data


def test_a_journal_without_a_run_is_refused_where_a_point_comes(tmp_path, journal):
    lines = journal.splitlines(keepends=True)
    with pytest.raises(store.FormatError, match="line 2"):
        store.load(written(tmp_path / "a.json", lines[0] + b"".join(lines[2:])))


def test_a_journal_of_a_newer_schema_is_refused(tmp_path, journal):
    later = journal.replace(b'"schema":1', b'"schema":99', 1)
    with pytest.raises(store.FormatError, match="schema 99"):
        store.load(written(tmp_path / "a.json", later))


def test_a_journal_never_overwrites(tmp_path):
    path = written(tmp_path / "a.json", b"mine")
    with pytest.raises(FileExistsError, match="exists already; results are never overwritten"):
        store.Journal(path)
    assert path.read_bytes() == b"mine"


# Following


@pytest.mark.parametrize("piece", [1, 7, 100, 10_000])
def test_a_follower_reads_a_journal_that_grows(tmp_path, journal, piece):
    path = tmp_path / "a.json"
    follower = store.Follower(path)
    assert follower.poll() is False and follower.session is None  # not there yet
    lines = 0
    with path.open("wb", buffering=0) as file:
        for at in range(0, len(journal), piece):
            file.write(journal[at : at + piece])
            whole = journal[: at + piece].count(b"\n")
            assert follower.poll() == (whole > lines)
            lines = whole
            assert follower.grown == lines and (follower.session is None) == (lines == 0)
    assert follower.poll() is False
    assert follower.patience == 7.5
    follower.close()
    assert follower.session == store.load(path)


def test_a_follower_reads_to_the_end_when_the_final_file_takes_the_path(tmp_path):
    path = tmp_path / "a.json"
    followers = []

    def live(_session):
        if not followers:
            followers.append(store.Follower(path))
            followers[0].poll()

    record = measured(path, live)
    (follower,) = followers
    assert follower.session.runs[0].status == "partial"
    record.finish()
    assert follower.poll() is True
    follower.close()
    assert follower.session == record.session


def test_a_follower_that_comes_after_the_end_is_not_an_error(tmp_path):
    """A run can be shorter than the time between two polls: then the final file is all that there ever was."""
    path = tmp_path / "a.json"
    record = measured(path)
    record.finish()
    follower = store.Follower(path)
    assert follower.poll() is False and follower.session is None
    follower.close()


# The recorder


def test_live_is_called_with_the_session_after_each_visit(tmp_path):
    seen = []
    record = measured(
        tmp_path / "a.json", lambda live: seen.append(sum(len(p.visits) for p in live.runs[0].points))
    )
    assert seen == list(range(1, sum(len(p.visits) for p in record.run.points) + 1))


def test_a_failure_makes_the_run_partial_and_is_kept(tmp_path):
    record = recorder.Recorder(tmp_path / "a.json", session([], status="partial"))
    record.begin()
    record.end(Failure(reason="the time limit is over", exit=124))
    (the_run,) = store.load(tmp_path / "a.json").runs
    assert (the_run.status, the_run.failure.reason, the_run.failure.exit) == (
        "partial",
        "the time limit is over",
        124,
    )


class Left(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def leaving(monkeypatch):
    def leave(code):
        raise Left(code)

    monkeypatch.setattr(recorder, "leave", leave)


def test_a_run_that_has_ended_does_not_end_again(tmp_path, leaving):
    """A signal in MPI_Finalize, where the lead prints its journal for somebody else to write."""
    path = tmp_path / "printed"
    stream = os.open(path, os.O_WRONLY | os.O_CREAT)
    record = recorder.Recorder(tmp_path / "a.json", session([], status="partial"), lines=relay.Sender(stream))
    record.begin()
    record.end()
    before = path.stat().st_size
    with pytest.raises(Left, match="143"):
        record.leave(Failure(reason="ended by SIGTERM", exit=143))
    assert path.stat().st_size == before and record.run.status == "complete"
    os.close(stream)


def test_leaving_keeps_what_was_visited(tmp_path, leaving):
    p = point(stop=None)
    record = recorder.Recorder(tmp_path / "a.json", session([p], status="partial"))
    record.begin()
    record.point(p)
    record.visit(0, Visit(t0=0.5, seconds=[1e-6]), True)
    with pytest.raises(Left, match="143"):
        record.leave(Failure(reason="ended by SIGTERM", exit=143))
    (the_run,) = store.load(tmp_path / "a.json").runs
    assert the_run.points[0].visits == [Visit(t0=0.5, seconds=[1e-6])]
    assert the_run.failure.reason == "ended by SIGTERM"


def test_leaving_never_tears_a_line(tmp_path, leaving, monkeypatch):
    """A signal arrives in the middle of a write: the line is finished first."""
    p = point(stop=None)
    record = recorder.Recorder(tmp_path / "a.json", session([p], status="partial"))
    record.begin()
    write = store.Journal.write

    def interrupted(journal, kind, value):
        if kind == "point":
            journal._file.write(b'{"point":')
            record.leave(Failure(reason="ended by SIGTERM", exit=143))
            journal._file.write(json.dumps(store.to_builtins(value)).encode() + b"}\n")
        else:
            write(journal, kind, value)

    monkeypatch.setattr(store.Journal, "write", interrupted)
    with pytest.raises(Left, match="143"):
        record.point(p)
    (the_run,) = store.load(tmp_path / "a.json").runs
    assert len(the_run.points) == 1 and the_run.failure.reason == "ended by SIGTERM"


# Names


def test_a_name_that_was_given_is_taken(tmp_path):
    assert recorder.claim(tmp_path / "ib.json") == tmp_path / "ib.json"
    assert list(tmp_path.iterdir()) == []


def test_names_made_up_in_the_same_second_differ(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = set()
    for _ in range(5):
        path = recorder.claim(None)
        path.touch()
        names.add(path)
    assert len(names) == 5 and all(path.parent == tmp_path and path.suffix == ".json" for path in names)


def test_results_are_never_overwritten(tmp_path):
    path = written(tmp_path / "a.json", b"mine")
    with pytest.raises(FileExistsError, match=r"a\.json exists already"):
        recorder.claim(path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        recorder.claim(tmp_path / "folder")


def test_a_folder_that_is_missing_or_no_folder_is_named(tmp_path):
    with pytest.raises(OSError, match=r"nowhere"):
        recorder.claim(tmp_path / "nowhere/a.json")
    with pytest.raises(OSError, match=r"file"):
        recorder.claim(written(tmp_path / "file", b"") / "a.json")


def test_a_folder_in_which_nothing_can_be_written_is_named(tmp_path, monkeypatch):
    """Simulated, because root may write anywhere."""

    def refused(*_args, **_more):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(recorder.Path, "touch", refused)
    with pytest.raises(PermissionError, match="Read-only file system") as caught:
        recorder.claim(tmp_path / "a.json")
    assert str(tmp_path) in str(caught.value)


def asked(the_run, command):
    return Request(the_run.plan, None, command, show=None)


def test_a_new_session_says_what_its_words_mean():
    the_run = run([], plan=plan(seed=42), ranks=[Rank(rank=0, host="n1", pid=1)])
    made = recorder.new_session(the_run, asked(the_run, ["pingpong", "run"]))
    assert (made.schema, made.seed, made.command, made.runs) == (SCHEMA, 42, ["pingpong", "run"], [the_run])
    assert made.id != recorder.new_session(the_run, asked(the_run, [])).id
    assert "half-trip" in made.definitions and "bandwidth" in made.definitions
    assert Connection(lead=0, peer=1, first=1.0, second=1.0).unknown == {}


def test_what_moved_is_in_the_journal_with_each_visit(tmp_path):
    """So a run that was killed can still say which wire it was on."""
    path = tmp_path / "r.json"
    asked = Request(plan(), path, ["pingpong"], show=None)
    made = recorder.Recorder(path, recorder.new_session(run([point(size=8)]), asked))
    made.begin()
    made.point(made.run.points[0])
    for total in (1000, 2500):
        made.run.points[0].moved = Moved(seconds=0.1, hosts={"n1": {"ib0": [total, total, 9, 9]}})
        made.visit(0, Visit(t0=0.5, seconds=[1e-6]), True)
    (point_read,) = store.load(path).runs[0].points
    assert len(point_read.visits) == 2
    assert point_read.moved.hosts == {"n1": {"ib0": [2500, 2500, 9, 9]}}
