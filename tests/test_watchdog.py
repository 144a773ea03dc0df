"""The watchdog beside a rank that is busy."""

import threading
import time
from pathlib import Path

from pingpong.watchdog import Watchdog


def woken(thread):
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def test_being_armed_takes_no_cpu_from_the_rank():
    """Its thread shares the rank's CPU, and every visit arms it twice."""
    before = set(threading.enumerate())
    dog = Watchdog("rank 0", lambda sentence: None)
    (thread,) = set(threading.enumerate()) - before
    began = woken(thread)
    for seconds in range(300, 0, -1):  # each sooner than the one before
        dog.arm(3600.0 + seconds)
        time.sleep(0.0005)
    assert woken(thread) - began < 30
    dog.disarm()
