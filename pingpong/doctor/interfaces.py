"""What surveys say about the interfaces between two hosts. Pure functions, one a check."""

import ipaddress
import re
from typing import NamedTuple

from pingpong.doctor.facts import Address, Finding, Launch


class _Pair(NamedTuple):
    """An interface of each of two hosts."""

    hosts: tuple[str, str]
    names: tuple[str, str]
    ends: tuple[Address, Address]

    def __str__(self) -> str:
        return self.names[0] if len(set(self.names)) == 1 else " and ".join(self.names)


def chosen(mpi: str, given: list[str], ends: dict[str, Address]) -> dict[str, Address]:
    """The interfaces of a host that MPI may use, after what the user said to mpiexec, by variables or in files.

    Told by the lists that this MPI reads. UCX and libfabric may be told of HCAs too: what names no interface here
    says nothing about those that are.
    """
    text = " ".join(given)
    for name, included in _lists(mpi, text):
        if not (said := re.search(rf"\b(?:OMPI_MCA_)?{name}[= ](\S+)", text)) or said[1] == "all":
            continue
        meant = {n for n, end in ends.items() if any(_means(word, n, end.address) for word in said[1].split(","))}
        if meant or name.startswith("btl_"):
            ends = {n: end for n, end in ends.items() if (n in meant) == included}
    return ends


def _lists(mpi: str, text: str) -> list[tuple[str, bool]]:
    """The lists of interfaces that an MPI reads when it is told this, and whether they are of those to use."""

    def uses(layer: str, choice: str) -> bool:
        said = re.search(rf"\b{choice}[= ](\S+)", text)
        return said is not None and layer in said[1].split(",")

    if mpi == "Open MPI":
        for layer, name in (("ucx", "UCX_NET_DEVICES"), ("cm", "FI_TCP_IFACE")):
            if uses(layer, "(?:OMPI_MCA_)?pml"):
                return [(name, True)]
        return [("btl_tcp_if_include", True), ("btl_tcp_if_exclude", False)]
    layers = {"UCX_NET_DEVICES": "ucx", "FI_TCP_IFACE": "ofi"}
    if mpi == "MPICH":
        other = {"ucx": "ofi", "ofi": "ucx"}
        return [(name, True) for name, of in layers.items() if not uses(other[of], "MPIR_CVAR_CH4_NETMOD")]
    return [("FI_TCP_IFACE", True)]


def _means(word: str, name: str, address: str | None) -> bool:
    """Whether a word in a list of interfaces is the name or the network of this one."""
    try:
        network = ipaddress.ip_network(word, strict=False)
    except ValueError:
        return word == name
    return address is not None and ipaddress.ip_interface(address).ip in network


def _usable(launch: Launch) -> list[dict[str, Address]]:
    """The interfaces of two hosts that MPI may use between them; none where they see the same ones."""
    surveys = launch.surveys
    if len(surveys) != 2 or not launch.hosts:
        return []
    a, b = (s.rank for s in surveys)
    if a.machine == b.machine and a.network == b.network:
        return []
    ends = [{name: end for name, end in s.addresses.items() if not end.loopback} for s in surveys]
    return [chosen(launch.mpi, launch.given, each) for each in ends]


def _pairs(launch: Launch) -> list[_Pair]:
    """Interfaces that belong together: all that are in one network, and of those left over all of one name."""
    if not (usable := _usable(launch)):
        return []
    hosts = launch.host_of(launch.surveys[0]), launch.host_of(launch.surveys[1])
    ours, theirs = ({n: end for n, end in ends.items() if end.address or not end.enslaved} for ends in usable)
    found = []
    for belong in (_alike, _networked, _named):
        for mine, other in [(a, b) for a in ours for b in theirs]:
            if mine in ours and other in theirs and belong((mine, ours[mine]), (other, theirs[other])):
                found.append(_Pair(hosts, (mine, other), (ours.pop(mine), theirs.pop(other))))
    return found


_End = tuple[str, Address]  # an interface with its name


def _alike(a: _End, b: _End) -> bool:
    return _networked(a, b) and _named(a, b)


def _networked(a: _End, b: _End) -> bool:
    return _network(a[1]) is not None and _network(a[1]) == _network(b[1])


def _named(a: _End, b: _End) -> bool:
    return a[0] == b[0]


def _network(end: Address) -> str | None:
    return str(ipaddress.ip_interface(end.address).network) if end.address else None


def doubles(launch: Launch) -> list[Finding]:
    """An address that both hosts have, as bridges of containers do: ranks may talk to their own host."""
    found = []
    for pair in _pairs(launch):
        if address := _double(pair):
            what = f"{pair} has the address {address} on both hosts: MPI may take it for a way between them"
            found.append(Finding(launch.level, what, _without(launch, pair.names[0])))
    return found


def _double(pair: _Pair) -> str | None:
    a, b = ((end.address or "").partition("/")[0] for end in pair.ends)
    return a if a == b and a else None


def _without(launch: Launch, name: str) -> str:
    if launch.mpi == "Open MPI":
        return f"leave it out: --mpiexec-args '--mca btl_tcp_if_exclude lo,{name}', or remove the interface"
    variable = "FI_TCP_IFACE" if launch.mpi == "Intel MPI" else "UCX_NET_DEVICES"
    return f"name another interface ({variable}=NAME), or remove this one"


def networks(launch: Launch) -> list[Finding]:
    """Both ends of each pair on, with a link and an address, in one network."""
    pairs = [pair for pair in _pairs(launch) if not _double(pair)]
    found = [finding for pair in pairs if (finding := _apart(launch, pair))]
    together = [str(p) for p in pairs if not _apart(launch, p) and all(end.link and end.address for end in p.ends)]
    if found:
        return found
    if together:
        return [Finding("ok", f"both hosts are in one network by {', '.join(together)}")]
    if (usable := _usable(launch)) and all(usable):
        what = "no interface of one host is in a network of the other: at best there is a router between them"
        return [Finding(launch.level, what, "give two interfaces that a switch joins addresses in one network")]
    return []


def _apart(launch: Launch, pair: _Pair) -> Finding | None:
    a, b = pair.ends
    addresses = [end.address for end in pair.ends if end.address]
    off = [(host, name) for host, name, end in zip(pair.hosts, pair.names, pair.ends, strict=True) if not end.on]
    if addresses and (len(off) == 1 or (off and len(addresses) == 2)):
        what = f"{pair} is down on host {' and '.join(host for host, _ in off)}"
        return Finding(launch.level, what, f"on {off[0][0]}: ip link set {off[0][1]} up")
    if off:
        return None  # nobody uses it
    dark = [host for host, end in zip(pair.hosts, pair.ends, strict=True) if not end.link]
    if len(addresses) == 2 and dark:
        what = f"{pair} is on and has no link on host {' and '.join(dark)}"
        return Finding(
            launch.level, what, f"on {' and '.join(dark)}: plug in the cable, or look at its switch port"
        )
    for i, (end, other) in enumerate(((a, b), (b, a))):
        if other.address and not (end.address or end.ipv6):
            what = (
                f"{pair} has no address on host {pair.hosts[i]}, and {other.address} on host {pair.hosts[1 - i]}"
            )
            command = f"ip address add {_free(other.address)} dev {pair.names[i]}"
            return Finding(launch.level, what, f"on {pair.hosts[i]}: {command}")
    if len(addresses) == 2 and _network(a) != _network(b):
        one, two = pair.hosts
        what = f"{pair}: {a.address} on host {one} and {b.address} on host {two} are two networks, "
        what += "at best with a router between them"
        advice = f"give {pair.names[1]} on {two} an address in {_network(a)}, if a switch joins them"
        return Finding(launch.level, what, advice)
    return None


def own(launch: Launch) -> list[Finding]:
    """Where not all ranks started: interfaces of this host that have an address and cannot be used."""
    found = []
    for name, end in launch.own.items():
        if end.address and not end.on:
            found.append(Finding("problem", f"{name} is down on this host", f"ip link set {name} up"))
    return found


def _free(address: str) -> str:
    """A way to write that an address of the same network is wanted."""
    network = ipaddress.ip_interface(address).network
    return f"{str(network.network_address).rpartition('.')[0]}.N/{network.prefixlen}"


def mtus(launch: Launch) -> list[Finding]:
    """Both ends of each pair with one MTU."""
    found = []
    for pair in _pairs(launch):
        a, b = pair.ends
        if (a.address or b.address) and a.on and b.on and a.mtu and b.mtu and a.mtu != b.mtu:
            low = int(a.mtu > b.mtu)
            what = f"{pair} has MTU {a.mtu} on host {pair.hosts[0]} and {b.mtu} on host {pair.hosts[1]}"
            command = f"on {pair.hosts[low]}: ip link set {pair.names[low]} mtu {max(a.mtu, b.mtu)}"
            found.append(Finding(launch.level, what, f"{command}, if all switches between them can"))
    return found
