"""The three ping-pongs of the classic log."""

from collections.abc import Iterator
from contextlib import contextmanager

from pingpong.kernels import Link, Loops, Steps, kernel

TAG = 1


@kernel("blocking", title="Ping-pong", legs=2, messages=2, directions=1)
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


@kernel("asynchronous", title="Asynchronous ping-pong", legs=2, messages=2, directions=1)
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


@kernel(
    "bidirectional",
    title="Bi-directional asynchronous ping-pong",
    legs=2,
    messages=4,
    directions=2,
    receives=2,
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
