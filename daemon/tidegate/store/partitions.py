"""The parts of the tables that are split by time: made ahead or when a row needs one, dropped whole when too old.

A part is created apart and attached, since `CREATE TABLE .. PARTITION OF` waits for every reader
(PostgreSQL manual, 5.12.2.2). Its name says what it covers: the parent's, then the hour it begins at (two hours), the
day or the month.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock

from sqlalchemy import Connection, text

from tidegate.runtime.errors import Busy
from tidegate.store.database import Database
from tidegate.store.locks import lock_partitions
from tidegate.store.statistics import leave_out_figures

_LOCK_WAIT = timedelta(seconds=2)
"""How long a drop waits for readers, while new ones queue behind it; less than others wait for the drop to end."""
_ROUNDS = 5
"""How often a part that readers keep is tried in one call: between two tries those who queued get their turn."""
_FORMATS = {10: "%Y%m%d%H", 8: "%Y%m%d", 6: "%Y%m"}
_SPANS = {10: timedelta(hours=2), 8: timedelta(days=1), 6: timedelta(days=32)}
_SLOT = 7_200
"""Seconds that lie in one part of every width."""
_NEVER = 1 << 40
HOURS, DAY, MONTH = 10, 8, 6
"""Digits of a name: how long a part is."""
WIDTHS: Mapping[str, int] = {
    "report": HOURS,
    "engine_figure": DAY,
    "gpu_figure": DAY,
    "chunk_hot": DAY,
    "chunk_cold": DAY,
    "chunk_clock_hot": DAY,
    "chunk_clock_cold": DAY,
    "rollup_1m_hot": DAY,
    "rollup_5m_hot": DAY,
    "rollup_5m_cold": MONTH,
    "rollup_1h_hot": DAY,
    "rollup_1h_cold": MONTH,
}
"""The tables whose parts these are. A `report` of a day, as earlier versions made them, serves until it is dropped."""

_OPTIONS: Mapping[str, str] = {"report": " WITH (toast_tuple_target = 8160, autovacuum_enabled = false)"}
"""A report lies in one piece, and is gone before its row has to be looked after."""

_NAMES = text(
    "SELECT p.relname AS parent, c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
    "JOIN pg_class p ON p.oid = i.inhparent WHERE i.inhparent = ANY (CAST(:parents AS regclass[])) ORDER BY c.relname"
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a table, and the moments that its rows may have: start included, end not."""

    parent: str
    name: str
    start: datetime
    end: datetime


def part_of(parent: str, moment: datetime) -> Part:
    """The part that a row of this moment would go to."""
    width = WIDTHS[parent]
    start = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if width == HOURS:
        start = start.replace(hour=start.hour // 2 * 2)
    elif width == DAY:
        start = start.replace(hour=0)
    else:
        start = start.replace(hour=0, day=1)
    return _part(parent, f"{parent}_{start.strftime(_FORMATS[width])}")


def _part(parent: str, name: str) -> Part:
    digits = name.removeprefix(f"{parent}_")
    start = datetime.strptime(digits, _FORMATS[len(digits)]).replace(tzinfo=UTC)
    end = start + _SPANS[len(digits)]
    return Part(parent, name, start, end.replace(day=1) if len(digits) == MONTH else end)


def parts(connection: Connection, parents: Collection[str] = tuple(WIDTHS)) -> list[Part]:
    """The parts that exist, oldest first within a table."""
    rows = connection.execute(_NAMES, {"parents": list(parents)})
    return [_part(str(row.parent), str(row.name)) for row in rows]


class Partitions:
    """Makes parts that are missing, and remembers those that are there; safe for many threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = Lock()
        self._known: frozenset[tuple[str, int]] = frozenset()

    def ensure(self, parent: str, moments: Iterable[datetime], now: datetime | None = None) -> None:
        """See to it that rows of these moments have a part; each is there for all to see when this returns.

        What was found is remembered where `now` is given, but for the past, of which retention may drop some.
        """
        past = _NEVER if now is None else int(now.timestamp()) // _SLOT
        slots = {(parent, int(moment.timestamp()) // _SLOT): moment for moment in moments}
        missing = {slot: moment for slot, moment in slots.items() if slot[1] < past or slot not in self._known}
        if not missing:
            return
        ensure(self._database, {part_of(parent, moment) for moment in missing.values()})
        with self._lock:
            self._known = frozenset(slot for slot in self._known | missing.keys() if slot[1] >= past)

    def forget(self) -> None:
        """Look again next time: a part may have been dropped."""
        with self._lock:
            self._known = frozenset()


def ensure(database: Database, wanted: Collection[Part]) -> None:
    """Make those that do not exist yet."""
    if not wanted:
        return
    parents = {part.parent for part in wanted}
    with database.begin() as connection:
        missing = _missing(wanted, parts(connection, parents))
    if not missing:
        return
    with database.begin() as connection:
        lock_partitions(connection)
        for part in _missing(missing, parts(connection, parents)):  # another may have been quicker
            _create(connection, part)


def _missing(wanted: Iterable[Part], present: Collection[Part]) -> list[Part]:
    """Those of which no part that is there covers the start, in a stable order."""
    return sorted(
        (
            part
            for part in wanted
            if not any(one.parent == part.parent and one.start <= part.start < one.end for one in present)
        ),
        key=lambda part: part.name,
    )


def _create(connection: Connection, part: Part) -> None:
    # Names and bounds are made of a moment alone: DDL takes no parameters.
    bound = f"FOR VALUES FROM ('{part.start.isoformat()}') TO ('{part.end.isoformat()}')"
    attach(connection, part.parent, part.name, bound)


def attach(connection: Connection, parent: str, name: str, bound: str) -> None:
    """Make a table that is a part of another; all three are ours, or were looked at."""
    connection.exec_driver_sql(f"CREATE TABLE {name} (LIKE {parent} INCLUDING ALL){_OPTIONS.get(parent, '')}")
    leave_out_figures(connection, name)
    connection.exec_driver_sql(f"ALTER TABLE {parent} ATTACH PARTITION {name} {bound}")


def drop(database: Database, old: Iterable[Part]) -> list[str]:
    """Drop parts, each in its own transaction; returns their names.

    Raises Transient when a reader keeps one for long: all the others are gone, and the next call tries it again.
    """
    names: list[str] = []
    left, busy = list(old), None
    for _ in range(_ROUNDS):
        dropped, busy = _drop_free(database, left)
        names += dropped
        left = [part for part in left if part.name not in dropped]
        if busy is None:
            break
    if busy is not None:
        raise busy
    return names


def _drop_free(database: Database, old: Iterable[Part]) -> tuple[list[str], Busy | None]:
    """Drop those that nobody reads; returns their names, and what kept the last of the others."""
    names, busy = [], None
    for part in old:
        try:
            with database.begin(lock=_LOCK_WAIT) as connection:
                lock_partitions(connection)
                connection.exec_driver_sql(f"DROP TABLE IF EXISTS {part.name}")
        except Busy as error:
            busy = error
        else:
            names.append(part.name)
    return names, busy
