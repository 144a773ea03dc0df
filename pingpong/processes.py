"""The processes of a launch on this host, found by the token in their environment and never by name."""

import contextlib
import math
import os
import signal
import subprocess
import time
from pathlib import Path

from pingpong import temporary

LOOKS, PAUSE = 10, 0.03  # at who wants a CPU, and seconds between
STOPPED = "Tt"  # states of a process
# Segments by which MPIs share memory stay when the last process that had one open was killed. They are of the
# launch if this user has made them since it `began`, and forgotten if no process that may be looked at has them
# mapped or open.
_SEGMENTS = ("mpich_shm_", "sm_segment.", "vader_segment.", "ucx_shm_posix_", "Intel_MPI_", "psm2_shm", "psm3_shm")
_NAMED = " -o ".join(f"-name '{name}*'" for name in _SEGMENTS)
REMOVE_SEGMENTS = f"""
holders() {{
  find /proc -maxdepth 2 -path '/proc/[0-9]*/maps' -exec grep -lsF -- "$1" {{}} +
  find /proc -maxdepth 3 -path '/proc/[0-9]*/fd/*' -lname "$1"
}}
command -v grep >/dev/null &&
find /dev/shm -maxdepth 1 -type f -user "$(id -u)" -newermt "@$began" '(' {_NAMED} ')' |
while IFS= read -r file; do
  [ -n "$(holders "$file" 2>/dev/null)" ] || rm -f -- "$file"
done
"""

# A map of the machine that Hydra's proxy makes for its ranks, and leaves if it is killed. Nobody has it open: it
# may be of any proxy that runs here, so where one does, all stay.
REMOVE_MAPS = """
grep -lsx hydra_pmi_proxy /proc/[0-9]*/comm >/dev/null ||
find /tmp -maxdepth 1 -type f -user "$(id -u)" -newermt "@$began" -name 'hydra_hwloc_xmlfile_*' -exec rm -f -- {} +
"""


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


def crowded() -> str:
    """Where more threads want to run than this host has CPUs: that, for the end of a sentence; else nothing.

    Two ranks that take turns on a CPU need a time slice for each message, and look as if they hung. The fewest of
    several looks count: what wakes up for a moment takes nothing from anybody.
    """
    running, cpus = math.inf, os.cpu_count() or 1
    for _ in range(LOOKS):
        try:
            wanting = Path("/proc/loadavg").read_text().split()[3].partition("/")[0]
            running = min(running, int(wanting) - 1)  # not this one
        except (OSError, ValueError, IndexError):
            return ""
        time.sleep(PAUSE)
    return f" ({running} threads want the {cpus} CPUs of this host: it may only be slow)" if running > cpus else ""


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


def clean(token: str, since: float) -> None:
    """When a launch that began at the time `since` is over: remove what MPI forgot, and its temporary folder."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        env = dict(os.environ) | {"began": str(since)}
        subprocess.run(
            ["sh", "-c", REMOVE_SEGMENTS + REMOVE_MAPS],
            env=env,
            stderr=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
    temporary.remove(token)


def sweep(token: str) -> None:
    """End whatever a launch left running on this host, and remove what it left lying."""
    until = time.monotonic() + 1.0
    while (left := carrying(token)) and time.monotonic() < until:
        for pid in left:
            kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    temporary.remove(token)  # the guards of its ranks see to the rest
