"""What surveys say about folders, memory and CPUs of each host. Pure functions, one a check."""

from pathlib import Path

from pingpong import placement
from pingpong.doctor.facts import Finding, Folder, Launch


def output_folder(folder: Folder) -> Finding:
    """The folder where the result is written."""
    if folder.trouble:
        what = f"the result cannot be written in {folder.path}: {folder.trouble}"
        return Finding("problem", what, "make room there, or go to a folder that is yours and has room")
    return Finding("ok", f"results can be written in {folder.path}")


def temporary(asked: str | None, trouble: str | None, used: Path | None) -> list[Finding]:
    """The folder for temporary files here: TMPDIR as `asked`, why it takes nothing, and what is `used` instead."""
    advice = f"make {asked} a folder in which you can write, or set TMPDIR to one"
    if not used:
        what = f"no temporary folder takes a file: {'TMPDIR, ' if asked else ''}/tmp, /var/tmp"
        return [Finding("problem", what, advice if asked else "set TMPDIR to a folder that is yours and has room")]
    if asked and trouble:
        what = f"TMPDIR is {asked}, which takes no file ({trouble}): {used} is used instead"
        return [Finding("note", what, advice)]
    return []


def root() -> Finding:
    """Only for an Open MPI."""
    return Finding(
        "note",
        "you are root, which Open MPI refuses by default: allowed for each launch",
        "use an account of your own",
    )


def folders(launch: Launch) -> list[Finding]:
    """Room for temporary files and shared memory on each host.

    Room that one rank of a host found is there: the other one may have looked when MPI had taken its share.
    """
    found, fine = [], 0
    for host in launch.by_host:
        of_host = [survey for survey in launch.surveys if launch.host_of(survey) == host]
        for tried in ([survey.temporary for survey in of_host], [survey.shared for survey in of_host]):
            folders = [folder for folder in tried if folder]
            if any(not folder.trouble for folder in folders):
                fine += 1
            elif folders:
                what = f"{folders[0].path} on host {host} does not take {folders[0].need >> 20} MiB: "
                found.append(Finding(launch.level, what + f"{folders[0].trouble}", _room_advice(folders[0])))
    if found or not fine:
        return found
    return [Finding("ok", "temporary folder and shared memory have room")]


def _room_advice(folder: Folder) -> str:
    if folder.path == "/dev/shm":
        return (
            "MPI dies, or takes TCP between ranks of one host: remove what is left there, or make it larger: "
            "mount -o remount,size=64M /dev/shm, docker --shm-size"
        )
    return "set TMPDIR to a folder on that host that is yours and has room"


def shared_folder(launch: Launch) -> list[Finding]:
    """Whether both ends see each other's files where the result is written."""
    if not launch.hosts or not launch.surveys:
        return []
    apart = [host for host, s in launch.by_host.items() if not s.sees or s.id not in launch.wrote]
    if not apart:
        return [Finding("ok", "the hosts share the folder of the result")]
    what = f"host {' and '.join(apart)} does not share this folder: results come back through mpiexec's output"
    return [Finding("note", what, "nothing needs to be done; a shared folder saves the detour")]


def copies(launch: Launch) -> list[Finding]:
    """Whether ranks of one host can copy from each other's memory."""
    found = []
    for host, survey in launch.by_host.items():
        if survey.copies:
            what = f"no rank on host {host} may read the memory of another one ({survey.copies})"
            what += ": large messages are copied twice"
            yama = survey.ptrace not in (None, "0")
            advice = (
                "sysctl kernel.yama.ptrace_scope=0"
                if yama
                else "allow process_vm_readv: docker --cap-add SYS_PTRACE"
            )
            found.append(Finding("note", what, advice))
    return found


# CPUs

_CPU_ADVICE = {
    "oversubscribed": "ask for a CPU for each rank (cpuset, --cpus-per-task), or give the job two hosts",
    "quota": "allow a CPU for each rank and one for their launcher: docker --cpus=3, systemd's CPUQuota=300%",
    "shared-core": "give the job a core for each rank (taskset, --cpus-per-task), and bind them: --bind-to core",
    "unbound": "bind them: --bind-to core (Open MPI), -bind-to core (MPICH), I_MPI_PIN=1 (Intel MPI)",
    "governor": "cpupower frequency-set -g performance",
}


def cpus(launch: Launch) -> list[Finding]:
    """Places of the ranks, as a result would have them."""
    ranks = [survey.rank for survey in launch.surveys]
    return [Finding("note", warn.text, _CPU_ADVICE[warn.code]) for warn in placement.warnings(ranks)]


def native_loops(missing: str | None, no_cache: bool) -> Finding:
    """Whether there can be compiled loops; `missing` says why not."""
    if missing:
        return Finding(
            "note",
            f"no native loops, only mpi4py's: {missing.partition(';')[0]}",
            "pip install 'mpi-pingpong[native]'",
        )
    if no_cache:
        what = "no folder for compiled loops is yours and has room: each run compiles them again"
        return Finding("note", what, "set XDG_CACHE_HOME to a folder that only you can change")
    return Finding("ok", "native loops can be compiled and kept")
