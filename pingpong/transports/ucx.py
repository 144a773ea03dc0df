"""What is alike wherever UCX is used: its own transports (TLS), the devices they take, and the carrier."""

import difflib

from pingpong.transports import needs
from pingpong.transports.base import Asked, Flags, Here, TransportError
from pingpong.transports.devices import adapters, interfaces

DETAIL, DEVICE = "TLS", "DEVICE"
# Variables that choose, and all of them. With MPI_ before it Open MPI's UCX believes a name first.
CHOOSES = r"(?:MPI_)?UCX_(?:TLS|PROTOS|(?:NET|SHM|ACC|SELF)_DEVICES|SOCKADDR_TLS_PRIORITY)"
ALL = r"(?:MPI_)?UCX_\w+"
_HCA = ("rc", "rc_v", "rc_x", "rc_verbs", "rc_mlx5", "ud", "ud_v", "ud_x", "ud_verbs", "ud_mlx5",
        "dc", "dc_x", "dc_mlx5", "ib", "gga", "gga_mlx5", "srd")  # fmt: skip
KINDS = ("verbs", "hfi1", "qib", "efa")
_SHM = ("shm", "sm", "mm", "posix", "sysv", "cma", "knem", "xpmem")
_ASIDE = ("self", "cuda", "cuda_copy", "cuda_ipc", "gdr_copy", "rocm", "rocm_copy", "rocm_ipc", "rocm_gdr", "ze",
          "ze_copy", "ze_ipc", "ze_gdr")  # fmt: skip  # a rank's own memory, and that of graphics processors
_CARRIERS = dict.fromkeys(_HCA, "hca") | dict.fromkeys(_SHM, "shm") | {"tcp": "net"}
_KNOWN = (*_CARRIERS, *_ASIDE, "all", "ugni")


def flags(asked: Asked, here: Here) -> Flags:
    """UCX_TLS and UCX_NET_DEVICES, and the carrier that they leave.

    They are set in any case: a file of UCX's (ucx.conf) may say otherwise.
    """
    carriers = _carriers(asked, here)
    environment = {"UCX_TLS": asked.detail or "all"} | ({} if carriers == {"shm"} else {"UCX_NET_DEVICES": "all"})
    carrier = next(iter(carriers)) if len(carriers) == 1 and carriers != {"unknown"} else None
    if "hca" in carriers and not _open(asked) and not asked.device:
        needs.adapter(None, here, KINDS)
    if asked.device:
        devices = [_device(name, carriers, asked, here) for name in asked.device.split(",")]
        environment["UCX_NET_DEVICES"] = ",".join(name for name, _ in devices)
        kinds = {device for _, device in devices}
        if carriers <= {"net", "hca"} and None not in kinds:
            families = {device.partition(":")[0] for device in kinds if device}
            carrier = kinds.pop() if len(kinds) == 1 else families.pop() if len(families) == 1 else None
    return Flags(carrier, environment=environment)


def _open(asked: Asked) -> bool:
    """Whether UCX still chooses its transports."""
    return not asked.detail or asked.detail == "all" or asked.detail.startswith("^")


def _carriers(asked: Asked, here: Here) -> set[str]:
    """What the transports in UCX_TLS can use between the ranks."""
    if _open(asked):
        return {"net", "hca"} if here.hosts > 1 else {"shm", "net", "hca"}
    names = [name.strip("\\").partition(":")[0] for name in (asked.detail or "").split(",")]
    for name in names:
        near = difflib.get_close_matches(name, _KNOWN, 1)
        if name not in _KNOWN and near:
            raise TransportError(f"UCX has no transport {name!r}; did you mean {near[0]!r}?")
    found = {_CARRIERS.get(name, "unknown") for name in names if name not in _ASIDE}
    if found == {"shm"}:
        needs.one_host(asked, here)
    return found - ({"shm"} if here.hosts > 1 else set())


def _device(name: str, carriers: set[str], asked: Asked, here: Here) -> tuple[str, str | None]:
    """A device as UCX wants it named, and its carrier."""
    known = {one.name: one for one in interfaces(here.sys)}
    if name in known and known[name].loopback:
        raise TransportError(
            f"UCX does not use {name}: name another interface (on one host the bytes pass {name})"
        )
    if asked.detail and not carriers & {"net", "hca"}:
        raise TransportError(f"{asked.text}: {asked.detail} uses no network device")
    if name in known or carriers == {"net"}:
        if asked.detail and "net" not in carriers:
            raise TransportError(f"{asked.text}: {asked.detail} uses an adapter such as mlx5_0:1, not {name}")
        return name, needs.interface(name, here)
    if carriers != {"hca"} and ":" not in name and name not in (one.name for one in adapters(here.sys)):
        if here.member:
            needs.interface(name, here)
        return name, None  # on the nodes it may be either
    port = needs.first_port(name, here)
    return port, needs.adapter(port, here, KINDS)
