"""Files of the kernel: what they say, and which of them speak of this process's own network namespace.

Nothing here raises; what cannot be read is empty or absent.
"""

import socket
from pathlib import Path

SYS = Path("/sys")


def text(path: Path) -> str:
    """What a file says, stripped."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def entries(folder: Path) -> list[Path]:
    """What is in a folder, sorted."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def interfaces(sys: Path = SYS) -> dict[str, Path | None]:
    """The network interfaces of this process's own namespace, each with its folder.

    /sys may show the namespace of whoever mounted it: a folder is believed only where its index agrees, and absent
    otherwise.
    """
    try:
        own = [(name, str(index), sys / "class/net" / name) for index, name in socket.if_nameindex()]
    except (OSError, AttributeError):
        return {}
    return {name: folder if text(folder / "ifindex") == index else None for name, index, folder in own}


def down(name: str, sys: Path = SYS) -> str | None:
    """What is wrong with an interface: "gone" or "down"; None if nothing is, or it cannot be seen."""
    found = interfaces(sys)
    if found and name not in found:
        return "gone"
    folder = found.get(name)
    return "down" if folder and text(folder / "operstate") in ("down", "lowerlayerdown", "notpresent") else None


def driver(folder: Path) -> str | None:
    """The driver of a device of the classes net or infiniband; virtual ones have none."""
    try:
        return (folder / "device/driver").readlink().name
    except OSError:
        return None
