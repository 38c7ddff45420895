"""Reports, hosts and usage in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tidegate.model.activity import HostTokens
from tidegate.model.fleet import PoolName
from tidegate.model.reading import Counter, EngineName, HostName, HostReading
from tidegate.model.unflatten import Reader, unflatten
from tidegate.model.usage import BUCKET, TokenUsage, bucket_of
from tidegate.model.vector import decode
from tidegate.runtime.errors import TidegateError
from tidegate.store.admission import Fresh, Keys, Place, admit, ranges, read_layout
from tidegate.store.buckets import Border, Tail, fill, touched
from tidegate.wire import Accepted, HostRecord, HostState, Incoming, Layout, Report


class FakeReports:
    """Reports in a dictionary."""

    def __init__(self) -> None:
        self.layouts: dict[tuple[HostName, str], Keys] = {}
        self.rows: dict[tuple[HostName, str, int], Fresh] = {}
        self.touched: set[datetime] = set()

    def accept(
        self, host: HostName, layouts: Sequence[Layout], reports: Sequence[Report], received_at: datetime
    ) -> Accepted:
        read = {(host, layout.id): read_layout(host, layout) for layout in layouts}
        known = {name: len(keys) for (owner, name), keys in (self.layouts | read).items() if owner == host}
        stored: frozenset[Place] = frozenset((boot, number) for owner, boot, number in self.rows if owner == host)
        fresh, wanting = admit(reports, known, stored, received_at)
        self.layouts |= read
        for row in fresh:
            self.rows[host, row.report.boot_id, row.report.sequence] = row
            self.touched |= touched(row.at)
        kept = [(r.boot_id, r.sequence) for r in reports if (host, r.boot_id, r.sequence) in self.rows]
        return Accepted(ranges(kept), tuple(wanting), len(fresh), len(kept) - len(fresh))

    def accept_all(self, incoming: Sequence[Incoming]) -> Sequence[Accepted | TidegateError | ValueError]:
        return [self._outcome(one) for one in incoming]

    def _outcome(self, one: Incoming) -> Accepted | TidegateError | ValueError:
        try:
            return self.accept(one.host, one.layouts, one.reports, one.received_at)
        except (TidegateError, ValueError) as error:
            return error

    def readers(
        self, wanted: Collection[tuple[HostName, str]], *, remembered: bool = False
    ) -> Mapping[tuple[HostName, str], Reader]:
        return {pair: Reader(self.layouts[pair]) for pair in wanted if pair in self.layouts}

    def readings(self, since: datetime, until: datetime, host: HostName | None = None) -> Iterator[HostReading]:
        ordered = sorted((owner, row.at, boot, number, row) for (owner, boot, number), row in self.rows.items())
        for owner, at, _, _, row in ordered:
            if since <= at < until and host in (None, owner):
                keys = self.layouts[owner, row.report.layout]
                yield unflatten(owner, at, keys, decode(row.vector))

    def count(self, host: HostName) -> int:
        return sum(1 for owner, _, _ in self.rows if owner == host)


class FakeHosts:
    """Hosts in a dictionary; remembers which engine belongs to which pool."""

    def __init__(self) -> None:
        self.tokens: dict[str, HostName] = {}
        self.records: dict[HostName, HostRecord] = {}
        self.pools: dict[tuple[HostName, str], PoolName] = {}

    def enroll(self, name: HostName, token_hash: str, now: datetime) -> bool:
        known = self.records.get(name)
        self.tokens = {token: owner for token, owner in self.tokens.items() if owner != name} | {token_hash: name}
        self.records[name] = replace(known, revoked=False) if known else HostRecord(name, None, None, revoked=False)
        return known is None

    def revoke(self, name: HostName, now: datetime) -> bool:
        if name not in self.records:
            return False
        self.records[name] = replace(self.records[name], revoked=True)
        return True

    def authenticate(self, token_hash: str) -> HostName | None:
        name = self.tokens.get(token_hash)
        return None if name is None or self.records[name].revoked else name

    def good_tokens(self, token_hashes: Collection[str]) -> Mapping[str, HostName]:
        found = {token: self.authenticate(token) for token in token_hashes}
        return {token: name for token, name in found.items() if name is not None}

    def seen(self, name: HostName, state: HostState, at: datetime) -> None:
        known = self.records.get(name)
        if known is None or (known.last_seen is not None and known.last_seen > at):
            return
        self.records[name] = replace(known, last_seen=at, state=state)
        for engine in state.engines:
            if engine.pool:
                self.pools[name, engine.name] = PoolName(engine.pool)

    def seen_many(self, news: Sequence[HostRecord]) -> None:
        for one in news:
            if one.state is not None and one.last_seen is not None:
                self.seen(one.name, one.state, one.last_seen)

    def listing(self) -> Sequence[HostRecord]:
        return [replace(one, state=None) for one in self.all()]

    def states(self, names: Collection[HostName]) -> Mapping[HostName, HostRecord]:
        return {one.name: one for one in self.all() if one.name in names}

    def all(self) -> Sequence[HostRecord]:
        return [self.records[name] for name in sorted(self.records)]


class FakeUsage:
    """Usage worked out from all reports at every call, with no state to go stale."""

    def __init__(self, reports: FakeReports, hosts: FakeHosts) -> None:
        self.reports, self.hosts = reports, hosts
        self.rows: dict[tuple[datetime, HostName, EngineName], tuple[PoolName, Mapping[Counter, float], bool]] = {}

    def roll_up(self, now: datetime) -> int:
        changed = self.reports.touched & {bucket_of(row.at) for row in self.reports.rows.values()}
        self.reports.touched.clear()
        self.rows.clear()
        for host in sorted({owner for owner, _, _ in self.reports.rows}):
            self._host(host, now)
        return len(changed)

    def _host(self, host: HostName, now: datetime) -> None:
        eternity = timedelta(days=36_500)
        readings = list(self.reports.readings(now - eternity, now + eternity, host))
        tails: dict[EngineName, Tail] = {}
        for bucket in sorted({bucket_of(reading.at) for reading in readings}):
            inside = [reading for reading in readings if bucket_of(reading.at) == bucket]
            before = [reading.at for reading in readings if reading.at < bucket]
            after = [reading.at for reading in readings if reading.at >= bucket + BUCKET]
            border = Border(before[-1] if before else None, after[0] if after else None, tails)
            for engine, share in fill(bucket, inside, border, now).items():
                pool = self.hosts.pools.get((host, engine), PoolName(""))
                self.rows[bucket, host, engine] = (pool, share.increases, share.partial)
                if share.tail is not None:
                    tails[engine] = share.tail

    def between(self, since: datetime, until: datetime) -> Sequence[TokenUsage]:
        shares: dict[tuple[datetime, PoolName], list[tuple[Mapping[Counter, float], bool]]] = {}
        for (bucket, _, _), (pool, increases, partial) in self.rows.items():
            if pool and since <= bucket < until:
                shares.setdefault((bucket, pool), []).append((increases, partial))
        return [
            TokenUsage(
                pool,
                bucket,
                prompt_tokens=_total(parts, Counter.PROMPT_TOKENS),
                cached_prompt_tokens=_total(parts, Counter.CACHED_PROMPT_TOKENS),
                generation_tokens=_total(parts, Counter.GENERATION_TOKENS),
                cache_queries=_total(parts, Counter.CACHE_QUERIES),
                cache_hits=_total(parts, Counter.CACHE_HITS),
                partial=any(partial for _, partial in parts),
            )
            for (bucket, pool), parts in sorted(shares.items())
        ]

    def by_host(self, since: datetime, until: datetime) -> Sequence[HostTokens]:
        shares: dict[tuple[datetime, str, PoolName], list[tuple[Mapping[Counter, float], bool]]] = {}
        for (bucket, host, _), (pool, increases, partial) in self.rows.items():
            if pool and since <= bucket < until:
                shares.setdefault((bucket, host, pool), []).append((increases, partial))
        return [
            HostTokens(
                host,
                pool,
                bucket,
                prompt_tokens=_total(parts, Counter.PROMPT_TOKENS),
                cached_prompt_tokens=_total(parts, Counter.CACHED_PROMPT_TOKENS),
                generation_tokens=_total(parts, Counter.GENERATION_TOKENS),
                partial=any(partial for _, partial in parts),
            )
            for (bucket, host, pool), parts in sorted(shares.items())
        ]


def _total(parts: Sequence[tuple[Mapping[Counter, float], bool]], counter: Counter) -> float:
    return sum(increases.get(counter, 0.0) for increases, _ in parts)
