"""The hosts in memory: what each said last, without the database in every report's way.

The newest state of each host is written behind, many hosts at once. What a crash takes with it is said again by the
host's next report; samples are never kept back here.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from tidegate.controller.ports import HostBook
from tidegate.model.reading import HostName
from tidegate.runtime.errors import Transient
from tidegate.wire import HostRecord, HostState


class Roster:
    """Implements the port `Hosts` over the store's; any thread may ask."""

    def __init__(self, book: HostBook) -> None:
        self._book = book
        self._lock = threading.Lock()
        self._known: dict[HostName, HostRecord] = {}
        """With what each said last, to us or, as far as it was asked for, to another."""
        self._unwritten: set[HostName] = set()
        self._listing: Sequence[HostRecord] = ()

    def enroll(self, name: HostName, token_hash: str, now: datetime) -> bool:
        """Add a host, or give it another token; False when it existed."""
        return self._book.enroll(name, token_hash, now)

    def revoke(self, name: HostName, now: datetime) -> bool:
        """Refuse the host from now on; False when there is none."""
        return self._book.revoke(name, now)

    def seen(self, name: HostName, state: HostState, at: datetime) -> None:
        """Remember the last live state; it is written by the next `flush`."""
        with self._lock:
            known = self._known.get(name)
            if known is None or known.last_seen is None or known.last_seen <= at:
                self._known[name] = HostRecord(name, at, state, revoked=False)
                self._unwritten.add(name)

    def flush(self) -> None:
        """Write what hosts said since the last time; raises Transient, and then nothing is forgotten."""
        with self._lock:
            waiting, self._unwritten = self._unwritten, set()
            news = [self._known[name] for name in waiting]
        try:
            self._book.seen_many(news)
        except Transient:
            with self._lock:
                self._unwritten |= waiting
            raise

    def all(self) -> Sequence[HostRecord]:
        """Every host, by name, with the newest that it said to anybody; raises Transient when the database is away."""
        listing = self._book.listing()
        with self._lock:
            known = dict(self._known)
        elsewhere = {one.name for one in listing if one.last_seen and _older(known.get(one.name), one)}
        told = self._book.states(elsewhere)
        with self._lock:
            self._known |= {name: one for name, one in told.items() if _older(self._known.get(name), one)}
            self._known = {one.name: self._known[one.name] for one in listing if one.name in self._known}
            self._unwritten &= self._known.keys()
        self._listing = listing
        return self.remembered()

    def remembered(self) -> Sequence[HostRecord]:
        """What `all` answered last, with what hosts said to us since."""
        with self._lock:  # no longer than that: every report waits for it
            known = dict(self._known)
        return [_with(one, known.get(one.name)) for one in self._listing]


def _older(known: HostRecord | None, listed: HostRecord) -> bool:
    """True when somebody else has heard the host later than we."""
    if known is None or known.last_seen is None:
        return True
    return listed.last_seen is not None and known.last_seen < listed.last_seen


def _with(listed: HostRecord, known: HostRecord | None) -> HostRecord:
    return listed if known is None else replace(known, revoked=listed.revoked)
