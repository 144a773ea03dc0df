"""What was set before a launch, in variables and files: what MPI heeds of it, and what is left out.

A transport that is asked for by name means what the list says of it, and nothing else. So whatever else chooses
components, providers, devices or interfaces for its messages is left out of its launches. With the default, and
with flags of the user's own, all of it stays: there it is what the user asks about.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pingpong import environment, parameters
from pingpong.model import HEEDED, Transport, Warn
from pingpong.parameters import FILES
from pingpong.transports import intelmpi, mpich, openmpi, spelling
from pingpong.transports.base import MCA, Concern, Here, TransportError, parse

_CONCERNS: Mapping[str, Callable[[Transport], Concern]] = {
    "Open MPI": openmpi.concern,
    "MPICH": mpich.concern,
    "Intel MPI": intelmpi.concern,
}
# What each of them does not read.
_FOREIGN = {
    "Open MPI": ("MPICH_", "MPIR_", "I_MPI_", "MV2_"),
    "MPICH": ("OMPI_MCA_", "I_MPI_", "MV2_"),
    "Intel MPI": ("OMPI_MCA_", "MPICH_", "MV2_"),
}
# How ranks are started, and what is printed: nothing about the way of their messages.
_OF_LAUNCHERS = (
    "PRTE_MCA_", "PMIX_MCA_", "MPI4PY_", "NCCL_", "I_MPI_HYDRA_", "I_MPI_ROOT", "OMPI_MCA_plm_", "OMPI_MCA_oob_",
    "OMPI_MCA_hwloc_", "OMPI_MCA_orte_", "OMPI_MCA_rmaps_", "OMPI_MCA_ras_", "OMPI_MCA_prte_",
    f"{MCA}{FILES}",
)  # fmt: skip
_PRINTS = re.compile(r"\w*_(?:verbose|warn_\w+|show_\w+|LOG_LEVEL|VERBOSE)|I_MPI_DEBUG\w*|MPIR_CVAR_DEBUG_\w+")


@dataclass(frozen=True)
class Setting:
    """A variable; or a parameter in a `file`, under the name that it would have as a variable."""

    name: str
    value: str
    file: str | None = None

    @property
    def parameter(self) -> str:
        return self.name.removeprefix(MCA)

    @property
    def by_user(self) -> bool:
        """Whether the user has set it, and not who installed MPI."""
        return not self.file or not self.file.endswith("openmpi-mca-params.conf")

    @property
    def assignment(self) -> str:
        """As it stands where it was set."""
        return f"{self.parameter if self.file else self.name}={self.value}"


@dataclass(frozen=True)
class Beside:
    """What was set before a launch, beside what the launch itself sets.

    `misspelt` are sentences. `arguments` keep Open MPI from reading its files, and tell it all of them that stays.
    """

    left_out: Sequence[Setting] = ()
    heeded: Sequence[Setting] = ()
    misspelt: Sequence[str] = ()
    arguments: Sequence[str] = ()

    @property
    def unset(self) -> list[str]:
        """The variables that ranks must not have."""
        return list(dict.fromkeys(setting.name for setting in self.left_out))

    def keeping(self, program: list[str]) -> list[str]:
        """The command of a rank, which keeps the variables from it wherever they come from.

        A daemon on another host has those of a login there, and Open MPI 5 makes variables of what is in files.
        """
        without = [word for name in self.unset for word in ("-u", name)]
        return ["env", *without, *program] if without else program

    @property
    def hint(self) -> str | None:
        """What to do about a launch that failed, or went another way."""
        return f"{told(self.heeded)}; try without" if self.heeded else None

    def warnings(self, transport: Transport | None) -> list[Warn]:
        """What the record of the run says of it: not what the installation always does."""
        found = []
        if self.left_out:
            name = transport.name if transport else ""
            text = f"set beforehand, and left out for {name}: {_listed(self.left_out)}"
            found.append(Warn(code="left-out", text=text))
        if by_user := [setting for setting in self.heeded if setting.by_user]:
            found.append(Warn(code=HEEDED, text=told(by_user)))
        return found + [Warn(code="misspelt", text=text) for text in self.misspelt]


def standing(libraries: Iterable[str], env: Mapping[str, str], here: Here) -> list[Setting]:
    """What is set here for this MPI; `libraries` are the paths of its own."""
    files = parameters.of_messages(libraries, env) if here.mpi == "Open MPI" else {}
    return collect(environment.steering(env), files, here)


def collect(variables: Mapping[str, str], files: Mapping[str, Mapping[str, str]], here: Here) -> list[Setting]:
    """What this MPI may read, the stronger before the weaker: variables, then parameters by file."""
    known = [Setting(name, value) for name, value in variables.items()]
    known += [
        Setting(f"{MCA}{name}", value, file) for file, values in files.items() for name, value in values.items()
    ]
    return [setting for setting in known if not setting.name.startswith(_FOREIGN.get(here.mpi, ()))]


def beside(asked: Transport | None, given: Iterable[str], settings: Sequence[Setting], here: Here) -> Beside:
    """What becomes of the `settings` in a launch of a transport, which itself sets the variables `given`."""
    given = set(given)
    concern = _concern(asked, here)
    ours = [
        setting
        for setting in settings
        if setting.name not in given and _steers(setting.name) and not re.fullmatch(concern.aside, setting.name)
    ]
    left_out = [setting for setting in ours if re.fullmatch(concern.chooses, setting.name)]
    heeded: dict[str, Setting] = {}
    misspelt = []
    for setting in ours:
        if setting in left_out:
            continue
        if slip := spelling.slip(setting.name, here):
            misspelt.append(f"{_listed([setting])} was set beforehand: {slip}")
        else:
            heeded.setdefault(setting.name, setting)
    return Beside(left_out, list(heeded.values()), misspelt, _instead(left_out, given, settings))


def check(arguments: Sequence[str], transports: Iterable[Transport], here: Here) -> None:
    """Raises TransportError where words for mpiexec choose otherwise what a transport chooses itself."""
    given = spelling.variables(Transport(name="", arguments=list(arguments)))
    for transport in transports:
        own, chooses = spelling.variables(transport), _concern(transport, here).chooses
        for name, value in given.items():
            if value not in ("", own[name]) if name in own else re.fullmatch(chooses, name):
                what = f"--mpiexec-args sets {name.removeprefix(MCA)}, which transport {transport.name!r} chooses"
                raise TransportError(f"{what}: leave it out, or choose by -t alone, as in -t 'mine=--mca …'")


def _concern(asked: Transport | None, here: Here) -> Concern:
    """The default, and flags of the user's own, leave all as it is."""
    named = asked and asked.name != "default" and parse(asked.name).name in openmpi.WAYS
    return _CONCERNS[here.mpi](asked) if asked and named else Concern()


def _steers(name: str) -> bool:
    """Whether a variable can have to do with the way of messages."""
    return not name.startswith(_OF_LAUNCHERS) and not _PRINTS.fullmatch(name)


def _instead(left_out: Sequence[Setting], given: set[str], settings: Sequence[Setting]) -> list[str]:
    """Arguments in place of Open MPI's files, if anything in them is left out."""
    if not any(setting.file for setting in left_out):
        return []
    words = ["--mca", FILES, "none"]
    told = given | {setting.name for setting in settings if not setting.file}
    for setting in settings:
        if setting.file and setting.name not in told and setting not in left_out:
            told.add(setting.name)
            words += ["--mca", setting.parameter, setting.value]
    return words


def told(heeded: Sequence[Setting]) -> str:
    """The words for what MPI heeds."""
    return f"set beforehand, and heeded by MPI: {_listed(heeded)}"


def _listed(settings: Sequence[Setting]) -> str:
    """Variables, then the parameters of each file."""
    by_file: dict[str | None, list[str]] = {}
    for setting in settings:
        by_file.setdefault(setting.file, []).append(setting.assignment)
    return "; ".join(", ".join(them) + (f" in {file}" if file else "") for file, them in by_file.items())
