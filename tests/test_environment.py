"""What the result says of the host: an allow-list, and nothing that is unknown."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from pingpong import environment


def written(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_infiniband_devices_with_all_that_sysfs_tells(tmp_path):
    """A tree as the kernel documents it (Documentation/ABI/stable/sysfs-class-infiniband)."""
    root = written(
        tmp_path,
        {
            "mlx5_0/fw_ver": "16.35.2000",
            "mlx5_0/board_id": "MT_0000000008",
            "mlx5_0/node_guid": "secret",
            "mlx5_0/device/numa_node": "1",
            "mlx5_0/device/current_link_width": "16",
            "mlx5_0/device/current_link_speed": "8.0 GT/s PCIe",
            "mlx5_0/ports/1/state": "4: ACTIVE",
            "mlx5_0/ports/1/rate": "100 Gb/sec (4X EDR)",
            "mlx5_0/ports/1/link_layer": "InfiniBand",
            "mlx5_1/ports/1/state": "1: DOWN",
        },
    )
    assert environment._infiniband(root) == {
        "mlx5_0": {
            "firmware": "16.35.2000",
            "board": "MT_0000000008",
            "numa_node": "1",
            "pcie_width": "16",
            "pcie_speed": "8.0 GT/s PCIe",
            "ports": {"1": {"state": "4: ACTIVE", "rate": "100 Gb/sec (4X EDR)", "link_layer": "InfiniBand"}},
        },
        "mlx5_1": {"ports": {"1": {"state": "1: DOWN"}}},
    }
    assert environment._infiniband(tmp_path / "none") == {}


def test_variables_are_chosen_by_prefix_and_launchers_noise_is_left_out():
    env = {
        "UCX_TLS": "tcp",
        "OMPI_MCA_pml": "ucx",
        "FI_PROVIDER": "tcp",
        "MPIR_CVAR_NOLOCAL": "1",
        "I_MPI_FABRICS": "shm",
        "PSM2_DEVICES": "self",
        "PMIX_SERVER_URI2": "tcp4://10.0.0.1:1",
        "OMPI_MCA_orte_hnp_uri": "tcp://10.0.0.1:2",
        "I_MPI_HYDRA_UUID": "1",
        "OMPI_MCA_initial_wdir": "/home/somebody",
        "OMPI_MCA_mca_base_env_list": "PASSWORD=x",
        "MPI_UCX_TLS": "tcp",
        "AWS_SECRET": "x",
    }
    assert set(environment.software_facts(env)["variables"]) == {
        "UCX_TLS", "MPI_UCX_TLS", "OMPI_MCA_pml", "FI_PROVIDER", "MPIR_CVAR_NOLOCAL", "I_MPI_FABRICS",
        "PSM2_DEVICES",
    }  # fmt: skip


def test_facts_of_this_host_agree_with_the_system():
    facts = environment.host_facts()
    assert facts["kernel"] == os.uname().release and facts["cpus"] == os.cpu_count()
    assert facts["interfaces"]["lo"]["mtu"] == int(Path("/sys/class/net/lo/mtu").read_text())
    assert facts["memory"] > environment.available_memory() > 0
    rank = environment.rank_facts(1)
    assert (rank.rank, rank.host, rank.pid) == (1, socket.gethostname(), os.getpid())
    assert set(rank.cpus) == os.sched_getaffinity(0) and len(rank.cores) == len(rank.cpus)
    assert 1 <= environment.own_cores() <= environment.own_cpus() <= os.cpu_count()


def test_a_library_that_cannot_be_loaded_is_quoted_with_its_variables(monkeypatch):
    monkeypatch.setenv("MPI4PY_LIBMPI", "/no/such/libmpi.so")
    monkeypatch.setenv("MPI4PY_MPIABI", "openmpi")
    error = environment.probe_mpi()["error"]
    assert "/no/such/libmpi.so" in error and "MPI4PY_LIBMPI" in error and "raise " not in error


def test_ranks_bind_themselves_to_cores_that_differ():
    """By their number among all ranks: two hosts may be one machine, and each rank the first of its host."""
    usable = sorted(os.sched_getaffinity(0))
    code = "import os, sys; from pingpong import environment; environment.bind(int(sys.argv[1])); "
    code += "print(*sorted(os.sched_getaffinity(0)))"

    def bound(number):
        done = subprocess.run(
            [sys.executable, "-c", code, str(number)], capture_output=True, text=True, check=True
        )
        return set(map(int, done.stdout.split()))

    first, second, again = bound(0), bound(1), bound(len(usable) * 2)
    assert first | second <= set(usable) and again
    assert first == second if len(usable) == 1 else not first & second or environment.own_cores() == 1
