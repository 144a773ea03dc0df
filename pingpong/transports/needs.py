"""What a transport needs of the machine: each function raises TransportError with what is here instead.

They ask only where this machine is one of the hosts: a login node has other devices than the nodes.
"""

import re

from pingpong.transports.base import Asked, Here, TransportError
from pingpong.transports.devices import Adapter, adapters, interfaces, slingshot


def one_host(asked: Asked, here: Here) -> None:
    """The ranks share memory."""
    if here.hosts > 1:
        raise TransportError(f"{asked.text} is memory of one host, and the ranks are on {here.hosts}")


def interface(name: str, here: Here) -> str:
    """An interface of this name that can carry something; its carrier."""
    if not re.fullmatch(r"[^\s,/:]{1,15}", name):
        raise TransportError(f"{name!r} is not the name of one network interface, such as eth0")
    found = {one.name: one for one in interfaces(here.sys)}
    if here.member and name not in found:
        usable = [one.name for one in found.values() if one.up is not False]
        raise TransportError(f"there is no network interface {name!r} here: {_listed(usable)}")
    if here.member and found[name].up is False:
        raise TransportError(f"the network interface {name!r} is down")
    loopback = found[name].loopback if name in found else name == "lo"
    if loopback and here.hosts > 1:
        raise TransportError(f"{name} does not leave its host, and the ranks are on {here.hosts}")
    return f"net:{name}"


_KINDS = {
    "verbs": "InfiniBand or RoCE",
    "hfi1": "Omni-Path (hfi1)",
    "qib": "True Scale (qib)",
    "efa": "EFA",
}


def adapter(name: str | None, here: Here, kinds: tuple[str, ...] = ("verbs", "hfi1", "qib")) -> str:
    """An adapter of one of these kinds with an active port, or the one (and port) that is named; its carrier."""
    carrier = f"hca:{name}" if name else "hca"
    if not here.member:
        return carrier
    every = adapters(here.sys)
    found = [one for one in every if one.kind in kinds]
    if not found:
        where = _listed([one.name for one in every]) if every else "/sys/class/infiniband is empty"
        raise TransportError(f"no {_KINDS[kinds[0]]} device here ({where})")
    device, _, port = (name or "").partition(":")
    chosen = [one for one in found if device in ("", one.name)]
    if not chosen or (port and port not in chosen[0].ports):
        raise TransportError(f"there is no {name!r} here: {_listed(_ports(found))}")
    if not any(_active(one, port) for one in chosen):
        raise TransportError(f"no port of {' and '.join(one.name for one in chosen)} is active")
    return carrier


def cassini(name: str | None, here: Here) -> str:
    """A Slingshot device; its carrier."""
    found = slingshot(here.sys)
    if here.member and not found:
        raise TransportError("no Slingshot device here (/sys/class/cxi is empty)")
    if here.member and name and name not in found:
        raise TransportError(f"there is no {name!r} here: {_listed(found)}")
    return f"hca:{name}" if name else "hca"


def component(framework: str, name: str, here: Here, instead: str = "") -> None:
    """Open MPI has this component built in."""
    built_in = here.has.components.get(framework)
    if built_in is not None and name not in built_in:
        raise TransportError(f"this Open MPI has no {framework} {name!r}" + (f": {instead}" if instead else ""))


def first_port(device: str, here: Here) -> str:
    """The device with a port: UCX knows devices only with one."""
    if ":" in device:
        return device
    for one in adapters(here.sys):
        if one.name == device:
            return f"{device}:{[*one.active, *one.ports, '1'][0]}"
    return f"{device}:1"


def _active(one: Adapter, port: str) -> bool:
    # An EFA port says so too; a recorded tree or an old driver may have no ports at all.
    return not one.ports or (port in one.active if port else bool(one.active))


def _ports(found: list[Adapter]) -> list[str]:
    return [f"{one.name}:{port}" for one in found for port in one.ports] or [one.name for one in found]


def _listed(names: list[str]) -> str:
    if not names:
        return "there is none"
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"
