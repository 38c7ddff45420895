"""The recent past in memory: each host's readings of the last minutes, so that a tick asks the database for none."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from tidegate.model.reading import HostName, HostReading

SPAN = timedelta(minutes=15)
MAX_READINGS = 1_000
"""Per host, whatever its interval is: fifteen minutes at one a second fit, a broken clock cannot fill the memory."""


class Head:
    """Readings by host, in time order, over the last `span`; safe to use from any thread."""

    def __init__(self, span: timedelta = SPAN, max_readings: int = MAX_READINGS) -> None:
        self._span, self._max = span, max_readings
        self._lock = threading.Lock()
        self._hosts: dict[HostName, list[HostReading]] = {}

    def add(self, readings: Iterable[HostReading], now: datetime) -> int:
        """Take in readings of any host in any order; answers how many were kept.

        What is older than the span stays in the store alone. The same moment twice is the same reading.
        """
        oldest, kept = now - self._span, 0
        with self._lock:
            for reading in readings:
                if reading.at >= oldest:
                    kept += _put(self._hosts.setdefault(reading.host, []), reading)
            self._trim(oldest)
        return kept

    def since(self, since: datetime, until: datetime) -> Mapping[HostName, Sequence[HostReading]]:
        """A copy of every host's readings with since < at <= until, oldest first; hosts without one are left out."""
        with self._lock:
            found = {name: [r for r in readings if since < r.at <= until] for name, readings in self._hosts.items()}
        return {name: readings for name, readings in found.items() if readings}

    def __len__(self) -> int:
        with self._lock:
            return sum(len(readings) for readings in self._hosts.values())

    def _trim(self, oldest: datetime) -> None:
        for name in list(self._hosts):
            readings = self._hosts[name]
            del readings[: bisect_left(readings, oldest, key=_at)]
            del readings[: -self._max]
            if not readings:
                del self._hosts[name]


def _at(reading: HostReading) -> datetime:
    return reading.at


def _put(readings: list[HostReading], reading: HostReading) -> int:
    place = bisect_left(readings, reading.at, key=_at)
    if place < len(readings) and readings[place].at == reading.at:
        return 0
    insort(readings, reading, key=_at)
    return 1
