"""Token usage in five-minute buckets, worked out again for every bucket that a report touched, late ones included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection, func, select

from tidegate.model.activity import HostTokens
from tidegate.model.reading import HostName
from tidegate.model.usage import TokenUsage
from tidegate.runtime.errors import Permanent
from tidegate.runtime.niceness import give_way
from tidegate.runtime.pace import Pace
from tidegate.store.binary import cursor
from tidegate.store.buckets import COUNTERS, closing, fill, settled
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.layouts import Layouts
from tidegate.store.locks import lock_hosts, lock_roll_up
from tidegate.store.marks import mark, marked, marked_hosts, postpone, unmark
from tidegate.store.schema import usage
from tidegate.store.shares import Shares

_log = structlog.get_logger()
_TOKENS = ("prompt_tokens", "cached_prompt_tokens", "generation_tokens")
_OWNERS = "SELECT name, pool FROM engine WHERE host = %s"
_KEPT_FROM = "SELECT reports_from FROM horizon"
_AT_ONCE = 48
"""Buckets of a host in one transaction."""
_ROUNDS = 40
"""Transactions of a host in one call: more than three days of backlog."""


_FREE_HOSTS, _REST_A_HOST = 200, timedelta(seconds=0.2)
"""A running bucket is worked out again each time, up to so many hosts; each host more lets all of them rest so long."""
_LONGEST_REST = timedelta(seconds=300)


class StoredUsage:
    """Implements the port `Usage`; several controllers may share the work."""

    def __init__(self, database: Database, layouts: Layouts, fence: Fence, pace: Pace) -> None:
        self._database, self._layouts, self._fence, self._pace = database, layouts, fence, pace

    def roll_up(self, now: datetime) -> int:
        """Work out every touched bucket, oldest first; returns how many buckets that were. Bounded per call."""
        with self._database.begin() as connection:
            hosts = marked_hosts(connection, now)
        done: set[datetime] = set()
        rest = rest_of(len(hosts))
        for host in hosts:
            try:
                with self._pace.piece():
                    done |= self._rounds(host, now, rest)
            except (ValueError, Permanent) as error:
                _log.error(
                    "token usage of a host cannot be worked out: it is tried again, the others have their turn",
                    host=host,
                    error=str(error),
                    remedy="the database's disk may be failing: look at its log",
                )
        return len(done)

    def _rounds(self, host: HostName, now: datetime, rest: timedelta) -> set[datetime]:
        """Every touched bucket of a host."""
        done: set[datetime] = set()
        for _ in range(_ROUNDS):
            buckets, more = self._round(host, now, rest)
            done |= buckets
            if not more:
                break
        return done

    def between(self, since: datetime, until: datetime) -> Sequence[TokenUsage]:
        """Buckets with since <= bucket < until, by bucket and pool; engines that belong to no pool are left out."""
        totals = [func.coalesce(func.sum(usage.c[counter.value]), 0.0).label(counter.value) for counter in COUNTERS]
        query = (
            select(usage.c.pool, usage.c.bucket, *totals, func.bool_or(usage.c.partial).label("partial"))
            .where(usage.c.bucket >= since, usage.c.bucket < until, usage.c.pool != "")
            .group_by(usage.c.bucket, usage.c.pool)
            .order_by(usage.c.bucket, usage.c.pool)
        )
        with self._database.begin() as connection:
            rows = connection.execute(query).mappings().all()
        return [TokenUsage(**row) for row in rows]

    def by_host(self, since: datetime, until: datetime) -> Sequence[HostTokens]:
        """The same for each host and pool, as far as the tokens are known."""
        totals = [func.coalesce(func.sum(usage.c[name]), 0.0).label(name) for name in _TOKENS]
        query = (
            select(usage.c.host, usage.c.pool, usage.c.bucket, *totals, func.bool_or(usage.c.partial).label("partial"))
            .where(usage.c.bucket >= since, usage.c.bucket < until, usage.c.pool != "")
            .group_by(usage.c.bucket, usage.c.host, usage.c.pool)
            .order_by(usage.c.bucket, usage.c.host, usage.c.pool)
        )
        with self._database.begin() as connection:
            return [HostTokens(**row) for row in connection.execute(query).mappings()]

    def _round(self, host: HostName, now: datetime, rest: timedelta) -> tuple[set[datetime], bool]:
        """One transaction's worth of a host's buckets: which were worked out, and whether more may wait."""
        with self._database.begin(durable=False) as connection:  # marks and what was made of them go together
            self._fence.check(connection)
            lock_roll_up(connection, host)
            buckets = marked(connection, host, now, _AT_ONCE)
            shares = Shares(connection, self._layouts, host, buckets)
            work = _Work(shares, _kept_from(connection), _owners(connection, host), now)
            results = {bucket: work.bucket(bucket) for bucket in buckets}
            shares.flush()
            followers = {after for result in results.values() for after in result.followers} - results.keys()
            lock_hosts(connection, {host})  # for the last moment only: intake marks several buckets in its own order
            unmark(connection, host, {bucket: buckets[bucket] for bucket in results if results[bucket].settled})
            open_ones = {bucket: again(bucket, now, rest) for bucket in results if not results[bucket].settled}
            postpone(connection, host, buckets, open_ones)
            mark(connection, {(host, bucket) for bucket in followers})
        done = {bucket for bucket, result in results.items() if result.worked}
        return done, bool(followers) or len(buckets) == _AT_ONCE


def rest_of(hosts: int) -> timedelta:
    """How long a bucket that is still running may rest in a fleet of so many hosts that have something new.

    What a bucket is at last is not affected; a fleet of thousands would be worked out four times for one result.
    """
    return min(_LONGEST_REST, max(0, hosts - _FREE_HOSTS) * _REST_A_HOST)


def again(bucket: datetime, now: datetime, rest: timedelta) -> datetime:
    """When to look again at a bucket that is still running: when it is over, or after its rest."""
    return min(closing(bucket), now + rest) if rest else closing(bucket)


@dataclass(frozen=True, slots=True)
class _Result:
    worked: bool
    settled: bool
    followers: set[datetime] = field(default_factory=set)


_NOTHING = _Result(worked=False, settled=True)


@dataclass(frozen=True, slots=True)
class _Work:
    """Works out buckets of one host in one transaction."""

    shares: Shares
    kept_from: datetime | None
    owners: Mapping[str, str]
    now: datetime

    def bucket(self, bucket: datetime) -> _Result:
        before = self.shares.kept(bucket)
        if before and self.kept_from is not None and bucket < self.kept_from:
            return _NOTHING  # its reports are gone but for a late one: the figures made of all of them stand
        looks = self.shares.samples(bucket)
        if not looks.moments:
            return _NOTHING
        engines = {engine.engine for sample in looks.readings for engine in sample.engines}
        border = self.shares.border(bucket, engines)
        give_way()
        after = fill(bucket, looks.readings, border, self.now, looks.moments)
        self.shares.write(bucket, after, self.owners)
        moved = {name for name, share in after.items() if name in before and before[name] != share.tail}
        fresh = after.keys() - before.keys()
        followers = self.shares.following(bucket, moved | fresh)
        return _Result(worked=True, settled=settled(bucket, border, self.now), followers=followers)


def _owners(connection: Connection, host: HostName) -> Mapping[str, str]:
    """Which pool each engine belongs to, as the host said last."""
    with cursor(connection) as bare:
        return {str(name): str(pool) for name, pool in bare.execute(_OWNERS, [host])}


def _kept_from(connection: Connection) -> datetime | None:
    with cursor(connection) as bare:
        row = bare.execute(_KEPT_FROM).fetchone()
    return row[0] if row else None
