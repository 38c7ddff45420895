"""Token usage in five-minute buckets, worked out again for every bucket that a report touched, late ones included."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection, func, select

from tidegate.model.activity import HostTokens
from tidegate.model.reading import HostName
from tidegate.model.usage import TokenUsage
from tidegate.runtime.errors import Permanent
from tidegate.runtime.niceness import give_way
from tidegate.runtime.pace import Pace
from tidegate.store.binary import cursor, text_array
from tidegate.store.buckets import COUNTERS, closing
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.layouts import Layouts
from tidegate.store.locks import lock_roll_up
from tidegate.store.marks import HostBucket, close, marked, marked_hosts
from tidegate.store.past import Runs, read_pasts
from tidegate.store.samples import NOTHING
from tidegate.store.schema import usage
from tidegate.store.shares import following, read_kept, read_tails, write
from tidegate.store.usage_run import Seen, Worked, runs_of, work_out

_log = structlog.get_logger()
_TOKENS = ("prompt_tokens", "cached_prompt_tokens", "generation_tokens")
_POOLS = "SELECT host, name, pool FROM engine WHERE host = ANY (%s::text[])"
_KEPT_FROM = "SELECT reports_from FROM horizon"
_TOGETHER = 4
"""Hosts in one transaction: a message to the database costs more than what it asks for of one of them."""
_AT_ONCE = 48
"""Buckets in one transaction."""
_ROUNDS = 40
"""Transactions for each of these hosts in one call: more than three days of backlog."""
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
        rest, done = rest_of(len(hosts)), set[datetime]()
        for first in range(0, len(hosts), _TOGETHER):
            done |= self._group(hosts[first : first + _TOGETHER], now, rest)
        return len(done)

    def _group(self, hosts: Sequence[HostName], now: datetime, rest: timedelta) -> set[datetime]:
        """Every touched bucket of these hosts; when it cannot be done for all of them each is tried alone."""
        try:
            return self._rounds(hosts, now, rest)
        except (ValueError, Permanent) as error:
            if len(hosts) == 1:
                _log.error(
                    "token usage of a host cannot be worked out: it is tried again, the others have their turn",
                    host=hosts[0],
                    error=str(error),
                    remedy="the database's disk may be failing: look at its log",
                )
                return set()
        return {bucket for host in hosts for bucket in self._group([host], now, rest)}

    def _rounds(self, hosts: Sequence[HostName], now: datetime, rest: timedelta) -> set[datetime]:
        done: set[datetime] = set()
        for _ in range(_ROUNDS * len(hosts)):
            with self._pace.piece():
                buckets, more = self._round(hosts, now, rest)
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

    def _round(self, hosts: Sequence[HostName], now: datetime, rest: timedelta) -> tuple[set[datetime], bool]:
        """One transaction's worth of buckets: which were worked out, and whether more may wait."""
        with self._database.begin(durable=False) as connection:  # marks and what was made of them go together
            self._fence.check(connection)
            lock_roll_up(connection, hosts)
            marks = marked(connection, hosts, now, _AT_ONCE)
            results = self._worked(connection, runs_of(marks), now)
            moved = {(host, name, bucket) for (host, bucket), result in results.items() for name in result.moved}
            changed = following(connection, moved) - results.keys()
            closed = {place: marks[place] for place, result in results.items() if result.settled}
            running = {place: marks[place] for place in results.keys() - closed.keys()}
            until = {place: (version, again(place[1], now, rest)) for place, version in running.items()}
            close(connection, closed, until, changed)
        done = {bucket for (_, bucket), result in results.items() if result.worked}
        return done, bool(changed) or len(results) < len(marks) or len(marks) == _AT_ONCE

    def _worked(self, connection: Connection, runs: Runs, now: datetime) -> dict[HostBucket, Worked]:
        """Work out these buckets, and write what comes of them."""
        if not runs:
            return {}
        seen = _seen(connection, self._layouts, runs)
        firsts = {(host, name, run[0].bucket) for host, run in seen.items() for one in run for name in one.engines}
        tails, results = read_tails(connection, firsts), dict[HostBucket, Worked]()
        for host, run in seen.items():
            ends = tails.get(host, {})
            for one in run:
                give_way()
                results[host, one.bucket] = work_out(one, ends, now)
        shares = {(host, name, at): share for (host, at), one in results.items() for name, share in one.shares.items()}
        write(connection, shares, _pools(connection, runs))
        return results


def _seen(connection: Connection, layouts: Layouts, runs: Runs) -> dict[HostName, list[Seen]]:
    """What the buckets are made of."""
    kept_from = _kept_from(connection)
    kept = read_kept(connection, [(host, bucket) for host, run in runs.items() for bucket in run])
    pasts = read_pasts(connection, layouts, runs)

    def seen(host: HostName, bucket: datetime) -> Seen:
        tails = kept.get((host, bucket), {})
        if tails and kept_from is not None and bucket < kept_from:
            return Seen(bucket, NOTHING, None, None, tails)  # its reports are gone, but for a late one: it stands
        return Seen(bucket, pasts[host].looks(bucket), *pasts[host].around(bucket), tails)

    return {host: [seen(host, bucket) for bucket in run] for host, run in runs.items()}


def rest_of(hosts: int) -> timedelta:
    """How long a bucket that is still running may rest in a fleet of so many hosts that have something new.

    What a bucket is at last is not affected; a fleet of thousands would be worked out four times for one result.
    """
    return min(_LONGEST_REST, max(0, hosts - _FREE_HOSTS) * _REST_A_HOST)


def again(bucket: datetime, now: datetime, rest: timedelta) -> datetime:
    """When to look again at a bucket that is still running: when it is over, or after its rest."""
    return min(closing(bucket), now + rest) if rest else closing(bucket)


def _pools(connection: Connection, hosts: Collection[HostName]) -> Mapping[tuple[str, str], str]:
    """Which pool each engine belongs to, by host and name, as the host said last."""
    with cursor(connection) as bare:
        return {(host, name): pool for host, name, pool in bare.execute(_POOLS, [text_array(list(hosts))])}


def _kept_from(connection: Connection) -> datetime | None:
    with cursor(connection) as bare:
        row = bare.execute(_KEPT_FROM).fetchone()
    return row[0] if row else None
