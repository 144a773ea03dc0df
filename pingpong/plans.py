"""From what the user asked to a Plan, and from a Plan to its points; everything that can be refused in advance."""

import difflib
import random
from collections.abc import Iterable, Sequence

from pingpong.kernels import KERNELS, names
from pingpong.model import Plan, Point
from pingpong.units import parse_sizes, perturb, size_text

SIZES = "8:8M"
BUDGET = 10.0  # seconds of measuring
LARGEST_COUNT = 2**31 - 1  # of an MPI without the large counts of MPI 4


class PlanError(ValueError):
    """A request that makes no sense; the message is one sentence for the user."""


def make(
    *,
    kernels: Sequence[str] = (),
    sizes: str = SIZES,
    perturbation: int | None = None,
    samples: int | None = None,
    lead_in: int | None = None,
    seconds: float | None = None,
    classic: bool = False,
    seed: int | None = None,
) -> Plan:
    """The plan of a request. Raises PlanError, UnitError."""
    chosen = parse_sizes(sizes)
    if perturbation is not None:
        chosen = perturb(chosen, perturbation)
    plan = Plan(
        kernels=_kernels(kernels),
        sizes=chosen,
        method=_method(samples, seconds, classic, lead_in),
        budget=BUDGET,
        samples=samples,
        lead_in=lead_in,
        seconds=seconds,
        seed=random.SystemRandom().randrange(2**32) if seed is None else seed,
    )
    if seconds is not None and len(plan.kernels) * len(plan.sizes) != 1:
        raise PlanError("-D measures one kernel at one size: name them, as in -D 10 -k blocking -m 8")
    return plan


def _kernels(asked: Iterable[str]) -> list[str]:
    known = names()
    chosen = [name.strip() for text in asked for name in text.split(",")]
    for name in chosen:
        if name not in known:
            near = difflib.get_close_matches(name.lower(), known, 1, 0.4)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise PlanError(f"there is no kernel {name!r}; {hint}Kernels: {', '.join(known)}")
    return list(dict.fromkeys(chosen)) or known


def _method(samples: int | None, seconds: float | None, classic: bool, lead_in: int | None) -> str:
    given = {"-n": samples is not None, "-D": seconds is not None, "--classic": classic}
    several = [flag for flag, there in given.items() if there]
    if len(several) > 1:
        raise PlanError(f"{' and '.join(several)} exclude each other: each fixes how much is measured")
    if classic and lead_in is not None:
        raise PlanError("--classic has no lead-in: leave out -x")
    return "classic" if classic else "duration" if seconds is not None else "fixed" if samples else "visits"


def points(plan: Plan) -> list[Point]:
    """The points of a plan in the order of the log: by kernel, then by size."""
    return [
        Point(
            kernel=kernel.name,
            loop=loop,
            size=size,
            legs=kernel.legs,
            messages=kernel.messages,
            directions=kernel.directions,
            time=kernel.time,
        )
        for kernel in (KERNELS[name] for name in plan.kernels)
        for loop in kernel.loops
        for size in plan.sizes
    ]


def buffers_needed(plan: Plan) -> tuple[int, int]:
    """Send and receive buffers that a rank needs, each of the largest size."""
    chosen = [KERNELS[name] for name in plan.kernels]
    return max(k.sends for k in chosen), max(k.receives for k in chosen)


def refusal(plan: Plan, mpi: str, standard: Sequence[int], ranks: int, memory: int | None) -> str | None:
    """Why `ranks` ranks on one host with `memory` free bytes and this MPI cannot carry out the plan, or None.

    `mpi` is name and version for the sentence, `standard` the MPI standard's version that it implements. Counts
    beyond 2^31 - 1 came with MPI 4; mpi4py uses them where they are.
    """
    largest = max(plan.sizes)
    if largest > LARGEST_COUNT and tuple(standard) < (4, 0):
        return (
            f"messages of {largest} bytes need MPI 4 (large counts), and {mpi} implements MPI "
            f"{'.'.join(map(str, standard))}; the largest size here is {LARGEST_COUNT}"
        )
    need = ranks * sum(buffers_needed(plan)) * largest
    if memory is not None and need > 0.9 * memory:
        return (
            f"{ranks} ranks with {sum(buffers_needed(plan))} buffers of {size_text(largest)} bytes need "
            f"{need / 2**30:.1f} GiB, and this host has {memory / 2**30:.1f} GiB free; ask for smaller sizes (-m)"
        )
    return None
