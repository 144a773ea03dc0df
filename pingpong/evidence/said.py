"""What MPI itself printed about the wire, as far as it can be trusted.

Only lines about connections that were made count, never lists of candidates. The names are devices ("ib0",
"mlx5_0:1") where MPI names them, else protocols ("tcp"); memory that ranks share is "shm". What each line proves
and where it misleads: docs/evidence.md.
"""

import re
from collections.abc import Iterator

from pingpong.model import Said

SHARED = "shm"
_MEMORY = {"sm", "vader", "shm", "sm2", "posix", "sysv", "cma", "xpmem", "knem", "memory"}
_SELF = {"self", "n/a"}


def of(output: bytes, mpi: str) -> list[Said]:
    """What the MPI named `mpi` ("Open MPI", "MPICH", "Intel MPI", …) said in a launch's output, each once.

    `output` is as it came: with NUL bytes, broken encodings and launchers' prefixes.
    """
    text = output.replace(b"\0", b"").decode(errors="replace")
    found = [*_ucx(text)]
    if "Open MPI" in mpi:
        found += [*_display_comm(text), *_btl(text), *_mtl(text)]
    elif "Intel" in mpi:
        found += _intel(text)
    elif "MPICH" in mpi:
        found += _mpich(text)
    once = {(said.by, said.text): said for said in found}
    return list(once.values())


def _said(by: str, text: str, names: list[str]) -> Said:
    return Said(by=by, text=" ".join(text.split()), names=sorted(set(names)))


def _display_comm(text: str) -> Iterator[Said]:
    """The connection summary of Open MPI 5. Between hosts it says which way; on one, where there is no other host.

    A rank's connection to itself is in "on-host" too, so that tells of two ranks only where all are on one host.
    """
    on = re.findall(r"on-host:\s+all connections are (.+)", text)
    off = re.findall(r"off-host:\s+all connections are (.+)", text)
    for here, there in zip(on, off, strict=False):
        alone = there.strip() in _SELF
        where, ways = ("on-host", here) if alone else ("off-host", there)
        names = _ways(ways)
        if names:
            yield _said("ompi_display_comm", f"{where}: all connections are {ways}", names)


def _ways(ways: str) -> list[str]:
    """ "sm", "self tcp", "ofi", "ucx=tcp;ib0,tcp;eth0" or "ucx=posix;memory,cma;memory"."""
    names = []
    for way in re.split(r"[,\s]+", ways.strip()):
        protocol, _, device = way.removeprefix("ucx=").partition(";")
        if protocol not in _SELF and protocol:
            names.append(SHARED if protocol in _MEMORY else device or protocol)
    return names


def _btl(text: str) -> Iterator[Said]:
    """`btl_base_verbose`: which BTL sends to another process, and where TCP connected to."""
    for way, peer in re.findall(r"bml: Using (\S+) btl for send to \S+ on node (\S+)", text):
        if way not in _SELF:
            name = SHARED if way in _MEMORY else way
            yield _said("btl_base_verbose", f"using {way} to send to node {peer}", [name])
    for address in re.findall(r"btl:tcp: now connected to ([^\s,]+)", text):
        yield _said("btl_base_verbose", f"tcp connected to {address}", ["tcp"])


def _mtl(text: str) -> Iterator[Said]:
    """`mtl_ofi_verbose`: provider and domain. Open MPI 4.1 calls them "prov" and "provider"."""
    five = re.findall(r"mtl:ofi:provider:domain: (\S+)", text)
    providers = re.findall(r"mtl:ofi:provider: (\S+)" if five else r"mtl:ofi:prov: (\S+)", text)
    domains = five or re.findall(r"mtl:ofi:provider: (\S+)", text)
    for provider, domain in zip(providers, domains, strict=False):
        yield _said("mtl_ofi_verbose", f"provider {provider}, domain {domain}", [domain])


def _ucx(text: str) -> Iterator[Said]:
    """`UCX_LOG_LEVEL=info`: an endpoint's lanes for messages. The one to a rank itself ("self") tells nothing.

    UCX 1.13 does not say which endpoint it means.
    """
    lanes = re.findall(r"(?:int(?:ra|er)-node cfg#\d+|ep_cfg\[\d+\]:) tag\(([^)]*)\)", text)
    for lane in lanes:
        names = [SHARED if way.split("/")[0] in _MEMORY else way.split("/")[-1] for way in lane.split()]
        yield _said("UCX_LOG_LEVEL", f"messages by {lane}", names)
    yield from _protocols(text)


def _protocols(text: str) -> Iterator[Said]:
    """`UCX_PROTO_INFO`: the table of sizes and devices for messages to another rank."""
    rows: list[tuple[str, str, str]] | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 2 and "cfg#" in cells[0]:
            if rows:
                yield _table(rows)
            wanted = " self " not in cells[0] and cells[1].startswith("tagged message by ucp_tag_send* from")
            rows = [] if wanted else None
        elif len(cells) == 3 and rows is not None:
            rows.append((cells[0], cells[1], cells[2]))
    if rows:
        yield _table(rows)


def _table(rows: list[tuple[str, str, str]]) -> Said:
    devices = [device.strip() for row in rows for device in re.findall(r"\S+/\S+", row[2])]
    names = [SHARED if device.split("/")[0] in _MEMORY else device.split("/")[-1] for device in devices]
    return _said("UCX_PROTO_INFO", "; ".join(f"{size} {ways}" for size, _, ways in rows), names)


def _mpich(text: str) -> Iterator[Said]:
    """`MPIR_CVAR_DEBUG_SUMMARY`: libfabric's provider; not whether messages took it, or shared memory."""
    for provider, domain in re.findall(r"libfabric provider: (\S+) - (\S+)", text):
        yield _said("MPIR_CVAR_DEBUG_SUMMARY", f"libfabric provider {provider}, {domain}", [provider])


def _intel(text: str) -> Iterator[Said]:
    """`I_MPI_DEBUG`: libfabric's provider and the NICs, also where every byte goes through shared memory."""
    for provider in re.findall(r"libfabric provider: (\S+)", text):
        yield _said("I_MPI_DEBUG", f"libfabric provider {provider}", [provider])
    table = re.search(r"Pin nic[^\n]*\n((?:.*startup\(\): \d+\s+\d+\s+\S+[ ]*(?:\n|\Z))+)", text)
    nics = re.findall(r"(\S+)[ ]*$", table[1], re.MULTILINE) if table else []
    if nics:
        yield _said("I_MPI_DEBUG", f"NICs {' '.join(sorted(set(nics)))}", nics)
