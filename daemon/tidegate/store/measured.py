"""Usage worked out from a Prometheus' samples: the same shares, by the same `fill`, without a stored report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import distinct_on

from tidegate.model.reading import EngineName, HostName, HostReading
from tidegate.model.usage import BUCKET
from tidegate.store.buckets import COUNTERS, Border, EngineBucket, Tail, closing, fill
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.figures import mark_usage
from tidegate.store.locks import lock_roll_up
from tidegate.store.schema import engine, usage
from tidegate.store.shares import tail_from, tail_json
from tidegate.store.upsert import upsert


class MeasuredBuckets:
    """Implements the port `Buckets`: one transaction a host."""

    def __init__(self, database: Database, fence: Fence) -> None:
        self._database, self._fence = database, fence

    def newest(self) -> datetime | None:
        """The start of the newest bucket that is stored."""
        with self._database.begin() as connection:
            return connection.execute(select(func.max(usage.c.bucket))).scalar_one_or_none()

    def put(self, bucket: datetime, readings: Mapping[HostName, Sequence[HostReading]], now: datetime) -> int:
        """Work the bucket out anew from readings that reach beyond it on both sides; returns how many shares.

        A share that is stored whole is never replaced by one that lacks something: of the time of a bucket a
        Prometheus may know less later on.
        """
        return sum(self._host(host, bucket, looks, now) for host, looks in readings.items())

    def _host(self, host: HostName, bucket: datetime, readings: Sequence[HostReading], now: datetime) -> int:
        inside = [reading for reading in readings if bucket <= reading.at < bucket + BUCKET]
        if not inside:
            return 0
        before = max((reading.at for reading in readings if reading.at < bucket), default=None)
        after = min((reading.at for reading in readings if reading.at >= bucket + BUCKET), default=None)
        names = {engine.engine for reading in inside for engine in reading.engines}
        with self._database.begin() as connection:
            self._fence.check(connection)
            lock_roll_up(connection, {host})
            tails = _tails(connection, host, bucket, names)
            shares = fill(bucket, inside, Border(before or _last(tails), after, tails), now)
            whole = _whole(connection, host, bucket) if now >= closing(bucket) else frozenset()
            owners = _owners(connection, host)
            rows = [
                _row(bucket, host, name, share, owners.get(name, ""))
                for name, share in sorted(shares.items())
                if not (share.partial and name in whole)
            ]
            if rows:
                connection.execute(upsert(usage, rows))
                mark_usage(connection, {bucket})
        return len(rows)


def _tails(
    connection: Connection, host: HostName, bucket: datetime, names: Collection[EngineName]
) -> dict[EngineName, Tail]:
    """Where each engine's next increase begins: its last counters before the bucket."""
    query = (
        select(usage.c.engine, usage.c.tail)
        .ext(distinct_on(usage.c.engine))
        .where(
            usage.c.host == host,
            usage.c.engine.in_(sorted(names)),
            usage.c.bucket < bucket,
            usage.c.tail.is_not(None),
        )
        .order_by(usage.c.engine, usage.c.bucket.desc())
    )
    return {EngineName(name): tail_from(data) for name, data in connection.execute(query)}


def _last(tails: Mapping[EngineName, Tail]) -> datetime | None:
    return max((tail.at for tail in tails.values()), default=None)


def _whole(connection: Connection, host: HostName, bucket: datetime) -> frozenset[str]:
    """The engines whose share of the bucket is stored and lacks nothing."""
    query = select(usage.c.engine).where(usage.c.host == host, usage.c.bucket == bucket, ~usage.c.partial)
    return frozenset(connection.execute(query).scalars())


def _owners(connection: Connection, host: HostName) -> Mapping[str, str]:
    """Which pool each engine belongs to, as the host said last."""
    query = select(engine.c.name, engine.c.pool).where(engine.c.host == host)
    return {str(name): str(pool) for name, pool in connection.execute(query)}


def _row(bucket: datetime, host: HostName, name: EngineName, share: EngineBucket, pool: str) -> dict[str, Any]:
    increases = {counter.value: share.increases.get(counter) for counter in COUNTERS}
    tail = tail_json(share.tail) if share.tail else None
    keys = {"bucket": bucket, "host": host, "engine": name, "pool": pool}
    return keys | increases | {"partial": share.partial, "tail": tail}
