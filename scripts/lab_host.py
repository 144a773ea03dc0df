"""What makes a host of the lab: namespaces, mounts, and cables between them."""

import array
import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
from pathlib import Path

HOSTS = ("nodeA", "nodeB")
TITLE = "lab:"  # what the name of a host's process begins with
OWNED = ("net", "uts", "ipc", "mnt")  # kinds of namespaces that each host has its own of
MTU = {"eth0": 1500, "ib0": 65520}  # 65520: that of IP over InfiniBand in connected mode
PRIVATE = "/var/tmp"  # a folder that every machine has and few keep programs in; /tmp stays common
RATE = "1gbit"
LATENCY = 40_000  # ns; adds about 18 us each way
NO_LATENCY = "no latency"

NEW_MOUNTS, NEW_UTS, NEW_IPC, NEW_NET = 0x00020000, 0x04000000, 0x08000000, 0x40000000
NEW_USER, NEW_PID = 0x10000000, 0x20000000
BIND, RECURSIVE, PRIVATELY = 1 << 12, 1 << 14, 1 << 18
SET_DEATH_SIGNAL, SET_NAME = 1, 15
ETHTOOL, SET_TSO, SET_GRO = 0x8946, 0x1F, 0x2C

libc = ctypes.CDLL(None, use_errno=True)


class LabError(Exception):
    """A sentence for the user."""


def system(call, *args):
    if getattr(libc, call)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def mount(source, target, kind, flags=0, data=""):
    try:
        system("mount", source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    except OSError as error:
        what = f"cannot mount {kind or source} on {target}"
        raise OSError(error.errno, f"{what}: {os.strerror(error.errno)}") from None


def become_root_of_a_namespace():
    """Own users, mounts and, for what this process starts, processes."""
    user, group = os.geteuid(), os.getegid()
    try:
        system("unshare", NEW_USER | NEW_MOUNTS | NEW_PID)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    except OSError as error:
        raise LabError(f"this system does not let you make a user namespace ({error.strerror})") from None


def become_its_first_process():
    """In the child: end with the parent, and see only own processes."""
    libc.prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    mount("none", "/", "", RECURSIVE | PRIVATELY)
    mount("proc", "/proc", "proc")


def separate(name):
    """Give this process all that a host has of its own."""
    system("unshare", NEW_MOUNTS | NEW_UTS | NEW_IPC | NEW_NET)
    mount("none", "/", "", RECURSIVE | PRIVATELY)
    socket.sethostname(name)
    mount("sysfs", "/sys", "sysfs")  # so that /sys/class/net is this host's
    for folder in ("/dev/shm", PRIVATE):
        mount("tmpfs", folder, "tmpfs", data="mode=1777")
    names = "".join(f"{address('eth0', host)} {host}\n" for host in HOSTS)
    table = Path(PRIVATE, "hosts")
    table.write_text(f"127.0.0.1 localhost\n{names}")
    mount(str(table), "/etc/hosts", "", BIND)
    table.unlink()


def address(interface, host):
    return f"10.77.{list(MTU).index(interface) + 1}.{HOSTS.index(host) + 1}"


def cable(name, other):
    """Make this host's interfaces; with `other`, the process that holds the other host, also their far ends."""
    lines = []
    for interface, mtu in MTU.items():
        if other:
            lines.append(f"link add {interface} type veth peer name {interface} netns {other}")
        lines += [f"addr add {address(interface, name)}/24 dev {interface}", f"link set {interface} mtu {mtu}"]
    command(["ip", "-batch", "-"], "\n".join(lines))
    command(["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", RATE, "burst", "8kb", "latency", "20ms"])
    slow = delay("eth0")
    command(["ip", "-batch", "-"], "\n".join(f"link set {interface} up" for interface in ("lo", *MTU)))
    return slow


def command(argv, text="", **popen):
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False, **popen)
    if done.returncode != 0:
        raise OSError(0, f"{argv[0]} failed: {' '.join(done.stderr.split())}")


def delay(interface):
    """Make packets wait; False where that may not be done.

    Not every kernel has netem. All have this: with segmentation offload off and receive offload on, a veth takes
    packets in batches, and these can be told to wait.
    """
    for request, on in (SET_TSO, 0), (SET_GRO, 1):
        value = array.array("B", struct.pack("II", request, on))
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, ETHTOOL, struct.pack("16sP", interface.encode(), value.buffer_info()[0]))
    try:
        for knob, value in ("napi_defer_hard_irqs", 1), ("gro_flush_timeout", LATENCY):
            Path(f"/sys/class/net/{interface}/{knob}").write_text(str(value))
    except OSError:
        return False
    return True


def keep_only(link):
    """Close what this process has inherited, the lock of `up` too; the standard streams lead nowhere."""
    for entry in Path("/proc/self/fd").iterdir():
        if int(entry.name) != link:
            with contextlib.suppress(OSError):  # the one that listed them is closed already
                os.close(int(entry.name))
    while os.open(os.devnull, os.O_RDWR) < 2:
        pass


def hold(name, link):
    """The life of a host's process: report each step on `link` (nothing or what failed), then sleep."""
    os.setsid()
    keep_only(link.fileno())
    try:
        separate(name)
        # From here on it can be found, and not before: whoever finds it ends all that is in its network.
        libc.prctl(SET_NAME, f"{TITLE}{name}".encode())
        link.send(b"done")
        other = link.recv(64)
        if not other:
            return
        link.send(b"done" if cable(name, int(other)) else NO_LATENCY.encode())
    except OSError as error:
        link.send((error.strerror or str(error)).encode())
        return
    link.close()
    while True:
        signal.pause()


def start(name):
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        above = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 3)  # it has a low number where stdin is closed
        try:
            hold(name, socket.socket(fileno=above))
        finally:
            os._exit(1)
    theirs.close()
    return pid, ours


def answer(link, *allowed):
    said = link.recv(4096).decode(errors="replace")
    if said not in allowed:
        raise LabError(f"cannot bring the lab up: {said or 'a host ended'}")
    return said


def enter(holder):
    """Move this process onto the host of this holder (a handle)."""
    opened = [os.open(f"ns/{kind}", os.O_RDONLY, dir_fd=holder) for kind in OWNED]
    for file in opened:
        system("setns", file, 0)
        os.close(file)
