"""What moved, and what that proves: pure functions over what the counters said.

Reading the counters is `evidence.sources` and `evidence.counters`; what MPI itself printed, `evidence.said`.
"""

from pingpong.evidence.alarms import warnings
from pingpong.evidence.case import Finding
from pingpong.evidence.runs import of_point, of_run

__all__ = ["Finding", "of_point", "of_run", "warnings"]
