"""Who starts ranks: which launcher started this process, and which one belongs to the MPI that mpi4py loads.

One place a launcher: `_FAMILIES` for its words and needs, `started_by` for its traces in the environment.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


class LauncherError(Exception):
    """No usable launcher; the message is one sentence for the user."""


@dataclass(frozen=True)
class Family:
    """An MPI and its launcher. `said` recognises `mpiexec --version`; `bind` binds each rank to a core."""

    name: str
    extra: str
    said: str
    bind: tuple[str, ...] = ()


_FAMILIES = (
    Family("Open MPI", "openmpi", r"\((?:Open MPI|OpenRTE)\)\s+(\S+)"),  # binds to cores by itself for two ranks
    Family("Intel MPI", "intelmpi", r"Intel\(R\) MPI Library.*?Version (\S+)"),  # pins by itself
    Family("MPICH", "mpich", r"HYDRA build details:\s+Version:\s+(\S+)", ("-bind-to", "core")),
)


_PLACES = ("bind", "map", "oversubscribe", "use-hwthread", "cpu", "rankfile", "rank-by", "ppn", "ppr", "npernode")


# Seconds and tries until Open MPI's daemons (4: OMPI, 5: PRTE) notice that a connection is dead.
_KEEPALIVE = {
    f"{prefix}_MCA_oob_tcp_keepalive_{name}": value
    for prefix in ("OMPI", "PRTE")
    for name, value in (("time", "5"), ("intvl", "2"), ("probes", "3"))
}


@dataclass(frozen=True)
class Start:
    """What the environment says about who started this process. `rank` and `size` where it tells."""

    launcher: str
    rank: int | None = None
    size: int | None = None


def started_by(env: Mapping[str, str]) -> Start | None:
    """The launcher that started this process as a rank, or None.

    Slurm's process id alone does not count: it is set in a batch script too.
    """
    if "OMPI_COMM_WORLD_SIZE" in env:
        return Start("Open MPI mpiexec", _int(env, "OMPI_COMM_WORLD_RANK"), _int(env, "OMPI_COMM_WORLD_SIZE"))
    in_step = "SLURM_STEP_NUM_TASKS" in env and "SLURM_PROCID" in env
    if in_step and _int(env, "SLURM_STEP_NUM_TASKS") == 1 and "MPI_LOCALRANKID" not in env:
        return None  # an interactive shell in an allocation
    if "PMI_RANK" in env:
        # Hydra gives its ranks a local id, also where it has srun start its proxies.
        by_srun = in_step and "MPI_LOCALRANKID" not in env
        # Not by settings such as I_MPI_HYDRA_BOOTSTRAP: a site may always set them, whichever MPI is used.
        intel = any(name.startswith(("I_MPI_HYDRA_UUID", "HYDRA_BSTRAP")) for name in env)
        name = "srun (PMI)" if by_srun else "Intel MPI mpiexec" if intel else "MPICH mpiexec"
        return Start(name, _int(env, "PMI_RANK"), _int(env, "PMI_SIZE"))
    if "PMIX_RANK" in env:
        name, size = ("srun (PMIx)", "SLURM_STEP_NUM_TASKS") if in_step else ("a PMIx launcher", "")
        return Start(name, _int(env, "PMIX_RANK"), _int(env, size))
    if in_step and (_int(env, "SLURM_STEP_NUM_TASKS") or 1) > 1:
        return Start("srun without PMI", _int(env, "SLURM_PROCID"), _int(env, "SLURM_STEP_NUM_TASKS"))
    return None


def foreign(start: Start, mpi: str) -> bool:
    """True where `mpi` is known not to understand this launcher, so that it must not even be initialised.

    Open MPI and the two of the Hydra family abort, or print pages, when the other's launcher starts them.
    """
    launcher_is_open_mpi = start.launcher == "Open MPI mpiexec"
    launcher_is_hydra = start.launcher in ("Intel MPI mpiexec", "MPICH mpiexec")
    return (launcher_is_open_mpi and mpi in ("MPICH", "Intel MPI")) or (launcher_is_hydra and mpi == "Open MPI")


def wrong_number(start: Start | None, library: str, size: int) -> str:
    """The sentence for a world of `size` ranks that is not two, for `library` such as "Open MPI 5.0.11"."""
    if start and start.size not in (None, size, 1) and size == 1:
        return (
            f"every rank thinks it is alone: {start.launcher} started {start.size} ranks, but {library} does not "
            f"understand it; start them with {_remedy(start, library)}"
        )
    return f"pingpong run needs 2 ranks and was started with {size} ({library}); use mpiexec -n 2 or srun -n 2"


def _remedy(start: Start, library: str) -> str:
    if start.launcher.startswith("srun"):
        return "srun --mpi=pmix" if library.startswith("Open MPI") else "srun --mpi=pmi2"
    return f"the mpiexec of {library}"


def _int(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(name, "")
    return int(text) if text.isdecimal() else None


@dataclass(frozen=True)
class Launcher:
    """An mpiexec that was found, and what it is."""

    path: Path
    family: Family
    version: str

    def command(
        self,
        ranks: int,
        program: list[str],
        usable_cpus: int,
        cores: int | None = None,
        extra: Sequence[str] = (),
    ) -> list[str]:
        """The whole command line for ranks on this host; `extra` are the user's own arguments for mpiexec.

        Where those say anything about places, nothing of ours is added: launchers refuse to be told twice.
        """
        bind = list(self.family.bind)
        if usable_cpus < ranks:
            bind = ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"] if self.family.name == "Open MPI" else []
        elif self.family.name == "Open MPI" and cores is not None and cores < ranks:
            bind = ["--use-hwthread-cpus"]  # its slots are cores unless told otherwise
        if places(extra):
            bind = []
        return [str(self.path), "-n", str(ranks), *bind, *extra, *program]

    def across(
        self,
        ranks: int,
        hosts: Sequence[str],
        program: list[str],
        variables: Iterable[str],
        extra: Sequence[str] = (),
    ) -> list[str]:
        """The whole command line for ranks that are spread evenly over named hosts, each free on all of its CPUs.

        Launchers bind the first rank of each host to its first core, which may be one core of one machine where
        hosts are containers or namespaces; so ranks bind themselves. `variables` must reach them.
        """
        each = ranks // len(hosts)
        if self.family.name == "Open MPI":
            where = ["--host", ",".join(f"{host}:{each}" for host in hosts)]
            where += [] if places(extra) else ["--bind-to", "none"]
            given = [word.partition("=")[0] for flag, word in pairwise(extra) if flag == "-x"]
            where += [word for name in variables if name not in given for word in ("-x", name)]
        else:  # Hydra passes the whole environment on
            where = ["-hosts", ",".join(hosts), "-ppn", str(each)]
        return [str(self.path), "-n", str(ranks), *where, *extra, *program]

    def needs(self) -> dict[str, str]:
        """Without these variables it would start nothing for root, or put ranks elsewhere than it is told."""
        if self.family.name == "Open MPI" and os.geteuid() == 0:
            return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if self.family.name == "Intel MPI":
            return {"I_MPI_JOB_RESPECT_PROCESS_PLACEMENT": "off"}  # else a batch system's word beats -ppn
        return {}

    def environment(self) -> dict[str, str]:
        """What the launcher needs of its environment here, beside what is there."""
        needs = self.needs() | ({} if "HOME" in os.environ else {"HOME": _home()})
        if self.family.name == "Open MPI":
            # A daemon that has lost its mpiexec must not wait for ten minutes before it looks.
            needs |= {name: value for name, value in _KEEPALIVE.items() if name not in os.environ}
        return needs


def places(arguments: Sequence[str]) -> bool:
    """Whether arguments of mpiexec say anything about where ranks go or what they are bound to."""
    return any(word.lstrip("-").startswith(_PLACES) for word in arguments)


def find(mpi: str, version: str, path: str) -> Launcher:
    """The mpiexec of `mpi` (such as "Open MPI", "5.0.11"): beside this interpreter, then on `path`.

    Raises LauncherError, naming what was found instead.
    """
    others = []
    for candidate in _candidates(path):
        found = identify(candidate)
        if found and found.family.name == mpi:
            return found
        others.append(f"{candidate} ({found.family.name if found else 'of an unknown kind'})")
    extra = next((f.extra for f in _FAMILIES if f.name == mpi), None)
    hint = f"install it with pip install 'mpi-pingpong[{extra}]', or put it on PATH" if extra else "put it on PATH"
    if not others:
        raise LauncherError(f"mpi4py uses {mpi} {version}, and no mpiexec was found; {hint}")
    raise LauncherError(
        f"mpi4py uses {mpi} {version}, but the only launcher found belongs to another MPI: "
        f"{', '.join(others)}; {hint}"
    )


def _home() -> str:
    return os.path.expanduser("~")  # noqa: PTH111  (Path raises where the user is not known)


def identify(path: Path) -> Launcher | None:
    """What `mpiexec --version` says it is, or None."""
    try:
        env = {"HOME": _home()} | os.environ  # Open MPI's does not even tell its version without
        said = subprocess.run([path, "--version"], env=env, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = said.stdout.decode(errors="replace")
    for family in _FAMILIES:
        if match := re.search(family.said, text, re.DOTALL):
            return Launcher(path, family, match[1])
    return None


def _candidates(path: str) -> list[Path]:
    folders = [Path(sys.executable).parent, *(Path(p) for p in path.split(os.pathsep) if p)]
    found = [folder / name for folder in folders for name in ("mpiexec", "mpirun")]
    return list(dict.fromkeys(p for p in found if os.access(p, os.X_OK) and p.is_file()))
