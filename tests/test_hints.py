"""What to do about a launch that failed. The outputs are recorded, shortened to their telling lines."""

import pytest

from pingpong.model import Transport
from pingpong.transports.hints import hint

NONE_OPENED = "No components were able to be opened in the pml framework.\n\nThis typically means that either no\n"
UNREACHABLE = "At least one pair of MPI processes are unable to reach each other for\nMPI communications.\n"
DAEMON = "A daemon failed to report back after being spawned. This could\nbe due to several factors\n"
UCX = "[1796091407.791] [n1:26699:0]     ucp_context.c:1381 UCX  WARN  "


def asked(*arguments):
    return Transport(name="mine", arguments=[*arguments])


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (
            f"{UCX}transport 'rc' is not available, please use one or more of: cma, mm, tcp\n{NONE_OPENED}",
            ["UCX has no transport rc on host n1", "cma, mm, tcp"],
        ),
        (
            f"{UCX}network device 'eth9' is not available, please use one or more of: 'eth0'(tcp), 'lo'(tcp)\n",
            ["UCX has no device eth9 on host n1", "'eth0'(tcp), 'lo'(tcp)"],
        ),
        (
            "WARNING: An invalid value was given for btl_tcp_if_include.  This\nvalue will be ignored.\n\n"
            f"  Local host: n1\n  Value:      ib9\n  Message:    Unknown interface name\n{UNREACHABLE}",
            ["host n1 has no interface ib9", "btl_tcp_if_include"],
        ),
        (
            "As of version 3.0.0, the \"sm\" BTL is no longer available in Open MPI.\n",
            ["vader"],
        ),
        ("Host:      n1\nFramework: mtl\nComponent: psm2\n", ["no mtl psm2", "pingpong transports"]),
        (
            "MPIDI_OFI_find_provider(84): \n"
            "find_provider(132).........: OFI call getinfo failed (default nic=(n/a): No data available)\n",
            ["libfabric", "pingpong transports"],
        ),
        (
            "find_provider(3064)..........: OFI fi_getinfo() failed (ofi_init.c:3064:find_provider:No data\n",
            ["libfabric", "pingpong transports"],
        ),
        (
            "MPIDI_OFI_create_vci_context(1058): OFI call ep_enable failed (default nic=tcp: Bad file\n",
            ["network interface"],
        ),
        (f"Host key verification failed.\n{DAEMON}", ["ssh", "key", "log in once"]),
        (f"a@n2: Permission denied (publickey,password).\n{DAEMON}", ["ssh", "without asking"]),
        (f"ssh: Could not resolve hostname n7: Name or service not known\n{DAEMON}", ["n7", "--hosts"]),
        (f"ssh: connect to host n2 port 22: Connection refused\n{DAEMON}", ["n2", "Connection refused"]),
        (DAEMON, ["daemon", "ssh HOST true"]),
        (f"{DAEMON}  Remote host:   n2\n", ["daemon", "ssh n2 true"]),
        (
            "UCX  ERROR   no active messages transport to <no debug data>: tcp/ib0 - no route to 10.1.0.2:0\n",
            ["ib0", "ip route"],
        ),
        ("ORTE was unable to reliably start one or more daemons.\n", ["daemon", "ssh HOST true"]),
        ("[mpiexec@n1] Error: Unable to run bstrap_proxy on n2 (pid 27032, exit code 65280)\n", ["ssh n2 true"]),
        ("[mpiexec@n1] HYDU_sock_get_iface_ip (sock.c:447): unable to find interface ib9\n", ["ib9", "-iface"]),
        ("[mpiexec@n1] match_arg (args.c:166): unrecognized argument mca\n", ["no option mca", "another MPI"]),
        ("An unrecognized option was included on the mpiexec command line:\n\n  Option: --nosuch\n", ["--nosuch"]),
        ("There are not enough slots available in the system to satisfy the 2\nslots that\n", ["--oversubscribe"]),
        ("The PMIx server's listener thread failed to start. We cannot continue.\n", ["once more"]),
    ],
)  # fmt: skip
def test_the_cause_is_named_before_the_consequence(output, said):
    text = hint(output, asked())
    assert "\n" not in text and "{" not in text
    for part in said:
        assert part in text


def test_what_mpi_does_not_say_follows_from_what_was_asked():
    assert "pml_ucx_tls any" in hint(NONE_OPENED, asked("--mca", "pml", "ucx"))
    assert "mtl" in hint(NONE_OPENED, asked("--mca", "pml", "cm", "--mca", "mtl", "psm2"))
    assert "by mine" in hint(UNREACHABLE, asked("--mca", "btl", "self"))
    assert "by default" in hint(UNREACHABLE, None)


def test_zeros_in_the_output_hide_nothing():
    """Open MPI's texts have them."""
    assert "ssh" in hint("Host key\0 verification failed.", None)


@pytest.mark.parametrize("output", ["", "Segmentation fault", "Traceback (most recent call last):\n  {0} {x}"])
def test_nothing_is_guessed(output):
    assert hint(output, asked()) is None
    assert hint(NONE_OPENED, asked("--mca", "pml", "yalla")) is None
