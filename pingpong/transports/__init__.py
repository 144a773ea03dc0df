"""What can be asked of an MPI, and how: a transport's name becomes mpiexec's arguments and the ranks' variables.

One place to add a transport: `WAYS` in the module of its MPI. The flags are such that MPI fails rather than takes
another way; where an MPI would do so silently, `resolve` refuses beforehand what can be seen beforehand.
"""

import difflib
from collections.abc import Mapping, Sequence

from pingpong.model import Transport
from pingpong.transports import intelmpi, listed, mpich, openmpi, raw, spelling
from pingpong.transports.base import Asked, Entry, Here, TransportError, Way, parse

__all__ = ["NAMES", "Entry", "Here", "TransportError", "available", "check", "listing", "resolve", "speaking"]

_MPIS: Mapping[str, Mapping[str, Way]] = {
    "Open MPI": openmpi.WAYS,
    "MPICH": mpich.WAYS,
    "Intel MPI": intelmpi.WAYS,
}
NAMES = tuple(openmpi.WAYS)  # alike for all MPIs


def resolve(asked: str, here: Here) -> Transport:
    """The transport of this name, or the flags that follow a label and "=".

    Raises TransportError for a name that is none, what cannot be had here, and flags that MPI would ignore.
    """
    if "=" in asked:
        transport = raw.read(asked, NAMES)
        spelling.check(transport, here)
        return transport
    if asked.lstrip().startswith("-"):
        raise TransportError(f"flags need a label: write -t 'mine={asked.strip()}'")
    return _named(parse(asked), here)


def _named(asked: Asked, here: Here) -> Transport:
    ways = _MPIS.get(here.mpi)
    if ways is None and asked.text != "default":
        raise TransportError(f"pingpong knows no transports of {here.mpi}: give flags, as in -t 'mine=NAME=VALUE'")
    if asked.name not in NAMES:
        near = difflib.get_close_matches(asked.name.lower(), NAMES, 1)
        meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(NAMES)}"
        raise TransportError(f"there is no transport {asked.name!r}; {meant}")
    if ways is None:
        return Transport(name=asked.text)
    way = ways[asked.name]
    for sign, given, allowed in ((":", asked.detail, way.detail), ("@", asked.device, way.device)):
        if given and not allowed:
            raise TransportError(f"{asked.text}: {asked.name} takes nothing after {sign!r}")
    flags = way.flags(asked, here)
    return Transport(
        name=asked.text,
        arguments=list(flags.arguments),
        environment=dict(flags.environment),
        carrier=flags.carrier,
    )


def listing(here: Here) -> list[Entry]:
    """All names, and those with a device or a way of UCX or libfabric that can be had here."""
    entries = [_entry(name, needs, here) for name, needs in listed.names(_MPIS.get(here.mpi, {}), here)]
    return [entry for entry in entries if entry.missing is None or entry.name in NAMES]


def check(arguments: Sequence[str], here: Here) -> None:
    """Raises TransportError for flags in --mpiexec-args that MPI would ignore."""
    try:
        spelling.check(Transport(name="", arguments=list(arguments)), here)
    except TransportError as error:
        raise TransportError(f"--mpiexec-args: {error}") from None


def available(here: Here) -> list[str]:
    """Those that can be had. Where this machine is none of the hosts, nothing is known of their devices: then only
    those that need none, or take any.
    """
    return [
        entry.name
        for entry in listing(here)
        if entry.transport and (here.member or (entry.transport.carrier or "net") in ("net", "shm"))
    ]


def _entry(name: str, needs: str, here: Here) -> Entry:
    try:
        return Entry(name, needs, None, _named(parse(name), here))
    except TransportError as error:
        return Entry(name, needs, str(error), None)


def speaking(here: Here) -> Transport:
    """What makes this MPI say which wire it uses, at no cost to messages that are timed.

    Open MPI 5 is asked at the end: at the start it would make connections before the first message, which is
    timed. UCX says one line a connection while it is made. MPICH and Intel MPI speak when they start.
    """
    arguments: list[str] = []
    environment: dict[str, str] = {}
    if here.mpi == "Open MPI" and here.major >= 5:
        arguments = ["--mca", "ompi_display_comm", "mpi_finalize"]
    elif here.mpi == "Open MPI":
        arguments = ["--mca", "pml_base_verbose", "10"]
        environment = {"UCX_LOG_LEVEL": "info"}
    elif here.mpi == "MPICH":
        environment = {"MPIR_CVAR_DEBUG_SUMMARY": "1", "UCX_LOG_LEVEL": "info"}
    elif here.mpi == "Intel MPI":
        environment = {"I_MPI_DEBUG": "5"}
    return Transport(name="speaking", arguments=arguments, environment=environment)
