"""Parameter files of Open MPI and of its runtime: what they set for every launch. Never raises."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

FILES = "mca_base_param_files"  # names other files in place of the usual ones
_VARIABLES = "mca_base_env_list"  # holds variables with their values, which may be anything
_RUNTIME = ("prte", "pmix")  # how ranks are started: nothing about their messages
_LINE = re.compile(r"\s*([a-z]\w*)\s*=\s*(.*?)\s*")


def of_messages(libraries: Iterable[str], env: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """By file the parameters that it sets for Open MPI itself, in the order in which they are believed.

    `libraries` are the paths of Open MPI's own libraries: the installation's file lies in an `etc` above them.
    """
    if named := env.get(f"OMPI_MCA_{FILES}"):
        return _read([Path(name) for name in re.split("[,:]", named) if name != "none"])
    return _read(_paths("openmpi", libraries, env))


def all_of(libraries: Iterable[str], env: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The same, and what is set for the runtime."""
    libraries = list(libraries)
    runtime = [path for name in _RUNTIME for path in _paths(name, libraries, env)]
    return of_messages(libraries, env) | _read(runtime)


def _paths(name: str, libraries: Iterable[str], env: Mapping[str, str]) -> list[Path]:
    folders = []
    for library in libraries:
        folders += [folder / "etc" for folder in list(Path(library).parents)[1:4]]
        if library.startswith("/usr/lib"):  # a distribution's
            folders += sorted(Path("/etc").glob("openmpi*"))
    home = Path(env.get("HOME", "/nonexistent"))
    return [home / f".{name}/mca-params.conf", *(folder / f"{name}-mca-params.conf" for folder in folders)]


def _read(paths: Iterable[Path]) -> dict[str, dict[str, str]]:
    return {str(path): values for path in dict.fromkeys(paths) if (values := _parameters(path))}


def _parameters(path: Path) -> dict[str, str]:
    """The lines `name = value` of a file."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except (OSError, ValueError):
        return {}
    pairs = [match.groups() for line in lines if (match := _LINE.fullmatch(line))]
    return {name: value.strip("\"'") for name, value in pairs if name != _VARIABLES}
