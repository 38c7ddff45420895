"""Notice two agents that speak under one host's name, as a copied machine does with its token: their lives take turns.

An agent that was started again has another boot id, and the old one is never heard live again. Where it is, both are
alive, both carry out what is wanted of the host, and what one of them says of a replica undoes what the other said.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import structlog

from tidegate.model.reading import HostName

_log = structlog.get_logger()

_REMEMBERED = timedelta(hours=1)
"""How long a life that was replaced is remembered."""
_MOST = 10_000
"""Lives at most: a host may call itself whatever it likes, as often as it likes."""
_SAID_FOR = timedelta(minutes=5)
"""How long the note stands after the last turn."""


class Twins:
    """Which hosts have two agents; any thread may tell and ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._present: dict[HostName, str] = {}
        """The life heard last, by host."""
        self._replaced: dict[tuple[HostName, str], datetime] = {}
        self._last_turn: dict[HostName, datetime] = {}

    def heard(self, host: HostName, boot: str, now: datetime) -> None:
        """Take note of a live report of this life of an agent."""
        with self._lock:
            before = self._present.get(host)
            self._present[host] = boot
            if before is None or before == boot:
                return
            kept = [(life, at) for life, at in self._replaced.items() if now - at < _REMEMBERED]
            self._replaced = {**dict(kept[-_MOST:]), (host, before): now}
            if self._replaced.pop((host, boot), None) is None:
                return
            news = not self._stands(host, now)
            self._last_turn[host] = now
        if news:
            _log.warning("two agents under one name", host=host, boots=sorted((before, boot)))

    def notes(self, now: datetime) -> tuple[str, ...]:
        """One sentence with the remedy for each host that had two agents lately."""
        with self._lock:
            hosts = sorted(host for host in self._last_turn if self._stands(host, now))
        return tuple(
            f"host {host}: two agents report under this name, and both do what is wanted of it: stop one, or give it a "
            "name and a token of its own (`tidegate host enroll`)"
            for host in hosts
        )

    def _stands(self, host: HostName, now: datetime) -> bool:
        last = self._last_turn.get(host)
        return last is not None and now - last < _SAID_FOR
