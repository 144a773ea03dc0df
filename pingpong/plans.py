"""From what the user asked to a Plan, and from a Plan to its points; everything that can be refused in advance."""

import difflib
import random
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pingpong.kernels import KERNELS, names
from pingpong.model import Plan, Point, Warn
from pingpong.units import parse_sizes, perturb, size_text

SIZES = "8:8M"
LOOPS = ["native", "mpi4py"]
BUDGET = 5.5  # seconds of measuring
UNKNOWN_CACHE = 2**28  # bytes: as much as the largest have
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
    steps: int | None = None,
    cache: Literal["warm", "cold"] = "warm",
    loop: str | None = None,
) -> Plan:
    """The plan of a request. Raises PlanError, UnitError."""
    chosen = parse_sizes(sizes)
    if perturbation is not None:
        chosen = perturb(chosen, perturbation)
    method = _method(samples, seconds, classic, lead_in, steps)
    plan = Plan(
        kernels=_kernels(kernels),
        sizes=chosen,
        method=method,
        budget=BUDGET,
        samples=samples,
        lead_in=lead_in,
        steps=steps,
        cache=cache,
        seconds=seconds,
        seed=random.SystemRandom().randrange(2**32) if seed is None else seed,
        loops=_loops(loop, method),
        needs_native=loop == "native",
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


def _loops(asked: str | None, method: str) -> list[str]:
    """Native first: what the log shows comes first where the order of points is kept."""
    if asked == "both" and method == "duration":
        raise PlanError("-D measures one loop: choose --loop native or --loop mpi4py")
    if asked in LOOPS:
        return [asked]
    return LOOPS[:1] if method == "duration" else LOOPS


def _method(
    samples: int | None, seconds: float | None, classic: bool, lead_in: int | None, steps: int | None
) -> str:
    given = {"-n": samples is not None, "-D": seconds is not None, "--classic": classic}
    several = [flag for flag, there in given.items() if there]
    if len(several) > 1:
        raise PlanError(f"{' and '.join(several)} exclude each other: each fixes how much is measured")
    if classic and lead_in is not None:
        raise PlanError("--classic has no lead-in: leave out -x")
    if classic and steps is not None:
        raise PlanError("--classic times one step: leave out --steps")
    return "classic" if classic else "duration" if seconds is not None else "fixed" if samples else "visits"


class Absent(NamedTuple):
    """A native loop that cannot be: of a kernel, with `large` counts or not, and why."""

    kernel: str
    large: bool
    reason: str


def is_large(size: int) -> bool:
    """Whether messages of so many bytes need the calls with large counts (MPI 4)."""
    return size > LARGEST_COUNT


def native_variants(plan: Plan) -> list[tuple[str, bool]]:
    """The native loops that a plan asks for: kernel, and whether with large counts."""
    if "native" not in plan.loops:
        return []
    return [(k, large) for k in plan.kernels for large in dict.fromkeys(map(is_large, plan.sizes))]


def without_twin(plan: Plan) -> list[Absent]:
    """The native loops that nobody has written."""
    return [Absent(k, large, "it has none") for k, large in native_variants(plan) if KERNELS[k].native is None]


def absent_all(plan: Plan, reason: str | None) -> list[Absent]:
    """All native loops of the plan, if there is a reason."""
    return [Absent(*variant, reason) for variant in native_variants(plan)] if reason else []


def native_refusal(plan: Plan, absent: Sequence[Absent]) -> str | None:
    """What to say where native loops were asked for and some cannot be, or None."""
    if not plan.needs_native or not absent:
        return None
    return f"{native_warnings(plan, absent)[0].text}; --loop mpi4py does without"


def native_warnings(plan: Plan, absent: Sequence[Absent]) -> list[Warn]:
    """One sentence for each reason for which native loops are missing."""
    by_reason: dict[str, list[Absent]] = {}
    for each in absent:
        by_reason.setdefault(each.reason, []).append(each)
    found = []
    for reason, those in by_reason.items():
        what = "no native loop"
        if len(those) < len(native_variants(plan)):
            large = f" over {size_text(LARGEST_COUNT + 1)} bytes" if all(each.large for each in those) else ""
            what += f" for {', '.join(dict.fromkeys(each.kernel for each in those))}{large}"
        found.append(Warn(code="native", text=f"{what}: {reason}"))
    return found


def points(plan: Plan, absent: Sequence[Absent] = ()) -> list[Point]:
    """The points of a plan in the order of the log: by kernel, by loop, then by size.

    Where the native loop is absent, the mpi4py loop stands in for it.
    """
    missing = {(each.kernel, each.large) for each in absent}

    def has(kernel: str, loop: str, size: int) -> bool:
        gone = "native" in plan.loops and (kernel, is_large(size)) in missing
        return gone or loop in plan.loops if loop == "mpi4py" else loop in plan.loops and not gone

    return [
        Point(
            kernel=kernel.name,
            loop=loop,
            size=size,
            legs=kernel.legs,
            messages=kernel.messages,
            directions=kernel.directions,
            time=kernel.time,
            params={"cache": "cold"} if plan.cache == "cold" else {},
        )
        for kernel in (KERNELS[name] for name in plan.kernels)
        for loop in LOOPS
        for size in plan.sizes
        if has(kernel.name, loop, size)
    ]


def buffers_needed(plan: Plan) -> tuple[int, int]:
    """Send and receive buffers that a rank needs, each of the largest size."""
    chosen = [KERNELS[name] for name in plan.kernels]
    return max(k.sends for k in chosen), max(k.receives for k in chosen)


def pool_for(plan: Plan, last_level_caches: Sequence[int | None]) -> int | None:
    """Bytes that each buffer walks through in a plan with a cold cache: twice what any of the caches holds."""
    if plan.cache == "warm":
        return None
    largest = max((size for size in last_level_caches if size), default=UNKNOWN_CACHE)
    return 2 * max(largest, *plan.sizes)


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
    buffers, each = sum(buffers_needed(plan)), plan.pool or largest
    need = ranks * buffers * each
    if memory is not None and need > 0.9 * memory:
        smaller = "fewer kernels (-k) or smaller sizes (-m)" if plan.pool else "smaller sizes (-m)"
        return (
            f"{ranks} ranks with {buffers} buffers of {size_text(each)} bytes need "
            f"{need / 2**30:.1f} GiB, and this host has {memory / 2**30:.1f} GiB free; ask for {smaller}"
        )
    return None
