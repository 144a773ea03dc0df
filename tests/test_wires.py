"""Transports side by side: one table as text, Markdown and JSON, with figures worked out by hand."""

import json

import pytest

from pingpong import exits, texts, wires
from pingpong.controller import _unproved
from pingpong.model import Failure, Moved, Rank, Session, Source, Transport, Warn, Watched
from pingpong.request import Request
from tests import builders

ETH, IB = (Source(name=n, kind="net") for n in ("eth0", "ib0"))
STEPS = 40  # ten visits of a lead-in step and three samples of a step
SIZE = 1024
PAYLOAD = STEPS * SIZE


def launch(number, name, carrier, seconds, through, failure=None):
    """A launch of which each step of 1 KiB took `seconds`, and whose bytes went `through` an interface."""
    moved = {through: [PAYLOAD + 100 * STEPS] * 2 + [STEPS] * 2}
    point = builders.point(size=SIZE, visits=[[seconds] * 3] * 10, lead_in=1, lead=0, peer=1)
    point.moved = Moved(seconds=1.0, hosts={"n1": moved, "n2": moved})
    idle = {"eth0": [0.0] * 4, "ib0": [0.0] * 4}
    return builders.run(
        [] if failure else [point],
        launch=number,
        transport=Transport(name=name, arguments=["--mca", "btl", "tcp,self"], carrier=carrier),
        ranks=[Rank(rank=n, host=f"n{n + 1}", machine=f"m{n}", network=f"w{n}") for n in (0, 1)],
        evidence=[Watched(host=h, sources=[ETH, IB], idle=idle) for h in ("n1", "n2")],
        status="partial" if failure else "complete",
        failure=failure,
    )


@pytest.fixture
def session():
    """Five rounds: ib0 takes 10, 11, 12, 13, 14 µs a step; eth0 four times as long; one falls back; one fails."""
    broken = Failure(reason="mpiexec ended with status 14", exit=1, hint="name an interface")
    runs = []
    for n in range(5):
        runs += [
            launch(4 * n + 1, "tcp@eth0", "net:eth0", 4e-6 * (10 + n), "eth0"),
            launch(4 * n + 2, "tcp@ib0", "net:ib0", 1e-6 * (10 + n), "ib0"),
            launch(4 * n + 3, "fell", "net:ib0", 4e-6 * (10 + n), "eth0"),
            launch(4 * n + 4, "bad", None, 1.0, "eth0", broken),
        ]
    return Session(schema=1, id="0" * 32, command=["pingpong", "run"], seed=7, runs=runs)


def test_the_best_comes_first_and_ratios_are_taken_within_rounds(session):
    ib0, *others, bad = wires.of_session(session)
    assert ib0.transport.name == "tcp@ib0" and bad.transport.name == "bad"
    # Half of the median step; 2 * 1024 bytes in it.
    assert ib0.latency.median == pytest.approx(6e-6) and ib0.rate.median == pytest.approx(2048 / 12e-6)
    assert ib0.latency_ratio.value == 1 and bad.latency_ratio is None and bad.finding is None
    for slow in others:
        # The machine drifts by 40 %, and in every round the ratio is four.
        assert slow.latency_ratio.value == pytest.approx(4) and slow.rate_ratio.value == pytest.approx(4)
        low, high = slow.latency_ratio.interval.low, slow.latency_ratio.interval.high
        assert (low, high) == (pytest.approx(4), pytest.approx(4))


def test_the_worst_verdict_of_all_launches_is_told(session):
    session.runs[1] = launch(2, "tcp@ib0", "net:ib0", 10e-6, "eth0")  # one of five fell back
    found = {wire.transport.name: wire.finding for wire in wires.of_session(session)}
    assert found["tcp@ib0"].verdict == found["fell"].verdict == "contradicted"
    assert found["tcp@eth0"].verdict == "confirmed" and found["tcp@eth0"].observed == "eth0"
    assert found["fell"].observed == "eth0"


def test_the_table_is_the_end_of_the_log_and_fits(session):
    text = texts.text(session, texts.Options())
    table = text[text.index("\nTransports\n") :].splitlines()
    assert max(map(len, table)) <= 80
    rows = {line.split()[0]: line.split() for line in table if line and not line.startswith(" ")}
    assert rows["tcp@ib0"][1:4] == ["ib0", "ib0", "confirmed"]
    assert rows["tcp@eth0"][1:] == ["eth0", "eth0", "confirmed", "24.0", "4.00", "42.67", "4.00"]
    assert rows["fell"][3] == "contradicted" and rows["bad"][1:4] == ["-", "-", "failed"]
    notes = " ".join(" ".join(table).split())
    assert "bad, launch 4: mpiexec ended with status 14; name an interface" in notes
    assert "# wire: eth0; tcp@eth0 is confirmed" in text
    assert "# transport tcp@eth0: --mca btl tcp,self" in text


def test_what_was_set_beforehand_is_named_where_the_wire_is_not_confirmed(session):
    for run in session.runs:
        run.warnings = [Warn(code="variables", text="set beforehand, and heeded by MPI: UCX_IB_SL=3")]
    text = texts.text(session, texts.Options())
    notes = " ".join(text[text.index("\nTransports\n") :].split())
    assert notes.count("fell: set beforehand, and heeded by MPI: UCX_IB_SL=3; try without") == 1
    assert "tcp@ib0: set beforehand" not in notes


def test_the_same_in_markdown_and_json(session):
    marked = texts.text(session, texts.Options(form="markdown"))
    assert "## Transports" in marked and "| tcp@eth0 | eth0 | eth0 | confirmed | 24.0 | 4.00 |" in marked
    data = json.loads(texts.text(session, texts.Options(form="json")))
    by_name = {row["transport"]: row for row in data["transports"]}
    assert by_name["fell"]["verdict"] == "contradicted" and by_name["fell"]["asked"] == "net:ib0"
    assert by_name["tcp@eth0"]["latency_seconds"] == pytest.approx(24e-6)
    assert by_name["tcp@eth0"]["latency_ratio"]["value"] == pytest.approx(4)
    assert by_name["bad"]["complete"] == 0 and len(by_name["bad"]["failures"]) == 5
    assert {row["verdict"] for row in data["points"]} == {"confirmed", "contradicted"}


def test_nothing_asked_makes_no_table():
    made = builders.session([builders.point(visits=[[1e-6] * 3] * 10)])
    assert wires.of_session(made) == [] and "Transports" not in texts.text(made, texts.Options())
    assert isinstance(json.loads(texts.text(made, texts.Options(form="json"))), list)


def test_what_makes_the_exit_code_three():
    def code(carrier, through, required=None):
        run = launch(1, "x", carrier, 1e-5, through)
        return exits.worst([0, exits.CONTRADICTED if _unproved(run, required) else 0])

    assert code("net:ib0", "ib0") == code("net:ib0", "ib0", "confirmed") == 0
    assert code("net:ib0", "eth0") == 3
    assert code(None, "eth0") == 0
    assert code(None, "eth0", "confirmed") == 3  # nothing was asked of the wire, so nothing is proved


def test_every_round_has_every_transport_once_in_an_order_that_follows_from_the_seed():
    asked = [Transport(name=name) for name in "abcd"]

    def order(seed):
        made = Request(builders.plan(seed=seed), None, [], show=None, launches=6, transports=asked)
        return [job.transport.name for job in made.jobs()], [job.number for job in made.jobs()]

    names, numbers = order(3)
    assert numbers == list(range(1, 25))
    rounds = [names[4 * n : 4 * n + 4] for n in range(6)]
    assert all(sorted(each) == list("abcd") for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1
    assert order(3)[0] == names and order(4)[0] != names


def test_launches_that_differ_are_told_apart(session):
    """Nothing was asked: four launches went over eth0, one over ib0. Of three confirmed ones one fell back."""
    default = [launch(n, "default", None, 1e-5, "ib0" if n == 1 else "eth0") for n in range(1, 6)]
    asked = [launch(n, "tcp@ib0", "net:ib0", 1e-5, "eth0" if n == 7 else "ib0") for n in range(6, 9)]
    session.runs = default + asked
    found = {wire.transport.name: wire.finding for wire in wires.of_session(session)}
    assert found["default"].observed == "eth0 in 4 launches; ib0 in 1 launch"
    assert found["tcp@ib0"].verdict == "contradicted" and found["tcp@ib0"].observed == "eth0"
    assert found["tcp@ib0"].reason.startswith("in 1 of 3 launches: ")


def test_the_best_is_one_that_was_measured_to_its_end(session):
    """A launch that was cut short at 1 µs a step takes no ratio away from the complete ones."""
    session.runs = [
        launch(n, name, None, s, "ib0") for n, (name, s) in enumerate(zip("abc", (1e-6, 1e-5, 2e-5), strict=True))
    ]
    session.runs[0].status, session.runs[0].failure = "partial", Failure(reason="killed", exit=1)
    ratios = {wire.transport.name: wire.latency_ratio for wire in wires.of_session(session)}
    assert ratios["a"] is None and ratios["b"].value == 1 and ratios["c"].value == pytest.approx(2)
