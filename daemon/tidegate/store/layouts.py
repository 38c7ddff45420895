"""The layouts of reports: which series a vector holds, known by the hash of their list, kept per host."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from threading import Lock

from sqlalchemy import Connection, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from tidegate.model.reading import HostName
from tidegate.model.series import SeriesKey
from tidegate.store.admission import Keys
from tidegate.store.schema import layout

_MOST_SERIES = 2_000_000
"""That are remembered: some 200 MB. Beyond it everything is read again when it is asked for."""
_REFRESH = timedelta(hours=6)
"""How often a layout in use is noted as such: often enough for any retention."""


class Layouts:
    """Reads and writes layouts, and remembers those that it read: a layout never changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Keys] = {}
        self._lock = Lock()

    def lengths(
        self, connection: Connection, host: HostName, read: Mapping[str, Keys], used: Iterable[str]
    ) -> dict[str, int]:
        """The number of series of each layout that is stored or was just read."""
        query = select(layout.c.id, layout.c.length).where(layout.c.host == host, layout.c.id.in_(set(used)))
        stored = {row.id: row.length for row in connection.execute(query)}
        return stored | {name: len(keys) for name, keys in read.items()}

    def write(self, connection: Connection, host: HostName, read: Mapping[str, Keys], at: datetime) -> None:
        """Keep the layouts that were just read."""
        if not read:
            return
        rows = [
            {"host": host, "id": name, "series": [key.row() for key in keys], "length": len(keys), "used_at": at}
            for name, keys in read.items()
        ]
        connection.execute(insert(layout).on_conflict_do_nothing(), rows)

    def note_use(self, connection: Connection, host: HostName, used: Iterable[str], at: datetime) -> None:
        """Remember that these are in use, so that they are not pruned."""
        connection.execute(
            update(layout)
            .where(layout.c.host == host, layout.c.id.in_(set(used)), layout.c.used_at < at - _REFRESH)
            .values(used_at=at)
        )

    def load(self, connection: Connection, wanted: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], Keys]:
        """The series of each (host, layout id)."""
        pairs = set(wanted)
        known = self.known(pairs)
        found = _read(connection, pairs - known.keys())
        if found:
            with self._lock:
                together = self._known | found
                self._known = together if sum(map(len, together.values())) <= _MOST_SERIES else found
        return known | found

    def known(self, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Keys]:
        """Those of the layouts that are remembered."""
        known = self._known  # replaced, never changed: other threads read it without a lock
        return {pair: known[pair] for pair in wanted if pair in known}


def _read(connection: Connection, pairs: Collection[tuple[str, str]]) -> dict[tuple[str, str], Keys]:
    if not pairs:
        return {}
    query = select(layout.c.host, layout.c.id, layout.c.series).where(
        tuple_(layout.c.host, layout.c.id).in_(list(pairs))
    )
    # Interned: thousands of keys are made of the same few words.
    return {
        (row.host, row.id): tuple(SeriesKey(*map(sys.intern, key)) for key in row.series)
        for row in connection.execute(query)
    }
