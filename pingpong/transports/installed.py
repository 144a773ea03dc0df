"""What an MPI has built in: asked of the very installation, once in a process. Unknown is None or empty."""

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

_LIMIT = 20.0  # seconds
_PROBE = Path(__file__).with_name("probe.py")
# A choice that the user made would hide what else there is.
_CHOICES = (
    "OMPI_MCA_", "FI_PROVIDER", "FI_LOG_", "UCX_", "MPI_UCX_", "I_MPI_DEBUG", "I_MPI_OFI_PROVIDER",
    "MPIR_CVAR_DEBUG",
)  # fmt: skip
_FI_PATH = "FI_PROVIDER_PATH"


@dataclass(frozen=True)
class Installed:
    """An MPI and the libraries below it.

    Of Open MPI: `components` by framework, `parameters` (names and synonyms), and the `folder` of its components.
    `providers` are libfabric's own, `usable` those that found a device on this machine, with its name. `library`
    is what the MPI says it is. `variables` are those that the libraries read.
    """

    components: Mapping[str, frozenset[str]] = field(default_factory=dict)
    parameters: frozenset[str] = frozenset()
    folder: str = ""
    providers: frozenset[str] | None = None
    usable: tuple[tuple[str, str], ...] | None = None
    library: str = ""
    variables: frozenset[str] = frozenset()


@functools.cache
def of(mpi: str, launcher: Path) -> Installed:
    """What `mpi`, whose mpiexec is `launcher`, has built in."""
    own = Installed()
    if mpi == "Open MPI":
        own = parse_ompi_info(_said([str(_beside(launcher, "ompi_info")), "--parsable", "--all"]))
    found = _probe(_later(mpi, own))
    variables = set(found.get("ucx", ())) | set(found.get("fi", ()))
    if mpi != "Open MPI":
        libraries = [Path(path) for path in found.get("mapped", ()) if "/libmpi" in path]
        programs = ("mpiexec.hydra", "hydra_bstrap_proxy", "hydra_pmi_proxy")
        variables |= names_in([*libraries, *(_beside(launcher, name) for name in programs)])
    usable = found.get("usable")
    return replace(
        own,
        providers=frozenset(found["providers"]) if "providers" in found else None,
        usable=tuple((provider, domain) for provider, domain in usable) if usable is not None else None,
        library=found.get("library", ""),
        variables=frozenset(variables),
    )


def _beside(launcher: Path, name: str) -> Path:
    """A program of the launcher's folder, which may hold a link into another one."""
    folders = [launcher.parent, launcher.resolve().parent]
    return next((folder / name for folder in folders if (folder / name).exists()), launcher.parent / name)


def parse_ompi_info(text: str) -> Installed:
    """Of `ompi_info --parsable --all`: components, parameters and their folder."""
    components: dict[str, set[str]] = {}
    parameters: set[str] = set()
    folder = ""
    for line in text.splitlines():
        if match := re.match(r"mca:(\w+):(\w+):(?:version:|param:(\w+):(?:synonym:name:(.*))?)", line):
            framework, component, *names = match.groups()
            components.setdefault(framework, set()).add(component)
            parameters |= {name for name in names if name}
        elif line.startswith("path:pkglibdir:"):
            folder = line.split(":", 2)[2]
    found = {framework: frozenset(names - {"base"}) for framework, names in components.items()}
    return Installed(found, frozenset(parameters), folder)


def _later(mpi: str, own: Installed) -> list[str]:
    """Arguments for the probe: what `mpi` loads only when it starts."""
    if mpi == "Open MPI":
        files = [Path(own.folder) / f"mca_{name}.so" for name in ("mtl_ofi", "pml_ucx")]
        return [str(path) for path in files if own.folder and path.exists()]
    if mpi != "Intel MPI":
        return []
    if os.environ.get("I_MPI_OFI_LIBRARY_INTERNAL", "1").lower() in ("0", "no", "off", "disable"):
        return ["libfabric.so.1"]
    for library in _probe([]).get("mapped", ()):
        if "/libmpi" in library:
            return _intel_fabric(Path(library).parent)
    return []


def _intel_fabric(folder: Path) -> list[str]:
    """Intel's libfabric, for the folder of its libmpi: beside it in the wheel, elsewhere in oneAPI."""
    root = folder.parent if folder.name == "lib" else folder.parent.parent  # lib/release
    for library in (folder, root / "opt/mpi/libfabric/lib", root / "libfabric/lib"):
        if (path := library / "libfabric.so.1").exists():
            providers = library / "prov" if (library / "prov").is_dir() else library
            own = [] if _FI_PATH in os.environ else [f"providers={providers}"]
            return [*own, str(path)]
    return []


@functools.cache
def _probe_text(arguments: tuple[str, ...]) -> str:
    return _said([sys.executable, "-P", str(_PROBE), *arguments])


def _probe(arguments: Iterable[str]) -> dict[str, Any]:
    try:
        return dict(json.loads(_probe_text(tuple(arguments)).splitlines()[-1]))
    except (ValueError, IndexError):
        return {}


def _said(command: list[str]) -> str:
    """What a program prints; nothing, if there is none."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_CHOICES) or name == _FI_PATH}
    try:
        done = subprocess.run(command, env=env, capture_output=True, timeout=_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def names_in(files: Iterable[Path]) -> set[str]:
    """Names of environment variables of MPICH and Intel MPI that stand in libraries and programs."""
    found: set[str] = set()
    for path in files:
        try:
            content = path.read_bytes()
        except OSError:
            continue
        words = re.findall(rb"(?:MPIR_CVAR|MPIR_PARAM|MPICH|I_MPI|HYDRA)_[A-Z0-9_]+", content)
        found |= {word.decode() for word in words}
    return found
