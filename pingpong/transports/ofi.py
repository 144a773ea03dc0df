"""What is alike wherever libfabric is used: its providers, the variable that names a device, and the carrier."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from pingpong.transports import needs
from pingpong.transports.base import Asked, Here, TransportError

DETAIL, DEVICE = "PROVIDER", "DOMAIN"
# Variables that choose, and all of them: libfabric's, and those of the libraries below its providers.
CHOOSES = (
    r"FI_PROVIDER|FI_[A-Z0-9]+_(?:IFACE|DEVICE_NAME)|FI_(?:LNX|LINKX)_PROV_LINKS|FI_OPX_HFI_SELECT"
    r"|FI_EFA_ENABLE_SHM_TRANSFER|PSM[23]?_DEVICES|PSM3_(?:NIC|HAL|MULTIRAIL)"
)
ALL = r"(?:FI|PSM[23]?)_\w+"
# Those that are there whatever the machine is: no fabric, and nobody means them by "ofi".
ANYWHERE = frozenset({"tcp", "sockets", "udp", "net", "shm", "sm2", "lnx"})
_LAYERS = ("ofi_", "off_")  # no way to anywhere by themselves


@dataclass(frozen=True)
class Provider:
    """A provider of libfabric.

    `found` raises TransportError unless its device is here, and returns the carrier. `variable` takes the name of
    a device. `alone` keeps two ranks of one host off the provider's own shared memory.
    """

    needs: str
    found: Callable[[str | None, Here], str | None]
    variable: str | None = None
    alone: tuple[str, str] | None = None


def _net(name: str | None, here: Here) -> str:
    return needs.interface(name, here) if name else "net"


def _kind(*kinds: str) -> Callable[[str | None, Here], str]:
    return lambda name, here: needs.adapter(name, here, kinds)


def _memory(_name: str | None, here: Here) -> str:
    if here.hosts > 1:
        raise TransportError(f"it is memory of one host, and the ranks are on {here.hosts}")
    return "shm"


PROVIDERS = {
    "tcp": Provider("TCP through libfabric", _net, "FI_TCP_IFACE"),
    "udp": Provider("UDP through libfabric", _net, "FI_UDP_IFACE"),
    "sockets": Provider("TCP through libfabric, slowly", _net, "FI_SOCKETS_IFACE"),
    "net": Provider("TCP through libfabric, newer", _net, "FI_NET_IFACE"),
    "shm": Provider("one host, through libfabric", _memory),
    "sm2": Provider("one host, through libfabric", _memory),
    "verbs": Provider("InfiniBand or RoCE", _kind("verbs", "hfi1", "qib"), "FI_VERBS_DEVICE_NAME"),
    "psm": Provider("True Scale", _kind("qib"), None, ("PSM_DEVICES", "self,ipath")),
    "psm2": Provider("Omni-Path", _kind("hfi1"), None, ("PSM2_DEVICES", "self,hfi")),
    "psm3": Provider("an adapter with verbs", _kind("verbs"), "PSM3_NIC", ("PSM3_DEVICES", "self,nic")),
    "opx": Provider("Omni-Path", _kind("hfi1"), None),
    "cxi": Provider("Slingshot", needs.cassini, "FI_CXI_DEVICE_NAME"),
    "efa": Provider("EFA", _kind("efa"), "FI_EFA_IFACE", ("FI_EFA_ENABLE_SHM_TRANSFER", "0")),
    "mlx": Provider("InfiniBand or RoCE", _kind("verbs"), None),
}
# Where one of several kinds of adapters could be taken, or one could be passed by.
_MORE = {"psm3": {"PSM3_HAL": "verbs"}}


@dataclass(frozen=True)
class Chosen:
    """A provider's environment and its carrier."""

    environment: dict[str, str]
    carrier: str | None


def choose(provider: str | None, asked: Asked, here: Here) -> Chosen:
    """What `ofi`, `ofi:PROVIDER@DOMAIN` or a provider's own name comes to. Raises TransportError."""
    built_in = here.has.providers
    if provider is None:
        if asked.device:
            raise TransportError(
                f"{asked.text}: a device belongs to a provider: write ofi:PROVIDER@{asked.device}"
            )
        return Chosen({}, None)
    core, *layers = provider.split(";")
    if built_in is not None:
        for name in (core, *layers):
            if name not in built_in:
                raise TransportError(_no_provider(name, built_in, guess=asked.detail is not None))
    known = PROVIDERS.get(core)
    if known is None:
        return Chosen({}, None)
    try:
        carrier = known.found(asked.device, here)
    except TransportError as error:
        if built_in is None or core in ANYWHERE:
            raise
        raise TransportError(f"{core} is built in, {error}") from None
    environment = dict(_MORE.get(core, {}))
    if asked.device:
        if not known.variable:
            raise TransportError(f"{asked.text}: pingpong knows no way to give provider {core} a device")
        environment[known.variable] = asked.device
    if known.alone and here.hosts == 1:
        environment |= [known.alone]
    return Chosen(environment, carrier)


def fabric(here: Here) -> None:
    """Raises TransportError where libfabric finds nothing but TCP and memory: what it takes then is no fabric."""
    if not here.member:
        raise TransportError("what libfabric would take on the hosts is not known here: write ofi:PROVIDER")
    found = here.has.usable
    if found is None:
        return
    names = {provider.partition(";")[0] for provider, _ in found}
    if names and names <= ANYWHERE:
        ways = ", ".join(f"ofi:{name}" for name in sorted(names & {"tcp", "udp", "shm"}))
        raise TransportError(f"libfabric finds no fabric here; it would have {ways}")


def _no_provider(name: str, built_in: frozenset[str], guess: bool) -> str:
    near = difflib.get_close_matches(name, built_in, 1) if guess else []
    real = ", ".join(sorted(one for one in built_in if not one.startswith(_LAYERS)))
    meant = f"; did you mean {near[0]!r}?" if near else f" (it has {real})"
    return f"this libfabric has no provider {name!r}{meant}"


def rows(here: Here) -> list[str]:
    """Providers that have no name of their own among the transports, for the list."""
    named = ("psm", "psm2", "psm3", "verbs", "cxi", "efa", "sockets", "mlx")
    return sorted(one for one in here.has.providers or () if one in PROVIDERS and one not in named)
