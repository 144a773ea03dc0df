"""How long this thread could have run and was not let: what else the machine does to a measurement."""

import contextlib
import resource
import time
from pathlib import Path
from typing import NamedTuple

_SCHEDSTAT = Path("/proc/thread-self/schedstat")


class Waiting(NamedTuple):
    """Nanoseconds: in all, and of them spent waiting for a CPU (0 where the kernel does not tell); and how often
    the CPU was taken away."""

    elapsed: int
    waited: int
    preempted: int

    def since(self, before: "Waiting") -> "Waiting":
        return Waiting(*(now - then for now, then in zip(self, before, strict=True)))


def so_far() -> Waiting:
    """Of this thread, since some fixed moment."""
    waited = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        waited = int(_SCHEDSTAT.read_text().split()[1])
    preempted = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
    return Waiting(time.monotonic_ns(), waited, preempted)
