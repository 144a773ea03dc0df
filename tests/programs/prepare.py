"""Gets the native loops of one kernel ready as a rank does, runs the empty one, and says what it did."""

import mpi4py

mpi4py.rc.initialize = False

from pingpong import plans  # noqa: E402
from pingpong.kernels import KERNELS  # noqa: E402
from pingpong.measure import clock  # noqa: E402
from pingpong.native import loops, programs  # noqa: E402

absent = loops.prepare(plans.make(kernels=["blocking"], loop="native", sizes="8"), print)
if not absent and programs.is_loaded("blocking", False):
    clock.harness(KERNELS["empty"].loops["native"])
    absent = "ready"
print(absent)
