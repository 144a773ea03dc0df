"""The journal by way of mpiexec arrives as it was written, whatever launchers do to lines."""

import os
import random

import pytest

from pingpong import relay, store
from pingpong.model import Run, Session, Visit, Warn
from pingpong.request import Job, Request, of_orders

from .builders import plan, point

HEAD = Session(schema=1, id="0" * 32, command=["pingpong"], seed=5)
SECONDS = [float(f"{x:.9f}") for x in map(random.Random(3).uniform, [1e-6] * 5000, [2e-6] * 5000)]


@pytest.fixture
def printed(tmp_path, monkeypatch):
    """What a lead prints of a short run, in one piece."""
    monkeypatch.setattr(relay, "_EVERY", 0.0)
    path = tmp_path / "stdout"
    stream = os.open(path, os.O_WRONLY | os.O_CREAT)
    sender = relay.Sender(stream)
    sender.write("run", Run(launch=1, source="test", status="partial", plan=plan()))
    sender.write("point", point(size=8))
    for n in range(50):
        sender.write("visit", (0, True, float(n), SECONDS[100 * n : 100 * n + 100]))
    sender.write("end", {"status": "complete", "failure": None})
    sender.close()
    os.close(stream)
    return path.read_bytes()


def received(tmp_path, pieces):
    path = tmp_path / "r.json"
    path.write_bytes(store.line("session", HEAD))
    receiver = relay.Receiver(path)
    for piece in pieces:
        receiver.hear(piece)
    return store.load(path).runs


def check(runs):
    (run,) = runs
    assert run.status == "complete"
    expected = [Visit(t0=float(n), seconds=SECONDS[100 * n : 100 * n + 100]) for n in range(50)]
    assert run.points[0].visits == expected


def test_it_arrives_in_pieces_of_any_size(tmp_path, printed):
    for size in (1, 7, 4096, 10**9):
        check(received(tmp_path, [printed[n : n + size] for n in range(0, len(printed), size)]))


def test_launchers_put_words_before_lines_and_others_print_between_them(tmp_path, printed):
    lines = printed.split(b"\n")
    noisy = b"\n".join(b"[1,0]<stdout>: " + line + (b" \r" if n % 2 else b"") for n, line in enumerate(lines))
    noisy = noisy.replace(b"\n", b"\n\0 a word of MPI without sense \xff\n")
    check(received(tmp_path, [noisy]))


def test_what_comes_before_a_damaged_line_is_kept(tmp_path, printed):
    lines = printed.split(b"\n")
    middle = next(n for n in range(len(lines) // 2, len(lines)) if relay.MARK in lines[n])
    lines[middle] = lines[middle][:40] + b"[1,1]<stderr>: hello" + lines[middle][40:]
    (run,) = received(tmp_path, [b"\n".join(lines)])
    assert run.status == "partial"
    assert 0 < len(run.points[0].visits) < 50
    assert run.points[0].visits[0].seconds == SECONDS[:100]


def test_lines_are_short_enough_for_launchers_and_hidden_from_the_output(printed):
    assert max(map(len, printed.split(b"\n"))) < 2048
    shown = relay.without(b"first\n" + printed + b"last words\n")
    assert shown.split() == [b"first", b"last", b"words"]


def test_an_end_in_the_middle_of_a_sending_leaves_what_can_be_read(tmp_path, monkeypatch):
    """The pipe fails once: what was printed before it arrives, and nothing of what comes after the gap."""
    path = tmp_path / "stdout"
    stream = os.open(path, os.O_WRONLY | os.O_CREAT)
    sender = relay.Sender(stream)
    sender.write("run", Run(launch=1, source="test", status="partial", plan=plan()))
    sender.close()
    sender.write("point", point(size=8))
    with monkeypatch.context() as broken:
        broken.setattr(relay.os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            sender.close()
    sender.write("end", {"status": "partial", "failure": None})
    sender.close()
    os.close(stream)
    (run,) = received(tmp_path, [path.read_bytes()])
    assert run.launch == 1 and run.points == []


def test_names_that_are_not_utf_8_reach_the_ranks_and_the_file(tmp_path):
    request = Request(plan(), None, ["pingpong", "run", "-o", "caf\udce9"], show=None)
    heeded = Warn(code="variables", text="UCX_LOG_FILE=/home/m\udcfcller")
    told = of_orders(request.orders(Job(1, None), None, [heeded]), None)
    assert told.warnings[0].text == "UCX_LOG_FILE=/home/m\\udcfcller"
    path = tmp_path / "r.json"
    runs = [Run(launch=1, source="test", status="partial")]
    store.save(Session(schema=1, id="0" * 32, command=request.command, runs=runs), path)
    assert store.load(path).command[-1] == "caf\\udce9"
