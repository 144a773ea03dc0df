"""What one `pingpong run` was asked for, wherever it is carried out."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
from msgspec import structs

from pingpong import store
from pingpong.model import Plan, Session, Transport, Warn
from pingpong.units import printable

Show = Callable[[Session, bool], None]


class Job(NamedTuple):
    """One launch: its number in the session, from 1 on, and what is asked of MPI in it."""

    number: int
    transport: Transport | None


@dataclass
class Request:
    """`show(session, finished)` prints the text, as it grows and at the end; None prints nothing.

    `time_limit` is in seconds. `output` None means a new file in the working folder. `command` is what the user
    typed, `words` the options in it that say what to measure. `launches` is how often each transport is launched,
    or the one that MPI chooses where nothing is asked. `asked` are the transports by name, `transports` what they
    are with this MPI; `require` "confirmed" makes it a failure when a wire cannot be proved. `hosts` are where the
    ranks go; none means here. `no_native` is why native loops cannot be, where that is known already: a compiler
    that hung is not asked twice.

    `launch` and `transport` are what a rank was launched for, `warnings` what its record says of that from the
    start; `machine` is the one that launched it. With `bind` it binds itself to a core.
    """

    plan: Plan
    output: Path | None
    command: list[str]
    show: Show | None
    launches: int = 1
    asked: list[str] = field(default_factory=list)
    all_available: bool = False
    require: str | None = None
    dry_run: bool = False
    words: list[str] = field(default_factory=list)
    transports: list[Transport] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    launch: int = 1
    transport: Transport | None = None
    machine: str | None = None
    bind: bool = False
    no_native: str | None = None
    warnings: list[Warn] = field(default_factory=list)
    time_limit: float = math.inf
    mpiexec_args: list[str] = field(default_factory=list)
    quiet: bool = False
    verbose: bool = False
    id: str = field(default_factory=lambda: uuid4().hex)

    def jobs(self) -> list[Job]:
        """All launches in their order: round after round, each with every transport once, in a shuffled order.

        So whatever drifts on the machine meets all of them alike.
        """
        order: list[Transport | None] = []
        for number in range(self.launches):
            each = list(self.transports)
            random.Random(f"{self.plan.seed} round {number}").shuffle(each)
            order += each or [None]
        return [Job(number, transport) for number, transport in enumerate(order, 1)]

    def plan_of(self, launch: int) -> Plan:
        """The plan of a launch: each visits its points in an order of its own, which follows from the one seed."""
        seed = self.plan.seed
        return structs.replace(
            self.plan, seed=seed if launch == 1 else random.Random(f"{seed} {launch}").randrange(2**32)
        )

    def orders(self, job: Job, machine: str | None, warnings: Sequence[Warn] = ()) -> str:
        """What the ranks of a launch from `machine` are told, as one word of a command line."""
        orders: dict[str, Any] = {"plan": store.to_builtins(self.plan_of(job.number)), "launch": job.number}
        orders["transport"] = store.to_builtins(job.transport) if job.transport else None
        orders |= {"hosts": self.hosts, "machine": machine, "no_native": self.no_native}
        orders["warnings"] = [store.to_builtins(each) for each in warnings]
        orders |= {"command": [printable(word) for word in self.command], "id": self.id}
        return store.encode(orders).decode()


def of_orders(text: str, output: Path | None, bind: bool = False) -> Request:
    """The request of a rank that was launched with these orders."""
    orders = msgspec.json.decode(text)
    asked = orders.pop("transport")
    orders["transport"] = store.from_builtins(asked, Transport) if asked else None
    orders["warnings"] = [store.from_builtins(each, Warn) for each in orders["warnings"]]
    return Request(
        store.from_builtins(orders.pop("plan"), Plan), output, show=None, quiet=True, bind=bind, **orders
    )
