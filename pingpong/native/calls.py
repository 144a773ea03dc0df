"""The MPI calls that compiled steps may make, and the block of words that they read their arguments from.

A call is one line here. In a step it is `send(mpi, slot)`: `mpi` is passed on untouched, what else varies from
call to call is an index. The compiler (`pingpong.native.compiler`) puts the call itself in its place.
"""

from dataclasses import dataclass

# The words (8 bytes each) that compiled code is given; the addresses of the MPI functions follow them.
WORDS = (
    "clock",  # address of clock_gettime
    "timespec",  # address of room for what it returns
    "stamps",  # address of samples + 1 words
    "lead_in",
    "steps",
    "samples",
    "slots",  # send and receive buffers in all
    "out",  # address of the addresses of the send buffers, which those of the receive buffers follow
    "into",  # address of the addresses of the receive buffers
    "homes",  # address of what both were at first
    "offsets",  # address of how far each step moves all of them from there; 0 if they stay
    "count",
    "datatype",
    "other",
    "tag",
    "comm",
    "status",  # address of room for one
    "requests",  # address of room for all
    "request_size",
)
WORD = {name: index for index, name in enumerate(WORDS)}

# How an argument travels: pointer, handle (as wide as the MPI's), count (wider in the large calls), int.
POINTER, HANDLE, COUNT, INT = "pointer", "handle", "count", "int"
KINDS = {
    "out": POINTER,
    "into": POINTER,
    "request": POINTER,
    "status": POINTER,
    "datatype": HANDLE,
    "comm": HANDLE,
    "count": COUNT,
    "other": INT,
    "tag": INT,
}
INDEXED = ("out", "into", "request")


@dataclass(frozen=True)
class Call:
    """An MPI function and where its arguments come from; those in INDEXED take an index each, in their order."""

    function: str
    arguments: str

    def __call__(self, _mpi: int, *_indices: int) -> int:
        raise TypeError(f"{self.function} can only be called by compiled steps")

    def symbol(self, large: bool) -> str:
        """The function's name; the `large` ones (MPI 4) take counts beyond 2^31 - 1, where they take any."""
        return self.function + ("_c" if large and "count" in self.arguments.split() else "")


send = Call("MPI_Send", "out count datatype other tag comm")
recv = Call("MPI_Recv", "into count datatype other tag comm status")
ssend = Call("MPI_Ssend", "out count datatype other tag comm")
isend = Call("MPI_Isend", "out count datatype other tag comm request")
irecv = Call("MPI_Irecv", "into count datatype other tag comm request")
wait = Call("MPI_Wait", "request status")

CALLS = [value for value in globals().values() if isinstance(value, Call)]
