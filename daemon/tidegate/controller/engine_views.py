"""What is worked out of each engine's window: done when its host reports, not all at once in a tick.

A memory, never another answer: it is used for exactly the readings that it was made of.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from tidegate.controller.hostview import EngineView, engine_views
from tidegate.model.reading import EngineName, HostName, HostReading

AHEAD = timedelta(seconds=1)
"""A tick comes so long after a report at least, nearly always: readings that leave the window by then are left out."""


@dataclass(frozen=True, slots=True)
class _Kept:
    first: HostReading
    last: HostReading
    count: int
    views: Mapping[EngineName, EngineView]

    def is_of(self, readings: Sequence[HostReading]) -> bool:
        """True for the very readings of which these views were made: they come in time order and are never replaced."""
        return len(readings) == self.count and readings[0] is self.first and readings[-1] is self.last


class EngineViews:
    """The last views of each host; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[HostName, _Kept] = {}

    def __call__(self, host: HostName, readings: Sequence[HostReading]) -> Mapping[EngineName, EngineView]:
        """The host's engines over these readings, oldest first."""
        if not readings:
            return {}
        with self._lock:
            kept = self._kept.get(host)
        if kept is not None and kept.is_of(readings):
            return kept.views
        views = engine_views(host, readings)
        with self._lock:
            self._kept[host] = _Kept(readings[0], readings[-1], len(readings), views)
        return views

    def forget_all_but(self, hosts: Mapping[HostName, object]) -> None:
        """Keep these hosts' views alone."""
        with self._lock:
            self._kept = {name: kept for name, kept in self._kept.items() if name in hosts}
