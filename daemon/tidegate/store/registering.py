"""Give the series of new layouts their numbers soon after they came, so that they are found before they are compacted.

A replica that lives for half an hour would otherwise be gone before anybody could ask for its past.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import select

from tidegate.model.reading import HostName
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.locks import lock_series
from tidegate.store.schema import layout
from tidegate.store.series import SeriesBook
from tidegate.store.windows import window_of

_RECENT = timedelta(days=1)
"""Layouts that were not used for longer have been compacted long ago."""
_AT_ONCE = 100
"""In one call: after a start every layout is new to us, though few are to the store."""


class Registering:
    """Looks for layouts that were not seen yet, newest first."""

    def __init__(self, database: Database, book: SeriesBook, fence: Fence) -> None:
        self._database, self._book, self._fence = database, book, fence
        self._known: frozenset[tuple[str, str]] = frozenset()

    def register(self, now: datetime) -> int:
        """Number the series of some layouts; returns how many layouts those were."""
        recent = layout.c.used_at >= now - _RECENT
        query = select(layout.c.host, layout.c.id).where(recent).order_by(layout.c.used_at.desc())
        with self._database.begin() as connection:
            present = [(str(host), str(name)) for host, name in connection.execute(query)]
        new = [one for one in present if one not in self._known][:_AT_ONCE]
        for host, name in new:
            self._one(HostName(host), name, now)
        self._known = (self._known | set(new)) & frozenset(present)
        return len(new)

    def _one(self, host: HostName, name: str, now: datetime) -> None:
        with self._database.begin() as connection:
            self._fence.check(connection)
            lock_series(connection, host)
            # From the window's start, as its compaction would say: it then has nothing to write here.
            found = self._book.columns(connection, host, {name}, (window_of(now), now))
        self._book.remember(host, found)
