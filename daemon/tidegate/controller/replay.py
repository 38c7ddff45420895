"""The same decision core over the recorded past under another configuration: what would have been otherwise. Pure.

The load is the recorded one; the fleet under it is the one that the new configuration would have made
(`replay_world.py`). The first minutes teach the core what it would have known.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import groupby

from tidegate.controller.replay_world import Fleet, Load, PoolFleets, shared_out, summed, would_be
from tidegate.decide.group import Group, groups_of
from tidegate.model import fleet as model
from tidegate.model.decision import Decision, Plan
from tidegate.model.fleet import PoolName, ServiceName
from tidegate.model.memory import Memory
from tidegate.model.policy import FleetPolicy, Mode, SloPolicy
from tidegate.model.records import PoolFigures

LONGEST_TICK = timedelta(minutes=2)
"""A hole in the record counts as no more than this."""
START = timedelta(seconds=240)
_MOST_SHOWN = 50
_FASTEST_SHARE = 0.05

Decide = Callable[[model.Fleet, FleetPolicy, Memory, datetime], Plan]


@dataclass(slots=True)
class PoolTally:
    """One pool: as it was, and as it would have been."""

    hours_was: float = 0.0
    hours_would: float = 0.0
    """Of replicas, from their order to their end."""
    gpu_hours_was: float = 0.0
    gpu_hours_would: float = 0.0
    cost_was: Decimal | None = Decimal()
    cost_would: Decimal | None = Decimal()
    """At the new configuration's prices; None without one."""
    changes_was: int = 0
    changes_would: int = 0
    differs: int = 0
    """Ticks at which the target would have been another."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A moment at which the new configuration begins to want another size than was wanted."""

    at: datetime
    pool: PoolName
    was: int
    would: int
    reason: str


@dataclass(slots=True)
class Risk:
    """The share of tokens served at ticks whose p95 missed the objective."""

    tokens: float = 0.0
    missed_was: float = 0.0
    missed_would: float = 0.0


@dataclass(slots=True)
class Replayed:
    """What would have been otherwise."""

    since: datetime | None = None
    until: datetime | None = None
    ticks: int = 0
    pools: dict[PoolName, PoolTally] = field(default_factory=dict)
    risks: dict[ServiceName, Risk] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    """The first ones."""
    notes: list[str] = field(default_factory=list)


def replay(
    figures: Iterable[PoolFigures],
    policy: FleetPolicy,
    decide: Decide,
    starts: Mapping[PoolName, timedelta] | None = None,
    progress: Callable[[datetime], None] = lambda _: None,
) -> Replayed:
    """Play recorded figures, oldest first, under `policy`; `starts` says how long starts take, where that is known."""
    player = _Player(policy, decide, dict(starts or {}))
    for at, rows in groupby(figures, key=lambda row: row.at):
        player.tick(at, {row.pool: row for row in rows})
        progress(at)
    return player.concluded()


class _Player:
    def __init__(self, policy: FleetPolicy, decide: Decide, starts: dict[PoolName, timedelta]) -> None:
        self._policy = _acting(policy)
        self._decide, self._starts = decide, starts
        self._groups = groups_of(self._policy)
        self._memory = Memory()
        self._fleets: PoolFleets = {}
        self._fastest: dict[ServiceName, list[float]] = {}
        """Every TPOT that was recorded, ascending."""
        self._was: dict[PoolName, int] = {}
        self._would: dict[PoolName, int] = {}
        self._unknown: dict[str, None] = {}
        self._last: datetime | None = None
        self.result = Replayed(pools={name: PoolTally() for name in policy.pools})

    def tick(self, now: datetime, rows: Mapping[PoolName, PoolFigures]) -> None:
        """One recorded tick."""
        result, span = self.result, self._span(now)
        result.since, result.until, result.ticks = result.since or now, now, result.ticks + 1
        self._unknown |= dict.fromkeys(str(name) for name in rows if name not in self._policy.pools)
        self._begin(rows, now)
        loads = {group.key: self._load(group, rows) for group in self._groups}
        for fleet in self._fleets.values():
            fleet.live(now)
        self._count(rows, span)
        for group in self._groups:
            self._judge(group, loads[group.key])
        plan = self._decide(self._view(loads, now), self._policy, self._memory, now)
        self._memory = plan.memory
        for name, fleet in self._fleets.items():
            fleet.obey([action for action in plan.actions if action.pool == name], now)
        for decision in plan.decisions:
            self._compare(decision, rows.get(decision.pool))

    def concluded(self) -> Replayed:
        """The result with what is to be known of it."""
        notes = self.result.notes
        if self._unknown:
            notes.append(f"pools that the configuration does not have are left out: {', '.join(self._unknown)}")
        free = [name for name, pool in self._policy.pools.items() if pool.first_flavour.price_per_gpu_hour is None]
        if free:
            notes.append(f"no price for {', '.join(free)}: its cost is not known")
        if not self.result.ticks:
            notes.append("nothing is recorded for this time")
        return self.result

    def _span(self, now: datetime) -> timedelta:
        span = timedelta() if self._last is None else min(now - self._last, LONGEST_TICK)
        self._last = now
        return span

    def _begin(self, rows: Mapping[PoolName, PoolFigures], now: datetime) -> None:
        for name, pool in self._policy.pools.items():
            if name not in self._fleets:
                start = self._starts.get(name) or pool.first_flavour.start_time or START
                row = rows.get(name)
                self._fleets[name] = Fleet.begun(pool, start, row.ready + row.starting if row else 0, now)

    def _load(self, group: Group, rows: Mapping[PoolName, PoolFigures]) -> Load:
        """Of the recorded pools that do this group's work: by name, and of pools unknown here by their service."""
        named = {*group.pools}
        alone = sum(other.service.name == group.service.name for other in self._groups) == 1
        service = group.service.name
        found = [
            _load_of(row)
            for name, row in rows.items()
            if name in named or (alone and row.service == service and name not in self._policy.pools)
        ]
        load = summed(found) if found else Load()
        if load.tpot:
            insort(self._fastest.setdefault(group.key, []), load.tpot)
        return load

    def _fast(self, group: Group) -> float | None:
        seen = self._fastest.get(group.key)
        return seen[int(len(seen) * _FASTEST_SHARE)] if seen else None

    def _view(self, loads: Mapping[ServiceName, Load], now: datetime) -> model.Fleet:
        pools = {}
        for group in self._groups:
            ready = sum(self._fleets[name].ready for name in group.pools)
            signals = shared_out(loads[group.key], ready, self._fast(group))
            pools.update({name: self._fleets[name].view(signals) for name in group.pools})
        return model.Fleet(now, pools)

    def _count(self, rows: Mapping[PoolName, PoolFigures], span: timedelta) -> None:
        hours = span / timedelta(hours=1)
        for name, tally in self.result.pools.items():
            pool, row, fleet = self._policy.pools[name], rows.get(name), self._fleets[name]
            was, would = (row.ready + row.starting + row.leaving if row else 0), len(fleet.replicas)
            tally.hours_was += was * hours
            tally.hours_would += would * hours
            tally.gpu_hours_was += was * hours * pool.gpus_per_replica
            tally.gpu_hours_would += would * hours * pool.gpus_per_replica
            tally.cost_was = _cost(pool.first_flavour.price_per_gpu_hour, tally.gpu_hours_was)
            tally.cost_would = _cost(pool.first_flavour.price_per_gpu_hour, tally.gpu_hours_would)

    def _judge(self, group: Group, load: Load) -> None:
        risk = self.result.risks.setdefault(group.key, Risk())
        ready = sum(self._fleets[name].ready for name in group.pools)
        risk.tokens += load.tokens
        risk.missed_was += load.tokens * _misses(load.tpot, load.ttft, group.service.slo)
        tpot, ttft = would_be(load, ready, self._fast(group))
        risk.missed_would += load.tokens * (1.0 if not ready else _misses(tpot, ttft, group.service.slo))

    def _compare(self, decision: Decision, row: PoolFigures | None) -> None:
        name, would = decision.pool, decision.target
        was = row.target if row else 0
        tally, before = self.result.pools[name], (self._was.get(name, was), self._would.get(name, would))
        tally.changes_was += was != before[0]
        tally.changes_would += would != before[1]
        if was != would:
            tally.differs += 1
            news = (was, would) != before or not self.result.differences
            if news and len(self.result.differences) < _MOST_SHOWN:
                self.result.differences.append(Difference(decision.at, name, was, would, decision.reason))
        self._was[name], self._would[name] = was, would


def _acting(policy: FleetPolicy) -> FleetPolicy:
    """A replay plays what would have been done, whatever the file lets a controller do."""
    return replace(policy, mode=Mode.ACT, controls=())


def _load_of(row: PoolFigures) -> Load:
    return Load(
        ready=row.ready,
        running=row.running,
        waiting=row.queue_depth,
        prompt=row.prompt_tokens_per_second,
        generated=row.generation_tokens_per_second,
        kv_usage=row.kv_cache_usage,
        gpu_utilization=row.gpu_utilization,
        ttft=row.ttft_p95_seconds,
        tpot=row.tpot_p95_seconds,
    )


def _misses(tpot: float | None, ttft: float | None, slo: SloPolicy) -> float:
    """1 when a p95 beyond its objective was (or would have been) seen; what is missing misses nothing."""
    return float((tpot or 0.0) > slo.tpot_s or (ttft or 0.0) > slo.ttft_s)


def _cost(price: Decimal | None, gpu_hours: float) -> Decimal | None:
    return None if price is None else price * Decimal(repr(gpu_hours))
