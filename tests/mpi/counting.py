"""A communicator that counts what a kernel does, and an MPI library that does the same for compiled code.

Every message has a shadow on another communicator that carries the sender's logical time. From it follow, by
causality and not by a clock: how many trips of a step depend on each other (legs), how many ranks send at the same
depth (directions), and whether each receive was posted before its sender could know it may send.
"""

import ctypes
from collections import defaultdict

from mpi4py import MPI

from pingpong.native import loops


class CountingRequest:
    """A request that is known to be finished or not."""

    def __init__(self, request, done):
        self._request, self._done = request, done
        self.waited = False

    def Wait(self, *args):  # noqa: N802
        self._request.Wait(*args)
        self.finish()

    def finish(self):
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

    @property
    def handle(self):
        return self._comm.handle

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


ADDRESS = loops.address  # before a test puts another in its place
HANDLE = ctypes.c_void_p if MPI._sizeof(MPI.Comm) == 8 else ctypes.c_int
POINTER, INT = ctypes.c_void_p, ctypes.c_int
TRANSFER = (POINTER, INT, HANDLE, INT, INT, HANDLE)  # buffer, count, datatype, other, tag, communicator
SIGNATURES = {
    "MPI_Send": TRANSFER,
    "MPI_Ssend": TRANSFER,
    "MPI_Recv": (*TRANSFER, POINTER),
    "MPI_Isend": (*TRANSFER, POINTER),
    "MPI_Irecv": (*TRANSFER, POINTER),
    "MPI_Wait": (POINTER, POINTER),
}


class CountingLibrary:
    """Stands between compiled code and MPI: `address` in place of that of `pingpong.native.loops`."""

    def __init__(self, comm):
        self._comm = comm
        self._pending = {}  # where the request lies -> the counted request
        self._kept = {}
        self.errors = []

    def address(self, symbol):
        """Of a function that counts the call and makes it; an unknown one is a KeyError."""
        if symbol not in self._kept:
            kind = ctypes.CFUNCTYPE(INT, *SIGNATURES[symbol])
            real, count = kind(ADDRESS(symbol)), getattr(self, symbol)

            def call(*arguments):
                try:
                    return count(real, *arguments)
                except BaseException as error:  # ctypes would print it and go on
                    self.errors.append(error)
                    return MPI.ERR_OTHER

            self._kept[symbol] = kind(call), real
        return ctypes.cast(self._kept[symbol][0], ctypes.c_void_p).value

    def MPI_Send(self, real, *arguments):  # noqa: N802
        self._comm._sending(arguments[3])
        return real(*arguments)

    MPI_Ssend = MPI_Send

    def MPI_Recv(self, real, *arguments):  # noqa: N802
        self._comm._posting()
        failed = real(*arguments)
        self._comm._arrived(arguments[3])
        return failed

    def MPI_Isend(self, real, *arguments):  # noqa: N802
        self._comm._sending(arguments[3])
        self._pending[arguments[-1]] = self._comm._keep(None, lambda: None)
        return real(*arguments)

    def MPI_Irecv(self, real, *arguments):  # noqa: N802
        self._comm._posting()
        self._pending[arguments[-1]] = self._comm._keep(None, lambda: self._comm._arrived(arguments[3]))
        return real(*arguments)

    def MPI_Wait(self, real, request, status):  # noqa: N802
        failed = real(request, status)
        self._pending.pop(request).finish()
        return failed
