"""The recent past in memory: each host's readings of the last minutes, so that a tick asks the database for none."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from tidegate.model.reading import HostName, HostReading

AHEAD = timedelta(minutes=5)
"""A host's clock may be ahead of ours by this much."""
_AT_LEAST = 1_000
_TRIMS = 10
"""So often within the span hosts are looked through that fall silent; one that reports is trimmed each time."""


def most_readings(span: timedelta) -> int:
    """How many readings of one host are kept, whatever it sends: one a second, and never less than a thousand."""
    return max(_AT_LEAST, span // timedelta(seconds=1))


class Head:
    """Readings by host, in time order, over the last `span`; safe to use from any thread."""

    def __init__(self, span: timedelta, most: int | None = None) -> None:
        self.span, self._most = span, most_readings(span) if most is None else most
        self._lock = threading.Lock()
        self._trimmed_at = datetime.min.replace(tzinfo=UTC)
        self._hosts: dict[HostName, list[HostReading]] = {}

    def add(self, readings: Iterable[HostReading], now: datetime) -> int:
        """Take in readings of any host in any order; answers how many were kept.

        What `covers` refuses stays in the store alone. The same moment twice is the same reading.
        """
        kept, oldest, touched = 0, now - self.span, set[HostName]()
        with self._lock:
            for reading in readings:
                if self.covers(reading.at, now):
                    kept += _put(self._hosts.setdefault(reading.host, []), reading)
                    touched.add(reading.host)
            for host in touched:
                self._trim(host, oldest)
            if now - self._trimmed_at > self.span / _TRIMS:
                self._trimmed_at = now
                for host in list(self._hosts):
                    self._trim(host, oldest)
        return kept

    def of(self, host: HostName, since: datetime) -> Sequence[HostReading]:
        """A copy of one host's readings after `since`, oldest first."""
        with self._lock:
            readings = self._hosts.get(host, [])
            return readings[bisect_right(readings, since, key=_at) :]

    def covers(self, at: datetime, now: datetime) -> bool:
        """True for a moment of the recent past; one far ahead is a broken clock's, and would push the true ones out."""
        return now - self.span <= at <= now + AHEAD

    def since(self, since: datetime, until: datetime) -> Mapping[HostName, Sequence[HostReading]]:
        """A copy of every host's readings with since < at <= until, oldest first; hosts without one are left out."""
        with self._lock:  # as short as can be: every report that comes meanwhile waits
            copies = {name: readings[:] for name, readings in self._hosts.items()}
        found = {
            name: readings[bisect_right(readings, since, key=_at) : bisect_right(readings, until, key=_at)]
            for name, readings in copies.items()
        }
        return {name: readings for name, readings in found.items() if readings}

    def __len__(self) -> int:
        with self._lock:
            return sum(len(readings) for readings in self._hosts.values())

    def _trim(self, name: HostName, oldest: datetime) -> None:
        readings = self._hosts[name]
        del readings[: bisect_left(readings, oldest, key=_at)]
        del readings[: -self._most]
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
