"""What one `pingpong run` was asked for, wherever it is carried out."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from pingpong.model import Plan, Session

Show = Callable[[Session, bool], None]


@dataclass
class Request:
    """`show(session, finished)` prints the text, as it grows and at the end; None prints nothing.

    `time_limit` is in seconds. `output` None means a new file in the working folder. `command` is what the user
    typed.
    """

    plan: Plan
    output: Path | None
    command: list[str]
    show: Show | None
    time_limit: float = math.inf
    mpiexec_args: list[str] = field(default_factory=list)
    quiet: bool = False
    verbose: bool = False
    id: str = field(default_factory=lambda: uuid4().hex)
