"""One mpiexec, from start to an end that is sure: limits kept, output kept, nothing left running."""

import contextlib
import ctypes
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pingpong import relay, temporary
from pingpong.processes import STOPPED, carrying, clean, crowded, is_rank, kill, state

START_LIMIT = 90.0  # seconds until the first sign of life: a rank gives up after 60 and says where
GRACE = 2.0  # seconds beyond what the ranks' own watchdogs wait
STOPPED_LIMIT = 5.0  # seconds that a rank may be seen stopped (SIGSTOP)
GONE_LIMIT = 3.0  # seconds that mpiexec gets to notice that its ranks have ended
GONE = "the ranks have ended, and mpiexec hangs"
SILENT = "nothing moved"
TERMINATE, KILL = 5.0, 8.0  # seconds: mpiexec gets the first to clean up, then everything is killed
POLL = 0.25
# What MPIs were asked to say about the wire (transports.speaking): it is kept elsewhere, and would hide the rest.
_CHATTER = re.compile(
    r"UCX  (?:INFO|DIAG) |^====|^MPI(?:DI?|R)[_:/].*: \S+$|^sizeof\(|^tag_bits: "
    r"|mca: base: |^\S+ select: |\] MPI startup\(\): "
)
# What faulthandler prints where a rank hangs in a call that holds the interpreter: it would explain nothing.
HUNG = re.compile(rb"[^\n]*Timeout \(0:01:00\)!\n(?:[^\n]*(?:Thread 0x|  File \")[^\n]*\n)*")
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_held: list[int] = []  # signals that came while nothing was launched


@dataclass
class Ended:
    """How a launch ended: exit status (negative for a signal), output, and the limit or signal that ended it.

    `useless` is why it was ended before any limit. `token` is what everything that it started carries in its
    environment.
    """

    status: int
    output: bytes
    limit: str | None = None
    useless: str | None = None
    signal: int | None = None
    command: list[str] = field(default_factory=list)
    token: str = ""


class UselessError(Exception):
    """Why it is no use to go on with a launch, in one sentence."""


class Limit(NamedTuple):
    """The longest that a launch may take, and the sentence to say if it did."""

    seconds: float
    text: str


def launch(
    command: list[str],
    env: dict[str, str],
    limit: Limit,
    alive: Callable[[bytes], float | None],
    heed: bool = True,
) -> Ended:
    """Run `command` to its end, which comes at the limit at the latest.

    `alive(output)` is called every POLL seconds with what was printed since the last call: it returns the
    patience in seconds if there was a sign of life, else None; UselessError from it ends the launch. SIGINT and
    SIGTERM of this process end the launch too (unless it is not to `heed` them) and are reported, not raised.
    """
    began = time.time()
    token = temporary.new_token()
    ended = Ended(-1, b"", command=command, token=token)
    folder = temporary.make(token)
    env = env | {temporary.TOKEN: token} | ({"TMPDIR": str(folder)} if folder else {})
    with tempfile.TemporaryFile() as output, _signals() as received:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        try:
            heard = _Output(output.fileno())
            ended.limit = _wait(process, token, limit, lambda: alive(heard.more()), received if heed else [])
        except UselessError as error:
            ended.useless = str(error)
        finally:
            ended.signal = received[0] if received and heed else None
            _end(process, token, began)
        with contextlib.suppress(UselessError):
            alive(heard.more())
        ended.status = process.returncode
        output.seek(0)
        ended.output = output.read()
    return ended


class _Output:
    """What a launch prints into a file, piece by piece."""

    def __init__(self, file: int) -> None:
        self._file, self._read = file, 0

    def more(self) -> bytes:
        """What is there since the last time."""
        found = os.pread(self._file, max(0, os.fstat(self._file).st_size - self._read), self._read)
        self._read += len(found)
        return found


def _wait(
    process: "subprocess.Popen[bytes]",
    token: str,
    limit: Limit,
    alive: Callable[[], float | None],
    received: list[int],
) -> str | None:
    """Until the process ends or a signal comes (None), or a limit is passed (the sentence that says which)."""
    begun = sign = time.monotonic()
    patience, started, ranks_state = START_LIMIT, False, _Ranks(process.pid, token)
    while True:
        if _ended(process) or received:
            return None
        now = time.monotonic()
        moved = alive()
        if moved is not None:
            sign, patience, started = now, moved + GRACE, True
        # Looking at all processes takes time on cores that are being measured: only while nothing is.
        stopped = ranks_state.stopped(now) if not started or now - sign > 1 else None
        if stopped:
            return stopped
        if now - begun > limit.seconds:
            return limit.text
        if now - sign > patience:
            return f"{SILENT} for {now - sign:.0f} s, nor was a rank heard to give up{crowded()}"


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

    def stopped(self, now: float) -> str | None:
        """The sentence if a rank is stopped. Raises UselessError if all have ended and mpiexec has not noticed."""
        pids = [pid for pid in carrying(self._token) if pid != self._mpiexec and is_rank(pid)]
        stopped = [pid for pid in pids if state(pid) in STOPPED]
        self._seen = self._seen or bool(pids)
        self._stopped_since = (self._stopped_since or now) if stopped else None
        # On other hosts only there would be none here from the start.
        self._gone_since = (self._gone_since or now) if self._seen and not pids else None
        if self._stopped_since and now - self._stopped_since > STOPPED_LIMIT:
            return f"process {stopped[0]} is stopped (SIGSTOP) and nothing moves"
        if self._gone_since and now - self._gone_since > GONE_LIMIT:
            raise UselessError(GONE)
        return None


def _end(process: "subprocess.Popen[bytes]", token: str, began: float) -> None:
    """End the process if it runs, and whatever it started here: politely, then for sure."""
    deadline = time.monotonic() + KILL
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        # A stopped rank cannot act on what mpiexec passes on; woken up, it would go on measuring.
        for pid in carrying(token):
            if state(pid) in STOPPED:
                kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TERMINATE)
    while (left := carrying(token)) or process.poll() is None:
        if time.monotonic() > deadline - KILL + TERMINATE:
            for pid in left:
                kill(pid, signal.SIGKILL)
            if process.poll() is None:  # else its number may be somebody else's by now
                _signal_group(process.pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            break  # unkillable: in the kernel's hands
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
        time.sleep(0.02)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
    clean(token, began)


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
        _held[:] = received


def held() -> int | None:
    """The signal that came since this process began to launch, if one did: nothing more should be started."""
    return _held[0] if _held else None


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Hold back the signals that end a launch: a second Ctrl-C must not interrupt the cleaning up."""
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
    text = relay.without(HUNG.sub(b"", output)).replace(b"\0", b"").decode(errors="replace")
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [line for line in dict.fromkeys(lines) if line.strip(" -=*") and not _CHATTER.search(line)]
    return kept if len(kept) <= first + last else [*kept[:first], "…", *kept[-last:]]
