"""Which counters a host has, how they stack, in which units: trees written from the kernel's documentation.

Nobody has run these on the hardware that they describe; the loopback at the end is real.
"""

import socket

import pytest

from pingpong.evidence.counters import Reader, idle
from pingpong.evidence.sources import sources

ETHERNET, IPOIB, LOOPBACK = "1", "32", "772"


class Tree:
    """A host's /sys and /proc under a folder."""

    def __init__(self, root, monkeypatch):
        self.sys, self.proc = root / "sys", root / "proc"
        self.lines, self.indices = {}, []
        self.write(self.proc / "self/net/dev", "")
        monkeypatch.setattr(socket, "if_nameindex", lambda: self.indices)

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def net(self, name, kind=ETHERNET, flags="0x1003", driver=None, speed=None, index=None, **files):
        """An interface; with a `driver` it is a device, without it is virtual."""
        folder, number = self.sys / "class/net" / name, len(self.indices) + 1
        self.indices.append((number, name))
        facts = {"type": kind, "flags": flags, "ifindex": index or number, "speed": speed} | files
        for file, value in facts.items():
            if value is not None:
                self.write(folder / file.replace("__", "/"), f"{value}\n")
        if driver:
            self._driver(folder, driver)
        self.moved(name)
        return folder

    def _driver(self, folder, driver):
        (folder / "device").mkdir(parents=True, exist_ok=True)
        if not (folder / "device/driver").is_symlink():
            (folder / "device/driver").symlink_to(f"../../bus/pci/drivers/{driver}")

    def moved(self, name, sent=0, received=0, packets_sent=0, packets_received=0, errors=0, dropped=0):
        """A line of /proc/net/dev: receive has bytes packets errs drop fifo frame compressed multicast."""
        rx = [received, packets_received, errors, dropped, 0, 0, 0, 0]
        tx = [sent, packets_sent, 0, 0, 0, 0, 0, 0]
        self.lines[name] = f"{name:>6}: " + " ".join(f"{n:>8}" for n in rx + tx)
        head = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes packets\n"
        self.write(self.proc / "self/net/dev", head + "\n".join(self.lines.values()) + "\n")

    def port(self, name, driver, state="4: ACTIVE", rate="100 Gb/sec (4X EDR)", **folders):
        """A port of an HCA; folders are `counters`, `hw_counters`, … with a value for each file."""
        device, port = name.split(":")
        home = self.sys / "class/infiniband" / device
        self.write(home / "ports" / port / "state", f"{state}\n")
        self.write(home / "ports" / port / "rate", f"{rate}\n")
        self._driver(home, driver)
        for folder, files in folders.items():
            for file, value in files.items():
                self.write(home / "ports" / port / folder / file, f"{value}\n")
        return home

    def sources(self):
        return {source.name: source for source in sources(self.sys, self.proc)}

    def reader(self):
        return Reader(sources(self.sys, self.proc), self.sys, self.proc)

    def read(self):
        """By source: bytes sent, bytes received, packets sent, packets received."""
        reader = self.reader()
        numbers = reader.read()
        return {name: numbers[4 * n : 4 * n + 4] for n, name in enumerate(reader.names)}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    return Tree(tmp_path, monkeypatch)


def words(sent, received, packets_sent, packets_received, **more):
    names = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets")
    return dict(zip(names, (sent, received, packets_sent, packets_received), strict=True)) | more


# Interfaces


def test_an_ethernet_interface_has_its_speed_and_driver_and_bytes_as_they_are(tree):
    tree.net("eth0", driver="ixgbe", speed=10000)
    tree.moved("eth0", sent=300, received=500, packets_sent=3, packets_received=5)
    source = tree.sources()["eth0"]
    assert (source.kind, source.driver, source.over) == ("net", "ixgbe", [])
    assert source.speed == 1.25e9  # 10 Gbit/s
    assert tree.read() == {"eth0": [300, 500, 3, 5]}


def test_the_loopback_is_no_network_and_a_virtual_interface_has_no_link(tree):
    tree.net("lo", kind=LOOPBACK, flags="0x9")
    tree.net("veth0", speed=10000)  # the kernel says 10 Gbit/s of a veth that is copied in memory
    found = tree.sources()
    assert found["lo"].kind == "loopback"
    assert found["veth0"].speed is None


def test_interfaces_that_are_down_are_left_out(tree):
    tree.net("eth0", driver="ixgbe")
    tree.net("eth1", driver="ixgbe", flags="0x1002")
    assert list(tree.sources()) == ["eth0"]


def test_sysfs_of_another_namespace_is_not_believed(tree):
    """The name is the same, the index is not: speed, stack and state belong to somebody else's interface."""
    tree.net("eth0", driver="ixgbe", speed=100000, flags="0x1002", index=77)
    tree.moved("eth0", sent=9)
    source = tree.sources()["eth0"]
    assert (source.speed, source.driver, source.kind) == (None, None, "net")
    assert tree.read()["eth0"][0] == 9


def test_a_bond_lies_on_its_members_and_a_vlan_on_the_bond(tree):
    tree.net("eth0", driver="ixgbe")
    tree.net("eth1", driver="ixgbe")
    tree.net("bond0", bonding__slaves="eth0 eth1", lower_eth0__x="", lower_eth1__x="")
    tree.net("bond0.5", lower_bond0__x="")
    found = tree.sources()
    assert found["bond0"].over == ["eth0", "eth1"]
    assert found["bond0.5"].over == ["bond0"]


def test_a_bridge_lies_on_its_ports(tree):
    tree.net("eth0", driver="ixgbe")
    tree.net("br0", brif__eth0__x="")
    assert tree.sources()["br0"].over == ["eth0"]


def test_a_lower_interface_of_another_namespace_is_left_out(tree):
    """A macvlan in a container: its parent is not in this namespace."""
    tree.net("eth0", lower_eth9__x="")
    assert tree.sources()["eth0"].over == []


def test_many_interfaces_do_not_fit_into_a_page_of_proc(tree):
    for n in range(200):
        tree.net(f"veth{n}")
        tree.moved(f"veth{n}", sent=n, received=2 * n)
    found = tree.read()
    assert [found[f"veth{n}"][:2] for n in range(200)] == [[n, 2 * n] for n in range(200)]


# HCAs


@pytest.mark.parametrize("where", ["dev_port", "dev_id"])
def test_ipoib_lies_on_the_port_of_its_hca(tree, where):
    """`dev_port` counts from 0; kernels before 3.15 have the same in `dev_id`."""
    tree.net("ib1", kind=IPOIB, driver="mlx5_core", device__infiniband__mlx5_0__x="", **{where: "0x1"})
    tree.port("mlx5_0:1", "mlx5_core", counters=words(0, 0, 0, 0))
    tree.port("mlx5_0:2", "mlx5_core", counters=words(0, 0, 0, 0))
    assert tree.sources()["ib1"].over == ["mlx5_0:2"]


def test_an_infiniband_port_counts_words_of_four_bytes(tree):
    tree.port("mlx5_0:1", "mlx5_core", counters=words(1000, 2000, 30, 40))
    source = tree.sources()["mlx5_0:1"]
    assert (source.kind, source.speed) == ("hca", 12.5e9)  # 100 Gbit/s
    assert tree.read() == {"mlx5_0:1": [4000, 8000, 30, 40]}


def test_omni_path_counts_flits_of_eight_bytes(tree):
    tree.port("hfi1_0:1", "hfi1", counters=words(1000, 2000, 30, 40))
    assert tree.read() == {"hfi1_0:1": [8000, 16000, 30, 40]}


def test_extended_counters_are_preferred_to_those_that_stop_at_32_bits(tree):
    wide = {name + "_64": value for name, value in words(2**40, 5, 6, 7).items()}
    tree.port("mlx4_0:1", "mlx4_core", counters=words(2**32 - 1, 5, 6, 7), counters_ext=wide)
    reader = tree.reader()
    assert reader.read() == [4 * 2**40, 20, 6, 7]
    assert reader.saturated() == []


def test_a_full_32_bit_counter_is_saturated(tree):
    tree.port("mlx4_0:1", "mlx4_core", counters=words(5, 2**32 - 1, 6, 7))
    tree.port("mlx4_0:2", "mlx4_core", counters=words(5, 6, 7, 8))
    assert tree.reader().saturated() == ["mlx4_0:1"]


def test_roce_is_a_carrier_beside_its_interface(tree):
    """RDMA does not go through the network stack: mlx5's port counts RDMA only, its interface all the rest."""
    tree.net("eth2", driver="mlx5_core", speed=100000, device__infiniband__mlx5_1__x="")
    tree.port("mlx5_1:1", "mlx5_core", counters=words(1, 1, 1, 1), gid_attrs={"ndevs/0": "eth2"})
    found = tree.sources()
    assert found["eth2"].over == [] and found["mlx5_1:1"].over == []


def test_irdma_counts_octets_of_both_versions_of_ip(tree):
    files = {"ip4OutOctets": 100, "ip6OutOctets": 11, "ip4InOctets": 200, "ip6InOctets": 22}
    files |= {"ip4OutPkts": 1, "ip6OutPkts": 2, "ip4InPkts": 3, "ip6InPkts": 4}
    tree.port("irdma0:1", "irdma", hw_counters=files)
    assert tree.read() == {"irdma0:1": [111, 222, 3, 7]}


@pytest.mark.parametrize("driver", ["efa", "bnxt_re"])
def test_bytes_and_packets_in_hw_counters(tree, driver):
    tree.port("dev0:1", driver, hw_counters={"tx_bytes": 10, "rx_bytes": 20, "tx_pkts": 1, "rx_pkts": 2})
    assert tree.read() == {"dev0:1": [10, 20, 1, 2]}


def test_old_kernels_have_the_counters_of_efa_at_the_device(tree):
    home = tree.port("efa_0:1", "efa")
    for name, value in {"tx_bytes": 10, "rx_bytes": 20, "tx_pkts": 1, "rx_pkts": 2}.items():
        tree.write(home / "hw_counters" / name, str(value))
    assert tree.read() == {"efa_0:1": [10, 20, 1, 2]}


def test_a_port_that_counts_no_bytes_is_known_but_not_read(tree):
    """Old kernels have files that say so; soft RoCE counts packets only, and lies on its interface."""
    tree.net("eth0", driver="ixgbe")
    tree.port("qedr0:1", "qedr", counters=words(*["N/A (no PMA)"] * 4))
    tree.write(tree.port("rxe0:1", "none", hw_counters={"sent_pkts": 5, "rcvd_pkts": 6}) / "parent", "eth0")
    found = tree.sources()
    assert set(found) == {"eth0", "qedr0:1", "rxe0:1"}
    assert found["rxe0:1"].over == ["eth0"] and found["rxe0:1"].speed is None
    assert tree.reader().names == ["eth0"]


def test_a_virtual_function_is_marked(tree):
    home = tree.port("mlx5_3:1", "mlx5_core", counters=words(0, 0, 0, 0))
    (home / "device/physfn").mkdir()
    tree.port("mlx5_0:1", "mlx5_core", counters=words(0, 0, 0, 0))
    assert {s.name: s.virtual for s in tree.sources().values()} == {"mlx5_0:1": False, "mlx5_3:1": True}


def test_a_port_that_is_down_is_left_out(tree):
    tree.port("mlx5_0:1", "mlx5_core", state="1: DOWN", counters=words(0, 0, 0, 0))
    assert tree.sources() == {}


# Over time


def test_a_reset_counter_shows_as_a_negative_difference(tree):
    tree.port("mlx5_0:1", "mlx5_core", counters=words(1000, 2000, 30, 40))
    reader = tree.reader()
    before = reader.read()
    (tree.sys / "class/infiniband/mlx5_0/ports/1/counters/port_xmit_data").write_text("10\n")
    assert [b - a for a, b in zip(before, reader.read(), strict=True)] == [-3960, 0, 0, 0]


def test_an_interface_that_vanishes_reads_as_nothing(tree):
    tree.net("eth0", driver="ixgbe")
    tree.net("eth1", driver="ixgbe")
    tree.moved("eth0", sent=7)
    tree.moved("eth1", sent=8)
    reader = tree.reader()
    del tree.lines["eth1"]
    tree.moved("eth0", sent=9)
    assert [reader.read()[4 * n] for n in range(2)] == [9, 0]


def test_errors_are_named_by_source_and_counter(tree):
    tree.net("eth0", driver="ixgbe")
    tree.moved("eth0", errors=2, dropped=3)
    counters = words(0, 0, 0, 0, symbol_error=4, link_downed=1, port_xmit_wait=99)
    tree.port("mlx5_0:1", "mlx5_core", counters=counters, hw_counters={"out_of_sequence": 6})
    head = "Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens RetransSegs InErrs\n"
    tree.write(tree.proc / "self/net/snmp", f"Ip: Forwarding\nIp: 1\n{head}Tcp: 1 200 120000 -1 5 12 0\n")
    found = tree.reader().errors()
    wanted = {
        "eth0 rx_errors": 2,
        "mlx5_0:1 symbol_error": 4,
        "mlx5_0:1 link_downed": 1,
        "mlx5_0:1 port_xmit_wait": 99,
        "mlx5_0:1 out_of_sequence": 6,
        "tcp RetransSegs": 12,
    }
    assert wanted.items() <= found.items()


def test_a_host_without_anything_has_no_counters(tmp_path):
    nowhere = tmp_path / "nowhere"
    assert sources(nowhere, nowhere) == []
    reader = Reader([], nowhere, nowhere)
    assert (reader.read(), reader.errors(), reader.saturated(), idle(reader, 0.0)) == ([], {}, [], {})


# The real host


def test_bytes_through_a_real_loopback_socket_are_seen():
    reader = Reader(sources())
    place = 4 * reader.names.index("lo")
    payload = b"x" * 40_000
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as into,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out,
    ):
        into.bind(("127.0.0.1", 0))
        before = reader.read()
        out.sendto(payload, into.getsockname())
        assert into.recv(65536) == payload
        after = reader.read()
    reader.close()
    sent, received, *packets = [b - a for a, b in zip(before, after, strict=True)][place : place + 4]
    assert sent >= 40_000 and received >= 40_000
    assert min(packets) >= 1


def test_an_idle_rate_is_per_second():
    reader = Reader(sources())
    rates = idle(reader, 0.05)
    reader.close()
    assert list(rates) == reader.names
    assert all(len(rate) == 4 and min(rate) >= 0 for rate in rates.values())
