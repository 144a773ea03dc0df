"""How Intel MPI is asked for a transport.

It reaches every network through libfabric, UCX too (provider mlx). I_MPI_FABRICS=ofi keeps it off its own shared
memory; between hosts I_MPI_FABRICS=shm is silently something else, so that is refused beforehand.
"""

from collections.abc import Callable

from pingpong.model import Transport
from pingpong.transports import mpich, needs, ofi, ucx
from pingpong.transports.base import Asked, Concern, Flags, Here, TransportError, Way, absent

# Variables that choose; it has those of MPICH, too.
_CHOOSES = rf"I_MPI_(?:FABRICS|FABRICS_LIST|DEVICE|OFI_PROVIDER|SHM|SHM_CMA|MULTIRAIL|TCP_NETMASK)|{mpich.CHOOSES}"


def concern(transport: Transport) -> Concern:
    """What variables are to a transport of `WAYS`."""
    chooses = rf"{_CHOOSES}|{ucx.CHOOSES}|{ofi.CHOOSES}"
    provider = transport.environment.get("I_MPI_OFI_PROVIDER", "mlx")
    return Concern(chooses) if provider == "mlx" else Concern(chooses, ucx.ALL)


def _default(_asked: Asked, _here: Here) -> Flags:
    return Flags(None)


def _shm(more: dict[str, str]) -> Callable[[Asked, Here], Flags]:
    def flags(asked: Asked, here: Here) -> Flags:
        needs.one_host(asked, here)
        return Flags("shm", environment={"I_MPI_FABRICS": "shm"} | more)

    return flags


def _ofi(provider: str | None = None) -> Callable[[Asked, Here], Flags]:
    def flags(asked: Asked, here: Here) -> Flags:
        wanted = provider or asked.detail
        if wanted and ";" in wanted:
            raise TransportError(
                f"Intel MPI puts layers on a provider itself: write ofi:{wanted.partition(';')[0]}"
            )
        chosen = ofi.choose(wanted, asked, here)
        # I_MPI_OFI_PROVIDER is stronger than FI_PROVIDER, and may be set where the user does not know of it.
        named = {"I_MPI_OFI_PROVIDER": wanted, "FI_PROVIDER": wanted} if wanted else {}
        return Flags(chosen.carrier, environment={"I_MPI_FABRICS": "ofi"} | named | chosen.environment)

    return flags


def _ucx(asked: Asked, here: Here) -> Flags:
    """Provider mlx, which wants an adapter whatever UCX is told to use."""
    try:
        through = _ofi("mlx")(Asked(asked.text, "ucx"), here)
    except TransportError as error:
        raise TransportError(f"{error}; Intel MPI's ucx does not go without: use shm or tcp") from None
    chosen = ucx.flags(asked, here)
    return Flags(chosen.carrier, environment=dict(through.environment) | dict(chosen.environment))


WAYS = {
    "default": Way("nothing: Intel MPI chooses", _default),
    "shm": Way("one host", _shm({})),
    "shm-nocma": Way("one host; copies twice", _shm({"I_MPI_SHM_CMA": "0"})),
    "tcp": Way("a network interface", _ofi("tcp"), device="IFACE"),
    "openib": absent("openib is a component of Open MPI 4: use verbs"),
    "ucx": Way("UCX, InfiniBand or RoCE", _ucx, ucx.DETAIL, ucx.DEVICE),
    "ofi": Way("nothing: libfabric chooses", _ofi(), ofi.DETAIL, ofi.DEVICE),
    "psm": absent("Intel MPI has no psm since 2019: use psm2 or psm3"),
    "psm2": Way("Omni-Path", _ofi("psm2")),
    "psm3": Way("an adapter with verbs", _ofi("psm3"), device="DEVICE"),
    "verbs": Way("InfiniBand or RoCE", _ofi("verbs"), device="DEVICE"),
    "cxi": Way("Slingshot", _ofi("cxi"), device="DEVICE"),
    "efa": Way("EFA", _ofi("efa"), device="DEVICE"),
}
