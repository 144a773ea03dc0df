"""Faults that cannot be caused from outside: a wrong byte, a raising rank, a broken clock, an error of MPI."""

import atexit
import itertools
import os
import sys
import time
from importlib import metadata
from pathlib import Path


def install(kind):
    from pingpong import worker  # sets mpi4py up before anything imports MPI
    from pingpong.measure import pair, payload

    assert worker
    globals()[kind](pair, payload)


def corrupt(pair, payload):
    """Rank 1 gets byte 17 of what rank 0 sends wrong, for messages that have one."""
    honest = payload.first_wrong

    def spoiled(into, sender, visit):
        if sender == 0 and into and into[0].size > 17:
            into[0][17] ^= 0xFF
        return honest(into, sender, visit)

    payload.first_wrong = spoiled


def raise_on_peer(pair, payload):
    _raise_in(pair.Peer)


def raise_on_lead(pair, payload):
    _raise_in(pair.Lead)


def _raise_in(cls):
    honest, calls = cls._prepare, itertools.count()

    def failing(self, opened, visit):
        if next(calls) == 200:
            raise RuntimeError("a bug made for this test")
        honest(self, opened, visit)

    cls._prepare = failing


def frozen_clock(pair, payload):
    pair.Lead.tick = staticmethod(lambda: 1_000_000_000)


def backward_clock(pair, payload):
    """Each reading is a millisecond before the one before."""
    readings = itertools.count(10**15, -1_000_000)
    pair.Lead.tick = staticmethod(lambda: next(readings))


def slow_link(pair, payload):
    """The peer answers as a link of 1 Gbit/s and 20 µs would: 8 MiB takes 134 ms a step."""
    honest = pair.Peer._visit

    def late(self, opened, number, block):
        def delayed(steps):
            for last in steps:
                time.sleep(2 * (opened.into[0].size / 125e6 + 20e-6))
                yield last

        honest(self, opened, number, delayed(block))

    pair.Peer._visit = late


def short_on_peer(pair, payload):
    """From its 50th visit on rank 1 has half the room for what arrives, whichever loop receives it."""
    from pingpong.native import loops

    links, blocks, visits = _kept(pair.PairLink), _kept(loops._Block), itertools.count()
    honest = pair.Peer._visit

    def harmed(self, *arguments):
        if next(visits) == 50:
            for message in (message for link in links for message in link.into):
                message[1] //= 2
            for block in blocks:
                block._set("count", int(block._words[loops.WORD["count"]]) // 2)
        honest(self, *arguments)

    pair.Peer._visit = harmed


def nobody_on_lead(pair, payload):
    """From its 50th visit on the native loop of rank 0 talks to a rank that is not there."""
    from pingpong.native import loops

    blocks, visits = _kept(loops._Block), itertools.count()
    honest = pair.Lead._prepare

    def harmed(self, *arguments):
        if next(visits) == 50:
            for block in blocks:
                block._set("other", 7)
        honest(self, *arguments)

    pair.Lead._prepare = harmed


def _kept(cls):
    """The instances of a class that are made from now on."""
    honest, found = cls.__init__, []

    def keeping(self, *arguments):
        honest(self, *arguments)
        found.append(self)

    cls.__init__ = keeping
    return found


def tell_imports(pair, payload):
    """Each rank writes at its end which parts of the compiler it has loaded."""
    path = Path(os.environ["IMPORTS"]) / str(os.getpid())
    atexit.register(lambda: path.write_text(" ".join({"numba", "llvmlite"} & set(sys.modules))))


def no_numba_on_peer(pair, payload):
    honest = metadata.distribution

    def distribution(name):
        if name == "numba" and "1" in map(os.environ.get, ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")):
            raise metadata.PackageNotFoundError(name)
        return honest(name)

    metadata.distribution = distribution
