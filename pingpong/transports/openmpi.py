"""How Open MPI 4 and 5 are asked for a transport.

A list of components without "^" makes Open MPI fail where none of them can be had; `pml` decides which of `btl`
and `mtl` is looked at at all, so it is always given.
"""

from collections.abc import Callable

from pingpong.model import Transport
from pingpong.transports import needs, ofi, ucx
from pingpong.transports.base import MCA, Asked, Concern, Flags, Here, TransportError, Way

_UCX = "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any"  # by default: InfiniBand by Mellanox only
_CM = "--mca pml cm --mca mtl"

# By pml the parameters that choose among its ways, and those of the other pmls' ways.
_CHOOSES = {
    "ob1": r"bml|btl|btl_base_(?:in|ex)clude|btl_\w+_if_(?:in|ex)clude|btl_openib_allow_ib|smsc"
    r"|btl_(?:sm|vader)_single_copy_mechanism",
    "cm": r"mtl|(?:mtl|opal_common)_ofi_provider_(?:in|ex)clude",
    "ucx": r"(?:pml|opal_common)_ucx_(?:tls|devices)",
}
_ASIDE = {
    "ob1": rf"{MCA}(?:mtl|pml_cm|pml_ucx|opal_common_ofi|opal_common_ucx|osc|io)\w*|{ucx.ALL}|{ofi.ALL}",
    "cm": rf"{MCA}(?:bml|btl|smsc|pml_ob1|pml_ucx|opal_common_ucx|osc|io)\w*|{ucx.ALL}",
    "ucx": rf"{MCA}(?:bml|btl|smsc|mtl|pml_ob1|pml_cm|opal_common_ofi|osc|io)\w*|{ofi.ALL}",
}
_BELOW = {"cm": ofi.CHOOSES, "ucx": ucx.CHOOSES}


def concern(transport: Transport) -> Concern:
    """What variables are to a transport of `WAYS`."""
    words = transport.arguments
    pml = words[words.index("pml") + 1]
    chooses = rf"{MCA}(?:pml|{_CHOOSES[pml]})"
    return Concern(f"{chooses}|{_BELOW[pml]}" if pml in _BELOW else chooses, _ASIDE[pml])


def _default(_asked: Asked, _here: Here) -> Flags:
    return Flags(None)


def _shm(copies: bool) -> Callable[[Asked, Here], Flags]:
    """Shared memory; with `copies` data is copied twice, through a buffer that both ranks map."""

    def flags(asked: Asked, here: Here) -> Flags:
        needs.one_host(asked, here)
        name = "sm" if here.major >= 5 else "vader"
        needs.component("btl", name, here)
        words = f"--mca pml ob1 --mca btl {name},self"
        if copies:
            single = ",".join(sorted(here.has.components.get("smsc", ()))) or "cma,knem,xpmem"
            none = f"--mca smsc ^{single}" if here.major >= 5 else "--mca btl_vader_single_copy_mechanism none"
            words += f" {none}"
        return Flags("shm", words.split())

    return flags


def _tcp(asked: Asked, here: Here) -> Flags:
    needs.component("btl", "tcp", here)
    words = "--mca pml ob1 --mca btl tcp,self"
    if not asked.device:
        return Flags("net", words.split())
    carrier = needs.interface(asked.device, here)
    return Flags(carrier, f"{words} --mca btl_tcp_if_include {asked.device}".split())


def _openib(asked: Asked, here: Here) -> Flags:
    if here.major >= 5:
        raise TransportError("openib was removed in Open MPI 5: use ucx")
    needs.component("btl", "openib", here, "use ucx")
    carrier = needs.adapter(asked.device, here, ("verbs", "qib", "hfi1"))
    words = "--mca pml ob1 --mca btl openib,self --mca btl_openib_allow_ib 1"
    return Flags(
        carrier, (words + (f" --mca btl_openib_if_include {asked.device}" if asked.device else "")).split()
    )


def _ucx(asked: Asked, here: Here) -> Flags:
    needs.component("pml", "ucx", here)
    chosen = ucx.flags(asked, here)
    return Flags(chosen.carrier, _UCX.split(), chosen.environment)


def _ofi(provider: str | None = None) -> Callable[[Asked, Here], Flags]:
    """`ofi`, or the name of a provider as a transport of its own."""

    def flags(asked: Asked, here: Here) -> Flags:
        needs.component("mtl", "ofi", here)
        wanted = provider or asked.detail
        if wanted is None:
            ofi.fabric(here)
        if wanted in ("shm", "sm2"):
            raise TransportError(f"Open MPI cannot use libfabric's {wanted}: use shm")
        chosen = ofi.choose(wanted, asked, here)
        include = ["--mca", "mtl_ofi_provider_include", wanted] if wanted else []
        return Flags(chosen.carrier, [*f"{_CM} ofi".split(), *include], chosen.environment)

    return flags


def _psm(name: str) -> Callable[[Asked, Here], Flags]:
    """Through the component of that name, else through libfabric."""

    def flags(asked: Asked, here: Here) -> Flags:
        if name not in here.has.components.get("mtl", ()):
            if name not in (here.has.providers or ()):
                raise TransportError(f"this Open MPI has no mtl {name!r}, and its libfabric no provider {name!r}")
            return _ofi(name)(asked, here)
        known = ofi.PROVIDERS[name]
        try:
            carrier = known.found(None, here)
        except TransportError as error:
            raise TransportError(f"{name} is built in, {error}") from None
        return Flags(
            carrier, f"{_CM} {name}".split(), dict([known.alone] if known.alone and here.hosts == 1 else [])
        )

    return flags


WAYS = {
    "default": Way("nothing: Open MPI chooses", _default),
    "shm": Way("one host", _shm(copies=False)),
    "shm-nocma": Way("one host; copies twice", _shm(copies=True)),
    "tcp": Way("a network interface", _tcp, device="IFACE"),
    "openib": Way("Open MPI 4, InfiniBand or RoCE", _openib, device="DEVICE"),
    "ucx": Way("UCX; takes the best that it finds", _ucx, ucx.DETAIL, ucx.DEVICE),
    "ofi": Way("a fabric that libfabric knows", _ofi(), ofi.DETAIL, ofi.DEVICE),
    "psm": Way("True Scale", _psm("psm")),
    "psm2": Way("Omni-Path", _psm("psm2")),
    "psm3": Way("an adapter with verbs", _ofi("psm3"), device="DEVICE"),
    "verbs": Way("InfiniBand or RoCE", _ofi("verbs"), device="DEVICE"),
    "cxi": Way("Slingshot", _ofi("cxi"), device="DEVICE"),
    "efa": Way("EFA", _ofi("efa"), device="DEVICE"),
}
