"""One of two ranks of a preflight: it says what it found, step by step, and tries to meet the other one.

Each step is told before the next is tried, because whatever is wrong may end or stop this process there.
"""

import faulthandler
import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from pingpong import environment, launchers, temporary
from pingpong.doctor.facts import LARGE, PATIENCE, SMALL, Survey
from pingpong.doctor.lines import tell
from pingpong.doctor.survey import gather
from pingpong.guard import Guard

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

LAST_WORDS = 0.3  # seconds for the launcher to pass on what was printed


def main(folder: Path, bind: bool) -> int:
    """Survey this host, start MPI and exchange messages; the exit code. With `bind` take a core, as runs do."""
    _leave_later()
    start = launchers.started_by(os.environ)
    temporary.settle()
    guard = Guard()
    if bind:
        environment.bind((start and start.rank) or 0)
    survey = gather(start, folder)
    tell(survey)
    try:
        _meet(survey)
    except Exception as error:  # of MPI, or of loading it: the other rank must not wait
        survey.trouble = " ".join(str(error).split())
        tell(survey)
        time.sleep(LAST_WORDS)
        return 1
    guard.release()
    if not survey.sees and (token := os.environ.get(temporary.TOKEN)):
        temporary.remove(token)
    return 0


def _leave_later() -> None:
    """End this process when its time is over, whatever it waits in: MPI holds the interpreter while it starts.

    faulthandler's own thread can; its traceback would explain nothing.
    """
    faulthandler.dump_traceback_later(PATIENCE, exit=True, file=Path(os.devnull).open("w"))  # noqa: SIM115


def _meet(survey: Survey) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mpi4py

        mpi4py.rc.initialize = False
        mpi4py.rc.thread_level = "single"
        from mpi4py import MPI
    name, version = MPI.get_vendor()
    survey.library, survey.stage = f"{name} {'.'.join(map(str, version))}", "loaded"
    tell(survey)
    _leave_later()
    MPI.Init_thread(MPI.THREAD_SINGLE)
    survey.stage, survey.size = "initialised", MPI.COMM_WORLD.size
    tell(survey)
    if survey.size != 2:
        MPI.Finalize()
        return
    try:
        _exchange(MPI.COMM_WORLD, SMALL)
        survey.stage = "met"
        tell(survey)
        _exchange(MPI.COMM_WORLD, LARGE)
        survey.stage = "moved"
        tell(survey)
    except MPI.Exception as error:
        survey.trouble = " ".join(str(error).split())
        tell(survey)
        time.sleep(LAST_WORDS)
        MPI.COMM_WORLD.Abort(1)
    MPI.Finalize()


def _exchange(world: "Intracomm", size: int) -> None:
    """A message there and back."""
    buffer = bytearray(size)
    for sender in (0, 1):
        if world.rank == sender:
            world.Send(buffer, 1 - sender)
        else:
            world.Recv(buffer, sender)
