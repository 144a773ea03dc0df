"""What control groups allow a process: versions 1 and 2, each level up to the root. Unknown is absent.

In a container the path of the group may lead nowhere, and the container's own group is the root that is mounted.
"""

from collections.abc import Iterator
from pathlib import Path

from pingpong.sysfs import text

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def quota(own: str, root: Path = ROOT) -> float | None:
    """CPUs' worth of time that all in the groups get, the least of all levels. `own` is what OWN says."""
    found = []
    for group in _groups(own, "cpu", root):
        most, _, period = text(group / "cpu.max").partition(" ")
        for limit, each in (
            (most, period),
            (text(group / "cpu.cfs_quota_us"), text(group / "cpu.cfs_period_us")),
        ):
            if limit.isdecimal() and each.isdecimal() and int(each):
                found.append(int(limit) / int(each))
    return min(found, default=None)


def cpus(own: str, root: Path = ROOT) -> int | None:
    """How many CPUs the groups may run on, the fewest of all levels."""
    counts = (_allowed(group) for group in _groups(own, "cpuset", root))
    return min(filter(None, counts), default=None)


def _allowed(group: Path) -> int | None:
    """What is in effect; before Linux 3.17 there is only what was asked for."""
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    return next(filter(None, (count(text(group / name)) for name in names)), None)


def count(cpus: str) -> int | None:
    """Of "0-3,8" five."""
    try:
        ends = [part.split("-") for part in cpus.split(",") if part]
        return sum(int(end[-1]) - int(end[0]) + 1 for end in ends) or None
    except ValueError:
        return None


def _groups(own: str, controller: str, root: Path) -> Iterator[Path]:
    """The groups that a process is in, with those above them, in each hierarchy that may have the controller."""
    for line in own.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        # A folder may name its controllers in another order, and then each has a link to it. Where both versions
        # are there, that of version 2 is a folder among those of version 1.
        for top in (root / controllers, root / controller) if controllers else (root, root / "unified"):
            group = Path(path.lstrip("/"))
            yield from (top / level for level in (group, *group.parents))
