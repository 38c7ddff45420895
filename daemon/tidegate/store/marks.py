"""Which buckets of which host have to be worked out again; written by intake, read by the roll-up.

A mark has a version that grows whenever it is set. The roll-up reads it before it reads the samples and takes away the
mark of that version only, so a report that comes meanwhile leaves its bucket marked, and neither waits for the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, select

from tidegate.model.reading import HostName
from tidegate.model.usage import BUCKET
from tidegate.store.binary import cursor, number_array, text_array
from tidegate.store.buckets import HOLE
from tidegate.store.schema import dirty_bucket

_SECONDS, _OVER = int(BUCKET.total_seconds()), int((BUCKET + HOLE).total_seconds())
MARK = (
    "INSERT INTO dirty_bucket (host, bucket, version) SELECT host, bucket, 1 "  # noqa: S608 - a number of ours
    "FROM unnest(%(marked)s::text[], %(buckets)s::int8[]) AS m (host, number), "
    f"to_timestamp(number * {_SECONDS}) AS b (bucket) "
    "ON CONFLICT (host, bucket) DO UPDATE SET version = dirty_bucket.version + 1, not_before = CASE WHEN "
    f"dirty_bucket.not_before < dirty_bucket.bucket + interval '{_OVER} s' THEN dirty_bucket.not_before END"
)
"""A mark ends the wait for a bucket's end, not the rest of one that was just worked out."""
_UNMARK = (
    "DELETE FROM dirty_bucket d USING unnest(%s::timestamptz[], %s::bigint[]) "
    "AS m (bucket, version) WHERE d.host = %s AND d.bucket = m.bucket AND d.version = m.version"
)
_POSTPONE = (
    "UPDATE dirty_bucket d SET not_before = m.until FROM unnest(%s::timestamptz[], %s::bigint[], %s::timestamptz[]) "
    "AS m (bucket, version, until) WHERE d.host = %s AND d.bucket = m.bucket AND d.version = m.version"
)
_MARKED = (
    "SELECT bucket, version FROM dirty_bucket WHERE host = %s AND (not_before IS NULL OR not_before <= %s) "
    "ORDER BY bucket LIMIT %s"
)
"""As texts: of what is asked for every host, making the statement would cost more than what it does."""


def mark(connection: Connection, buckets: Collection[tuple[HostName, datetime]]) -> None:
    """These buckets of hosts have changed."""
    if buckets:
        with cursor(connection) as bare:
            bare.execute(MARK, mark_values(buckets))


def mark_values(buckets: Collection[tuple[HostName, datetime]]) -> dict[str, str]:
    """What `MARK` wants; at least one bucket."""
    hosts, moments = zip(*sorted(buckets), strict=True)  # in one order, so that nobody waits in a circle
    numbers = number_array(int(moment.timestamp()) // _SECONDS for moment in moments)
    return {"marked": text_array(hosts), "buckets": numbers}


def postpone(
    connection: Connection, host: HostName, versions: Mapping[datetime, int], until: Mapping[datetime, datetime]
) -> None:
    """Look at these buckets again at that moment, if nothing marks them earlier."""
    buckets = sorted(until)
    if buckets:
        moments = _moments(until[bucket] for bucket in buckets)
        with cursor(connection) as bare:
            bare.execute(_POSTPONE, [_moments(buckets), number_array(versions[at] for at in buckets), moments, host])


def unmark(connection: Connection, host: HostName, versions: Mapping[datetime, int]) -> None:
    """These buckets are up to date, but for those that were marked again since they had these versions."""
    buckets = sorted(versions)
    if buckets:
        with cursor(connection) as bare:
            bare.execute(_UNMARK, [_moments(buckets), number_array(versions[at] for at in buckets), host])


def _moments(moments: Iterable[datetime]) -> str:
    return text_array([moment.isoformat() for moment in moments])


def marked_hosts(connection: Connection, now: datetime) -> list[HostName]:
    """The hosts with a bucket that is due, by name."""
    query = select(dirty_bucket.c.host).where(_due(now)).distinct().order_by(dirty_bucket.c.host)
    return [HostName(name) for name in connection.execute(query).scalars()]


def marked(connection: Connection, host: HostName, now: datetime, limit: int) -> dict[datetime, int]:
    """The host's oldest buckets that are due, with the versions of their marks."""
    with cursor(connection) as bare:
        return dict(bare.execute(_MARKED, [host, now, limit]).fetchall())


def _due(now: datetime) -> ColumnElement[bool]:
    return dirty_bucket.c.not_before.is_(None) | (dirty_bucket.c.not_before <= now)
