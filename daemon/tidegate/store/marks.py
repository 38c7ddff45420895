"""Which buckets of which host have to be worked out again; written by intake, read by the roll-up.

A mark has a version that grows whenever it is set. The roll-up reads it before it reads the samples and takes away the
mark of that version only, so a report that comes meanwhile leaves its bucket marked, and neither waits for the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, select

from tidegate.model.reading import HostName
from tidegate.model.usage import BUCKET
from tidegate.store.binary import cursor, last_of, number_array, text_array
from tidegate.store.buckets import HOLE
from tidegate.store.locks import HOSTS_LOCKED
from tidegate.store.schema import dirty_bucket

HostBucket = tuple[HostName, datetime]

_SECONDS, _OVER = int(BUCKET.total_seconds()), int((BUCKET + HOLE).total_seconds())
MARK = (
    "INSERT INTO dirty_bucket (host, bucket, version) SELECT host, bucket, 1 "  # noqa: S608 - a number of ours
    "FROM unnest(%(marked)s::text[], %(buckets)s::int8[]) AS m (host, number), "
    f"to_timestamp(number * {_SECONDS}) AS b (bucket) "
    "ON CONFLICT (host, bucket) DO UPDATE SET version = dirty_bucket.version + 1, not_before = CASE WHEN "
    f"dirty_bucket.not_before < dirty_bucket.bucket + interval '{_OVER} s' THEN dirty_bucket.not_before END"
)
"""A mark ends the wait for a bucket's end, not the rest of one that was just worked out."""
_MARKS = (
    "unnest(%({0}_hosts)s::text[], %({0}_buckets)s::timestamptz[], %({0}_versions)s::bigint[], "
    "%({0}_until)s::timestamptz[]) AS m (host, bucket, version, until) "
    "WHERE d.host = m.host AND d.bucket = m.bucket AND d.version = m.version"
)
_UNMARK = f"DELETE FROM dirty_bucket d USING {_MARKS.format('done')}"  # noqa: S608
_POSTPONE = f"UPDATE dirty_bucket d SET not_before = m.until FROM {_MARKS.format('open')}"  # noqa: S608
_MARKED = (
    "SELECT host, bucket, version FROM dirty_bucket WHERE host = ANY (%s::text[]) "
    "AND (not_before IS NULL OR not_before <= %s) ORDER BY host, bucket LIMIT %s"
)
"""As texts: of what is asked all the time, making the statement would cost more than what it does."""


def mark(connection: Connection, buckets: Collection[HostBucket]) -> None:
    """These buckets of hosts have changed."""
    if buckets:
        with cursor(connection) as bare:
            bare.execute(MARK, mark_values(buckets))


def mark_values(buckets: Collection[HostBucket]) -> dict[str, str]:
    """What `MARK` wants."""
    ordered = sorted(buckets)  # so that nobody waits in a circle
    numbers = number_array(int(moment.timestamp()) // _SECONDS for _, moment in ordered)
    return {"marked": text_array([host for host, _ in ordered]), "buckets": numbers}


def close(
    connection: Connection,
    done: Mapping[HostBucket, int],
    open_ones: Mapping[HostBucket, tuple[int, datetime]],
    changed: Collection[HostBucket],
) -> None:
    """End the transaction: `done` is up to date, `open_ones` are looked at again at a moment, `changed` are marked.

    The first two by the versions that their marks had: those that were marked again since stay as they are. All in one
    message, the commit as well: who has a report of one of these hosts waits for the server alone, and not for us.
    """
    hosts = {host for host, _ in (*done, *open_ones, *changed)}
    values = {"locked": text_array(sorted(hosts))} | mark_values(changed)
    values |= _values("done", [(*place, version, "infinity") for place, version in done.items()])
    values |= _values("open", [(*place, version, at.isoformat()) for place, (version, at) in open_ones.items()])
    last_of(connection, (HOSTS_LOCKED, _UNMARK, _POSTPONE, MARK, "COMMIT"), values)


def _values(kind: str, marks: Sequence[tuple[HostName, datetime, int, str]]) -> dict[str, str]:
    """What `_MARKS` wants: host, bucket, version, until."""
    return {
        f"{kind}_hosts": text_array([host for host, _, _, _ in marks]),
        f"{kind}_buckets": text_array([bucket.isoformat() for _, bucket, _, _ in marks]),
        f"{kind}_versions": number_array(version for _, _, version, _ in marks),
        f"{kind}_until": text_array([until for _, _, _, until in marks]),
    }


def marked_hosts(connection: Connection, now: datetime) -> list[HostName]:
    """The hosts with a bucket that is due, by name."""
    query = select(dirty_bucket.c.host).where(_due(now)).distinct().order_by(dirty_bucket.c.host)
    return [HostName(name) for name in connection.execute(query).scalars()]


def marked(connection: Connection, hosts: Collection[HostName], now: datetime, limit: int) -> dict[HostBucket, int]:
    """The oldest buckets of each host that are due, host by host, with the versions of their marks."""
    with cursor(connection) as bare:
        rows = bare.execute(_MARKED, [text_array(list(hosts)), now, limit]).fetchall()
    return {(host, bucket): version for host, bucket, version in rows}


def _due(now: datetime) -> ColumnElement[bool]:
    return dirty_bucket.c.not_before.is_(None) | (dirty_bucket.c.not_before <= now)
