"""What cleans up behind a rank that dies: killed, it cannot do so itself, and nobody else may be there.

A shell that sleeps until the pipe from its rank is closed, which the kernel does whatever ended the rank. It does
not carry the launch's token, so that nobody waits for it, and leaves at once if the rank says that all is well.
"""

import contextlib
import os
import subprocess
import time
from pathlib import Path

from pingpong import processes, temporary

FAREWELL = 6  # seconds that a launcher's daemon has to tell its mpiexec that the rank is gone
# Daemons that wait for ever for an mpiexec that they cannot reach any more.
_DAEMONS = ("prted", "orted", "hydra_pmi_proxy", "pmi_proxy")
_SCRIPT = f"""
read -r word && [ "$word" = done ] && exit
[ -n "$folder" ] && rm -rf -- "$folder"
{processes.REMOVE_SEGMENTS}
# A process number may be another's by then: what has not started at the same time is not the daemon.
same() {{
  [ -n "$daemon" ] && set -- $(cut -d" " -f3,22 "/proc/$daemon/stat") && [ "$1" != Z ] && [ "$2" = "$since" ]
}}
left={FAREWELL}
while same && [ "$left" -gt 0 ]; do
  sleep 1
  left=$((left - 1))
done
same && kill "$daemon" && sleep 2 && same && kill -9 "$daemon"
{processes.REMOVE_MAPS}
"""


class Guard:
    """Started by a rank before MPI."""

    def __init__(self) -> None:
        daemon, since = _daemon() or ("", "")
        env = {name: value for name, value in os.environ.items() if name != temporary.TOKEN}
        env |= {"daemon": daemon, "since": since, "folder": str(temporary.own() or ""), "began": str(time.time())}
        theirs, self._pipe = os.pipe()  # not a file object: Python would close that before the process has ended
        self.process = subprocess.Popen(
            ["sh", "-c", _SCRIPT, "guard"],
            env=env,
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)

    def release(self) -> None:
        """All is well: nothing is left to remove."""
        with contextlib.suppress(OSError):
            os.write(self._pipe, b"done\n")


def _daemon() -> tuple[str, str] | None:
    """Number and start of the daemon that the launcher of this rank has on this host, if there is one.

    Not that of a persistent DVM of PRRTE (prte, prun), which serves other jobs too.
    """
    if os.environ.get("PMIX_NAMESPACE", "").startswith("prte-"):
        return None
    parent = os.getppid()
    with contextlib.suppress(OSError, IndexError):
        name, _, rest = Path(f"/proc/{parent}/stat").read_text().partition("(")[2].rpartition(")")
        if name in _DAEMONS:  # names without spaces: `cut` counts the fields of proc(5) right
            return str(parent), rest.split()[19]
    return None
