"""Put on PYTHONPATH by the tests of faults: harms the ranks from inside, as HARM says, and nothing else."""

import os
import sys

if (
    os.environ.get("HARM")
    and "run" in sys.orig_argv
    and any(name in os.environ for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"))
):
    import harm

    harm.install(os.environ["HARM"])
