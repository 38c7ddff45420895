"""One host's shares of the usage buckets: the SQL around the pure `fill`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, String, func, select, true
from sqlalchemy.dialects.postgresql import array

from tidegate.model.reading import Counter, EngineName, HostName, Rank
from tidegate.store.buckets import COUNTERS, Border, EngineBucket, Tail
from tidegate.store.figures import mark_usage
from tidegate.store.layouts import Layouts
from tidegate.store.past import Past
from tidegate.store.samples import Looks
from tidegate.store.schema import usage
from tidegate.store.upsert import upsert


class Shares:
    """Reads and writes the shares of one host within one transaction."""

    def __init__(
        self, connection: Connection, layouts: Layouts, host: HostName, buckets: Collection[datetime] = ()
    ) -> None:
        """`buckets`: those that will be asked for, oldest first, to be read together."""
        self._connection = connection
        self._host = host
        self._past = Past(connection, layouts, host, sorted(buckets))
        self._kept = self._read_kept(buckets)
        self._latest = self._read_latest() if buckets else None

    def samples(self, bucket: datetime) -> Looks:
        """What the host reported in the bucket, in time order."""
        return self._past.looks(bucket)

    def border(self, bucket: datetime, engines: Collection[EngineName]) -> Border:
        """The nearest samples around the bucket, and where each engine's next increase begins."""
        before, after = self._past.around(bucket)
        return Border(before, after, self._tails_before(bucket, engines))

    def _tails_before(self, bucket: datetime, engines: Collection[EngineName]) -> dict[EngineName, Tail]:
        if not engines:
            return {}
        names = func.unnest(array(sorted(engines), type_=String)).table_valued("engine").render_derived(name="wanted")
        last = (
            select(usage.c.tail)
            .where(
                usage.c.host == self._host,
                usage.c.engine == names.c.engine,
                usage.c.bucket < bucket,
                usage.c.tail.is_not(None),
            )
            .order_by(usage.c.bucket.desc())
            .limit(1)
            .lateral()
        )
        query = select(names.c.engine, last.c.tail).select_from(names).join(last, true())
        return {EngineName(name): tail_from(data) for name, data in self._connection.execute(query)}

    def kept(self, bucket: datetime) -> Mapping[EngineName, Tail | None]:
        """The tails that the bucket's shares had when they were last worked out."""
        return self._kept.get(bucket, {})

    def _read_kept(self, buckets: Collection[datetime]) -> dict[datetime, dict[EngineName, Tail | None]]:
        columns = (usage.c.bucket, usage.c.engine, usage.c.tail)
        query = select(*columns).where(usage.c.bucket.in_(buckets), usage.c.host == self._host)
        found: dict[datetime, dict[EngineName, Tail | None]] = {}
        for row in self._connection.execute(query) if buckets else ():
            found.setdefault(row.bucket, {})[EngineName(row.engine)] = tail_from(row.tail) if row.tail else None
        return found

    def _read_latest(self) -> datetime | None:
        query = select(usage.c.bucket).where(usage.c.host == self._host).order_by(usage.c.bucket.desc()).limit(1)
        return self._connection.execute(query).scalar_one_or_none()

    def write(self, bucket: datetime, shares: Mapping[EngineName, EngineBucket], owners: Mapping[str, str]) -> None:
        """Put the shares in place of the earlier ones; `owners` is the pool of each engine that is in one."""
        if not shares:
            return
        rows = [self._row(bucket, name, share, owners.get(name, "")) for name, share in sorted(shares.items())]
        self._connection.execute(upsert(usage, rows))
        mark_usage(self._connection, {bucket})

    def _row(self, bucket: datetime, name: EngineName, share: EngineBucket, pool: str) -> dict[str, Any]:
        increases = {counter.value: share.increases.get(counter) for counter in COUNTERS}
        tail = tail_json(share.tail) if share.tail else None
        keys = {"bucket": bucket, "host": self._host, "engine": name, "pool": pool}
        return keys | increases | {"partial": share.partial, "tail": tail}

    def following(self, bucket: datetime, engines: Collection[EngineName]) -> set[datetime]:
        """The next bucket of each engine: what builds on a tail that changed."""
        if not engines or self._latest is None or self._latest <= bucket:
            return set()
        query = (
            select(func.min(usage.c.bucket))
            .where(usage.c.host == self._host, usage.c.engine.in_(engines), usage.c.bucket > bucket)
            .group_by(usage.c.engine)
        )
        return set(self._connection.execute(query).scalars())


def tail_json(tail: Tail) -> dict[str, Any]:
    """A tail as the column keeps it: counters as [name, rank, total]."""
    counters = [[counter.value, rank, total] for (counter, rank), total in sorted(tail.counters.items())]
    return {"at": tail.at.isoformat(), "started": tail.started, "counters": counters}


def tail_from(data: Mapping[str, Any]) -> Tail:
    """What `tail_json` wrote."""
    counters = {(Counter(name), Rank(rank)): float(total) for name, rank, total in data["counters"]}
    return Tail(datetime.fromisoformat(data["at"]), data["started"], counters)
