import pytest

from pingpong.model import Rank
from pingpong.placement import disturbances, warnings, where


def rank(number, host="n1", cores=("0:0",), usable=8):
    return Rank(rank=number, host=host, pid=number, cores=list(cores), usable=usable)


def codes(ranks):
    return [warn.code for warn in warnings(ranks)]


def bound(*hosts):
    """Ranks on these hosts, each on a core of its own."""
    return [rank(n, host, [f"0:{n}"]) for n, host in enumerate(hosts)]


def test_where_is_said_for_one_host_and_for_two():
    assert where(bound("n1", "n1")) == "both ranks on host n1"
    assert where(bound("n1", "n2")) == "rank 0 on host n1, rank 1 on host n2"


@pytest.mark.parametrize("hosts", [("n1", "n1"), ("n1", "n2")])
def test_ranks_on_cores_of_their_own_need_no_warning(hosts):
    assert codes(bound(*hosts)) == []


@pytest.mark.parametrize(("usable", "words"), [(1, "1 usable CPU:"), (0, "0 usable CPUs:")])
def test_more_ranks_than_cpus(usable, words):
    crowd = [rank(0, usable=usable), rank(1, cores=["0:1"], usable=usable)]
    found = [warn for warn in warnings(crowd) if warn.code == "oversubscribed"]
    assert len(found) == 1
    assert "2 ranks on host n1" in found[0].text and words in found[0].text


def test_as_many_cpus_as_ranks_are_enough_and_unknown_is_no_reason_to_warn():
    assert "oversubscribed" not in codes([rank(0, usable=2), rank(1, cores=["0:1"], usable=2)])
    assert "oversubscribed" not in codes([rank(0, usable=None), rank(1, cores=["0:1"], usable=None)])


def test_one_cpu_each_on_two_hosts_is_not_crowded():
    assert codes([rank(0, "n1", usable=1), rank(1, "n2", usable=1)]) == []


def test_two_ranks_on_one_core():
    (warn,) = warnings([rank(0, cores=["0:3"]), rank(1, cores=["0:3"])])
    assert warn.code == "shared-core"
    assert "ranks 0 and 1" in warn.text and "host n1" in warn.text


def test_two_threads_of_one_core_are_one_core():
    # a rank's mask may hold both hardware threads of its core; `cores` names the core for each
    assert codes([rank(0, cores=["0:3", "0:3"]), rank(1, cores=["0:3"])]) == ["shared-core"]


def test_the_same_core_number_on_two_hosts_or_sockets_is_not_shared():
    assert codes([rank(0, "n1"), rank(1, "n2")]) == []
    assert codes([rank(0, cores=["0:0"]), rank(1, cores=["1:0"])]) == []


@pytest.mark.parametrize(
    ("cores", "who"),
    [
        ((["0:0", "0:1"], ["0:2"]), "rank 0 not bound"),
        ((["0:2"], ["0:0", "0:1"]), "rank 1 not bound"),
        ((["0:0", "0:1"], ["0:0", "0:1"]), "ranks 0, 1 not bound"),
    ],
)
def test_ranks_that_may_move_are_named(cores, who):
    (warn,) = warnings([rank(n, cores=c) for n, c in enumerate(cores)])
    assert warn.code == "unbound" and who in warn.text


def test_unknown_cores_are_no_reason_to_warn():
    assert codes([rank(0, cores=[]), rank(1, cores=[])]) == []


@pytest.mark.parametrize(
    ("governors", "said"),
    [
        (["powersave"], "rank 1 on host n2 is powersave"),
        (["performance", "schedutil"], "rank 1 on host n2 is schedutil"),
        (["performance"], None),
        ([], None),
    ],
)
def test_a_governor_that_changes_the_clock_rate(governors, said):
    ranks = bound("n1", "n2")
    ranks[0].governors, ranks[1].governors = ["performance"], governors
    found = warnings(ranks)
    assert [warn.code for warn in found] == (["governor"] if said else [])
    assert not said or said in found[0].text


@pytest.mark.parametrize(
    ("quotas", "said"),
    [
        ((1.0, 1.0), "2 ranks on host n1, where a quota allows the time of 1 CPU:"),
        ((1.5, 1.5), "the time of 1.5 CPUs:"),
        ((4.0, 0.5), "the time of 0.5 CPUs:"),  # groups of their own
        ((2.0, 2.0), None),
        ((None, None), None),
    ],
)
def test_a_quota_of_cpu_time(quotas, said):
    ranks = bound("n1", "n1")
    for each, quota in zip(ranks, quotas, strict=True):
        each.quota = quota
    found = warnings(ranks)
    assert [warn.code for warn in found] == (["quota"] if said else [])
    assert not said or said in found[0].text


def test_a_quota_is_of_a_host():
    ranks = bound("n1", "n2")
    ranks[0].quota = ranks[1].quota = 1.0
    assert codes(ranks) == []
    ranks[1].quota = 0.5
    (warn,) = warnings(ranks)
    assert "1 rank on host n2" in warn.text


@pytest.mark.parametrize(
    ("quota", "usable", "why"),
    [
        (1.0, 2, "its quota is used up"),
        (None, 3, "something else runs there"),
        (None, 2, "if only pingpong's own launcher and the system (2 ranks, 2 CPUs)"),
    ],
)
def test_why_a_rank_waited_for_its_cpu(quota, usable, why):
    ranks = bound("n1", "n1")
    for each in ranks:
        each.quota, each.measured, each.waited, each.preempted = quota, 2.0, 1.0, 40
        each.usable = usable
    found = disturbances(ranks)
    assert len(found) == 2 and all("50 %" in warn.text and warn.text.endswith(why) for warn in found)


def test_ranks_on_two_hosts_of_one_machine_share_its_cpus():
    ranks = bound("n1", "n2")
    for each in ranks:
        each.measured, each.waited, each.preempted, each.usable, each.machine = 2.0, 1.0, 40, 2, "boot"
    assert all("(2 ranks, 2 CPUs)" in warn.text for warn in disturbances(ranks))


def test_each_warning_comes_once():
    crowd = [rank(n, cores=["0:0"], usable=1) for n in range(2)]
    for each in crowd:
        each.governors = ["powersave"]
    assert codes(crowd) == ["oversubscribed", "shared-core", "governor"]
