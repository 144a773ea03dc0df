"""What control groups allow, on trees as the kernel documents them (cgroup-v1/cpusets.rst, cgroup-v2.rst)."""

import pytest

from pingpong import cgroups
from tests.test_environment import written

QUOTA, PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"
DEEP = "0::/machine.slice/job/task"


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        (DEEP, {"machine.slice/job/task/cpu.max": "max 100000"}, None),
        (DEEP, {"machine.slice/job/task/cpu.max": "150000 100000"}, 1.5),
        # the least of all levels, also of those between
        (DEEP, {"machine.slice/job/cpu.max": "100000 100000", "machine.slice/cpu.max": "800000 100000"}, 1),
        ("0::/", {"cpu.max": "50000 50000"}, 1),  # in a container
        ("0::/../elsewhere", {"cpu.max": "50000 50000"}, 1),
        ("4:cpu,cpuacct:/a\n0::/", {f"cpu,cpuacct/a/{QUOTA}": "25000", f"cpu,cpuacct/a/{PERIOD}": "50000"}, 0.5),
        ("4:cpu:/a", {f"cpu/a/{QUOTA}": "-1", f"cpu/a/{PERIOD}": "100000"}, None),
        # docker with version 1: the group is the root of what is mounted, and called otherwise
        ("4:cpu:/docker/5f2", {f"cpu/{QUOTA}": "200000", f"cpu/{PERIOD}": "100000"}, 2),
        # RHEL 7: a link of each controller to the folder of both, which are named the other way around
        ("4:cpuacct,cpu:/a", {f"cpu/a/{QUOTA}": "150000", f"cpu/a/{PERIOD}": "100000"}, 1.5),
        ("0::/a", {"unified/a/cpu.max": "100000 100000"}, 1),  # both versions
        ("4:cpuset:/a", {f"cpuset/a/{QUOTA}": "1", f"cpuset/a/{PERIOD}": "1"}, None),
        ("0::/a", {"a/cpu.max": "nonsense"}, None),
        ("nonsense", {}, None),
        ("", {}, None),
    ],
)  # fmt: skip
def test_the_quota_is_the_least_of_all_levels(tmp_path, own, files, quota):
    assert cgroups.quota(own, written(tmp_path, files)) == quota


@pytest.mark.parametrize(
    ("own", "files", "cpus"),
    [
        (DEEP, {"machine.slice/job/task/cpuset.cpus.effective": "0-3,8", "cpuset.cpus.effective": "0-15"}, 5),
        ("3:cpuset:/docker/5f2", {"cpuset/cpuset.effective_cpus": "2"}, 1),
        ("3:memory,cpuset:/a", {"cpuset/a/cpuset.effective_cpus": "0-3"}, 4),
        # before Linux 3.17, and where that differs from what is in effect
        ("3:cpuset:/a", {"cpuset/a/cpuset.cpus": "4-5", "cpuset/cpuset.cpus": "0-7"}, 2),
        ("3:cpuset:/a", {"cpuset/a/cpuset.cpus": "4", "cpuset/a/cpuset.effective_cpus": "4-5"}, 2),
        (DEEP, {"machine.slice/job/task/cpuset.cpus": "", "cpuset.cpus.effective": "0-15"}, 16),
        ("0::/a", {}, None),
    ],
)
def test_the_cpus_are_the_fewest_of_all_levels(tmp_path, own, files, cpus):
    assert cgroups.cpus(own, written(tmp_path, files)) == cpus


@pytest.mark.parametrize(
    ("text", "count"), [("0", 1), ("0-3", 4), ("0-3,8", 5), ("0-1,4-5", 4), ("", None), ("x", None)]
)
def test_a_list_of_cpus_is_counted(text, count):
    assert cgroups.count(text) == count
