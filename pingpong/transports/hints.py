"""What to do about a launch that failed, from the telling lines of what MPI printed."""

import re

from pingpong.model import Transport

_UCX_SAYS = r"\[([\w.-]+):\d+ *:\d+\][^\n]*"  # the host, in the lines of its log
# In order: what names the cause comes before what only names the consequence. "{0}", … are the pattern's groups.
_SIGNS = (
    # the way to the hosts
    (r"Host key verification failed", "ssh does not know the key of a host: log in once by hand (ssh HOST)"),
    (r"Permission denied \(([\w,-]+)\)", "ssh wants a password or has no key: make ssh HOST work without asking"),
    (r"Could not resolve hostname ([\w.-]+)", "no host has the name {0}: look at --hosts"),
    (r"connect to host ([\w.-]+) port \d+: (\w[\w ]+)", "ssh cannot reach {0} ({1}): look at --hosts"),
    (r"Unable to run bstrap_proxy on ([\w.-]+)", "Intel MPI cannot start anything on {0}: try ssh {0} true"),
    (
        r"daemon failed to report back.*?Remote host: +(\S+)",
        "MPI cannot start its daemon on {0}: try ssh {0} true, and see that MPI lies at the same path there",
    ),
    (
        r"A daemon failed to report back|unable to reliably start one or more daemons|Launch proxy failed",
        "MPI cannot start its daemon on a host: try ssh HOST true, and see that MPI lies at the same path there",
    ),
    (
        r"unable to find interface ([\w.-]+)",
        "there is no network interface {0} here for mpiexec itself: look at -iface",
    ),
    (
        r"listener thread failed to start",
        "mpiexec could not set itself up, as happens now and then: try once more",
    ),
    (r"not enough slots available", "mpiexec counts fewer places than ranks: --mpiexec-args=--oversubscribe"),
    (
        r"unrecognized argument (\w+)|unrecognized option.*?Option: +(\S+)",
        "this mpiexec has no option {0}: are these the flags of another MPI?",
    ),
    # what was asked for
    (
        rf"{_UCX_SAYS}network device '(.+?)' is not available, please use one or more of: (.+)",
        "UCX has no device {1} on host {0}, it has {2}",
    ),
    (
        rf"{_UCX_SAYS}transport '(.+?)' is not available, please use one or more of: (.+)",
        "UCX has no transport {1} on host {0}, it has {2}",
    ),
    (
        r"no active messages transport to .*?: ?(\S+)/(\S+) - no route",
        "UCX finds no way over {1}: look whether the route to the other host leads over it (ip route)",
    ),
    (
        r"invalid value was given for (\w+).*?Local host: +(\S+).*?Value: +(\S+)",
        "host {1} has no interface {2}, or none with an address ({0}): pingpong doctor looks at both ends",
    ),
    (r'"sm" BTL is no longer available', "in Open MPI 4 shared memory is called vader: --mca btl vader,self"),
    (
        r"Framework: (\w+)\s+Component: (\w+)",
        "this Open MPI has no {0} {1}, or it cannot be loaded here: pingpong transports lists what can be had",
    ),
    (
        r"OFI (?:call getinfo|fi_getinfo\(\)) failed",
        "libfabric has no such provider here, or it finds no device: pingpong transports lists what can be had",
    ),
    (
        r"OFI (?:call ep_enable|EP enable) failed",
        "libfabric cannot use this device: look at the name of the network interface",
    ),
)
_CHOSEN = {
    "ucx": "UCX found none of its transports and devices here: without pml_ucx_tls any and pml_ucx_devices any it "
    "takes InfiniBand by Mellanox only (transport ucx sets both)",
    "cm": "the mtl that was asked for finds no device here: pingpong transports lists what can be had",
}
_UNREACHABLE = r"unable to reach each other|is unreachable|Destination is unreachable"


def hint(output: str, transport: Transport | None) -> str | None:
    """One sentence of what to do, or None. `output` is what mpiexec and the ranks printed."""
    text = output.replace("\0", "")
    for pattern, sentence in _SIGNS:
        if match := re.search(pattern, text, re.DOTALL if r"\s" in pattern or ".*?" in pattern else 0):
            return sentence.format(*(group.strip() for group in match.groups() if group))
    asked = transport.arguments if transport else []
    if re.search(r"No components were able to be opened in the (\w+) framework", text):
        return next((_CHOSEN[word] for word in asked if word in _CHOSEN), None)
    if re.search(_UNREACHABLE, text):
        name = transport.name if transport else "default"
        return f"the ranks cannot reach each other by {name}: pingpong doctor looks for the reason"
    return None
