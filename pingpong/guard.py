"""What cleans up behind a rank that dies: killed, it cannot do so itself, and nobody else may be there.

A shell that sleeps until the pipe from its rank is closed, which the kernel does whatever ended the rank. It does
not carry the launch's token, so that nobody waits for it, and leaves at once if the rank says that all is well.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from pingpong import processes, temporary

FAREWELL = 6  # seconds that a launcher's daemon has to tell its mpiexec that the rank is gone
# Daemons that wait for ever for an mpiexec that they cannot reach any more.
_DAEMONS = ("prted", "orted", "hydra_pmi_proxy", "pmi_proxy")
_SCRIPT = f"""
while IFS= read -r line; do
  [ "$line" = done ] && exit
  set -- "$@" "$line"
done
rm -rf -- "$@"
# A process number may be another's by then: what has not started at the same time is not the daemon.
same() {{ [ -n "$daemon" ] && [ "$(cut -d" " -f22 "/proc/$daemon/stat")" = "$since" ]; }}
same && sleep {FAREWELL} && same && kill "$daemon" && sleep 2 && same && kill -9 "$daemon"
"""


class Guard:
    """Started by a rank before MPI."""

    def __init__(self) -> None:
        daemon, since = _daemon() or ("", "")
        env = {name: value for name, value in os.environ.items() if name != temporary.TOKEN}
        self._process = subprocess.Popen(
            ["sh", "-c", _SCRIPT, "guard"],
            env=env | {"daemon": daemon, "since": since},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        folder = temporary.own()
        self._tell([str(folder)] if folder else [])

    def watch_shared_memory(self) -> None:
        """Remove the segments that this rank has open now, if it does not get to do so itself."""
        self._tell(map(str, processes.shared_memory([os.getpid()])))

    def release(self) -> None:
        """All is well: nothing is left to remove."""
        self._tell(["done"])

    def _tell(self, lines: Iterable[str]) -> None:
        assert self._process.stdin
        with contextlib.suppress(OSError):
            os.write(self._process.stdin.fileno(), "".join(f"{line}\n" for line in lines).encode())


def _daemon() -> tuple[str, str] | None:
    """Number and start of the launcher's daemon that started this rank, if it was one."""
    parent = os.getppid()
    with contextlib.suppress(OSError, IndexError):
        name, _, rest = Path(f"/proc/{parent}/stat").read_text().partition("(")[2].rpartition(")")
        if name in _DAEMONS:  # names without spaces: `cut` counts the fields of proc(5) right
            return str(parent), rest.split()[19]
    return None
