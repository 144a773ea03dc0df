"""The two ends of a pair: the lead holds the clock and gives orders, the peer follows them.

Orders and reports are fixed arrays on a communicator of their own. One order goes out per visit and one report
comes back after it; while the steps of a visit run, nothing else is sent.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple, Protocol

import numpy as np
from mpi4py import MPI

from pingpong.kernels import KERNELS, Loops
from pingpong.measure import payload, waiting
from pingpong.measure.buffers import Buffers, Bytes, message
from pingpong.measure.clock import Block, Tick, now
from pingpong.measure.pool import Pool
from pingpong.measure.waiting import Waiting
from pingpong.model import Mismatch, Moved, Point
from pingpong.units import size_text

ORDER, REPORT, MEET = range(3)  # tags
OPEN, VISIT, TELL, END = range(4)
_REPORT = 5  # numbers about the payload, before those of the counters


class Order(NamedTuple):
    """What the lead tells the peer; `first` is a point's index, or the exit code; patience in milliseconds."""

    op: int
    first: int = 0
    number: int = 0
    steps: int = 0
    lead_in: int = 0
    samples: int = 0
    patience: int = 30_000


def _milli(seconds: float) -> int:
    return int(seconds * 1000)


class Meter(Protocol):
    """The counters of a host: four numbers for each of the named sources (see `pingpong.model.Moved`)."""

    @property
    def host(self) -> str: ...

    @property
    def names(self) -> Sequence[str]: ...

    def read(self) -> list[int]: ...

    def errors(self) -> dict[str, int]: ...

    def saturated(self) -> list[str]: ...


class Told(NamedTuple):
    """What a rank knows when it has measured: its waiting for a CPU, how error counters grew, which are full.

    `total` is what moved by source in the `seconds` from the first visit to the last.
    """

    end: int  # 0 of the lead, 1 of the peer
    waited: Waiting
    errors: dict[str, int]
    saturated: list[str]
    total: dict[str, list[int]]
    seconds: float


class PairLink:
    """What a kernel sees of the pair (see `pingpong.kernels.Link`)."""

    def __init__(self, comm: Any, control: Any, other: int, out: list[Bytes], into: list[Bytes]) -> None:
        self.comm, self.other = comm, other
        self.out, self.into = [message(a) for a in out], [message(a) for a in into]
        self._control = control
        self._homes = [(each, each[0].address) for each in (*self.out, *self.into)]

    def place(self, offset: int) -> None:
        """Move all buffers so far from their beginning, in bytes."""
        for moved, home in self._homes:
            moved[0] = MPI.buffer.fromaddress(home + offset, moved[1])

    def moves(self, offsets: Sequence[int]) -> list[Iterator[None]]:
        """For each buffer an iterator that moves it on when it is advanced."""
        return [
            map(moved.__setitem__, repeat(0), [MPI.buffer.fromaddress(home + o, moved[1]) for o in offsets])
            for moved, home in self._homes
        ]

    def meet(self) -> None:
        self._control.Sendrecv(b"", self.other, MEET, bytearray(), self.other, MEET)


@dataclass
class _Opened:
    point: Point
    loops: Loops
    link: PairLink
    out: list[Bytes]
    into: list[Bytes]
    offsets: Sequence[int] = ()


class End:
    """One end of a pair with its opened points. `watch(seconds)` is called before what may block for long.

    `meters` are the counters of lead and peer; only its own ones are read at this end.
    """

    def __init__(
        self,
        comm: Any,
        control: Any,
        other: int,
        buffers: Buffers | Pool,
        watch: Callable[[float], None],
        meters: Sequence[Meter],
    ) -> None:
        self._comm, self._control, self._other = comm, control, other
        self._buffers, self._watch = buffers, watch
        self._meters = meters
        self._span: list[
            tuple[float, list[int]]
        ] = []  # when the first visit began and the last ended; counters then
        self._me = comm.Get_rank()
        self._began = waiting.so_far()
        self._stack = ExitStack()
        self._opened: list[_Opened] = []

    def _open(self, point: Point) -> None:
        kernel = KERNELS[point.kernel]
        out = self._buffers.out(point.size, kernel.sends)
        into = self._buffers.into(point.size, kernel.receives)
        link = PairLink(self._comm, self._control, self._other, out, into)
        loops = self._stack.enter_context(kernel.loops[point.loop](link))
        self._opened.append(_Opened(point, loops, link, out, into))

    def _block(self, opened: _Opened, order: "Order", tick: Tick | None = None) -> Block:
        """The steps of a visit, with the payload prepared."""
        if isinstance(self._buffers, Pool):
            steps = order.lead_in + order.steps * order.samples
            opened.offsets = self._buffers.take(opened.point.size, steps + 1).tolist()
            opened.link.place(opened.offsets[0])
        self._prepare(opened, order.number)
        return Block(order.lead_in, order.steps, order.samples, tick, opened.offsets, opened.link.moves)

    def _prepare(self, opened: _Opened, visit: int) -> None:
        if isinstance(self._buffers, Buffers):
            payload.write(opened.out, self._me, visit)
            payload.clear(opened.into, self._other, visit)

    def _first_wrong(self, opened: _Opened, visit: int) -> tuple[int, ...] | None:
        if isinstance(self._buffers, Pool):
            return self._buffers.first_wrong(opened.point.size, len(opened.into), opened.offsets)
        return payload.first_wrong(opened.into, self._other, visit)

    def _run(self, opened: _Opened, end: int, block: Block, number: int) -> list[int]:
        """Make the steps of a visit; returns what the counters of this end say has moved meanwhile."""
        before = self._meters[end].read()
        if number and not self._span:
            self._span = [(time.monotonic(), before)] * 2
        try:
            opened.loops[end](block)
        except MPI.Exception as error:
            point = opened.point
            error.add_note(f"(in {point.kernel}, {point.loop} loop, {size_text(point.size)} bytes)")
            raise
        opened.link.meet()  # what was sent last has arrived, and so has left
        after = self._meters[end].read()
        if number:  # not a trial
            self._span[1] = time.monotonic(), after
        return [b - a for a, b in zip(before, after, strict=True)]

    def _tell(self, end: int) -> Told:
        meter = self._meters[end]
        (since, first), (until, last) = self._span or [(0.0, []), (0.0, [])]
        moved = [b - a for a, b in zip(first, last, strict=True)]
        total = {n: moved[4 * i : 4 * i + 4] for i, n in enumerate(meter.names) if any(moved[4 * i : 4 * i + 4])}
        waited = waiting.so_far().since(self._began)
        return Told(end, waited, meter.errors(), meter.saturated(), total, until - since)

    def _close(self) -> None:
        self._stack.close()


class Lead(End):
    """The end with the clock. `tick` reads it, in integer nanoseconds."""

    tick: Tick = staticmethod(now)

    def open(self, point: Point, patience: float) -> None:
        """Open the next point on both ends; it gets the next index."""
        self._send(Order(OPEN, patience=_milli(patience)))
        self._open(point)

    def visit(
        self, index: int, number: int, steps: int, lead_in: int, samples: int, patience: float
    ) -> tuple[list[float], list[Mismatch]]:
        """Make a visit to the point `index`: `samples` times in seconds, and the payloads that were wrong.

        `patience` is what the watchdogs allow, in seconds. Raises MPI.Exception.
        """
        order = Order(VISIT, index, number, steps, lead_in, samples, _milli(patience))
        self._send(order)
        opened = self._opened[index]
        block = self._block(opened, order, self.tick)
        began = time.monotonic()
        here = self._run(opened, 0, block, number)
        seconds = time.monotonic() - began
        wrong = [_mismatch(self._me, number, self._first_wrong(opened, number))]
        numbers = np.empty(_REPORT + 4 * len(self._meters[1].names), np.int64)
        self._control.Recv([numbers, MPI.INT64_T], self._other, REPORT)
        report = numbers.tolist()
        wrong.append(_mismatch(self._other, number, tuple(report[1:_REPORT]) if report[0] else None))
        if number:
            self._note_moved(opened.point, seconds, here, report[_REPORT:])
        return block.seconds(), [w for w in wrong if w]

    def _note_moved(self, point: Point, seconds: float, here: list[int], there: list[int]) -> None:
        moved = point.moved = point.moved or Moved(seconds=0.0)
        moved.seconds += seconds
        for meter, counts in zip(self._meters, (here, there), strict=True):
            for index, name in enumerate(meter.names):
                if any(new := counts[4 * index : 4 * index + 4]):
                    of_host = moved.hosts.setdefault(meter.host, {})
                    of_host[name] = [a + b for a, b in zip(of_host.get(name, [0] * 4), new, strict=True)]

    def told(self) -> list[Told]:
        """What lead and peer have to tell at the end of a run. Raises MPI.Exception."""
        self._send(Order(TELL))
        # By a collective: mpi4py's own recv probes first, which not every transport can do.
        found: list[Told] = self._control.gather(self._tell(0), self._me)
        return sorted(found, key=lambda told: told.end)

    def end(self, code: int) -> None:
        """Close all points on both ends and tell the peer the exit code."""
        self._send(Order(END, code))
        self._close()

    def _send(self, order: Order) -> None:
        self._watch(order.patience / 1000)
        self._control.Send([np.array(order, np.int64), MPI.INT64_T], self._other, ORDER)


class Peer(End):
    """The end that follows."""

    def serve(self, points: list[Point]) -> int:
        """Follow the lead's orders until it ends the run; returns the exit code. `points` as the lead has them."""
        numbers = np.empty(len(Order._fields), np.int64)
        while True:
            self._control.Recv([numbers, MPI.INT64_T], self._other, ORDER)
            order = Order(*numbers.tolist())
            # The lead watches too and is nearer to the facts: let it speak first.
            self._watch(order.patience / 1000 + 1.0)
            if order.op == OPEN:
                self._open(points[len(self._opened)])
            elif order.op == VISIT:
                opened = self._opened[order.first]
                self._visit(opened, order.number, self._block(opened, order))
            elif order.op == TELL:
                self._control.gather(self._tell(1), self._other)
            else:
                self._close()
                return order.first

    def _visit(self, opened: _Opened, number: int, block: Block) -> None:
        moved = self._run(opened, 1, block, number)
        wrong = self._first_wrong(opened, number)
        report = np.array([*([1, *wrong] if wrong else [0] * _REPORT), *moved], np.int64)
        self._control.Send([report, MPI.INT64_T], self._other, REPORT)


def _mismatch(rank: int, visit: int, found: tuple[int, ...] | None) -> Mismatch | None:
    if found is None:
        return None
    slot, byte, expected, value = found
    return Mismatch(rank=rank, visit=visit, slot=slot, byte=byte, expected=expected, found=value)
