import stat
from pathlib import Path

import pytest

from pingpong import hosts
from pingpong.hosts import HostsError


def test_two_hosts_by_name():
    assert hosts.named("n1,n2") == ["n1", "n2"]
    assert hosts.named(" n1 , n2.cluster.org") == ["n1", "n2.cluster.org"]
    assert hosts.named("n1,n1") == ["n1"]


@pytest.mark.parametrize("text", ["", ",", "n1,,n2", "n1 n2", "-x", "n1;reboot", "$(id)", "n1:4,n2"])
def test_what_is_no_name_of_a_host_is_refused(text):
    with pytest.raises(HostsError, match="is not the name of a host"):
        hosts.named(text)


@pytest.mark.parametrize(
    "text",
    [
        "n1\nn2\n",
        "# mine\nn1 slots=4\n\nn2 slots=4 max-slots=8\n",  # Open MPI
        "n1:4\nn2:4\n",  # Hydra
        "n1\nn1\nn1\nn2\nn2\n",  # PBS
    ],
)
def test_a_host_file_of_any_mpi(tmp_path, text):
    (tmp_path / "hosts").write_text(text)
    assert hosts.listed(tmp_path / "hosts") == ["n1", "n2"]


def test_a_host_file_that_cannot_be_used(tmp_path):
    (tmp_path / "empty").write_text("# nobody\n")
    with pytest.raises(HostsError, match="empty names no host"):
        hosts.listed(tmp_path / "empty")
    with pytest.raises(HostsError, match=r"cannot read the host file .*gone"):
        hosts.listed(tmp_path / "gone")


def test_an_allocation_of_slurm_is_asked_of_scontrol(tmp_path):
    program = tmp_path / "scontrol"
    program.write_text('#!/bin/sh\n[ "$*" = "show hostnames n[1-3]" ] && printf "n1\\nn2\\nn3\\n"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    env = {"SLURM_JOB_NODELIST": "n[1-3]", "PATH": str(tmp_path)}
    assert hosts.allocated(env) == ["n1", "n2"]
    with pytest.raises(HostsError, match=r"Slurm gave this job n\[1-3\].*use --hosts"):
        hosts.allocated(env | {"PATH": "/nowhere"})
    assert hosts.allocated({"SLURM_JOB_NODELIST": "n1"}) == []


def test_more_hosts_than_ranks_and_files_without_an_end_are_refused():
    with pytest.raises(HostsError, match="two ranks go to two hosts"):
        hosts.named("n1,n2,n3")
    with pytest.raises(HostsError, match="two ranks go to two hosts"):
        hosts.named("n1,n2,n1")
    with pytest.raises(HostsError, match="is not the name of a host"):
        hosts.listed(Path("/dev/zero"))
    with pytest.raises(HostsError, match="ssh's configuration"):
        hosts.named("me@n1,n2")


def test_allocations_of_other_batch_systems(tmp_path):
    pbs, sge = tmp_path / "pbs", tmp_path / "sge"
    pbs.write_text("n1\nn1\nn2\n")
    sge.write_text("n1 4 all.q@n1 UNDEFINED\nn2 4 all.q@n2 UNDEFINED\n")
    assert hosts.allocated({"PBS_NODEFILE": str(pbs)}) == ["n1", "n2"]
    assert hosts.allocated({"PE_HOSTFILE": str(sge)}) == ["n1", "n2"]
    assert hosts.allocated({"LSB_MCPU_HOSTS": "n1 16 n2 16"}) == ["n1", "n2"]


def test_one_allocated_host_needs_no_word_to_mpiexec(tmp_path):
    assert hosts.allocated({}) == []
    assert hosts.allocated({"LSB_MCPU_HOSTS": "n1 16"}) == []
    assert hosts.allocated({"PBS_NODEFILE": str(tmp_path / "gone")}) == []


def test_hosts_among_the_arguments_for_mpiexec_are_those_that_count():
    env = {"LSB_MCPU_HOSTS": "n1 16 n2 16"}
    assert hosts.allocated(env, ["--host", "n3,n4"]) == hosts.allocated(env, ["-hostfile=mine"]) == []
    assert hosts.allocated(env, ["--mca", "btl", "tcp,self"]) == ["n1", "n2"]
