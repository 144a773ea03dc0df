"""The end of waiting: a rank that makes no progress says where it hangs, and exits.

A thread that looks once a second whether the deadline has moved, and never touches MPI. mpi4py releases the
interpreter inside blocking calls, so it runs while the rank is stuck in one.
"""

import math
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pingpong import sysfs
from pingpong.exits import TIMED_OUT
from pingpong.processes import crowded
from pingpong.say import say

LATE = 1.0  # seconds


class Watchdog:
    """Calls `expired(sentence)` and exits with 124 if `arm` is not called again in time, or after `time_limit`.

    The sentence says so if the interface of the `carrier` ("net:ib0") that was asked for is down.
    """

    def __init__(
        self,
        who: str,
        expired: Callable[[str], None],
        time_limit: float = math.inf,
        carrier: str | None = None,
    ) -> None:
        self._who, self._expired, self._time_limit, self._carrier = who, expired, time_limit, carrier
        self._end = time.monotonic() + time_limit
        self._deadline = self._patience = math.inf
        self._main = threading.get_ident()
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def arm(self, seconds: float) -> None:
        """Allow this many seconds from now, or up to LATE more where it was armed for longer before.

        Waking the thread would take the CPU from the rank, with every visit.
        """
        self._patience, self._deadline = seconds, time.monotonic() + seconds

    def disarm(self) -> None:
        """Wait no longer for anything."""
        self._deadline = self._end = math.inf

    def _run(self) -> None:
        while True:
            now = time.monotonic()
            if now >= self._end:
                self._give_up(f"the time limit of {self._time_limit:g} s is over")
            if now >= self._deadline:
                self._give_up(f"nothing moved for {self._patience:.0f} s{self._place()}; gave up{self._why()}")
            time.sleep(min(self._deadline - now, self._end - now, LATE))

    def _why(self) -> str:
        """What can be seen here of why nothing moves."""
        kind, _, name = (self._carrier or "").partition(":")
        state = sysfs.down(name) if kind == "net" and name else None
        return f": {name} is {state} here" if state else crowded()

    def _place(self) -> str:
        frame = sys._current_frames().get(self._main)
        if frame is None:
            return ""
        return f" in {Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"

    def _give_up(self, why: str) -> None:
        sentence = f"{self._who}: {why}"
        try:
            say(sentence)
            self._expired(sentence)
        finally:
            os._exit(TIMED_OUT)
