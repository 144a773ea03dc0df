"""One mpiexec, from start to an end that is sure: limits kept, output kept, nothing left running."""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOKEN = "PINGPONG_LAUNCH"
START_LIMIT = 90.0  # seconds until the first sign of life: a rank gives up after 60 and says where
GRACE = 2.0  # seconds beyond what the ranks' own watchdogs wait
STOPPED_LIMIT = 5.0  # seconds that a rank may be seen stopped (SIGSTOP)
GONE_LIMIT = 3.0  # seconds that mpiexec gets to notice that its ranks have ended
GONE = "the ranks have ended, and mpiexec hangs"
TERMINATE, KILL = 1.5, 5.0  # seconds that mpiexec gets to clean up, then everything is killed
POLL = 0.25
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_held: list[int] = []  # signals that came while nothing was launched
STOPPED = "Tt"  # states of a process


@dataclass
class Ended:
    """How a launch ended: exit status (negative for a signal), output, and the limit or signal that ended it."""

    status: int
    output: bytes
    limit: str | None = None
    signal: int | None = None
    command: list[str] = field(default_factory=list)


def launch(
    command: list[str],
    env: dict[str, str],
    time_limit: float,
    alive: Callable[[], float | None],
    spent: float = 0.0,
) -> Ended:
    """Run `command` to its end. `alive()` is called every POLL seconds: it returns the patience in seconds if
    there was a sign of life since the last call, else None. `spent` of the `time_limit` seconds are over already.

    SIGINT and SIGTERM of this process end the launch too and are reported, not raised.
    """
    token = uuid.uuid4().hex
    ended = Ended(-1, b"", command=command)
    with tempfile.TemporaryFile() as output, _signals() as received:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env | {TOKEN: token},
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        try:
            ended.limit = _wait(process, token, time_limit, alive, received, spent)
            ended.signal = received[0] if received else None
        finally:
            _end(process, token)
        ended.status = process.returncode
        output.seek(0)
        ended.output = output.read()
    return ended


def _wait(
    process: "subprocess.Popen[bytes]",
    token: str,
    time_limit: float,
    alive: Callable[[], float | None],
    received: list[int],
    spent: float,
) -> str | None:
    """Until the process ends or a signal comes (None), or a limit is passed (the sentence that says which)."""
    sign = time.monotonic()
    begun = sign - spent
    patience, started, ranks_state = START_LIMIT, False, _Ranks(process.pid, token)
    while True:
        if _ended(process) or received:
            return None
        now = time.monotonic()
        moved = alive()
        if moved is not None:
            sign, patience, started = now, moved + GRACE, True
        # Looking at all processes takes time on cores that are being measured: only while nothing is.
        trouble = ranks_state.trouble(now) if not started or now - sign > 1 else None
        if trouble:
            return trouble
        if now - begun > time_limit:
            return f"the time limit of {time_limit:g} s is over"
        if now - sign > patience:
            return f"nothing moved for {now - sign:.0f} s"


def _ended(process: "subprocess.Popen[bytes]") -> bool:
    """Wait up to POLL seconds for the end, without waking up in between (Popen.wait does, 20 times a second)."""
    try:
        handle = os.pidfd_open(process.pid)
    except (OSError, AttributeError):  # an old kernel, or not Linux
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL)
    else:
        select.select([handle], [], [], POLL)
        os.close(handle)
    return process.poll() is not None


class _Ranks:
    """What can be seen of the ranks from outside when they are silent."""

    def __init__(self, mpiexec: int, token: str) -> None:
        self._mpiexec, self._token = mpiexec, token
        self._seen = False
        self._stopped_since: float | None = None
        self._gone_since: float | None = None

    def trouble(self, now: float) -> str | None:
        """Why waiting is useless: a rank is stopped, or all have ended and mpiexec has not noticed."""
        pids = [pid for pid in ranks(self._token) if pid != self._mpiexec and _is_rank(pid)]
        stopped = [pid for pid in pids if state(pid) in STOPPED]
        self._seen = self._seen or bool(pids)
        self._stopped_since = (self._stopped_since or now) if stopped else None
        # On other hosts only there would be none here from the start.
        self._gone_since = (self._gone_since or now) if self._seen and not pids else None
        if self._stopped_since and now - self._stopped_since > STOPPED_LIMIT:
            return f"process {stopped[0]} is stopped (SIGSTOP) and nothing moves"
        if self._gone_since and now - self._gone_since > GONE_LIMIT:
            return GONE
        return None


def _end(process: "subprocess.Popen[bytes]", token: str) -> None:
    """End the process if it runs, and whatever it started here: politely, then for sure."""
    deadline = time.monotonic() + KILL
    shared = _shared_memory(ranks(token))
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        # A stopped rank cannot act on what mpiexec passes on; woken up, it would go on measuring.
        for pid in ranks(token):
            if state(pid) in STOPPED:
                _kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TERMINATE)
    while (left := ranks(token)) or process.poll() is None:
        if time.monotonic() > deadline - KILL + TERMINATE:
            for pid in left:
                _kill(pid, signal.SIGKILL)
            _signal_group(process.pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            break  # unkillable: in the kernel's hands
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
        time.sleep(0.02)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
    for path in shared:
        path.unlink(missing_ok=True)


def _shared_memory(pids: list[int]) -> set[Path]:
    """Segments that ranks which are killed would leave behind, in the node's memory until somebody finds them."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
                path = line.partition("/")[2]
                if path.startswith("dev/shm/") and not path.endswith("(deleted)"):
                    found.add(Path("/" + path))
    return found


def ranks(token: str) -> list[int]:
    """Processes of this host that carry the launch's token in their environment, zombies not counted."""
    mark = f"{TOKEN}={token}".encode()
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


def _is_rank(pid: int) -> bool:
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


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, number)


def _die_with_parent() -> None:
    """A controller killed with SIGKILL cannot clean up: let the kernel end mpiexec, which ends the ranks."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """SIGINT, SIGTERM and SIGHUP are noted in the list, and looked at when it is convenient.

    Raising from a handler could leave a lock locked wherever it struck.
    """
    received: list[int] = list(_held)
    before = {n: signal.signal(n, lambda number, _frame: received.append(number)) for n in ENDING}
    try:
        yield received
    finally:
        _restore(before)


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Hold back the signals that end a launch: a second Ctrl-C must not interrupt the cleaning up.

    The next launch, if there is one, ends by them.
    """
    before = {number: signal.signal(number, lambda number, _frame: _held.append(number)) for number in ENDING}
    try:
        yield
    finally:
        _restore(before)


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        # None is one that is not Python's, as libraries in LD_PRELOAD have: Python cannot give it back.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


def stumbled(ended: Ended) -> bool:
    """Whether Open MPI's launcher failed before it started anything, as it does once in some hundred times."""
    return ended.status > 0 and b"listener thread failed to start" in ended.output


def telling(output: bytes, first: int = 12, last: int = 12) -> list[str]:
    """The first and last lines of a launch's output, without rulers and repetitions: causes and consequences."""
    text = output.replace(b"\0", b"").decode(errors="replace")
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [line for line in dict.fromkeys(lines) if line.strip(" -=*")]
    return kept if len(kept) <= first + last else [*kept[:first], "…", *kept[-last:]]
