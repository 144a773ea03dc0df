"""What a rank finds out about its host before MPI starts. Never raises; what is unknown is absent."""

import contextlib
import ctypes
import errno
import fcntl
import ipaddress
import os
import resource
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pingpong import __version__, environment, launchers, temporary
from pingpong.doctor import facts
from pingpong.doctor.facts import Address, Folder, Survey
from pingpong.sysfs import interfaces, text

INFINIBAND = Path("/sys/class/infiniband")
# Of the counters of a port, those that only grow when something is wrong with cable, connector or card.
ERRORS = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "port_rcv_remote_physical_errors",
)  # fmt: skip
PATIENCE = 2.0  # seconds to wait for others who try whether a folder has room
_FLAGS, _ADDRESS, _MASK = 0x8913, 0x8915, 0x891B  # SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFNETMASK
_UP, _LOOPBACK, _RUNNING = 0x1, 0x8, 0x40
_SET_PTRACER = 0x59616D61  # PR_SET_PTRACER
_GLOBAL = "00"  # the scope of an address in /proc/net/if_inet6


def gather(start: launchers.Start | None, folder: Path) -> Survey:
    """The survey of this process's host; `start` says who started it, `folder` is the controller's."""
    rank = environment.rank_facts((start and start.rank) or 0)
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    survey = Survey(
        id=os.urandom(8).hex(),
        rank=rank,
        version=__version__,
        launcher=start.launcher if start else None,
        started=start.size if start else None,
        facts=environment.host_facts(),
        addresses=addresses(),
        errors=port_errors(INFINIBAND),
        nodes=numa_nodes(rank.cpus),
        memlock=None if soft == resource.RLIM_INFINITY else soft,
        ptrace=text(Path("/proc/sys/kernel/yama/ptrace_scope")) or None,
        copies=no_copies(),
        shared=room(Path("/dev/shm"), facts.SHARED_MEMORY),
        temporary=room(temporary.base(), facts.TEMPORARY),
    )
    with contextlib.suppress(OSError):
        (folder / survey.id).touch()
        survey.sees = True
    return survey


def room(path: Path, need: int) -> Folder:
    """Whether so many bytes can be written in a folder: tried, because quotas and mounts are not to be seen.

    One at a time tries, so that ranks of one host do not take the room from each other.
    """
    found = Folder(path=str(path), need=need)
    try:
        with _alone(path), tempfile.TemporaryFile(dir=path) as file:
            os.posix_fallocate(file.fileno(), 0, need)
    except OSError as error:
        found.trouble = error.strerror or str(error)
    return found


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, where there are locks, and nobody keeps it for longer than PATIENCE."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            held.callback(os.close, handle)
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.01)
        yield


def addresses() -> dict[str, Address]:
    """The interfaces of this process's own network namespace."""
    found = {}
    known = environment.host_facts().get("interfaces", {})
    ipv6, folders = _ipv6(), interfaces()
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            flags = _flags(probe, name)
            if flags is not None:
                found[name] = Address(
                    on=bool(flags & _UP),
                    link=bool(flags & _RUNNING),
                    loopback=bool(flags & _LOOPBACK),
                    mtu=known.get(name, {}).get("mtu"),
                    address=_with_prefix(_ipv4(probe, name, _ADDRESS), _ipv4(probe, name, _MASK)),
                    ipv6=ipv6.get(name),
                    enslaved=bool((folder := folders.get(name)) and (folder / "master").exists()),
                )
    return found


def _flags(probe: socket.socket, name: str) -> int | None:
    try:
        answer = fcntl.ioctl(probe, _FLAGS, _request(name))
        return int(struct.unpack("16sH14x", answer)[1])
    except (OSError, struct.error):
        return None


def _ipv4(probe: socket.socket, name: str, code: int) -> bytes:
    try:
        return bytes(struct.unpack("16s4x4s8x", fcntl.ioctl(probe, code, _request(name)))[1])
    except (OSError, struct.error):
        return b""


def _request(name: str) -> bytes:
    return struct.pack("16s16x", name.encode()[:15])


def _with_prefix(address: bytes, mask: bytes) -> str | None:
    if not address or not mask:
        return None
    return f"{ipaddress.IPv4Address(address)}/{bin(int.from_bytes(mask)).count('1')}"


def _ipv6() -> dict[str, str]:
    """A global address of each interface that has one."""
    found = {}
    for line in text(Path("/proc/self/net/if_inet6")).splitlines():
        digits, _, prefix, scope, _, name = line.split()
        if scope == _GLOBAL:
            found[name] = f"{ipaddress.IPv6Address(bytes.fromhex(digits))}/{int(prefix, 16)}"
    return found


def port_errors(root: Path) -> dict[str, dict[str, int]]:
    """The error counters of all HCA ports that are not 0."""
    found: dict[str, dict[str, int]] = {}
    for port in sorted(root.glob("*/ports/*")):
        read = {name: text(port / "counters" / name) for name in ERRORS}
        grown = {name: int(text) for name, text in read.items() if text.isdecimal() and int(text)}
        if grown:
            found[f"{port.parent.parent.name}:{port.name}"] = grown
    return found


def numa_nodes(cpus: list[int]) -> list[int]:
    """The NUMA nodes that CPUs belong to."""
    links = [link.name for cpu in cpus for link in Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*")]
    return sorted({int(name.removeprefix("node")) for name in links})


def no_copies() -> str | None:
    """Why a process here cannot read another one's memory (cross-memory attach), tried; None if it can.

    A child reads from this process, which allows it what MPIs allow their ranks: ranks are no children of each
    other, and Yama tells the difference.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "process_vm_readv"):
        return "this system has no process_vm_readv"
    libc.prctl(_SET_PTRACER, ctypes.c_ulong(-1 & (2**64 - 1)), 0, 0, 0)
    child = os.fork()
    if child == 0:
        signal.alarm(2)
        os._exit(_read_parent(libc) & 0xFF)
    _, status = os.waitpid(child, 0)
    libc.prctl(_SET_PTRACER, ctypes.c_ulong(0), 0, 0, 0)
    code = os.waitstatus_to_exitcode(status)
    return None if code == 0 else os.strerror(code) if code > 0 else os.strerror(errno.EPERM)


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _read_parent(libc: ctypes.CDLL) -> int:
    """The error number of reading eight bytes of the parent, which are at the same place there."""
    there, here = ctypes.create_string_buffer(b"pingpong", 8), ctypes.create_string_buffer(8)
    vectors = [_Vector(ctypes.addressof(buffer), 8) for buffer in (here, there)]
    got = libc.process_vm_readv(os.getppid(), ctypes.byref(vectors[0]), 1, ctypes.byref(vectors[1]), 1, 0)
    return 0 if got >= 0 or ctypes.get_errno() == errno.EFAULT else ctypes.get_errno()
