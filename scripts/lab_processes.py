"""Processes by handles, and which of them hold the lab's hosts.

A process id may be another process's a moment later. A handle (a descriptor of the folder /proc/PID) never is:
what is read, entered and killed through it is one process, or that fails because the process has ended.
"""

import contextlib
import ctypes
import os
from pathlib import Path

from lab_host import HOSTS, OWNED, TITLE, libc

SEND_SIGNAL = 424  # pidfd_send_signal, on every processor alike; not every Python has it


@contextlib.contextmanager
def handle(pid):
    opened = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield opened
    finally:
        os.close(opened)


def everybody():
    """(id, handle) of each process there is; the handle is good until the next is asked for."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError), handle(entry.name) as process:
                yield int(entry.name), process


def read(process, path, **text):
    with os.fdopen(os.open(path, os.O_RDONLY, dir_fd=process), **text) as file:
        return file.read()


def namespace(process, kind):
    """The number of a namespace of a process, or None where that may not be known or the process has gone."""
    try:
        return os.stat(f"ns/{kind}", dir_fd=process).st_ino
    except OSError:
        return None


def send(process, sig):
    if libc.syscall(ctypes.c_long(SEND_SIGNAL), process, int(sig), None, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot send a signal: {os.strerror(number)}")


def apart(some, others):
    """Whether two processes share none of what each host has its own of; None, which is unknown, tells nothing."""
    return all(one and other and one != other for one, other in zip(some, others, strict=True))


def owned(process):
    return [namespace(process, kind) for kind in OWNED]


def host_held_by(process, ours, first):
    """The host that a process holds, or None.

    `ours` and `first`: handles of this process and of process 1. Whatever its name is, one that lives in a
    network of the machine, or may do so, holds no host. Where process 1 may not be looked at, not even by root,
    either this process is on the machine, or it is on the host itself.
    """
    try:
        title, user = read(process, "comm").strip(), os.fstat(process).st_uid
    except OSError:
        return None
    name = title.removeprefix(TITLE)
    if user != 0 or not title.startswith(TITLE) or name not in HOSTS:
        return None
    # Not one of a `lab shell` of somebody else, nor of another container.
    alike = all(namespace(process, kind) == namespace(ours, kind) for kind in ("user", "pid"))
    there, here, machine = owned(process), owned(ours), owned(first)
    known = all(machine)
    distinct = apart(there, machine if known else here) or (not known and all(there) and there == here)
    return name if alike and distinct else None


def holders():
    """{host: handle} of this lab."""
    found = {}
    with contextlib.suppress(OSError), handle("self") as ours, handle(1) as first:
        for _, process in everybody():
            if name := host_held_by(process, ours, first):
                found[name] = os.dup(process)
    return found
