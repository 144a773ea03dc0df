"""A communicator that counts what a kernel does, without believing the kernel.

Every message has a shadow on another communicator that carries the sender's logical time. From it follow, by
causality and not by a clock: how many trips of a step depend on each other (legs), how many ranks send at the same
depth (directions), and whether each receive was posted before its sender could know it may send.
"""

from collections import defaultdict


class CountingRequest:
    """A request that is known to be finished or not."""

    def __init__(self, request, done):
        self._request, self._done = request, done
        self.waited = False

    def Wait(self, *args):  # noqa: N802
        self._request.Wait(*args)
        assert not self.waited, "a request is waited for twice"
        self.waited = True
        self._done()


class CountingComm:
    """Wraps the calls that kernels make; an unknown one is an AttributeError, so that nothing goes uncounted."""

    def __init__(self, comm, shadow):
        self._comm, self._shadow = comm, shadow
        self.sent = self.received = 0
        self.requests = []
        self.depth = 0
        self.senders_at = defaultdict(int)  # depth -> messages that this rank sent there
        self.events = 0  # of this rank
        self.known = 0  # events of the other rank that this rank can know of
        self.posted = []  # event of each receive, in the order of posting
        self.known_when_sending = []

    def _sending(self, other):
        self.sent += 1
        self.events += 1
        self.senders_at[self.depth + 1] += 1
        self.known_when_sending.append(self.known)
        self._shadow.send((self.depth + 1, self.events), other)

    def _posting(self):
        self.events += 1
        self.posted.append(self.events)

    def _arrived(self, other):
        self.received += 1
        depth, events = self._shadow.recv(source=other)
        self.depth = max(self.depth, depth)
        self.known = max(self.known, events)

    def met(self, other):
        """The two ranks have told each other how far they are."""
        self.known = max(self.known, self._shadow.sendrecv(self.events, other, source=other))

    def Send(self, message, dest, tag=0):  # noqa: N802
        self._sending(dest)
        self._comm.Send(message, dest, tag)

    def Ssend(self, message, dest, tag=0):  # noqa: N802
        self._sending(dest)
        self._comm.Ssend(message, dest, tag)

    def Recv(self, message, source, tag=0):  # noqa: N802
        self._posting()
        self._comm.Recv(message, source, tag)
        self._arrived(source)

    def Isend(self, message, dest, tag=0):  # noqa: N802
        self._sending(dest)
        return self._keep(self._comm.Isend(message, dest, tag), lambda: None)

    def Irecv(self, message, source, tag=0):  # noqa: N802
        self._posting()
        return self._keep(self._comm.Irecv(message, source, tag), lambda: self._arrived(source))

    def _keep(self, request, done):
        self.requests.append(CountingRequest(request, done))
        return self.requests[-1]
