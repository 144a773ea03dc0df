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


def chosen(given: list[str], name: str) -> bool:
    """Whether what the user said to mpiexec or by variables leaves an interface in use.

    Told by the names of such lists: Open MPI's if_include and if_exclude, UCX_NET_DEVICES, FI_TCP_IFACE.
    """
    text = " ".join(given)
    for list_, included in ((r"tcp_if_exclude", False), (r"tcp_if_include|UCX_NET_DEVICES|FI_TCP_IFACE", True)):
        for words in re.findall(rf"(?:{list_})[= ](\S+)", text):
            if words != "all" and (name in re.split("[,:]", words)) != included:
                return False
    return True


def _usable(launch: Launch) -> list[dict[str, Address]]:
    """The interfaces of two hosts that MPI may use between them; none where they see the same ones."""
    surveys = launch.surveys
    if len(surveys) != 2 or not launch.hosts:
        return []
    a, b = (s.rank for s in surveys)
    if a.machine == b.machine and a.network == b.network:
        return []
    return [{n: i for n, i in s.addresses.items() if not i.loopback and chosen(launch.given, n)} for s in surveys]


def _pairs(launch: Launch) -> list[_Pair]:
    """Interfaces that belong together: in one network, or else of one name."""
    if not (usable := _usable(launch)):
        return []
    (ours, theirs), hosts = usable, tuple(launch.by_host)
    found, left = [], dict(theirs)
    for name, mine in ours.items():
        twins = [other for other, end in left.items() if _network(mine) and _network(end) == _network(mine)]
        other = name if name in twins else twins[0] if twins else name
        if other in left:
            found.append(_Pair((hosts[0], hosts[1]), (name, other), (mine, left.pop(other))))
    return found


def _network(end: Address) -> str | None:
    return str(ipaddress.ip_interface(end.address).network) if end.address else None


def doubles(launch: Launch) -> list[Finding]:
    """An address that both hosts have, as bridges of containers do: ranks may talk to their own host."""
    found = []
    for pair in _pairs(launch):
        a, b = pair.ends
        if a.address and b.address and a.address.partition("/")[0] == b.address.partition("/")[0]:
            what = f"{pair} has the address {a.address.partition('/')[0]} on both hosts: MPI may take it for a way"
            found.append(Finding(launch.level, what, _without(launch, pair.names[0])))
    return found


def _without(launch: Launch, name: str) -> str:
    if launch.mpi == "Open MPI":
        return f"leave it out: --mpiexec-args '--mca btl_tcp_if_exclude lo,{name}', or remove the interface"
    variable = "FI_TCP_IFACE" if launch.mpi == "Intel MPI" else "UCX_NET_DEVICES"
    return f"name another interface ({variable}=NAME), or remove this one"


def networks(launch: Launch) -> list[Finding]:
    """Both ends of each pair up, with an address, in one network."""
    found, fine, pairs = [], [], _pairs(launch)
    for pair in pairs:
        finding = _one_network(launch, pair)
        if finding:
            found.append(finding)
        elif all(end.up and end.address for end in pair.ends):
            fine.append(str(pair))
    if fine and not found:
        found.append(Finding("ok", f"both hosts are in one network by {', '.join(fine)}"))
    if not fine and not found and _usable(launch):
        what = "no interface of one host is in a network of the other: messages go through a router"
        found.append(Finding(launch.level, what, "give both hosts addresses in one network"))
    return found


def _one_network(launch: Launch, pair: _Pair) -> Finding | None:
    a, b = pair.ends
    for i, (end, other) in enumerate(((a, b), (b, a))):
        host, name = pair.hosts[i], pair.names[i]
        if not end.up and other.up and (end.address or other.address):
            what = f"{name} is down on host {host}, and up on host {pair.hosts[1 - i]}"
            return Finding(launch.level, what, f"on {host}: ip link set {name} up; check the cable")
        if end.up and other.up and other.address and not (end.address or end.ipv6):
            what = f"{name} has no address on host {host}, and {other.address} on host {pair.hosts[1 - i]}"
            return Finding(launch.level, what, f"on {host}: ip address add {_free(other.address)} dev {name}")
    if a.up and b.up and a.address and b.address and _network(a) != _network(b):
        what = (
            f"{pair}: {a.address} on host {pair.hosts[0]} and {b.address} on host {pair.hosts[1]} are two networks"
        )
        return Finding(launch.level, what, f"give {pair.names[1]} on {pair.hosts[1]} an address in {_network(a)}")
    return None


def _free(address: str) -> str:
    """A way to write that an address of the same network is wanted."""
    network = ipaddress.ip_interface(address).network
    return f"{str(network.network_address).rpartition('.')[0]}.N/{network.prefixlen}"


def mtus(launch: Launch) -> list[Finding]:
    """Both ends of each pair with one MTU."""
    found = []
    for pair in _pairs(launch):
        a, b = pair.ends
        if a.up and b.up and a.mtu and b.mtu and a.mtu != b.mtu:
            low = int(a.mtu > b.mtu)
            what = f"{pair} has MTU {a.mtu} on host {pair.hosts[0]} and {b.mtu} on host {pair.hosts[1]}"
            command = f"on {pair.hosts[low]}: ip link set {pair.names[low]} mtu {max(a.mtu, b.mtu)}"
            found.append(Finding(launch.level, what, f"{command}, if all switches between them can"))
    return found
