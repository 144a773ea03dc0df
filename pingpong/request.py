"""What one `pingpong run` was asked for, wherever it is carried out."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import msgspec
from msgspec import structs

from pingpong import store
from pingpong.model import Plan, Session
from pingpong.units import printable

Show = Callable[[Session, bool], None]


@dataclass
class Request:
    """`show(session, finished)` prints the text, as it grows and at the end; None prints nothing.

    `time_limit` is in seconds. `output` None means a new file in the working folder. `command` is what the user
    typed. `launch` is which of the `launches` this process belongs to. `no_native` is why native loops cannot be,
    where that is known already: a compiler that hung is not asked twice.
    """

    plan: Plan
    output: Path | None
    command: list[str]
    show: Show | None
    launches: int = 1
    launch: int = 1
    no_native: str | None = None
    time_limit: float = math.inf
    mpiexec_args: list[str] = field(default_factory=list)
    quiet: bool = False
    verbose: bool = False
    id: str = field(default_factory=lambda: uuid4().hex)

    @property
    def several(self) -> bool:
        return self.launches > 1

    def plan_of(self, launch: int) -> Plan:
        """The plan of a launch: each visits its points in an order of its own, which follows from the one seed."""
        seed = self.plan.seed
        return structs.replace(
            self.plan, seed=seed if launch == 1 else random.Random(f"{seed} {launch}").randrange(2**32)
        )

    def orders(self, launch: int) -> str:
        """What the ranks of a launch are told, as one word of a command line."""
        orders = {"plan": store.to_builtins(self.plan_of(launch)), "launch": launch, "launches": self.launches}
        orders["no_native"] = self.no_native
        orders |= {"command": [printable(word) for word in self.command], "id": self.id}
        return msgspec.json.encode(orders).decode()


def of_orders(text: str, output: Path | None) -> Request:
    """The request of a rank that was launched with these orders."""
    orders = msgspec.json.decode(text)
    told = {name: orders[name] for name in ("command", "launch", "launches", "no_native", "id")}
    return Request(store.from_builtins(orders["plan"], Plan), output, show=None, quiet=True, **told)
