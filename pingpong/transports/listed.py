"""Which transports the list shows: each name, and what makes sense with the devices of this machine."""

from collections.abc import Mapping

from pingpong.transports import ofi
from pingpong.transports.base import Here, Way
from pingpong.transports.devices import Adapter, adapters, interfaces


def names(ways: Mapping[str, Way], here: Here) -> list[tuple[str, str]]:
    """Names in the order of the list, each with what it needs."""
    found = []
    for name, way in ways.items():
        found.append((name, way.needs))
        found += [row for row in _rows(name, here) if here.member]
    return found


def _rows(name: str, here: Here) -> list[tuple[str, str]]:
    if name == "tcp":
        return [(f"tcp@{one}", what) for one, what in _networks(here)]
    if name == "ucx":
        memory = [("ucx:shm", "one host, through UCX")] if here.hosts == 1 else []
        ports = [(f"ucx:rc@{port}", f"the port {port}") for port in _ports(here)]
        return [*memory, *((f"ucx:tcp@{one}", f"{what}, through UCX") for one, what in _networks(here)), *ports]
    if name == "ofi":
        return [(f"ofi:{provider}", ofi.PROVIDERS[provider].needs) for provider in ofi.rows(here)]
    return []


def _networks(here: Here) -> list[tuple[str, str]]:
    """Interfaces that can lead to another host: no loopback, no bridge of containers, not known to be down."""
    every = interfaces(here.sys)
    ours = [one for one in every if not (one.loopback or one.internal or one.up is False)]
    return [(one.name, "IPoIB" if one.ipoib else f"the interface {one.name}") for one in ours]


def _ports(here: Here) -> list[str]:
    return [f"{one.name}:{port}" for one in adapters(here.sys) if _verbs(one) for port in one.active]


def _verbs(one: Adapter) -> bool:
    return one.kind == "verbs"
