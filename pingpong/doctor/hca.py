"""What surveys say about the HCAs of each host: InfiniBand, Omni-Path, RoCE. Pure functions, one a check."""

import re
from typing import Any, NamedTuple

from pingpong.doctor.facts import Finding, Launch, Survey

ACTIVE, LINK_UP = "ACTIVE", "LinkUp"
_PORT_ADVICE = {
    "INIT": "no subnet manager has set it up: start one (opensm), or look at the switch's",
    "ARMED": "the subnet manager has not finished: look at its log",
    "Disabled": "enable it: ibportstate, or ip link set IFACE up",
    "Polling": "no cable or nobody at its other end: check cable and switch port",
}
_ELSE = "look at its cable, its connectors and the switch port"
MEMLOCK = 1 << 30  # bytes that a rank with large messages registers at most, with room to spare


class _Port(NamedTuple):
    host: str
    name: str  # such as "mlx5_0:1"
    board: str | None
    facts: dict[str, Any]

    @property
    def active(self) -> bool:
        return ACTIVE in self.facts.get("state", ACTIVE) and LINK_UP in self.facts.get("phys_state", LINK_UP)

    @property
    def gigabits(self) -> float | None:
        match = re.match(r"[\d.]+", self.facts.get("rate", ""))
        return float(match[0]) if match else None


def _cards(survey: Survey) -> dict[str, dict[str, Any]]:
    return dict(survey.facts.get("infiniband", {}))


def _all_ports(launch: Launch) -> list[_Port]:
    return [
        _Port(host, f"{card}:{number}", facts.get("board"), port)
        for host, survey in launch.by_host.items()
        for card, facts in _cards(survey).items()
        for number, port in facts.get("ports", {}).items()
    ]


def ports(launch: Launch) -> list[Finding]:
    """Every port of an HCA active."""
    found, active = [], []
    for port in _all_ports(launch):
        if port.active:
            active.append(f"{port.name} on host {port.host} ({port.facts.get('rate', 'rate unknown')})")
            continue
        told = f"{port.facts.get('state', 'unknown')}, {port.facts.get('phys_state', 'link unknown')}"
        advice = next((a for state, a in _PORT_ADVICE.items() if state in told), _ELSE)
        found.append(
            Finding(launch.level, f"HCA port {port.name} on host {port.host} is not active ({told})", advice)
        )
    if active and not found:
        found.append(Finding("ok", f"HCA ports are active: {', '.join(active)}"))
    return found


def rates(launch: Launch) -> list[Finding]:
    """No port slower than one of the same name at the other end, or of the same board."""
    found, active = [], [port for port in _all_ports(launch) if port.active and port.gigabits]
    for port in active:
        peers = [p for p in active if p.name == port.name or (p.board and p.board == port.board)]
        best = max(peers, key=lambda p: p.gigabits or 0.0)
        if (port.gigabits or 0.0) < (best.gigabits or 0.0):
            what = (
                f"HCA port {port.name} on host {port.host} runs at {port.facts['rate']}, "
                f"and {best.name} on host {best.host} at {best.facts['rate']}"
            )
            found.append(
                Finding("note", what, "seat cable and connector again, or change the cable; check the switch port")
            )
    return found


def errors(launch: Launch) -> list[Finding]:
    """No error ever counted."""
    found = []
    for host, survey in launch.by_host.items():
        for port, counters in survey.errors.items():
            told = ", ".join(f"{name} {count}" for name, count in counters.items())
            advice = "set them to 0 (perfquery -R); if they grow again, change the cable"
            found.append(Finding("note", f"HCA port {port} on host {host} has counted errors: {told}", advice))
    return found


def pcie(launch: Launch) -> list[Finding]:
    """Every card with all of its lanes, at its speed."""
    found = []
    for host, survey in launch.by_host.items():
        for name, card in _cards(survey).items():
            for what, unit in (("width", "lanes"), ("speed", "")):
                now, most = card.get(f"pcie_{what}"), card.get(f"pcie_{what}_max")
                if now and most and 0 < _number(now) < _number(most):  # a virtual function says 0 and Unknown
                    text = f"HCA {name} on host {host} has a PCIe {what} of {now} {unit}".rstrip()
                    advice = "seat it in a slot that has them (lspci -vv, LnkSta), and check the BIOS"
                    found.append(Finding("note", f"{text}, and could have {most}", advice))
    return found


def _number(text: str) -> float:
    match = re.match(r"[\d.]+", text)
    return float(match[0]) if match else 0.0


def numa(launch: Launch) -> list[Finding]:
    """Each rank near the card."""
    found = []
    for survey in launch.surveys:
        host = launch.host_of(survey)
        near = {n: c["numa_node"] for n, c in _cards(survey).items() if c.get("numa_node", "-1") != "-1"}
        if near and survey.nodes and not {int(node) for node in near.values()} & set(survey.nodes):
            name, node = next(iter(near.items()))
            who = f"rank {survey.rank.rank} on host {host}"
            what = f"{who} runs on NUMA node {survey.nodes[0]}, and HCA {name} is at {node}"
            found.append(
                Finding("note", what, f"bind it there: numactl --cpunodebind={node}, or mpiexec's map-by numa")
            )
    return found


def memlock(launch: Launch) -> list[Finding]:
    """Enough memory that may be locked where there is an HCA with an active port, which needs it."""
    found = []
    for host, survey in launch.by_host.items():
        if (
            survey.memlock is not None
            and survey.memlock < MEMLOCK
            and any(port.active for port in _all_ports(launch) if port.host == host)
        ):
            limit = f"{survey.memlock >> 10} KiB"
            what = f"ranks on host {host} may lock {limit} of memory: an HCA cannot register large buffers"
            what += ", and MPI fails or takes another way"
            advice = (
                "ulimit -l unlimited: /etc/security/limits.conf (memlock), LimitMEMLOCK= of sshd, slurmd or docker"
            )
            found.append(Finding(launch.level, what, advice))
    return found
