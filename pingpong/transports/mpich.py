"""How MPICH (ch4) is asked for a transport.

On one host MPICH uses shared memory of its own, whatever UCX or libfabric are told: everything else than `shm`
needs MPIR_CVAR_NOLOCAL=1.
"""

import re
from collections.abc import Callable

from pingpong.model import Transport
from pingpong.transports import needs, ofi, ucx
from pingpong.transports.base import Asked, Concern, Flags, Here, TransportError, Way, absent

# Variables that choose. Each has three names.
CHOOSES = (
    r"(?:MPIR_CVAR|MPIR_PARAM|MPICH)_(?:NOLOCAL|CH4_NETMOD|CH4_SHM|CH4_(?:CMA|XPMEM)_ENABLE|NUM_CLIQUES"
    r"|CLIQUES_BY_BLOCK|EVEN_ODD_CLIQUES|ODD_EVEN_CLIQUES|OFI_USE_PROVIDER|CH4_OFI_(?:PREF_NIC|MAX_NICS))"
    r"|MPICH_OFI_NIC_(?:POLICY|MAPPING)"
)


def concern(transport: Transport) -> Concern:
    """What variables are to a transport of `WAYS`. Shared memory or not, MPICH starts a netmod."""
    netmod = transport.environment.get("MPIR_CVAR_CH4_NETMOD")
    chooses = rf"{CHOOSES}|{ucx.CHOOSES}|{ofi.CHOOSES}"
    aside = {"ucx": ofi.ALL, "ofi": ucx.ALL}
    return Concern(chooses, aside[netmod]) if netmod else Concern(chooses)


def netmods(library: str) -> list[str]:
    """Network modules of "MPICH Device: ch4:ucx ofi", the default first; none, if it does not say."""
    match = re.search(r"MPICH Device:\s+ch4:([\w ,]+)", library)
    return re.findall(r"\w+", match[1]) if match else []


def _netmod(name: str, here: Here) -> dict[str, str]:
    found = netmods(here.has.library)
    other = re.search(r"MPICH Device:\s+(\S+)", here.has.library)
    if not found and other:
        raise TransportError(f"this MPICH is built as {other[1]}, and pingpong knows how to ask ch4 only")
    if found and name not in found:
        raise TransportError(f"this MPICH has no netmod {name!r}: it is built with {' and '.join(found)}")
    return {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": name}


def _default(_asked: Asked, _here: Here) -> Flags:
    return Flags(None)


def _shm(more: dict[str, str]) -> Callable[[Asked, Here], Flags]:
    def flags(asked: Asked, here: Here) -> Flags:
        needs.one_host(asked, here)
        return Flags("shm", environment={"MPIR_CVAR_NOLOCAL": "0"} | more)

    return flags


def _ucx(asked: Asked, here: Here) -> Flags:
    netmod = _netmod("ucx", here)
    chosen = ucx.flags(asked, here)
    return Flags(chosen.carrier, environment=netmod | dict(chosen.environment))


def _ofi(provider: str | None = None) -> Callable[[Asked, Here], Flags]:
    def flags(asked: Asked, here: Here) -> Flags:
        netmod = _netmod("ofi", here)
        wanted = provider or asked.detail
        if wanted is None:
            ofi.fabric(here)  # it would take sockets, the slowest
        chosen = ofi.choose(wanted, asked, here)
        return Flags(
            chosen.carrier,
            environment=netmod | ({"FI_PROVIDER": wanted} if wanted else {}) | chosen.environment,
        )

    return flags


def _tcp(asked: Asked, here: Here) -> Flags:
    """Through UCX if it is there: libfabric's tcp provider is the second choice."""
    if "ucx" not in netmods(here.has.library) and "ofi" in netmods(here.has.library):
        return _ofi("tcp")(asked, here)
    return _ucx(Asked(asked.text, "ucx", "tcp", asked.device), here)


WAYS = {
    "default": Way("nothing: MPICH chooses", _default),
    "shm": Way("one host", _shm({})),
    "shm-nocma": Way(
        "one host; copies twice", _shm({"MPIR_CVAR_CH4_CMA_ENABLE": "0", "MPIR_CVAR_CH4_XPMEM_ENABLE": "0"})
    ),
    "tcp": Way("a network interface", _tcp, device="IFACE"),
    "openib": absent("openib is a component of Open MPI 4: use ucx or verbs"),
    "ucx": Way("UCX; takes the best that it finds", _ucx, ucx.DETAIL, ucx.DEVICE),
    "ofi": Way("a fabric that libfabric knows", _ofi(), ofi.DETAIL, ofi.DEVICE),
    "psm": Way("True Scale", _ofi("psm")),
    "psm2": Way("Omni-Path", _ofi("psm2")),
    "psm3": Way("an adapter with verbs", _ofi("psm3"), device="DEVICE"),
    "verbs": Way("InfiniBand or RoCE", _ofi("verbs"), device="DEVICE"),
    "cxi": Way("Slingshot", _ofi("cxi"), device="DEVICE"),
    "efa": Way("EFA", _ofi("efa"), device="DEVICE"),
}
