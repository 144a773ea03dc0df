"""What moved and what that proves: every rule with figures worked out by hand.

A point of 1 MiB with ten visits of three samples and one lead-in step has 10 * (1 + 3) = 40 steps: 40 messages
and 40 * 1048576 = 41943040 bytes each way. On a wire they explain at most 1.02 * 41943040 + 160 * (40 messages +
10 * 4 control messages) + 100 bytes a packet: 42794700.8 bytes and the packets.
"""

import pytest

from pingpong import evidence
from pingpong.model import Moved, Rank, Said, Source, Transport, Visit, Watched
from tests import builders

MIB = 2**20
PAYLOAD = 41_943_040
HOSTS = ("n1", "n2")
ETH = Source(name="eth0", kind="net", speed=125e6, driver="ixgbe")
IB = Source(name="ib0", kind="net", over=["mlx5_0:1"], driver="mlx5_core")
HCA = Source(name="mlx5_0:1", kind="hca", speed=12.5e9, driver="mlx5_core")
LO = Source(name="lo", kind="loopback")
PLAIN = (LO, ETH, Source(name="ib0", kind="net"))  # an ib0 whose HCA is not seen, as in a container
NODE = (LO, ETH, IB, HCA)


def point(size=MIB, moved=None, seconds=1.0, visits=10, kernel="blocking", sample=1e-3, **more):
    """A point of forty steps; `moved` is by host."""
    made = builders.point(kernel, size, [[sample] * 3] * visits, lead_in=1, lead=0, peer=1, **more)
    made.moved = None if moved is None else Moved(seconds=seconds, hosts=moved)
    return made


def run(points, carrier="net:ib0", sources=PLAIN, hosts=HOSTS, idle=None, said=(), saturated=(), **watched):
    """Two ranks, one on each host of which the counters were read; `hosts` may be one host twice."""
    ranks = [Rank(rank=n, host=h, machine=f"boot-{h}", network=f"net-{h}") for n, h in enumerate(hosts)]
    names = {source.name: [0.0] * 4 for source in sources} | (idle or {})
    seen = [
        Watched(host=h, sources=list(sources), idle=names, saturated=list(saturated), **watched)
        for h in dict.fromkeys(hosts)
    ]
    transport = None if carrier is None else Transport(name="asked", carrier=carrier)
    return builders.run(points, ranks=ranks, evidence=seen, transport=transport, said=list(said))


def both(**sources):
    """The same on both hosts: by source the bytes each way, and packets of 1500 bytes or one for each message."""
    numbers = {
        n.replace("_port", ":1"): [b, b, max(40, b // 1500), max(40, b // 1500)] for n, b in sources.items()
    }
    return dict.fromkeys(HOSTS, numbers)


def here(**sources):
    """On the one host n1."""
    return {"n1": both(**sources)["n1"]}


def judge(moved, carrier="net:ib0", size=MIB, seconds=1.0, kernel="blocking", **more):
    made = point(size, moved, seconds, kernel=kernel)
    return evidence.of_point(run([made], carrier, **more), made)


# Two hosts, an interface


def test_the_carrier_that_moved_the_payload_is_confirmed_without_a_word():
    found = judge(both(ib0=42_100_000, eth0=500))
    assert (found.verdict, found.observed, found.reason) == ("confirmed", "ib0", "")


def test_the_payload_itself_is_enough_and_a_byte_less_is_not():
    assert judge(both(ib0=PAYLOAD)).verdict == "confirmed"
    assert judge(both(ib0=PAYLOAD - 1)).verdict == "unverifiable"


def test_more_than_the_messages_explain_is_something_else():
    """1000 packets: 42794700.8 + 100000 bytes."""
    most = {h: {"ib0": [42_894_700, 42_894_700, 1000, 1000]} for h in HOSTS}
    more = {h: {"ib0": [42_894_701, 42_894_701, 1000, 1000]} for h in HOSTS}
    assert judge(most).verdict == "confirmed"
    found = judge(more)
    assert found.verdict == "unverifiable"
    assert "42.9 MB" in found.reason and "41.9 MB" in found.reason


def test_a_silent_fallback_is_contradicted_with_the_figures():
    found = judge(both(ib0=336, eth0=43_500_000))
    assert (found.verdict, found.observed) == ("contradicted", "eth0")
    assert found.reason == "n1: ib0 sent 336 B, the payload is 41.9 MB in 40 messages; eth0 43.5 MB"


@pytest.mark.parametrize(
    ("ib0", "eth0", "verdict"),
    [
        (37_700_000, 4_300_000, "contradicted"),  # 89.9 % and 10.3 %
        (37_800_000, 4_300_000, "unverifiable"),  # 90.1 %
        (37_700_000, 4_100_000, "unverifiable"),  # 9.8 %
        (20_000_000, 0, "unverifiable"),  # half of it, and nobody saw the rest
        (0, 5_000_000, "unverifiable"),  # a tenth elsewhere does not say where the bytes went
    ],
)
def test_only_another_carrier_contradicts_never_silence(ib0, eth0, verdict):
    assert judge(both(ib0=ib0, eth0=eth0)).verdict == verdict


def test_striped_messages_are_never_confirmed_for_one_interface():
    moved = both(ib0=21_000_000, eth0=21_500_000)
    found = judge(moved)
    assert (found.verdict, found.observed) == ("contradicted", "eth0 + ib0 (striped)")
    assert judge(moved, "net").verdict == "confirmed"
    assert judge(moved, None).reason == "eth0 51 %, ib0 49 %"


def test_one_direction_on_one_host_is_enough_for_doubt():
    moved = both(ib0=42_100_000)
    moved = {"n1": moved["n1"], "n2": {"ib0": [42_100_000, 20_000_000, 30_000, 30_000]}}
    found = judge(moved)
    assert found.verdict == "unverifiable"
    assert found.reason.startswith("n2: ib0 received 20.0 MB")


def test_counters_of_one_host_alone_are_said_to_be_so():
    made = point(moved={"n1": both(ib0=42_100_000)["n1"]})
    only = run([made])
    only.evidence = only.evidence[:1]
    found = evidence.of_point(only, made)
    assert (found.verdict, found.reason) == ("confirmed", "only the counters of n1 were read")


def test_without_counters_nothing_is_said():
    made = point()
    assert evidence.of_point(run([made]), made) == evidence.Finding(
        "unverifiable", "unknown", "no counters were read"
    )


def test_an_interface_that_is_not_there_moved_nothing():
    found = judge(both(eth0=43_000_000), "net:ib7")
    assert found.verdict == "contradicted" and "ib7 (not there) sent 0 B" in found.reason


# Small messages


def small(ib0=(3840, 40), eth0=(0, 0)):
    """40 messages of 8 bytes: 320 bytes of payload; 96 bytes each on the wire with Open MPI over IPoIB."""
    return {h: {"ib0": [ib0[0]] * 2 + [ib0[1]] * 2, "eth0": [eth0[0]] * 2 + [eth0[1]] * 2} for h in HOSTS}


def test_small_messages_need_a_packet_each():
    assert judge(small(), size=8).verdict == "confirmed"
    found = judge(small((3840, 39)), size=8)
    assert found.verdict == "unverifiable" and "39 packets" in found.reason
    assert judge(small((700, 8), (3280, 40)), size=8).verdict == "contradicted"


def test_messages_that_cross_may_share_packets():
    made = {h: {"ib0": [2 * 3840] * 2 + [60] * 2} for h in HOSTS}  # 80 messages each way
    assert judge(made, size=8, kernel="bidirectional").verdict == "confirmed"


def test_empty_messages_are_judged_by_their_packets():
    assert judge(small((3520, 40)), size=0).verdict == "confirmed"
    assert judge({h: {} for h in HOSTS}, size=0).verdict == "unverifiable"
    assert judge(small((0, 0), (2960, 40)), size=0).verdict == "contradicted"


def test_a_source_that_counts_no_packets_is_judged_by_bytes():
    assert judge({h: {"ib0": [3840, 3840, 0, 0]} for h in HOSTS}, size=8).verdict == "confirmed"


# Other traffic


def test_steady_traffic_beside_is_subtracted():
    """4 MB/s for a second, beside 42 MB: 46.1 MB are too many without it, and the right amount with it."""
    moved = both(ib0=46_100_000)
    assert judge(moved).verdict == "unverifiable"
    assert judge(moved, idle={"ib0": [4e6, 4e6, 3e3, 3e3]}).verdict == "confirmed"


def test_idle_traffic_that_could_hide_small_messages_leaves_doubt():
    """A tenth of 320 bytes and 40 * 24 bytes of headers is 128: 12.8 kB/s in 10 ms."""
    quiet, noisy = {"ib0": [12_700.0, 0, 0, 0]}, {"ib0": [12_900.0, 0, 0, 0]}
    assert judge(small((3960, 41)), size=8, seconds=0.01, idle=quiet).verdict == "confirmed"
    found = judge(small((3960, 41)), size=8, seconds=0.01, idle=noisy)
    assert found.verdict == "unverifiable" and "129 B in 10.0 ms anyway" in found.reason


def test_what_idle_traffic_may_hide_is_neither_nothing_nor_memory():
    """A stream of 60 MB/s beforehand, and a little less of it while 40 messages of 8 bytes went, in 10 ms."""
    stream = {"ib0": [60e6, 60e6, 4e4, 4e4], "lo": [60e6, 60e6, 4e4, 4e4]}
    numbers = [590_000, 590_000, 390, 390]
    found = judge(on_both({"ib0": numbers}), size=8, seconds=0.01, idle=stream)
    assert (found.verdict, found.observed) == ("unverifiable", "unknown")
    alone = judge({"n1": {"lo": numbers}}, None, 8, 0.01, hosts=("n1", "n1"), idle=stream)
    assert (alone.verdict, alone.observed) == ("observed", "unknown")
    # Between hosts a busy loopback hides nothing.
    beside = judge(on_both({"lo": numbers}), size=8, seconds=0.01, idle={"lo": stream["lo"]})
    assert beside.observed == "nothing moved"


def test_traffic_that_begins_in_the_middle_is_never_taken_for_ours():
    """Twice the payload on ib0, of which half is a stranger's: nobody can tell which half."""
    assert judge(both(ib0=84_000_000)).verdict == "unverifiable"
    # A stranger on eth0 changes nothing of what ib0 moved.
    found = judge(both(ib0=42_100_000, eth0=90_000_000))
    assert (found.verdict, found.observed) == ("confirmed", "ib0")
    # And on one host it is not what shared memory would have moved.
    assert judge(here(lo=200_000_000), "shm", hosts=("n1", "n1")).verdict == "unverifiable"


# Counters that lie


def test_a_reset_counter_leaves_doubt():
    found = judge(both(ib0=-7, eth0=43_000_000))
    assert found.verdict == "unverifiable" and "ib0 were reset" in found.reason
    assert "ib0 reset" in found.observed


def test_a_full_counter_leaves_doubt():
    moved = both(mlx5_0_port=0, eth0=43_000_000)
    found = judge(moved, "hca", sources=NODE, saturated=["mlx5_0:1"])
    assert found.verdict == "unverifiable" and "mlx5_0:1 are full" in found.reason


def test_a_port_without_byte_counters_leaves_doubt():
    made = point(moved=both(eth0=43_000_000))
    without = run([made], "hca", sources=NODE)
    for watched in without.evidence:
        watched.idle = {"eth0": [0.0] * 4}
    found = evidence.of_point(without, made)
    assert found.verdict == "unverifiable" and "mlx5_0:1 counts no bytes" in found.reason


# One host


def test_shared_memory_moves_no_counter():
    found = judge({"n1": {}}, "shm", hosts=("n1", "n1"))
    assert (found.verdict, found.observed, found.reason) == ("confirmed", "shared memory", "")


def test_tcp_over_the_loopback_is_no_shared_memory():
    """lo counts both directions: 80 messages of a MiB."""
    found = judge(here(lo=2 * PAYLOAD + 10_000), "shm", hosts=("n1", "n1"))
    assert (found.verdict, found.observed) == ("contradicted", "lo")
    assert "83.9 MB" in found.reason


@pytest.mark.parametrize("lo", [12_000_000, 60_000_000])
def test_some_bytes_on_a_counter_leave_doubt_about_shared_memory(lo):
    assert judge(here(lo=lo), "shm", hosts=("n1", "n1")).verdict == "unverifiable"


def test_a_loopback_inside_an_hca_would_look_like_shared_memory_and_this_is_said():
    found = judge({"n1": {}}, "shm", hosts=("n1", "n1"), sources=NODE)
    assert found.verdict == "confirmed" and "inside mlx5_0:1" in found.reason
    word = [Said(by="ompi_display_comm", text="on-host: all connections are sm", names=["shm"])]
    assert judge({"n1": {}}, "shm", hosts=("n1", "n1"), sources=NODE, said=word).reason == ""


def test_mpis_word_counts_where_no_counter_was_read():
    word = [Said(by="ompi_display_comm", text="on-host: all connections are sm", names=["shm"])]
    made = point()
    silent = run([made], "shm", hosts=("n1", "n1"), said=word)
    silent.evidence = []
    found = evidence.of_point(silent, made)
    assert found.verdict == "confirmed" and "ompi_display_comm says so" in found.reason
    # But never against a counter.
    assert judge(here(lo=2 * PAYLOAD), "shm", hosts=("n1", "n1"), said=word).verdict == "contradicted"


def test_two_machines_share_no_memory():
    assert judge(both(eth0=43_000_000), "shm").verdict == "contradicted"
    assert judge({h: {} for h in HOSTS}, "shm").verdict == "unverifiable"


def test_on_one_host_the_loopback_is_the_network_but_shows_no_interface():
    moved = here(lo=2 * PAYLOAD + 10_000)
    assert judge(moved, "net", hosts=("n1", "n1")).verdict == "confirmed"
    found = judge(moved, "net:eth0", hosts=("n1", "n1"))
    assert found.verdict == "unverifiable" and "over lo, whatever the interface" in found.reason


@pytest.mark.parametrize("carrier", ["net", "net:eth0"])
def test_where_no_counter_moved_the_bytes_went_through_memory(carrier):
    found = judge({"n1": {}}, carrier, hosts=("n1", "n1"))
    assert (found.verdict, found.observed) == ("contradicted", "shared memory")
    assert "through memory" in found.reason


def test_between_networks_of_one_machine_standing_still_proves_nothing():
    """Containers: the bytes may have gone through memory, or through hardware whose counters lag."""
    made = point(moved={h: {} for h in HOSTS})
    containers = run([made], "net:eth0")
    for rank in containers.ranks:
        rank.machine = "one"
    found = evidence.of_point(containers, made)
    assert (found.verdict, found.observed) == ("unverifiable", "nothing moved")


def test_an_hca_between_ranks_of_one_host_may_count_nothing():
    found = judge({"n1": {}}, "hca", hosts=("n1", "n1"), sources=NODE)
    assert found.verdict == "unverifiable" and "inside the HCA" in found.reason
    assert judge(here(lo=2 * PAYLOAD), "hca", hosts=("n1", "n1"), sources=NODE).verdict == "contradicted"
    assert judge(here(mlx5_0_port=2 * PAYLOAD), "hca", hosts=("n1", "n1"), sources=NODE).verdict == "confirmed"


def test_two_networks_with_one_host_name_cannot_be_told_apart():
    made = point(moved=here(eth0=PAYLOAD))
    twins = run([made], "net:eth0", hosts=("n1", "n1"))
    twins.ranks[1].network = "another"
    assert evidence.of_point(twins, made).verdict == "unverifiable"


# HCAs and stacks


def test_native_verbs_are_confirmed():
    for carrier in ("hca", "hca:mlx5_0", "hca:mlx5_0:1"):
        found = judge(both(mlx5_0_port=42_500_000), carrier, sources=NODE)
        assert (found.verdict, found.observed) == ("confirmed", "mlx5_0:1")


def test_another_port_contradicts():
    two = (*NODE, Source(name="mlx5_1:1", kind="hca"))
    assert judge(both(mlx5_1_port=42_500_000), "hca:mlx5_0", sources=two).verdict == "contradicted"
    assert judge(both(mlx5_1_port=42_500_000), "hca", sources=two).verdict == "confirmed"


@pytest.mark.parametrize("size", [0, 8, MIB])
def test_tcp_over_ipoib_is_no_native_verbs(size):
    """What ib0 moves the port below moves too, with some headers more."""
    each = 88 + size
    ib0, port = 40 * each, 40 * (each + 60)
    moved = {h: {"ib0": [ib0, ib0, 40, 40], "mlx5_0:1": [port, port, 40, 40]} for h in HOSTS}
    found = judge(moved, "hca", size=size, sources=NODE)
    assert (found.verdict, found.observed) == ("contradicted", "ib0")
    assert "ib0" in found.reason
    found = judge(moved, "net:ib0", size=size, sources=NODE)
    assert (found.verdict, found.observed) == ("confirmed", "ib0")


def test_native_verbs_below_ipoib_are_not_the_interface():
    found = judge(both(mlx5_0_port=42_500_000), "net:ib0", sources=NODE)
    assert (found.verdict, found.observed) == ("contradicted", "mlx5_0:1")


def test_rdma_on_an_ethernet_port_is_not_its_interface():
    roce = (ETH, Source(name="mlx5_1:1", kind="hca"))
    assert judge(both(mlx5_1_port=42_500_000), "net:eth0", sources=roce).verdict == "contradicted"
    assert judge(both(mlx5_1_port=42_500_000), "hca", sources=roce).verdict == "confirmed"
    assert judge(both(eth0=42_500_000), "hca", sources=roce).verdict == "contradicted"


def test_the_silence_of_a_virtual_function_proves_nothing():
    vf = (ETH, Source(name="mlx5_3:1", kind="hca", virtual=True))
    found = judge(both(eth0=43_000_000), "hca", sources=vf)
    assert found.verdict == "unverifiable" and "virtual function" in found.reason
    assert judge(both(mlx5_3_port=42_500_000), "hca", sources=vf).verdict == "confirmed"


def test_a_bond_and_its_members_are_one_carrier():
    bond = (
        Source(name="bond0", kind="net", over=["eth0", "eth1"]),
        Source(name="eth0", kind="net"),
        Source(name="eth1", kind="net"),
        Source(name="eth2", kind="net"),
    )
    moved = both(bond0=42_800_000, eth0=21_400_000, eth1=21_400_000)
    found = judge(moved, "net:bond0", sources=bond)
    assert (found.verdict, found.observed) == ("confirmed", "bond0")
    assert judge(moved, "net", sources=bond).verdict == "confirmed"
    found = judge(moved, "net:eth2", sources=bond)
    assert (found.verdict, found.observed) == ("contradicted", "bond0")


def test_another_vlan_of_the_same_cable_is_another_carrier():
    vlans = (
        Source(name="eth0.5", kind="net", over=["eth0"]),
        Source(name="eth0.6", kind="net", over=["eth0"]),
        Source(name="eth0", kind="net"),
    )
    moved = {h: {n.replace("_", "."): v for n, v in m.items()} for h, m in both(eth0_6=43e6, eth0=43e6).items()}
    assert judge(moved, "net:eth0.5", sources=vlans).verdict == "contradicted"
    assert judge(moved, "net:eth0.6", sources=vlans).verdict == "confirmed"
    assert judge(moved, "net:eth0", sources=vlans).verdict == "confirmed"


def test_interfaces_of_different_names_are_told_by_host():
    made = point(
        moved={"n1": {"eth0": [43_000_000] * 2 + [30_000] * 2}, "n2": {"ib0": [43_000_000] * 2 + [30_000] * 2}}
    )
    assert evidence.of_point(run([made], None), made).observed == "eth0 on n1, ib0 on n2"


# A whole run


def sizes(*moved, carrier="net:ib0", **more):
    """A run with a point for each (size, moved)."""
    return run([point(size, each) for size, each in moved], carrier, **more)


def test_a_run_that_is_confirmed_throughout_needs_no_words():
    found = evidence.of_run(sizes((8, small()), (MIB, both(ib0=42_100_000))))
    assert (found.verdict, found.observed, found.reason) == ("confirmed", "ib0", "")


def test_sizes_that_go_different_ways_are_named():
    large = both(ib0=21_000_000, eth0=21_500_000)
    made = sizes((8, small()), (4096, small((40 * 4184, 40))), (MIB, large))
    found = evidence.of_run(made)
    assert found.verdict == "contradicted"
    assert found.observed == "ib0 (8 to 4K), eth0 + ib0 (striped) (1M)"
    assert found.reason.startswith("at 1M: n1: ib0 sent 21.0 MB")


def test_a_size_that_went_two_ways_is_named_once():
    """Its kernels may differ, or the route may have changed between them."""
    kernels = {"blocking": both(ib0=PAYLOAD), "asynchronous": both(eth0=PAYLOAD)}
    points = [point(MIB, moved, kernel=kernel) for kernel, moved in kernels.items()]
    small = point(MIB // 2, both(ib0=PAYLOAD // 2))
    assert evidence.of_run(run([*points, small])).observed == "ib0 (512K), eth0 or ib0 (1M)"


def test_the_worst_size_decides():
    doubtful = sizes((8, small((3840, 39))), (MIB, both(ib0=42_100_000)))
    assert evidence.of_run(doubtful).verdict == "unverifiable"
    assert evidence.of_run(doubtful).reason.startswith("at 8: ")
    wrong = sizes((8, small((3840, 39))), (MIB, both(eth0=42_100_000)))
    assert evidence.of_run(wrong).verdict == "contradicted"


def test_nothing_asked_says_what_was_observed():
    found = evidence.of_run(sizes((MIB, both(eth0=43_000_000)), carrier=None))
    assert (found.verdict, found.observed, found.reason) == ("observed", "eth0", "")


def test_a_run_without_points_has_nothing_to_say():
    assert evidence.of_run(run([])).verdict == "unverifiable"
    assert evidence.of_run(run([], None)).verdict == "observed"
    assert evidence.of_run(builders.run([point()], ranks=[])).observed == "unknown"


def lagging(eth0_in_total=0):
    """A driver that updates once a second: of two sizes one saw the bytes of both, the totals are right."""
    points = [point(MIB, {h: {} for h in HOSTS}), point(2 * MIB, both(ib0=3 * 42_000_000))]
    total = {"ib0": [3 * 42_000_000] * 2 + [90_000] * 2, "eth0": [eth0_in_total] * 2 + [1] * 2}
    return run(points, total=total, seconds=5.0)


def test_counters_that_lag_are_judged_by_their_totals():
    found = evidence.of_run(lagging())
    assert (found.verdict, found.observed) == ("confirmed", "ib0")
    assert "over all sizes together" in found.reason


def test_totals_leave_no_room_for_another_carrier():
    """A tenth of the doubtful bytes on eth0 could be one of the sizes."""
    assert evidence.of_run(lagging(eth0_in_total=13_000_000)).verdict == "unverifiable"


def test_totals_of_ranks_on_one_machine_do_not_rule_out_its_memory():
    made = lagging()
    for rank in made.ranks:
        rank.machine = "one"
    assert evidence.of_run(made).verdict == "unverifiable"


# Warnings


def codes(made):
    return [warn.code for warn in evidence.warnings(made)]


def only(made, code):
    (text,) = [warn.text for warn in evidence.warnings(made) if warn.code == code]
    return text


def test_a_clean_run_has_no_warnings():
    assert codes(sizes((8, small()), (MIB, both(ib0=42_100_000)))) == []


def test_two_hosts_that_are_one_machine():
    made = run([point(moved=both(ib0=42_100_000))])
    for rank in made.ranks:
        rank.machine = "one"
    assert only(made, "one-machine").startswith("hosts n1 and n2 are one machine")


def test_two_hosts_that_are_too_near():
    """Half a trip in 0.4 µs; where the machines are known to differ the clock is to blame, not the hosts."""
    made = run([point(8, small(), sample=0.8e-6)])
    assert codes(made) == []
    for rank in made.ranks:
        rank.machine = None
    assert only(made, "one-machine").startswith("a half trip of 400 ns between hosts n1 and n2")


def test_a_loopback_that_nobody_asked_for_is_a_warning():
    """Both directions of 41943040 bytes pass the one counter."""
    made = run([point(moved=here(lo=2 * PAYLOAD + 10_000))], None, hosts=("n1", "n1"))
    assert "over lo (TCP), not through memory" in only(made, "loopback")
    made.transport = Transport(name="default")
    assert codes(made) == ["loopback"]
    made.transport = Transport(name="mine", arguments=["--mca", "btl", "tcp,self"])
    assert codes(made) == []
    assert codes(run([point(moved=here(lo=500))], None, hosts=("n1", "n1"))) == []


def test_striping_is_said_with_shares_and_sizes():
    made = sizes((8, small()), (MIB, both(ib0=21_000_000, eth0=21_500_000)))
    assert only(made, "striped") == "1M: messages were spread over several carriers (eth0 51 %, ib0 49 % at 1M)"


def test_errors_that_grew_are_said_and_waits_are_told_from_them():
    """Of the port that carried the messages, or should have; not of an interface that had no part in it."""
    grew = {"mlx5_0:1 symbol_error": 7, "mlx5_0:1 port_xmit_wait": 9, "eth0 tx_dropped": 3}
    for carried in both(mlx5_0_port=42_000_000), both(lo=0):
        made = run([point(moved=carried)], "hca", NODE, errors=grew)
        texts = {warn.code: warn.text for warn in evidence.warnings(made)}
        assert set(texts) == {"wire-errors", "wire-waits"}
        assert texts["wire-errors"] == "mlx5_0:1 symbol_error grew by 7 on host n2"
    beside = run([point(moved=both(eth0=42_000_000))], None, NODE, errors=grew)
    texts = [warn.text for warn in evidence.warnings(beside) if warn.code == "wire-errors"]
    assert texts == [f"eth0 tx_dropped grew by 3 on host {host}" for host in HOSTS]


def test_retransmits_count_from_one_packet_in_a_hundred():
    """About 28000 packets were sent."""
    moved = both(ib0=42_000_000)
    assert codes(run([point(moved=moved)], errors={"tcp RetransSegs": 270})) == []
    assert "(1 % of the packets)" in only(
        run([point(moved=moved)], errors={"tcp RetransSegs": 290}), "retransmits"
    )
    native = run([point(moved=both(mlx5_0_port=42_000_000))], "hca", NODE, errors={"tcp RetransSegs": 290})
    assert codes(native) == []  # TCP of somebody else


def test_an_outage_is_kept_visible():
    made = point(65536)
    made.visits.append(Visit(t0=9.0, seconds=[30e-6, 3.06]))
    assert only(run([made]), "outage").startswith("a sample of 3.06 s at 64K: the link may have been down")


def test_a_slow_link_is_no_outage():
    assert codes(run([point(65536, sample=2.0)])) == []


def test_a_rate_beyond_the_speed_of_the_link():
    """1 MiB in a step of 2 ms each way is 1049 MB/s, on a link of 125 MB/s."""
    made = run([point(moved=both(eth0=43_000_000), sample=2e-3)], "net:eth0")
    assert only(made, "beyond-speed").startswith("1.05 GB/s at 1M, more than the links of eth0 on host n1 carry")
    assert codes(run([point(moved=both(eth0=43_000_000), sample=17e-3)], "net:eth0")) == []


def test_time_that_no_visit_accounts_for_is_an_outage():
    """Visits of 4 ms, one every 0.1 s; then one that begins three seconds after the one before it."""
    made = point(size=64, visits=10)
    for n, visit in enumerate(made.visits):
        visit.t0 = 0.1 * n + (3.0 if n >= 5 else 0.0)
    text = only(run([made], None), "outage")
    assert "3.10 s" in text and "stood still" in text
    made.visits[5].t0 -= 2.5
    for visit in made.visits[6:]:
        visit.t0 -= 2.5
    assert "outage" not in codes(run([made], None))


def test_a_stream_of_somebody_else_is_not_taken_for_small_messages():
    """64 B through memory, and beside it a stream over lo in segments of 64 KiB: bytes as of the messages."""
    steps = 250_000
    made = builders.point(size=64, visits=[[1e-6] * 10] * 10, steps=steps // 100, lead=0, peer=1, lead_in=0)
    assert sum(len(v.seconds) for v in made.visits) * made.steps == steps
    made.moved = Moved(seconds=6.0, hosts={"n1": {"lo": [45_000_000, 45_000_000, 700, 700]}})
    judged = evidence.of_point(run([made], "shm", hosts=("n1", "n1")), made)
    assert (judged.verdict, judged.observed) == ("confirmed", "shared memory")
    unasked = evidence.of_point(run([made], None, hosts=("n1", "n1")), made)
    assert unasked.observed == "shared memory"
    # The same bytes in a packet each are the messages.
    made.moved = Moved(seconds=6.0, hosts={"n1": {"lo": [65_000_000, 65_000_000, 2 * steps, 2 * steps]}})
    judged = evidence.of_point(run([made], "shm", hosts=("n1", "n1")), made)
    assert (judged.verdict, judged.observed) == ("contradicted", "lo")


def test_traffic_beside_the_wire_is_not_named_with_it():
    """ib0 moved all that the messages explain; what eth0 moved meanwhile is somebody else's."""
    beside = both(ib0=43_000_000, eth0=40_000_000)
    assert judge(beside, None).observed == "ib0"


def ways(size, packets):
    """Bytes and packets, the same each way."""
    return [size, size, packets, packets]


def on_both(numbers):
    return dict.fromkeys(HOSTS, numbers)


@pytest.mark.parametrize("carrier", ["hca", "net:ib0"])
def test_bulk_traffic_of_somebody_else_contradicts_nothing(carrier):
    """100000 messages of 8 bytes, of which a lagging counter shows none; 1 GB of a stream is not they."""
    made = point(8, None, visits=25_000)
    made.moved = Moved(seconds=1.0, hosts=on_both({"eth0": [10**9, 0, 16_000, 16_000]}))
    assert evidence.of_point(run([made], carrier, NODE), made).verdict == "unverifiable"
    # 1 MiB messages, each in 700 packets: 40 of them are 42 MB, not 1 GB
    stream = on_both({"eth0": ways(10**9, 700_000)})
    assert judge(stream, carrier, sources=NODE).verdict == "unverifiable"


def test_messages_in_flight_together_need_packets_too():
    """80 messages of 8 bytes each way went over ib0; as many bytes in a few packets of eth0 are not they."""
    moved = on_both({"ib0": ways(80 * 74, 80), "eth0": ways(80 * 74, 3)})
    assert judge(moved, "net:eth0", 8, kernel="bidirectional").verdict == "contradicted"
    assert judge(moved, "net:ib0", 8, kernel="bidirectional").verdict == "confirmed"


def test_what_two_interfaces_moved_alike_is_confirmed_for_none():
    """Each moved 42 MB, in packets enough: one of them is a copy, or somebody else's."""
    found = judge(both(ib0=42_500_000, eth0=42_500_000), "net:ib0")
    assert found.verdict == "unverifiable" and "eth0 as much" in found.reason


def test_a_way_back_over_another_interface_is_seen_and_contradicts():
    """A route sends what n1 sends over ib0, and what n2 sends over eth0: 42 MB each way."""
    there, back = [42_500_000, 0, 30_000, 0], [0, 42_500_000, 0, 30_000]
    moved = {"n1": {"ib0": there, "eth0": back}, "n2": {"ib0": back, "eth0": there}}
    found = judge(moved, None)
    assert found.observed == "ib0 from n1 and eth0 from n2"
    others = judge(moved | {"n2": {"ib1": back, "eth1": there}}, None)
    assert others.observed == "ib0 (sent) and eth0 (received) on n1, eth1 (sent) and ib1 (received) on n2"
    asked = judge(moved, "net:eth0")
    assert asked.verdict == "contradicted" and "ib0" in asked.reason
