"""The daily partitions of `report`: made when a report needs one, dropped whole when their day is too old.

A partition is created apart and attached, since `CREATE TABLE .. PARTITION OF` waits for every reader
(PostgreSQL manual, 5.12.2.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import Connection, text

from tidegate.store.database import Database
from tidegate.store.locks import lock_partitions

_PREFIX = "report_"
_LOCK_WAIT = timedelta(seconds=2)

_NAMES = text(
    "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
    "WHERE i.inhparent = 'report'::regclass ORDER BY c.relname"
)


def name_of(day: date) -> str:
    """The name of the day's partition."""
    return f"{_PREFIX}{day:%Y%m%d}"


def day_of(name: str) -> date:
    """The day of a partition's name."""
    return datetime.strptime(name.removeprefix(_PREFIX), "%Y%m%d").replace(tzinfo=UTC).date()


def names(connection: Connection) -> list[str]:
    """The partitions that exist, oldest first."""
    return [str(name) for name in connection.execute(_NAMES).scalars()]


def ensure(database: Database, days: Iterable[date]) -> None:
    """Make the partitions of these days that do not exist yet; each is there for all to see when this returns."""
    with database.begin() as connection:
        missing = {name_of(day) for day in days} - set(names(connection))
    if not missing:
        return
    with database.begin(lock=_LOCK_WAIT) as connection:
        lock_partitions(connection)
        present = set(names(connection))  # another may have been quicker
        for name in sorted(missing - present):
            _create(connection, name)


def _create(connection: Connection, name: str) -> None:
    start = datetime.combine(day_of(name), time(), UTC)
    # Names and bounds are made of a date alone: DDL takes no parameters.
    connection.exec_driver_sql(f"CREATE TABLE {name} (LIKE report INCLUDING ALL)")
    connection.exec_driver_sql(
        f"ALTER TABLE report ATTACH PARTITION {name} "
        f"FOR VALUES FROM ('{start.isoformat()}') TO ('{(start + timedelta(days=1)).isoformat()}')"
    )


def drop_before(database: Database, moment: datetime) -> list[str]:
    """Drop every partition whose whole day lies before the moment, each in its own transaction; returns their names.

    Raises Transient when a reader keeps one from being dropped in time: the next call goes on from there.
    """
    with database.begin() as connection:
        old = [name for name in names(connection) if _end(name) <= moment]
    for name in old:
        with database.begin(lock=_LOCK_WAIT) as connection:
            lock_partitions(connection)
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")
    return old


def _end(name: str) -> datetime:
    return datetime.combine(day_of(name) + timedelta(days=1), time(), UTC)
