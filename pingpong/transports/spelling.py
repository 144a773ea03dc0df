"""Names in raw flags that MPI does not know, and would ignore without a word.

A name is refused only where it is a slip of the pen from one that the installation knows: not all valid names can
be listed (parameters of the runtime, of components that are not built in), and those must pass.
"""

from collections.abc import Iterable, Iterator

from pingpong.model import Transport
from pingpong.transports.base import MCA, Here, TransportError
from pingpong.transports.ofi import PROVIDERS

_OPTIONS = ("mca", "gmca", "omca")  # --prtemca and --pmixmca are the runtime's own
# Frameworks of PRRTE and PMIx (and of ORTE, whose names Open MPI 5 translates): ompi_info does not list them.
_RUNTIME = frozenset(
    ("errmgr", "ess", "filem", "grpcomm", "iof", "odls", "oob", "orte", "plm", "prte", "prtebacktrace", "prtedl",
     "prteif", "prteinstalldirs", "prtereachable", "propagate", "ras", "regx", "rmaps", "rml", "routed", "rtc",
     "schizo", "snapc", "sstore", "state", "hwloc", "if", "event", "dpm",
     "bfrops", "gds", "pcompress", "pdl", "pfexec", "pgpu", "pif", "pinstalldirs", "plog", "pmdl", "pmix", "pnet",
     "preg", "prm", "psec", "psensor", "pshmem", "psquash", "pstat", "pstrg", "ptl")
)  # fmt: skip
# Components that this Open MPI may lack: their names, and those of their parameters, are no slips.
_COMPONENTS = frozenset(
    ("accelerator", "acoll", "bfo", "cuda", "fca", "ftagree", "hcoll", "knem", "ml", "mxm", "openib", "portals4",
     "psm", "psm2", "pt2pt", "scif", "self", "sm", "smcuda", "tcp", "ucc", "ucx", "uct", "ugni", "usnic", "vader",
     "xhc", "xpmem", "yalla")
)  # fmt: skip
_SELECTED = ("pml", "btl", "mtl", "osc", "smsc", "coll", "bml", "io", "topo")  # by lists of components
_RENAMED = {("btl", "sm"): "vader", ("btl", "vader"): "sm"}


def check(transport: Transport, here: Here) -> None:
    """Raises TransportError for a slip in the name of a parameter, framework, component or variable."""
    if here.mpi == "Open MPI":
        for name, value in _parameters(transport):
            _parameter(name, here)
            _selection(name, value, here)
    for name in _variables(transport):
        _variable(name, here)


def slip(variable: str, here: Here) -> str | None:
    """What is wrong with the name of a variable, if it is a slip."""
    try:
        if not variable.startswith(MCA):
            _variable(variable, here)
        elif here.mpi == "Open MPI":
            _parameter(variable.removeprefix(MCA), here)
    except TransportError as error:
        return str(error)
    return None


def variables(transport: Transport) -> dict[str, str]:
    """The variables that a transport sets or passes on, parameters among them as if they were some."""
    return dict(_settings(transport)) | {f"{MCA}{name}": value for name, value in _parameters(transport)}


def _parameters(transport: Transport) -> Iterator[tuple[str, str]]:
    words = transport.arguments
    for option, name, value in zip(words, words[1:], words[2:], strict=False):
        if option.startswith("-") and option.lstrip("-") in _OPTIONS:
            yield name, value
    for name, value in _settings(transport):
        if name.startswith(MCA):
            yield name.removeprefix(MCA), value


def _settings(transport: Transport) -> Iterator[tuple[str, str]]:
    """Variables and their values, also those given as options: -x NAME=VALUE, -genv NAME VALUE."""
    yield from transport.environment.items()
    words = transport.arguments
    for n, option in enumerate(words):
        after = [*words[n + 1 : n + 3], "", ""]
        if option in ("-x", "--x"):
            name, _, value = after[0].partition("=")
            yield name, value
        elif option in ("-genv", "-env"):
            name, found, value = after[0].partition("=")
            yield name, value if found else after[1]


def _variables(transport: Transport) -> Iterator[str]:
    return (name for name, _ in _settings(transport) if not name.startswith(MCA))


def _parameter(name: str, here: Here) -> None:
    known = here.has.parameters
    framework, _, rest = name.partition("_")
    component = rest.partition("_")[0]
    absent = _COMPONENTS - here.has.components.get(framework, frozenset())
    # Names that begin with opal_common_ are valid, and not listed.
    if name in known or framework in _RUNTIME or component in absent or name.startswith("opal_common_"):
        return
    if near := _near(name, known):
        what = "MCA parameter" if "_" in name else "MCA parameter or framework"
        raise TransportError(f"there is no {what} {name!r} in this Open MPI; did you mean {near!r}?")


def _selection(framework: str, value: str, here: Here) -> None:
    """The components in a list; one that is not built in does harm where it is chosen, not where left out."""
    known = here.has.components.get(framework, frozenset())
    if framework not in _SELECTED or not known:
        return
    excluding = value.startswith("^")
    for name in value.lstrip("^").split(","):
        if not name or name in known or (excluding and name in _COMPONENTS):
            continue
        near = _RENAMED.get((framework, name)) or _near(name, known)
        if near:
            raise TransportError(f"this Open MPI has no {framework} {name!r}; did you mean {near!r}?")
        if not excluding:
            has = "it was removed in Open MPI 5: use ucx" if name == "openib" and here.major >= 5 else ""
            raise TransportError(
                f"this Open MPI has no {framework} {name!r}; {has or 'it has ' + ', '.join(sorted(known))}"
            )


def _variable(name: str, here: Here) -> None:
    known = here.has.variables
    middle = f"{name}__".split("_")[1]
    if name in known or (
        name.startswith("FI_") and middle.lower() in PROVIDERS and not _has(f"FI_{middle}_", known)
    ):
        return
    if near := _near(name, known):
        raise TransportError(f"there is no variable {name!r}; did you mean {near!r}?")


def _has(prefix: str, known: Iterable[str]) -> bool:
    return any(name.startswith(prefix) for name in known)


def _near(name: str, known: Iterable[str]) -> str | None:
    """The known name that is one slip away."""
    return min((one for one in known if _one_slip(name, one)), default=None)


def _one_slip(one: str, other: str) -> bool:
    """One letter left out, added or replaced, or two exchanged; another number is another name."""
    if abs(len(one) - len(other)) > 1:
        return False
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    if one.isdigit() and other.isdigit():
        return False
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])
