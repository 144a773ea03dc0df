"""The processes of a launch on this host, found by the token in their environment and never by name."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from pingpong import temporary

STOPPED = "Tt"  # states of a process


def carrying(token: str) -> list[int]:
    """Processes of this host that carry the launch's token in their environment, zombies not counted."""
    mark = f"{temporary.TOKEN}={token}".encode()
    found = []
    with contextlib.suppress(OSError):
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and int(folder.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if (
                        mark in (folder / "environ").read_bytes().split(b"\0")
                        and state(int(folder.name)) not in "ZX"
                    ):
                        found.append(int(folder.name))
    return found


def is_rank(pid: int) -> bool:
    """Whether a launcher gave the process a rank; its helpers have none."""
    try:
        names = {entry.partition(b"=")[0] for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")}
    except OSError:
        return False
    return not names.isdisjoint((b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"PMIX_RANK"))


def state(pid: int) -> str:
    """The letter of the process's state: R, S, D, T (stopped), Z, or X if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "X"


def kill(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def shared_memory(pids: list[int]) -> set[Path]:
    """Segments that processes would leave behind if they were killed, in memory until somebody looks."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
                path = line.partition("/")[2]
                if path.startswith("dev/shm/") and not path.endswith("(deleted)"):
                    found.add(Path("/" + path))
    return found


def clean(token: str, shared: Iterable[Path]) -> None:
    """When a launch is over: remove segments of its processes, and its temporary folder."""
    for path in shared:
        with contextlib.suppress(OSError):
            path.unlink()
    temporary.remove(token)


def sweep(token: str) -> None:
    """End whatever a launch left running on this host, and remove what it left lying."""
    shared, until = shared_memory(carrying(token)), time.monotonic() + 1.0
    while (left := carrying(token)) and time.monotonic() < until:
        for pid in left:
            kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    clean(token, shared)
