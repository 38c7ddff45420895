"""The layouts of reports: which series a vector holds, known by the hash of their list, kept per host."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from threading import Lock

from sqlalchemy import Connection, select, text, tuple_

from tidegate.model.reading import HostName
from tidegate.model.series import SeriesKey
from tidegate.store.admission import Keys
from tidegate.store.binary import text_array
from tidegate.store.database import Database
from tidegate.store.schema import layout
from tidegate.store.upsert import upsert

MOST_SERIES = 4_000_000
"""That are remembered: some 400 MB, twice what 2,000 hosts have. Beyond it the first that came are forgotten."""
_MOST_LENGTHS = 200_000
_REFRESH = timedelta(hours=6)
"""How often a layout in use is noted as such, and looked for: a small part of the time that an unused one is kept."""
_USED = text(
    "UPDATE layout l SET used_at = :at FROM unnest(CAST(:hosts AS text[]), CAST(:names AS text[])) AS u (host, id) "
    "WHERE l.host = u.host AND l.id = u.id RETURNING l.host, l.id, l.length"
)


class Layouts:
    """Reads and writes layouts, and remembers those that it saw: a layout never changes."""

    def __init__(self, database: Database, most: int = MOST_SERIES) -> None:
        """`most`: so many series are remembered."""
        self._database, self._most = database, most
        self._known: dict[tuple[str, str], Keys] = {}
        self._size = 0
        """Series in `_known`."""
        self._lengths: dict[tuple[HostName, str], tuple[int, datetime]] = {}
        self._lock = Lock()

    def lengths(self, used: Collection[tuple[HostName, str]], at: datetime) -> dict[tuple[HostName, str], int]:
        """The number of series of each layout that is stored, by host and id; those in use are noted as such."""
        known = {pair: self._lengths.get(pair, (0, None)) for pair in used}
        found = {pair: length for pair, (length, noted) in known.items() if self._is_fresh(noted, at)}
        unsure = known.keys() - found.keys()
        return found | self._note(unsure, at) if unsure else found

    def _note(self, pairs: Collection[tuple[HostName, str]], at: datetime) -> dict[tuple[HostName, str], int]:
        hosts, names = zip(*sorted(pairs), strict=True)
        values = {"hosts": text_array(hosts), "names": text_array(names), "at": at}
        with self._database.begin() as connection:
            stored = {(HostName(host), name): length for host, name, length in connection.execute(_USED, values)}
        with self._lock:
            for pair in set(pairs) - stored.keys():  # pruned since
                self._lengths.pop(pair, None)
        self.remember(stored, at)
        return stored

    def write(self, connection: Connection, host: HostName, read: Mapping[str, Keys], at: datetime) -> None:
        """Keep the layouts that were just read; call `remember` when that is certain."""
        if not read:
            return
        rows = [
            {"host": host, "id": name, "series": [key.row() for key in keys], "length": len(keys), "used_at": at}
            for name, keys in read.items()
        ]
        connection.execute(upsert(layout, rows))
        # Whether it is stored or not, its name is its content's: the report that it came with is read at once.
        self._keep({(host, name): _interned(key.row() for key in keys) for name, keys in read.items()})

    def remember(self, lengths: Mapping[tuple[HostName, str], int], at: datetime) -> None:
        """These are stored, and were in use just now."""
        with self._lock:
            if len(self._lengths) > _MOST_LENGTHS:
                self._lengths.clear()
            self._lengths |= {pair: (length, at) for pair, length in lengths.items()}

    def is_stored(self, host: HostName, name: str, at: datetime) -> bool:
        """True when the host's layout of this name is known to be stored: what is sent again need not be read."""
        return self._is_fresh(self._lengths.get((host, name), (0, None))[1], at)

    @staticmethod
    def _is_fresh(noted: datetime | None, at: datetime) -> bool:
        return noted is not None and noted - _REFRESH <= at < noted + _REFRESH

    def load(self, connection: Connection, wanted: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], Keys]:
        """The series of each (host, layout id)."""
        pairs = set(wanted)
        known = self.known(pairs)
        found = _read(connection, pairs - known.keys())
        self._keep(found)
        return known | found

    def known(self, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Keys]:
        """Those of the layouts that are remembered."""
        found = {pair: self._known.get(pair) for pair in wanted}  # no lock: one look at a dictionary is whole
        return {pair: keys for pair, keys in found.items() if keys is not None}

    def _keep(self, found: Mapping[tuple[str, str], Keys]) -> None:
        """Remember these; the cost does not grow with what is known: at a start two thousand come within seconds."""
        with self._lock:
            for pair, keys in found.items():
                self._size += len(keys) - len(self._known.pop(pair, ()))
                self._known[pair] = keys
            while self._size > self._most:
                self._size -= len(self._known.pop(next(iter(self._known))))


def _read(connection: Connection, pairs: Collection[tuple[str, str]]) -> dict[tuple[str, str], Keys]:
    if not pairs:
        return {}
    query = select(layout.c.host, layout.c.id, layout.c.series).where(
        tuple_(layout.c.host, layout.c.id).in_(list(pairs))
    )
    return {(row.host, row.id): _interned(row.series) for row in connection.execute(query)}


def _interned(rows: Iterable[Sequence[str]]) -> Keys:
    """Thousands of keys are made of the same few words."""
    return tuple(SeriesKey(*map(sys.intern, row)) for row in rows)
