"""Hosts' shares of the usage buckets as they are stored: read and written for many hosts at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from json import dumps
from typing import Any

from sqlalchemy import Connection

from tidegate.model.reading import Counter, EngineName, HostName, Rank
from tidegate.store.binary import cursor, text_array
from tidegate.store.buckets import COUNTERS, EngineBucket, Tail
from tidegate.store.figures import mark_usage

_PLACES = "unnest(%(hosts)s::text[], %(engines)s::text[], %(buckets)s::timestamptz[]) AS w (host, engine, bucket)"
_TAILS = (
    f"SELECT w.host, w.engine, last.tail FROM {_PLACES} CROSS JOIN LATERAL (SELECT u.tail FROM usage u "  # noqa: S608
    "WHERE u.host = w.host AND u.engine = w.engine AND u.bucket < w.bucket AND u.tail IS NOT NULL "
    "ORDER BY u.bucket DESC LIMIT 1) AS last"
)
_KEPT = (
    "SELECT u.host, u.bucket, u.engine, u.tail FROM unnest(%(hosts)s::text[], %(buckets)s::timestamptz[]) "
    "AS w (host, bucket) JOIN usage u ON u.bucket = w.bucket AND u.host = w.host"
)
_LATER = "SELECT min(u.bucket) FROM usage u WHERE u.host = w.host AND u.engine = w.engine AND u.bucket > w.bucket"
_FOLLOWING = f"SELECT w.host, ({_LATER}), ({_LATER} AND u.tail IS NOT NULL) FROM {_PLACES}"  # noqa: S608
_NAMES = tuple(counter.value for counter in COUNTERS)
_WRITE = (
    f"INSERT INTO usage (bucket, host, engine, pool, {', '.join(_NAMES)}, partial, tail) "
    "SELECT bucket, host, engine, pool, " + ", ".join(_NAMES) + ", partial, nullif(tail, 'null'::jsonb) "
    "FROM unnest(%s::timestamptz[], %s::text[], %s::text[], %s::text[], "
    f"{', '.join(['%s::float8[]'] * len(_NAMES))}, %s::bool[], %s::jsonb[]) "
    f"AS new (bucket, host, engine, pool, {', '.join(_NAMES)}, partial, tail) "
    "ON CONFLICT (bucket, host, engine) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in ("pool", *_NAMES, "partial", "tail"))
)
"""One text for any number of buckets and engines: a statement made for each number costs more than what it does."""

Place = tuple[HostName, EngineName, datetime]
"""An engine's share of a bucket."""
Kept = Mapping[EngineName, Tail | None]
"""The tails that the shares of a bucket had when they were last worked out."""


def read_kept(
    connection: Connection, buckets: Collection[tuple[HostName, datetime]]
) -> dict[tuple[HostName, datetime], Kept]:
    """What is stored of these buckets; one without shares is left out."""
    found: dict[tuple[HostName, datetime], dict[EngineName, Tail | None]] = {}
    with cursor(connection) as bare:
        for host, bucket, name, tail in bare.execute(_KEPT, _pairs(buckets)):
            found.setdefault((host, bucket), {})[name] = tail_from(tail) if tail else None
    return dict(found)


def read_tails(connection: Connection, places: Collection[Place]) -> dict[HostName, dict[EngineName, Tail]]:
    """Where each engine's next increase begins: its last counters before the bucket. An engine once a host."""
    found: dict[HostName, dict[EngineName, Tail]] = {}
    if places:
        with cursor(connection) as bare:
            for host, name, tail in bare.execute(_TAILS, _triples(places)):
                found.setdefault(host, {})[name] = tail_from(tail)
    return found


def write(connection: Connection, shares: Mapping[Place, EngineBucket], pools: Mapping[tuple[str, str], str]) -> None:
    """Put the shares in place of the earlier ones; `pools` has the pool of an engine that is in one."""
    if shares:
        with cursor(connection) as bare:
            bare.execute(_WRITE, _columns(sorted(shares), shares, pools))
        mark_usage(connection, {bucket for _, _, bucket in shares})


def following(connection: Connection, moved: Collection[Place]) -> set[tuple[HostName, datetime]]:
    """What builds on tails that changed: each engine's next bucket, and its next one with counters.

    They differ where the engine could not be read: such a bucket says that something is lost, and hands on no tail.
    """
    if not moved:
        return set()
    with cursor(connection) as bare:
        rows = bare.execute(_FOLLOWING, _triples(moved)).fetchall()
    return {(host, bucket) for host, *buckets in rows for bucket in buckets if bucket is not None}


def _pairs(buckets: Collection[tuple[HostName, datetime]]) -> dict[str, str]:
    hosts, moments = zip(*buckets, strict=True)
    return {"hosts": text_array(hosts), "buckets": text_array([moment.isoformat() for moment in moments])}


def _triples(places: Collection[Place]) -> dict[str, str]:
    engines = text_array([name for _, name, _ in places])
    return {"engines": engines, **_pairs([(host, bucket) for host, _, bucket in places])}


def _columns(
    places: Sequence[Place], shares: Mapping[Place, EngineBucket], pools: Mapping[tuple[str, str], str]
) -> tuple[str, ...]:
    """The arrays that `_WRITE` wants."""
    rows = [shares[place] for place in places]
    return (
        text_array([bucket.isoformat() for _, _, bucket in places]),
        text_array([host for host, _, _ in places]),
        text_array([name for _, name, _ in places]),
        text_array([pools.get((host, name), "") for host, name, _ in places]),
        *(_numbers(share.increases.get(counter) for share in rows) for counter in COUNTERS),
        text_array(["t" if share.partial else "f" for share in rows]),
        text_array(["null" if share.tail is None else dumps(tail_json(share.tail)) for share in rows]),
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
