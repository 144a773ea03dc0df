"""The counters of a host for the ranks that measure: what moved at rest, between two moments, and went wrong."""

from typing import NamedTuple

from pingpong.evidence import counters, sources
from pingpong.model import Watched

IDLE = 0.25  # seconds of rest


class Meter:
    """The counters of this host, which the result calls `host`."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._sources = sources.sources()
        self._reader = counters.Reader(self._sources)
        self.names, self.read, self.saturated = self._reader.names, self._reader.read, self._reader.saturated
        self._errors = self._reader.errors()

    def at_rest(self) -> Watched:
        """The counters that there are, and what they say while nothing is measured."""
        return Watched(host=self.host, sources=self._sources, idle=counters.idle(self._reader, IDLE))

    def errors(self) -> dict[str, int]:
        """How much the error counters have grown since the beginning; those that have not are left out."""
        now = self._reader.errors()
        grown = {name: now[name] - before for name, before in self._errors.items() if name in now}
        return {name: by for name, by in grown.items() if by}


class Elsewhere(NamedTuple):
    """The counters of the other rank's host, as far as this one must know them; or none, where it reads none."""

    host: str = ""
    names: tuple[str, ...] = ()

    def read(self) -> list[int]:
        return []

    def errors(self) -> dict[str, int]:
        return {}

    def saturated(self) -> list[str]:
        return []
