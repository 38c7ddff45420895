"""One host's shares of the usage buckets: the SQL around the pure `fill`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from datetime import datetime
from json import dumps
from typing import Any

from sqlalchemy import Connection, func, select

from tidegate.model.reading import Counter, EngineName, HostName, Rank
from tidegate.model.usage import BUCKET
from tidegate.store.binary import cursor, text_array
from tidegate.store.buckets import COUNTERS, Border, EngineBucket, Tail
from tidegate.store.figures import mark_usage
from tidegate.store.layouts import Layouts
from tidegate.store.past import Past
from tidegate.store.samples import Looks
from tidegate.store.schema import usage

_TAILS = (
    "SELECT w.engine, last.tail FROM unnest(%s::text[]) AS w (engine) CROSS JOIN LATERAL (SELECT u.tail FROM usage u "
    "WHERE u.host = %s AND u.engine = w.engine AND u.bucket < %s AND u.tail IS NOT NULL "
    "ORDER BY u.bucket DESC LIMIT 1) AS last"
)
_KEPT = "SELECT bucket, engine, tail FROM usage WHERE bucket = ANY (%s::timestamptz[]) AND host = %s"
_LATEST = "SELECT bucket FROM usage WHERE host = %s ORDER BY bucket DESC LIMIT 1"
_NAMES = tuple(counter.value for counter in COUNTERS)
_WRITE = (
    f"INSERT INTO usage (bucket, host, engine, pool, {', '.join(_NAMES)}, partial, tail) "
    "SELECT bucket, %s, engine, pool, " + ", ".join(_NAMES) + ", partial, nullif(tail, 'null'::jsonb) "
    "FROM unnest(%s::timestamptz[], %s::text[], %s::text[], "
    f"{', '.join(['%s::float8[]'] * len(_NAMES))}, %s::bool[], %s::jsonb[]) "
    f"AS new (bucket, engine, pool, {', '.join(_NAMES)}, partial, tail) "
    "ON CONFLICT (bucket, host, engine) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in ("pool", *_NAMES, "partial", "tail"))
)
"""One text for any number of buckets and engines: a statement made for each number costs more than what it does."""


_New = tuple[datetime, EngineName, str, EngineBucket]
"""A bucket, an engine, its pool, and the engine's share of the bucket."""


class Shares:
    """Reads and writes the shares of one host within one transaction; call `flush` at its end."""

    def __init__(
        self, connection: Connection, layouts: Layouts, host: HostName, buckets: Collection[datetime] = ()
    ) -> None:
        """`buckets`: those that will be asked for, oldest first, to be read together."""
        self._connection = connection
        self._host = host
        self._past = Past(connection, layouts, host, sorted(buckets))
        self._kept = self._read_kept(buckets)
        self._latest = self._read_latest() if buckets else None
        self._unwritten: list[_New] = []
        self._tails: dict[datetime, dict[EngineName, Tail]] = {}
        """Of the buckets that were worked out here."""

    def samples(self, bucket: datetime) -> Looks:
        """What the host reported in the bucket, in time order."""
        return self._past.looks(bucket)

    def border(self, bucket: datetime, engines: Set[EngineName]) -> Border:
        """The nearest samples around the bucket, and where each engine's next increase begins."""
        before, after = self._past.around(bucket)
        return Border(before, after, self._tails_before(bucket, engines))

    def _tails_before(self, bucket: datetime, engines: Set[EngineName]) -> dict[EngineName, Tail]:
        last = self._tails.get(bucket - BUCKET, {})
        found = {name: last[name] for name in engines if name in last}
        wanting = sorted(engines - found.keys())
        if not wanting:
            return found
        self.flush()
        with cursor(self._connection) as bare:
            rows = bare.execute(_TAILS, [text_array(wanting), self._host, bucket]).fetchall()
        return found | {EngineName(name): tail_from(data) for name, data in rows}

    def kept(self, bucket: datetime) -> Mapping[EngineName, Tail | None]:
        """The tails that the bucket's shares had when they were last worked out."""
        return self._kept.get(bucket, {})

    def _read_kept(self, buckets: Collection[datetime]) -> dict[datetime, dict[EngineName, Tail | None]]:
        found: dict[datetime, dict[EngineName, Tail | None]] = {}
        if buckets:
            moments = text_array([bucket.isoformat() for bucket in buckets])
            with cursor(self._connection) as bare:
                for bucket, name, tail in bare.execute(_KEPT, [moments, self._host]):
                    found.setdefault(bucket, {})[EngineName(name)] = tail_from(tail) if tail else None
        return found

    def _read_latest(self) -> datetime | None:
        with cursor(self._connection) as bare:
            row = bare.execute(_LATEST, [self._host]).fetchone()
        return row[0] if row else None

    def write(self, bucket: datetime, shares: Mapping[EngineName, EngineBucket], owners: Mapping[str, str]) -> None:
        """Put the shares in place of the earlier ones; `owners` is the pool of each engine that is in one."""
        self._unwritten += [(bucket, name, owners.get(name, ""), shares[name]) for name in sorted(shares)]
        self._tails[bucket] = {name: share.tail for name, share in shares.items() if share.tail is not None}

    def flush(self) -> None:
        """Write what is held back, in one statement for all buckets."""
        if not self._unwritten:
            return
        with cursor(self._connection) as bare:
            bare.execute(_WRITE, [self._host, *_columns(self._unwritten)])
        mark_usage(self._connection, {bucket for bucket, *_ in self._unwritten})
        self._unwritten = []

    def following(self, bucket: datetime, engines: Collection[EngineName]) -> set[datetime]:
        """What builds on a tail that changed: each engine's next bucket, and its next one with counters.

        They differ where the engine could not be read: such a bucket says that something is lost, and hands on no tail.
        """
        if not engines or self._latest is None or self._latest <= bucket:
            return set()
        counted = func.min(usage.c.bucket).filter(usage.c.tail.is_not(None))
        query = (
            select(func.min(usage.c.bucket), counted)
            .where(usage.c.host == self._host, usage.c.engine.in_(engines), usage.c.bucket > bucket)
            .group_by(usage.c.engine)
        )
        return {found for row in self._connection.execute(query) for found in row if found is not None}


def _columns(rows: Sequence[_New]) -> tuple[str, ...]:
    """The arrays that `_WRITE` wants after the host."""
    buckets, names, pools, shares = zip(*rows, strict=True)
    return (
        text_array([bucket.isoformat() for bucket in buckets]),
        text_array(names),
        text_array(pools),
        *(_numbers(share.increases.get(counter) for share in shares) for counter in COUNTERS),
        text_array(["t" if share.partial else "f" for share in shares]),
        text_array(["null" if share.tail is None else dumps(tail_json(share.tail)) for share in shares]),
    )


def _numbers(values: Iterable[float | None]) -> str:
    return "{" + ",".join("NULL" if value is None else repr(value) for value in values) + "}"


def tail_json(tail: Tail) -> dict[str, Any]:
    """A tail as the column keeps it: counters as [name, rank, total]."""
    counters = [[counter.value, rank, total] for (counter, rank), total in sorted(tail.counters.items())]
    return {"at": tail.at.isoformat(), "started": tail.started, "counters": counters}


def tail_from(data: Mapping[str, Any]) -> Tail:
    """What `tail_json` wrote."""
    counters = {(Counter(name), Rank(rank)): float(total) for name, rank, total in data["counters"]}
    return Tail(datetime.fromisoformat(data["at"]), data["started"], counters)
