"""Names in raw flags that MPI would not know, and would silently ignore."""

from pingpong.model import Transport
from pingpong.transports.base import Here


def check(transport: Transport, here: Here) -> None:
    """Raises TransportError for a name that is close to a valid one and none itself."""
