"""All checks of a launch, in the order in which somebody would look.

While both ranks exchange messages, nothing keeps a run from starting: then whatever may have kept them from it is
a note. Where they do not, it is a problem.
"""

from collections.abc import Callable

from pingpong.doctor import hca, interfaces, meeting, node
from pingpong.doctor.facts import Finding, Launch

CHECKS: tuple[Callable[[Launch], list[Finding]], ...] = (
    meeting.library, meeting.meeting, meeting.heeded, meeting.alike, meeting.same_machine,
    interfaces.own, interfaces.doubles, interfaces.networks, interfaces.mtus,
    hca.ports, hca.rates, hca.errors, hca.pcie, hca.numa, hca.memlock,
    node.folders, node.shared_folder, node.copies, node.cpus,
)  # fmt: skip


def of(launch: Launch) -> list[Finding]:
    """What is found of a launch."""
    return [finding for check in CHECKS for finding in check(launch)]
