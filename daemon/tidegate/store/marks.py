"""Which buckets of which host have to be worked out again; written by intake, read by the roll-up.

Both hold the host's lock meanwhile, so that no mark is lost between a look and its removal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, select

from tidegate.model.reading import HostName
from tidegate.store.schema import dirty_bucket
from tidegate.store.upsert import upsert


def mark(connection: Connection, host: HostName, buckets: Collection[datetime]) -> None:
    """These buckets have changed."""
    _put(connection, host, dict.fromkeys(buckets))


def postpone(connection: Connection, host: HostName, until: Mapping[datetime, datetime]) -> None:
    """Look at these buckets again at that moment, if nothing marks them earlier."""
    _put(connection, host, until)


def _put(connection: Connection, host: HostName, moments: Mapping[datetime, datetime | None]) -> None:
    rows = [{"host": host, "bucket": bucket, "not_before": moments[bucket]} for bucket in sorted(moments)]
    if rows:
        connection.execute(upsert(dirty_bucket, rows))


def unmark(connection: Connection, host: HostName, buckets: Collection[datetime]) -> None:
    """These buckets are up to date."""
    connection.execute(delete(dirty_bucket).where(dirty_bucket.c.host == host, dirty_bucket.c.bucket.in_(buckets)))


def marked_hosts(connection: Connection, now: datetime) -> Sequence[HostName]:
    """The hosts with a bucket that is due, by name."""
    query = select(dirty_bucket.c.host).where(_due(now)).distinct().order_by(dirty_bucket.c.host)
    return [HostName(name) for name in connection.execute(query).scalars()]


def marked(connection: Connection, host: HostName, now: datetime, limit: int) -> Sequence[datetime]:
    """The host's oldest buckets that are due."""
    query = select(dirty_bucket.c.bucket).where(dirty_bucket.c.host == host, _due(now))
    return connection.execute(query.order_by(dirty_bucket.c.bucket).limit(limit)).scalars().all()


def _due(now: datetime) -> ColumnElement[bool]:
    return dirty_bucket.c.not_before.is_(None) | (dirty_bucket.c.not_before <= now)
