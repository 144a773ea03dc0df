import pytest

from pingpong.model import Rank
from pingpong.placement import warnings, where


def rank(number, host="n1", cores=("0:0",), usable=8):
    return Rank(rank=number, host=host, pid=number, cores=list(cores), usable=usable)


def codes(ranks, environment=None):
    return [warn.code for warn in warnings(ranks, environment or {})]


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
    found = [warn for warn in warnings(crowd, {}) if warn.code == "oversubscribed"]
    assert len(found) == 1
    assert "2 ranks on host n1" in found[0].text and words in found[0].text


def test_as_many_cpus_as_ranks_are_enough_and_unknown_is_no_reason_to_warn():
    assert "oversubscribed" not in codes([rank(0, usable=2), rank(1, cores=["0:1"], usable=2)])
    assert "oversubscribed" not in codes([rank(0, usable=None), rank(1, cores=["0:1"], usable=None)])


def test_one_cpu_each_on_two_hosts_is_not_crowded():
    assert codes([rank(0, "n1", usable=1), rank(1, "n2", usable=1)]) == []


def test_two_ranks_on_one_core():
    (warn,) = warnings([rank(0, cores=["0:3"]), rank(1, cores=["0:3"])], {})
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
    (warn,) = warnings([rank(n, cores=c) for n, c in enumerate(cores)], {})
    assert warn.code == "unbound" and who in warn.text


def test_unknown_cores_are_no_reason_to_warn():
    assert codes([rank(0, cores=[]), rank(1, cores=[])]) == []


@pytest.mark.parametrize(("governor", "warned"), [("powersave", True), ("performance", False), (None, False)])
def test_a_governor_that_changes_the_clock_rate(governor, warned):
    environment = {"hosts": {"n1": {"governor": "performance"}, "n2": {"governor": governor} if governor else {}}}
    found = warnings(bound("n1", "n2"), environment)
    assert [warn.code for warn in found] == (["governor"] if warned else [])
    if warned:
        assert "host n2 is powersave" in found[0].text


def test_each_warning_comes_once():
    environment = {"hosts": {"n1": {"governor": "powersave"}}}
    crowd = [rank(n, cores=["0:0"], usable=1) for n in range(2)]
    assert codes(crowd, environment) == ["oversubscribed", "shared-core", "governor"]
