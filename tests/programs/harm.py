"""Faults that cannot be caused from outside: a wrong byte, a raising rank, a broken clock, a silent rank."""

import itertools
import time


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
