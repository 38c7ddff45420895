"""The dictionary of series: a small number for each, given when a layout with it is first seen, and its block.

What a host may add is bounded: a label with a new value in every scrape would otherwise grow the dictionary for as long
as history is kept. Beyond the bound a new series gets no number and its samples are not compacted; what was known
before goes on as ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select, text

from tidegate.model.reading import HostName
from tidegate.model.series import SeriesKey
from tidegate.runtime.pace import NoPace, Pace
from tidegate.store.admission import Keys
from tidegate.store.binary import cursor, number_array, text_array
from tidegate.store.layouts import Layouts
from tidegate.store.schema_series import MOST_IN_BLOCK, series, series_block
from tidegate.store.series_kinds import SeriesKind, kind_of

_ADD = (
    "INSERT INTO series (block, scope, owner, name, rank, le, host, first_seen, last_seen) "
    "SELECT n.*, %s, %s, %s FROM unnest(%s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[]) AS n "
    "RETURNING scope, owner, name, rank, le, id, block"
)
_ADD_BLOCKS = (
    "INSERT INTO series_block (host, scope, name, number, kind) "
    "SELECT %s, n.* FROM unnest(%s::text[], %s::text[], %s::int[], %s::text[]) AS n "
    "RETURNING scope, name, number, id"
)
KINDS = tuple(SeriesKind)
MOST_IN_A_DAY = 2_000
"""Series that a host may show within a day, or LAYOUTS_IN_A_DAY times its largest layout if that is more."""
LAYOUTS_IN_A_DAY = 4
_DAY = timedelta(days=1)
_ADDED_AT_ONCE = 100
"""Row by row a new host's thousand series take ten times as long; all in one statement they keep a core of the database
busy for ten milliseconds, and reports beside it were found to wait for its end, whatever its priority."""
_FRESH = timedelta(hours=4)
"""`last_seen` is written again when it has fallen behind by this much."""
_MOST_COLUMNS = 20_000_000
"""That are remembered, over all layouts: some 300 MB."""

_SEEN = text(
    "UPDATE series SET last_seen = greatest(last_seen, :until), first_seen = least(first_seen, :since) "
    "WHERE id = ANY (CAST(:ids AS int[])) AND (last_seen < :stale OR first_seen > :since)"
)


@dataclass(frozen=True, slots=True)
class Columns:
    """A layout by numbers, in the order of kind, block and series: what the vector has at `places`."""

    places: NDArray[np.intp]
    ids: NDArray[np.int32]
    blocks: NDArray[np.int32]
    kinds: NDArray[np.int8]
    """Positions in KINDS."""
    length: int
    """Of the vector; more than there are places where series were left out."""


@dataclass(frozen=True, slots=True)
class _Entry:
    id: int
    block: int
    last_seen: datetime


class SeriesBook:
    """Gives series their numbers and remembers layouts by them; safe for many threads."""

    def __init__(self, layouts: Layouts, pace: Pace | None = None) -> None:
        """`pace`: how new series leave room for others; without one they take all there is."""
        self._layouts, self._pace = layouts, pace or NoPace()
        self._columns: dict[tuple[HostName, str], Columns] = {}
        self._held = 0
        """How many columns these are together."""
        self._lock = Lock()

    def columns(
        self, connection: Connection, host: HostName, layouts: Collection[str], seen: tuple[datetime, datetime]
    ) -> Mapping[str, Columns]:
        """The layouts by numbers; whatever is new is given one, as far as the host may have more.

        Call under `lock_series`, and `remember` with the answer when the transaction is done. `seen`: first and last.
        """
        held = self._columns
        known = {name: held[host, name] for name in layouts if (host, name) in held}
        unknown = sorted(set(layouts) - known.keys())
        if not unknown:
            return known
        keys = self._layouts.load(connection, {(host, name) for name in unknown})
        wanted = {name: keys[host, name] for name in unknown if (host, name) in keys}
        entries = _entries(connection, host)
        _register(connection, host, entries, wanted.values(), seen, self._pace)
        return known | {name: _by_number(entries, wanted[name]) for name in wanted}

    def remember(self, host: HostName, found: Mapping[str, Columns]) -> None:
        """These numbers are stored; of a layout that lacks some it is looked every time whether it may have them."""
        whole = {(host, name): columns for name, columns in found.items() if len(columns.places) == columns.length}
        with self._lock:
            self._held += sum(columns.length for key, columns in whole.items() if key not in self._columns)
            self._columns.update(whole)
            if self._held > _MOST_COLUMNS:
                self._columns, self._held = {}, 0

    def forget(self) -> None:
        """Look everything up again: the dictionary was pruned."""
        with self._lock:
            self._columns, self._held = {}, 0


def note_seen(connection: Connection, ids: Iterable[int], since: datetime, until: datetime) -> None:
    """Remember when these series were seen; little is written when it was known about."""
    values = {"ids": number_array(ids), "since": since, "until": until, "stale": until - _FRESH}
    connection.execute(_SEEN, values)


def _entries(connection: Connection, host: HostName) -> dict[SeriesKey, _Entry]:
    found = series.c
    columns = (found.scope, found.owner, found.name, found.rank, found.le, found.id, found.block, found.last_seen)
    query = select(*columns).where(found.host == host)
    return {SeriesKey(*row[:5]): _Entry(*row[5:]) for row in connection.execute(query)}


def _register(
    connection: Connection,
    host: HostName,
    entries: dict[SeriesKey, _Entry],
    layouts: Collection[Keys],
    seen: tuple[datetime, datetime],
    pace: Pace,
) -> None:
    """Give numbers to what is new, and put it into `entries`."""
    new = list(dict.fromkeys(key for keys in layouts for key in keys if key not in entries))
    alive = sum(entry.last_seen >= seen[0] - _DAY for entry in entries.values())
    most = max(MOST_IN_A_DAY, LAYOUTS_IN_A_DAY * max(map(len, layouts), default=0))
    admitted = new[: max(0, most - alive)]
    if not admitted:
        return
    blocks = _blocks(connection, host, entries, admitted)
    with cursor(connection) as bare:
        for first in range(0, len(admitted), _ADDED_AT_ONCE):
            piece = slice(first, first + _ADDED_AT_ONCE)
            words = [text_array(column) for column in zip(*(key.row() for key in admitted[piece]), strict=True)]
            with pace.piece():
                added = bare.execute(_ADD, [host, *seen, number_array(blocks[piece]), *words]).fetchall()
            entries |= {SeriesKey(*row): _Entry(number, block, seen[1]) for *row, number, block in added}


def _blocks(
    connection: Connection, host: HostName, entries: Mapping[SeriesKey, _Entry], new: Sequence[SeriesKey]
) -> list[int]:
    """A block for each new series: the newest one of its name while there is room, else another."""
    held = Counter(entry.block for entry in entries.values())
    found = series_block.c
    query = select(found.scope, found.name, func.max(found.id), func.count()).where(found.host == host)
    last = {row[:2]: (row[2], row[3]) for row in connection.execute(query.group_by(found.scope, found.name))}
    fill = {word: held[block] for word, (block, _) in last.items()}
    wanted: dict[tuple[str, str, int], SeriesKey] = {}
    chosen: list[tuple[str, str, int]] = []
    for key in new:
        word = (key.scope, key.name)
        _, count = last.get(word, (0, 1))
        chosen.append((*word, count - 1 + fill.get(word, 0) // MOST_IN_BLOCK))
        fill[word] = fill.get(word, 0) + 1
        wanted.setdefault(chosen[-1], key)
    numbers = {(*word, count - 1): block for word, (block, count) in last.items()}
    missing = {place: key for place, key in wanted.items() if place not in numbers}
    numbers |= _add_blocks(connection, host, missing)
    return [numbers[place] for place in chosen]


def _add_blocks(
    connection: Connection, host: HostName, places: Mapping[tuple[str, str, int], SeriesKey]
) -> dict[tuple[str, str, int], int]:
    if not places:
        return {}
    scopes, names, ordinals = zip(*places, strict=True)
    kinds = [kind_of(key).value for key in places.values()]
    values = [host, text_array(scopes), text_array(names), number_array(ordinals), text_array(kinds)]
    with cursor(connection) as bare:
        return {(scope, name, ordinal): block for scope, name, ordinal, block in bare.execute(_ADD_BLOCKS, values)}


def _by_number(entries: Mapping[SeriesKey, _Entry], keys: Keys) -> Columns:
    numbered = [(place, key, entries[key]) for place, key in enumerate(keys) if key in entries]
    kinds = np.array([KINDS.index(kind_of(key)) for _, key, _ in numbered], np.int8)
    ids = np.array([entry.id for _, _, entry in numbered], np.int32)
    blocks = np.array([entry.block for _, _, entry in numbered], np.int32)
    order = np.lexsort((ids, blocks, kinds))
    places = np.array([place for place, _, _ in numbered], np.intp)
    return Columns(places[order], ids[order], blocks[order], kinds[order], len(keys))
