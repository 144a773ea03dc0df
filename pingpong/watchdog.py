"""The end of waiting: a rank that makes no progress says where it hangs, and exits.

A thread that sleeps until the deadline and looks whether it has moved: it wakes once in several seconds and never
touches MPI. mpi4py releases the interpreter inside blocking calls, so it runs while the rank is stuck in one.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pingpong.exits import TIMED_OUT


class Watchdog:
    """Calls `expired(sentence)` and exits with 124 when `arm` was not called again in time."""

    def __init__(self, who: str, expired: Callable[[str], None]) -> None:
        self._who, self._expired = who, expired
        self._deadline = self._limit = float("inf")
        self._main = threading.get_ident()
        self._wake = threading.Event()
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def arm(self, seconds: float) -> None:
        """Allow this many seconds from now."""
        sooner = time.monotonic() + seconds < self._deadline
        self._limit, self._deadline = seconds, time.monotonic() + seconds
        if sooner:
            self._wake.set()

    def disarm(self) -> None:
        self._deadline = float("inf")

    def _run(self) -> None:
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                self._give_up()
            self._wake.clear()
            self._wake.wait(min(left, 3600.0))

    def _give_up(self) -> None:
        frame = sys._current_frames().get(self._main)
        place = (
            f" in {Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}" if frame else ""
        )
        sentence = f"{self._who}: nothing moved for {self._limit:.0f} s{place}; gave up"
        try:
            print(f"pingpong: {sentence}", file=sys.stderr, flush=True)
            self._expired(sentence)
        finally:
            os._exit(TIMED_OUT)
