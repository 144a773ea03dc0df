"""Which hosts two ranks go to: named by the user, listed in a file, or given by the batch system."""

import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

RANKS = 2
# Options of launchers that name hosts.
NAMING = frozenset(
    ("host", "hosts", "H", "hostfile", "machinefile", "machine", "f", "hostlist", "rankfile", "app")
)
LONGEST = 2**20  # bytes of a host file


class HostsError(ValueError):
    """Hosts that make no sense; the message is one sentence for the user."""


def named(text: str) -> list[str]:
    """The hosts of a list such as "n1,n2". Raises HostsError."""
    names = [word.strip() for word in text.split(",")]
    found = _checked(names, f"--hosts {text!r}")
    if len(names) > RANKS:
        raise HostsError(f"--hosts {text!r}: two ranks go to two hosts at most")
    return found


def listed(path: Path) -> list[str]:
    """The hosts of a host file: a name at the beginning of each line, as mpiexec takes them. Raises HostsError."""
    try:
        with path.open("rb") as file:  # not to its end, which /dev/zero has none of
            lines = file.read(LONGEST).decode(errors="replace").splitlines()
    except OSError as error:
        raise HostsError(f"cannot read the host file {path}: {error.strerror}") from None
    words = [line.partition("#")[0].split() for line in lines]
    names = [first[0].partition(":")[0] for first in words if first]
    if not names:
        raise HostsError(f"the host file {path} names no host")
    return _checked(names, f"the host file {path}")


def _checked(names: Sequence[str], where: str) -> list[str]:
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", name):
            user = "; set the user in ssh's configuration" if "@" in name else ""
            raise HostsError(f"{where}: {name!r} is not the name of a host{user}")
    return pair(names)


def pair(names: Sequence[str]) -> list[str]:
    """The hosts for two ranks out of those there are: the first two that differ."""
    return list(dict.fromkeys(names))[:RANKS]


def nameless(names: Sequence[str]) -> list[str]:
    """Those whose names this host cannot resolve."""
    return [name for name in names if not _resolves(name)]


def _resolves(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False


def allocated(env: Mapping[str, str], arguments: Sequence[str] = ()) -> list[str]:
    """The hosts that a batch system gave to this job; none where it gave fewer than two, or there is none.

    Nor where the user's `arguments` for mpiexec name hosts. With one host nothing needs to be said to mpiexec.
    Raises HostsError where the names cannot be had.
    """
    if any(word.startswith("-") and word.lstrip("-").partition("=")[0] in NAMING for word in arguments):
        return []
    found = pair(_slurm(env) or _file(env, "PBS_NODEFILE") or _file(env, "PE_HOSTFILE") or _lsf(env))
    return found if len(found) == RANKS else []


def _slurm(env: Mapping[str, str]) -> list[str]:
    nodes = env.get("SLURM_JOB_NODELIST", "")
    if not set("[,") & set(nodes):
        return [nodes] if nodes else []
    try:
        scontrol = shutil.which("scontrol", path=env.get("PATH")) or "scontrol"
        said = subprocess.run([scontrol, "show", "hostnames", nodes], capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        raise HostsError(
            f"Slurm gave this job {nodes}, and scontrol does not tell which hosts that are: use --hosts"
        ) from None
    return said.stdout.decode(errors="replace").split()


def _file(env: Mapping[str, str], name: str) -> list[str]:
    try:
        lines = Path(env[name]).read_text(errors="replace").splitlines()
    except (KeyError, OSError):
        return []
    return [line.split()[0] for line in lines if line.strip()]


def _lsf(env: Mapping[str, str]) -> list[str]:
    return env.get("LSB_MCPU_HOSTS", "").split()[::2]  # "n1 16 n2 16"
