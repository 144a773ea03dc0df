"""The three ping-pongs of the classic log."""

from collections.abc import Iterator
from contextlib import contextmanager

from pingpong.kernels import TAG, Link, Loops, Steps, kernel
from pingpong.native import Twin
from pingpong.native.calls import irecv, isend, recv, send, wait

# Compiled steps: a call returns 0 or MPI's error code, so `or` goes on only after success.


def _blocking_lead(mpi: int, last: bool) -> int:
    return send(mpi, 0) or recv(mpi, 0)


def _blocking_peer(mpi: int, last: bool) -> int:
    return recv(mpi, 0) or send(mpi, 0)


@kernel(
    "blocking",
    title="Ping-pong",
    legs=2,
    messages=2,
    directions=1,
    native=Twin(_blocking_lead, _blocking_peer),
)
@contextmanager
def blocking(link: Link) -> Iterator[Loops]:
    send, recv, other = link.comm.Send, link.comm.Recv, link.other
    out, into = link.out[0], link.into[0]

    def lead(steps: Steps) -> None:
        link.meet()
        for _ in steps:
            send(out, other, TAG)
            recv(into, other, TAG)

    def peer(steps: Steps) -> None:
        link.meet()
        for _ in steps:
            recv(into, other, TAG)
            send(out, other, TAG)

    yield lead, peer


def _asynchronous_post(mpi: int) -> int:
    return irecv(mpi, 0, 0)


def _asynchronous_lead(mpi: int, last: bool) -> int:
    return irecv(mpi, 0, 0) or isend(mpi, 0, 1) or wait(mpi, 1) or wait(mpi, 0)


def _asynchronous_peer(mpi: int, last: bool) -> int:
    failed = wait(mpi, 0)
    if not failed and not last:
        failed = irecv(mpi, 0, 0)
    return failed or isend(mpi, 0, 1) or wait(mpi, 1)


@kernel(
    "asynchronous",
    title="Asynchronous ping-pong",
    legs=2,
    messages=2,
    directions=1,
    native=Twin(_asynchronous_lead, _asynchronous_peer, post_peer=_asynchronous_post, requests=2),
)
@contextmanager
def asynchronous(link: Link) -> Iterator[Loops]:
    isend, irecv, other = link.comm.Isend, link.comm.Irecv, link.other
    out, into = link.out[0], link.into[0]

    def lead(steps: Steps) -> None:
        link.meet()
        for _ in steps:
            answer = irecv(into, other, TAG)
            isend(out, other, TAG).Wait()
            answer.Wait()

    def peer(steps: Steps) -> None:
        arriving = irecv(into, other, TAG)
        link.meet()
        for last in steps:
            arriving.Wait()
            # The lead sends its next message when it has this answer: post for it before answering.
            if not last:
                arriving = irecv(into, other, TAG)
            isend(out, other, TAG).Wait()

    yield lead, peer


def _bidirectional_post(mpi: int) -> int:
    return irecv(mpi, 0, 0) or irecv(mpi, 1, 1)


def _bidirectional_step(mpi: int, last: bool) -> int:
    failed = isend(mpi, 0, 2) or wait(mpi, 2) or wait(mpi, 0)
    if not failed and not last:
        failed = irecv(mpi, 0, 0)
    failed = failed or isend(mpi, 0, 2) or wait(mpi, 2) or wait(mpi, 1)
    if not failed and not last:
        failed = irecv(mpi, 1, 1)
    return failed


@kernel(
    "bidirectional",
    title="Bi-directional asynchronous ping-pong",
    legs=2,
    messages=4,
    directions=2,
    receives=2,
    native=Twin(
        _bidirectional_step,
        _bidirectional_step,
        post_lead=_bidirectional_post,
        post_peer=_bidirectional_post,
        requests=3,
    ),
)
@contextmanager
def bidirectional(link: Link) -> Iterator[Loops]:
    isend, irecv, other = link.comm.Isend, link.comm.Irecv, link.other
    out, (first, second) = link.out[0], link.into

    def both(steps: Steps) -> None:
        ping = irecv(first, other, TAG)
        pong = irecv(second, other, TAG)
        link.meet()
        for last in steps:
            isend(out, other, TAG).Wait()
            ping.Wait()
            # The other side sends its next ping when it has this pong, and its next pong when it has our next
            # ping: each receive is posted before the message that allows the sender to use it.
            if not last:
                ping = irecv(first, other, TAG)
            isend(out, other, TAG).Wait()
            pong.Wait()
            if not last:
                pong = irecv(second, other, TAG)

    yield both, both
