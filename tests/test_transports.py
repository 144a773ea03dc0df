"""Names of transports: what they set, what carries the bytes, and what is refused, on machines made by hand."""

from dataclasses import replace
from pathlib import Path

import click
import pytest

from pingpong import cli, environment
from pingpong.texts import transports as texts
from pingpong.transports import NAMES, Here, TransportError, available, listing, resolve, speaking
from pingpong.transports.installed import Installed, names_in, parse_ompi_info

from .hosts import CLUSTER, EVERY, INSTALLED, OMPI_4, OMPI_5, TCP, here, open_mpi, other, tree

MPIS = list(INSTALLED)
OPEN_MPI_5, OPEN_MPI_4, MPICH, INTEL = MPIS
MELLANOX = [("mlx5_0", "mlx5_core", 1), ("mlx5_1", "mlx5_core", 2)]


def refusal(asked, where):
    with pytest.raises(TransportError) as caught:
        resolve(asked, where)
    text = str(caught.value)
    assert "\n" not in text and not text.endswith(".")
    return text


def words(transport):
    return " ".join([*(f"{k}={v}" for k, v in transport.environment.items()), *transport.arguments])


# What is set: flags that were seen to move the bytes where they should, and to fail where they cannot.


@pytest.mark.parametrize(
    ("mpi", "asked", "flags", "carrier"),
    [
        (OPEN_MPI_5, "default", "", None),
        (OPEN_MPI_5, "shm", "--mca pml ob1 --mca btl sm,self", "shm"),
        (OPEN_MPI_5, "shm-nocma", "--mca pml ob1 --mca btl sm,self --mca smsc ^cma", "shm"),
        (OPEN_MPI_5, "tcp", "--mca pml ob1 --mca btl tcp,self", "net"),
        (OPEN_MPI_5, "tcp@eth0", "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0", "net:eth0"),
        (
            OPEN_MPI_5,
            "ucx",
            "UCX_TLS=all UCX_NET_DEVICES=all --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any",
            None,
        ),
        (
            OPEN_MPI_5,
            "ucx:tcp@eth0",
            "UCX_TLS=tcp UCX_NET_DEVICES=eth0 --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any",
            "net:eth0",
        ),
        (OPEN_MPI_5, "ofi:tcp", "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp", "net"),
        (
            OPEN_MPI_5,
            "ofi:tcp;ofi_rxm@eth0",
            "FI_TCP_IFACE=eth0 --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp;ofi_rxm",
            "net:eth0",
        ),
        (OPEN_MPI_4, "shm", "--mca pml ob1 --mca btl vader,self", "shm"),
        (
            OPEN_MPI_4,
            "shm-nocma",
            "--mca pml ob1 --mca btl vader,self --mca btl_vader_single_copy_mechanism none",
            "shm",
        ),
        (MPICH, "shm", "MPIR_CVAR_NOLOCAL=0", "shm"),
        (
            MPICH,
            "tcp@eth0",
            "MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_CH4_NETMOD=ucx UCX_TLS=tcp UCX_NET_DEVICES=eth0",
            "net:eth0",
        ),
        (MPICH, "ofi:tcp", "MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=tcp", "net"),
        (MPICH, "ucx:posix,cma", "MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_CH4_NETMOD=ucx UCX_TLS=posix,cma", "shm"),
        (INTEL, "shm", "I_MPI_FABRICS=shm", "shm"),
        (
            INTEL,
            "tcp@eth0",
            "I_MPI_FABRICS=ofi I_MPI_OFI_PROVIDER=tcp FI_PROVIDER=tcp FI_TCP_IFACE=eth0",
            "net:eth0",
        ),
    ],
)
def test_flags_and_carrier(tmp_path, mpi, asked, flags, carrier):
    transport = resolve(asked, here(*mpi, tree(tmp_path)))
    assert (transport.name, words(transport), transport.carrier) == (asked, flags, carrier)


@pytest.mark.parametrize("mpi", MPIS)
def test_the_default_asks_for_nothing(tmp_path, mpi):
    transport = resolve("default", here(*mpi, tree(tmp_path), hosts=2))
    assert (transport.arguments, transport.environment, transport.carrier) == ([], {}, None)


@pytest.mark.parametrize(
    ("asked", "carrier"),
    [
        ("ucx:rc", "hca"),
        ("ucx:ud_mlx5,self", "hca"),
        ("ucx:dc@mlx5_1:2", "hca:mlx5_1:2"),
        ("ucx:rc@mlx5_0", "hca:mlx5_0:1"),  # UCX knows devices only with their port
        ("ucx:rc@mlx5_0:1,mlx5_1:1", "hca"),
        ("ucx:tcp@ib0", "net:ib0"),
        ("ucx:tcp@eth0,ib0", "net"),
        ("ucx:tcp,rc", None),
        ("ucx:rc,sm,self", "hca"),  # between hosts there is no memory to share
        ("ucx@mlx5_0:1", "hca:mlx5_0:1"),
        ("ucx:all", None),
        ("ucx:tcp,cuda_copy,self", "net"),
        ("verbs", "hca"),
        ("verbs@mlx5_0", "hca:mlx5_0"),
    ],
)
@pytest.mark.parametrize("mpi", [OPEN_MPI_5, MPICH])
def test_what_should_carry_the_bytes_between_hosts(tmp_path, mpi, asked, carrier):
    machine = tree(tmp_path, ["lo", "eth0", "ib0"], MELLANOX)
    assert resolve(asked, here(*mpi, machine, hosts=2)).carrier == carrier


def test_on_one_host_ucx_may_take_memory_unless_told_its_transports(tmp_path):
    machine = here(*MPICH, tree(tmp_path, adapters=MELLANOX))
    assert resolve("ucx@mlx5_0:1", machine).carrier is None
    assert resolve("ucx:rc,sm", machine).carrier is None
    assert resolve("ucx:^tcp@mlx5_0:1", machine).carrier is None
    assert resolve("ucx:rc", machine).carrier == "hca"


def test_openib_is_allowed_to_use_infiniband(tmp_path):
    """By itself Open MPI 4's openib ignores InfiniBand ports."""
    transport = resolve("openib@mlx5_0:1", here(*OPEN_MPI_4, tree(tmp_path, adapters=MELLANOX), hosts=2))
    assert words(transport) == (
        "--mca pml ob1 --mca btl openib,self --mca btl_openib_allow_ib 1 --mca btl_openib_if_include mlx5_0:1"
    )
    assert transport.carrier == "hca:mlx5_0:1"


def test_psm2_is_the_component_or_the_provider(tmp_path):
    machine = tree(tmp_path, adapters=[("hfi1_0", "hfi1", 1)])
    assert words(resolve("psm2", here(*OPEN_MPI_4, machine, hosts=2))) == "--mca pml cm --mca mtl psm2"
    known = open_mpi(OMPI_5, EVERY)
    assert words(resolve("psm2", here(*OPEN_MPI_5, machine, hosts=2, known=known))) == (
        "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include psm2"
    )


def test_on_one_host_psm2_is_kept_off_its_own_shared_memory(tmp_path):
    machine = tree(tmp_path, adapters=[("hfi1_0", "hfi1", 1)])
    for mpi in (OPEN_MPI_4, MPICH, INTEL):
        assert resolve("psm2", here(*mpi, machine)).environment["PSM2_DEVICES"] == "self,hfi"
        assert "PSM2_DEVICES" not in resolve("psm2", here(*mpi, machine, hosts=2)).environment


# What is refused


@pytest.mark.parametrize("mpi", MPIS)
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("tpc", ["'tpc'", "did you mean 'tcp'"]),
        ("SHM", ["'SHM'", "did you mean 'shm'"]),
        ("infiniband", ["'infiniband'", "there are default, shm"]),
        ("", ["empty"]),
        ("ucx:", ["empty"]),
        ("tcp@", ["empty"]),
        ("tcp:fast", ["takes nothing after ':'"]),
        ("shm@eth0", ["takes nothing after '@'"]),
        ("tcp@eth1", ["no network interface 'eth1' here", "eth0 and lo are"]),
        ("tcp@10.1.0.0/16", ["'10.1.0.0/16' is not the name of one network interface"]),
        ("tcp@eth0 --mca pml ucx", ["has a space in its name", "-t 'mine=…'"]),
        ("ofi:tpc", ["no provider 'tpc'", "did you mean 'tcp'"]),
        ("--mca btl tcp,self", ["label", "mine=--mca btl tcp,self"]),
    ],
)
def test_what_cannot_be_meant(tmp_path, mpi, asked, said):
    text = refusal(asked, here(*mpi, tree(tmp_path)))
    for part in said:
        assert part in text


@pytest.mark.parametrize(
    ("mpi", "asked", "said"),
    [
        (OPEN_MPI_5, "openib", "openib was removed in Open MPI 5: use ucx"),
        (OPEN_MPI_4, "openib", "no InfiniBand or RoCE device here (/sys/class/infiniband is empty)"),
        (OPEN_MPI_4, "psm2", "psm2 is built in, no Omni-Path (hfi1) device here (/sys/class/infiniband is empty)"),
        (OPEN_MPI_5, "psm2", "this Open MPI has no mtl 'psm2', and its libfabric no provider 'psm2'"),
        (OPEN_MPI_5, "tcp@eth0,ib0", "'eth0,ib0' is not the name of one network interface, such as eth0"),
        (OPEN_MPI_5, "ofi:shm", "Open MPI cannot use libfabric's shm: use shm"),
        (OPEN_MPI_5, "ofi", "libfabric finds no fabric here; it would have ofi:shm, ofi:tcp, ofi:udp"),
        (MPICH, "ofi", "libfabric finds no fabric here; it would have ofi:shm, ofi:tcp, ofi:udp"),
        (MPICH, "cxi", "cxi is built in, no Slingshot device here (/sys/class/cxi is empty)"),
        (MPICH, "openib", "openib is a component of Open MPI 4: use ucx or verbs"),
        (MPICH, "ucx:rc", "no InfiniBand or RoCE device here (/sys/class/infiniband is empty)"),
        (MPICH, "ucx@eth7", "there is no network interface 'eth7' here: eth0 and lo are"),
        (MPICH, "ucx:tpc", "UCX has no transport 'tpc'; did you mean 'tcp'?"),
        (MPICH, "ucx:tcp@lo", "UCX does not use lo: name another interface (on one host the bytes pass lo)"),
        (INTEL, "psm", "Intel MPI has no psm since 2019: use psm2 or psm3"),
        (INTEL, "ofi:tcp;ofi_rxm", "Intel MPI puts layers on a provider itself: write ofi:tcp"),
    ],
)
def test_what_cannot_be_had_on_a_machine_without_fabric(tmp_path, mpi, asked, said):
    assert refusal(asked, here(*mpi, tree(tmp_path))) == said


@pytest.mark.parametrize("mpi", MPIS)
def test_memory_is_refused_between_hosts(tmp_path, mpi):
    """Intel MPI would silently take another way."""
    machine = here(*mpi, tree(tmp_path, adapters=MELLANOX), hosts=2)
    for asked in ("shm", "shm-nocma", "ucx:posix,cma"):
        assert "memory of one host" in refusal(asked, machine)
    assert "does not leave its host" in refusal("tcp@lo", machine) or mpi == MPICH


def test_components_and_netmods_that_are_not_built_in(tmp_path):
    machine = tree(tmp_path)
    bare = Installed({"pml": frozenset({"ob1", "cm"}), "btl": frozenset({"self", "tcp"}), "mtl": frozenset()})
    assert refusal("ucx", here(*OPEN_MPI_5, machine, known=bare)) == "this Open MPI has no pml 'ucx'"
    assert refusal("ofi:tcp", here(*OPEN_MPI_5, machine, known=bare)) == "this Open MPI has no mtl 'ofi'"
    only = here(*MPICH, machine, known=other("MPICH Device:       ch4:ofi"))
    assert refusal("ucx", only) == "this MPICH has no netmod 'ucx': it is built with ofi"
    assert resolve("tcp", only).environment["FI_PROVIDER"] == "tcp"
    old = here(*MPICH, machine, known=other("MPICH Device:       ch3:nemesis"))
    assert "ch3:nemesis" in refusal("tcp", old)


def test_devices_are_looked_at_by_kind_name_port_and_state(tmp_path):
    machine = tree(
        tmp_path,
        ["lo", "eth0", "ib0", "ib1"],
        [*MELLANOX, ("hfi1_0", "hfi1", 1), ("rdmap0s6", "efa", 1)],
        down=["hfi1_0", "mlx5_1:2", "ib1"],
    )
    where = here(*MPICH, machine, hosts=2)
    assert refusal("psm2", where) == "psm2 is built in, no port of hfi1_0 is active"
    assert refusal("ucx:rc@mlx5_1:2", where) == "no port of mlx5_1 is active"
    assert "mlx5_0:1, mlx5_1:1" in refusal("ucx:rc@mlx5_7:1", where)
    assert "'mlx5_0:3'" in refusal("ucx:rc@mlx5_0:3", where)
    assert refusal("tcp@ib1", where) == "the network interface 'ib1' is down"
    assert resolve("efa", where).carrier == "hca"
    assert resolve("ucx:srd@rdmap0s6", where).carrier == "hca:rdmap0s6:1"
    assert resolve("ucx:all@mlx5_0:1", where).carrier == "hca:mlx5_0:1"
    assert resolve("ucx:all", where).carrier == resolve("ucx", where).carrier is None


@pytest.mark.parametrize(
    ("mpi", "names"),
    [
        (OPEN_MPI_5, ["shm", "tcp@eth0", "ucx:tcp", "ofi:new", "ofi"]),
        (OPEN_MPI_4, ["shm-nocma", "openib"]),
        (MPICH, ["shm", "tcp", "ucx:new", "ucx:^sysv", "ofi:tcp", "verbs"]),
        (INTEL, ["shm", "tcp", "ofi:new", "ucx", "psm3"]),
    ],
)
def test_unknown_is_no_reason_to_refuse(tmp_path, mpi, names):
    """Where nothing could be asked: MPI itself fails if it has to."""
    where = here(*mpi, tree(tmp_path, adapters=MELLANOX), known=Installed())
    assert [resolve(name, where).name for name in names] == names


def test_a_login_node_says_nothing_about_the_nodes(tmp_path):
    where = here(*OPEN_MPI_4, tree(tmp_path), hosts=2, member=False)
    assert resolve("tcp@ib0", where).carrier == "net:ib0"
    assert resolve("ucx:rc@mlx5_0:1", where).carrier == "hca:mlx5_0:1"
    assert resolve("psm2", where).carrier == "hca"
    # There it may be an interface or an adapter.
    unknown = resolve("ucx@ib7", where)
    assert (unknown.environment["UCX_NET_DEVICES"], unknown.carrier) == ("ib7", None)
    assert "does not leave its host" in refusal("tcp@lo", where)
    # Of all that could be had there, what needs no device or takes any.
    assert set(available(where)) == {"default", "tcp", "ucx"}
    assert "write ofi:PROVIDER" in refusal("ofi", where)


def test_an_mpi_of_another_kind_has_a_default_and_raw_flags(tmp_path):
    where = Here("MVAPICH", "3.0", tmp_path / "mpiexec", 2, sys=tree(tmp_path), known=Installed())
    assert resolve("default", where).arguments == []
    assert "MVAPICH" in refusal("tcp", where)
    assert resolve("mine=MV2_SMP_USE_CMA=0", where).environment == {"MV2_SMP_USE_CMA": "0"}


# The list


def test_the_list_has_every_name_and_what_fits_the_machine(tmp_path):
    machine = tree(
        tmp_path, ["lo", "eth0", "ib0", "docker0", "eth9"], [("mlx5_0", "mlx5_core", 2)], down=["eth9", "mlx5_0:2"]
    )
    entries = {entry.name: entry for entry in listing(here(*MPICH, machine))}
    assert set(NAMES) <= set(entries)
    assert {"tcp@eth0", "tcp@ib0", "ucx:tcp@eth0", "ucx:tcp@ib0", "ucx:rc@mlx5_0:1", "ofi:tcp"} <= set(entries)
    assert not {"tcp@lo", "tcp@docker0", "tcp@eth9", "ucx:rc@mlx5_0:2"} & set(entries)
    assert entries["tcp@ib0"].needs == "IPoIB" and "IPoIB" not in entries["tcp@eth0"].needs
    for entry in entries.values():
        assert (entry.missing is None) == (entry.transport is not None)


def test_an_interface_called_ib0_is_ipoib_only_if_it_is(tmp_path):
    machine = tree(tmp_path, ["lo", "ib0"])
    (machine / "class/net/ib0/type").write_text("1\n")  # Ethernet, as of a virtual cable
    needs = {entry.name: entry.needs for entry in listing(here(*MPICH, machine))}
    assert needs["tcp@ib0"] == "the interface ib0"


@pytest.mark.parametrize("mpi", MPIS)
def test_the_text_of_the_list_fits_a_terminal_and_can_be_copied(tmp_path, mpi):
    entries = listing(here(*mpi, tree(tmp_path)))
    lines = texts.table(entries)
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    for entry in entries:
        if entry.transport:
            assert words(entry.transport).replace("^cma", "'^cma'") in text
        else:
            assert f"no: {entry.missing}" in text


def test_the_json_of_the_list_has_the_flags(tmp_path):
    import json

    rows = {row["name"]: row for row in json.loads(texts.json_text(listing(here(*INTEL, tree(tmp_path)))))}
    assert rows["shm"]["environment"] == {"I_MPI_FABRICS": "shm"} and rows["shm"]["missing"] is None
    assert rows["psm"]["missing"] and rows["psm"]["arguments"] == []


@pytest.mark.parametrize(
    ("mpi", "said"),
    [
        ({"error": "cannot load MPI library"}, "no MPI library: cannot load MPI library"),
        ({"name": "MVAPICH", "version": "3.0"}, "mpi4py uses MVAPICH 3.0"),
    ],
)
def test_there_is_no_list_without_an_mpi_and_its_launcher(monkeypatch, mpi, said):
    monkeypatch.setattr(environment, "probe_mpi", lambda: mpi)
    with pytest.raises(click.UsageError, match=said):
        cli.transports.callback("table")


# What MPI says about itself


def test_components_of_ompi_info_count_under_their_old_names_too():
    known = parse_ompi_info(OMPI_5)
    assert known.components["btl"] == {"self", "sm", "tcp", "vader"}
    assert {"btl", "btl_vader_eager_limit", "mtl_ofi_provider_include"} <= known.parameters
    assert known.folder == "/opt/openmpi/lib/openmpi"
    assert parse_ompi_info(OMPI_4).components["mtl"] == {"ofi", "psm", "psm2"}
    assert parse_ompi_info("").components == {}


def test_variables_are_found_in_a_library(tmp_path):
    library = tmp_path / "libmpi.so"
    library.write_bytes(b"\x7fELF\0MPIR_CVAR_NOLOCAL\0MPICH_NOLOCAL\0I_MPI_FABRICS=%s\0xI_MPI\0")
    assert names_in([library, tmp_path / "none"]) == {"MPIR_CVAR_NOLOCAL", "MPICH_NOLOCAL", "I_MPI_FABRICS"}


def test_mpi_speaks_without_touching_the_first_message(tmp_path):
    """Asked at MPI_Init, Open MPI would make the connections whose first message is timed."""
    said = {mpi: speaking(here(*mpi, tmp_path)) for mpi in MPIS}
    assert said[OPEN_MPI_5].arguments == ["--mca", "ompi_display_comm", "mpi_finalize"]
    assert "UCX_PROTO_INFO" not in str(said)
    assert said[INTEL].environment == {"I_MPI_DEBUG": "5"}


def test_usable_providers_decide_whether_there_is_a_fabric(tmp_path):
    machine = tree(tmp_path, adapters=MELLANOX)
    known = open_mpi(OMPI_5, usable=(*TCP, ("verbs;ofi_rxm", "mlx5_0")))
    assert words(resolve("ofi", here(*OPEN_MPI_5, machine, known=known))) == "--mca pml cm --mca mtl ofi"


DOCS = Path(__file__).parent.parent / "docs/transports.md"
HEADINGS = {"Open MPI 5": OPEN_MPI_5, "Open MPI 4": OPEN_MPI_4, "MPICH": MPICH, "Intel MPI": INTEL}


@pytest.mark.parametrize("heading", HEADINGS)
def test_the_tables_of_the_page_are_what_is_set(tmp_path, heading):
    """Memory on one host, all else between two, on a machine that has everything."""
    section = DOCS.read_text().split(f"### {heading}\n")[1].split("\n#")[0]
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in section.splitlines() if "| `" in line]
    assert set(NAMES) - {"default"} <= {name.partition("@")[0] for name, _, _ in rows}
    machine, fabric = tree(tmp_path, **CLUSTER), (("verbs;ofi_rxm", "mlx5_0"),)
    mpi = HEADINGS[heading]
    known = replace(INSTALLED[mpi], providers=EVERY, usable=fabric)
    for name, sets, carrier in rows:
        where = here(*mpi, machine, hosts=1 if name.startswith("shm") else 2, known=known)
        if sets.startswith("no: "):
            assert refusal(name, where) == sets.removeprefix("no: ")
        else:
            transport = resolve(name, where)
            assert (words(transport), transport.carrier or "") == (sets, carrier)
