"""What was observed of a span of time, read once for its cost: what was held, seen, worked, sent, stored, delivered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from tidegate.controller.past_ports import Histories
from tidegate.controller.ports import Replicas, Usage
from tidegate.model.activity import (
    EVERY_SLOT,
    SLOT_SECONDS,
    SLOTS,
    Activity,
    HostTokens,
    HourKey,
    PoolFacts,
    PoolHour,
    hour_of,
)
from tidegate.model.allocation import PoolTokens
from tidegate.model.history import METRICS, Across, Aggregate, Label, Limits, Line, Question
from tidegate.model.policy import FleetPolicy, SloPolicy

_SLOT, _HOUR, _DAY = timedelta(seconds=SLOT_SECONDS), timedelta(hours=1), timedelta(days=1)
_LIMITS = Limits(series=100_000, points=20_000_000, samples=400_000_000, hosts=100_000)
"""A job's questions are as large as the fleet."""
_SHARE = Decimal("1e-6")
_TOKEN = Decimal("1e-3")


@dataclass(frozen=True, slots=True)
class Observed:
    """The activity, and what was delivered."""

    activity: Activity
    tokens: tuple[PoolTokens, ...]


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Reads it, from whatever source samples come."""

    usage: Usage
    replicas: Replicas
    histories: Histories
    patience: Callable[[], timedelta] = timedelta
    """How long after a report a host still counts as seen."""

    def between(self, since: datetime, until: datetime, fleet: FleetPolicy) -> Observed:
        """Everything about at most a day."""
        rows = self.usage.by_host(since, until)
        seen = _bits(self._lines("nvml_up", Aggregate.COUNT, (since, until), _SLOT, (Label.HOST,)))
        for row in rows:
            key = row.host, hour_of(row.bucket)
            seen[key] = seen.get(key, 0) | 1 << _slot(row.bucket)
        _bridge(seen, self.patience() // _SLOT)
        busy = self._lines("gpu_utilization", Aggregate.AVG, (since, until), _SLOT, (Label.HOST, Label.POOL), mean=True)
        activity = Activity(
            since,
            until,
            self.replicas.holdings(since, until, fleet),
            {str(name): host.gpus for name, host in fleet.hosts.items()},
            pools_of(fleet),
            seen,
            _worked(rows),
            _shares(busy),
            _output(rows),
            self._hourly("network_transmitted_bytes", Aggregate.INCREASE, (since, until)),
            self._stored((since, until)),
        )
        return Observed(activity, self._tokens(rows, (since, until), fleet))

    def lightly(self, since: datetime, until: datetime, fleet: FleetPolicy) -> Observed:
        """What can be told from tokens alone; whoever was not heard of counts as seen."""
        rows = self.usage.by_host(since, until)
        held = self.replicas.holdings(since, until, fleet)
        hours = range(hour_of(since), hour_of(until) + 1)
        seen = {(host, hour): EVERY_SLOT for host in {each.host for each in held} for hour in hours}
        activity = Activity(since, until, held, {}, pools_of(fleet), seen, _worked(rows), output=_output(rows))
        return Observed(activity, tokens_of(rows, fleet))

    def _lines(
        self,
        name: str,
        aggregate: Aggregate,
        span: tuple[datetime, datetime],
        step: timedelta,
        by: tuple[Label, ...],
        *,
        mean: bool = False,
    ) -> Sequence[Line]:
        across = Across.AVG if mean else Across.SUM
        question = Question(METRICS[name], *span, step, aggregate, by=by, across=across)
        return self.histories.query(question, _LIMITS).lines

    def _hourly(self, name: str, aggregate: Aggregate, span: tuple[datetime, datetime]) -> dict[HourKey, float]:
        found: dict[HourKey, float] = {}
        for line in self._lines(name, aggregate, span, _HOUR, (Label.HOST,)):
            host = line.labels.get(Label.HOST, "")
            for at, value in _good(line):
                found[host, int(at // 3600)] = value
        return found

    def _stored(self, span: tuple[datetime, datetime]) -> dict[HourKey, float]:
        size = self._hourly("model_store_bytes", Aggregate.AVG, span)
        free = self._hourly("model_store_free_bytes", Aggregate.AVG, span) if size else {}
        return {key: max(whole - free[key], 0.0) for key, whole in size.items() if key in free}

    def _tokens(
        self, rows: Sequence[HostTokens], span: tuple[datetime, datetime], fleet: FleetPolicy
    ) -> tuple[PoolTokens, ...]:
        slos = {
            name: fleet.services[pool.service].slo
            for name, pool in fleet.pools.items()
            if pool.service in fleet.services
        }
        within = self._attainment(span, {str(name): slo for name, slo in slos.items()}) if rows else {}
        prefill = self._by_pool("prefill_seconds", span) if rows else {}
        decode = self._by_pool("decode_seconds", span) if rows else {}
        found = []
        for each in tokens_of(rows, fleet):
            phases = prefill.get(each.pool), decode.get(each.pool)
            found.append(_with(each, within.get(each.pool), phases))
        return tuple(found)

    def _by_pool(self, name: str, span: tuple[datetime, datetime]) -> dict[str, float]:
        found: dict[str, float] = {}
        for line in self._lines(name, Aggregate.INCREASE, span, _HOUR, (Label.POOL,)):
            found[line.labels.get(Label.POOL, "")] = sum(value for _, value in _good(line))
        return found

    def _attainment(self, span: tuple[datetime, datetime], slos: Mapping[str, SloPolicy]) -> dict[str, float]:
        """By pool the smaller of the shares within TTFT and within TPOT: no more than that can be within both."""
        found: dict[str, float] = {}
        for name, limit in (("ttft_bucket", _ttft), ("tpot_bucket", _tpot)):
            lines = self._lines(name, Aggregate.INCREASE, span, _HOUR, (Label.POOL, Label.LE))
            for pool, share in _within(lines, slos, limit).items():
                found[pool] = min(found.get(pool, 1.0), share)
        return found


def pools_of(fleet: FleetPolicy) -> dict[str, PoolFacts]:
    """What every pool is now."""
    found = {}
    for name, pool in fleet.pools.items():
        service = fleet.services.get(pool.service)
        hosts = tuple(dict.fromkeys(str(host) for flavour in pool.flavours for host in flavour.hosts))
        model = service.model if service else ""
        found[str(name)] = PoolFacts(str(pool.service), model, pool.kind.value, pool.role.value, hosts)
    return found


def tokens_of(rows: Iterable[HostTokens], fleet: FleetPolicy) -> tuple[PoolTokens, ...]:
    """By day and pool."""
    pools = pools_of(fleet)
    found: dict[tuple[date, str], list[Decimal]] = {}
    for row in rows:
        sums = found.setdefault((row.bucket.astimezone(UTC).date(), row.pool), [Decimal(0)] * 4)
        for index, figure in enumerate((row.prompt_tokens, row.cached_prompt_tokens, row.generation_tokens)):
            if math.isfinite(figure):
                sums[index] += Decimal(figure).quantize(_TOKEN)
        sums[3] += row.partial
    made = []
    for (day, pool), (prompt, cached, output, partial) in sorted(found.items()):
        facts = pools.get(pool, PoolFacts())
        made.append(
            PoolTokens(
                day,
                pool,
                facts.service,
                facts.model,
                facts.side,
                prompt,
                cached,
                output,
                bool(partial),
                role=facts.role,
            )
        )
    return tuple(made)


def _with(each: PoolTokens, attainment: float | None, phases: tuple[float | None, float | None]) -> PoolTokens:
    prefill, decode = (None if value is None else Decimal(value).quantize(_SHARE) for value in phases)
    share = None if attainment is None else Decimal(attainment).quantize(_SHARE)
    return replace(each, attainment=share, prefill_seconds=prefill, decode_seconds=decode)


def _ttft(slo: SloPolicy) -> float:
    return slo.ttft_s


def _tpot(slo: SloPolicy) -> float:
    return slo.tpot_s


def _within(
    lines: Sequence[Line], slos: Mapping[str, SloPolicy], limit: Callable[[SloPolicy], float]
) -> dict[str, float]:
    """By pool the share of requests in the widest bucket that lies within the limit."""
    counted: dict[str, dict[float, float]] = {}
    for line in lines:
        pool, edge = line.labels.get(Label.POOL, ""), line.labels.get(Label.LE, "")
        if pool in slos and edge:
            bound = float(edge.replace("+Inf", "inf"))
            counted.setdefault(pool, {})[bound] = sum(value for _, value in _good(line))
    found = {}
    for pool, edges in counted.items():
        whole = edges.get(math.inf, 0.0)
        inside = [edge for edge in edges if edge <= limit(slos[pool])]
        if whole > 0 and inside:
            found[pool] = min(edges[max(inside)] / whole, 1.0)
    return found


def _good(line: Line) -> Iterable[tuple[float, float]]:
    return ((at, value) for at, value in zip(line.at, line.values, strict=True) if value is not None)


def _slot(at: datetime) -> int:
    return at.minute // (60 // SLOTS)


def _bits(lines: Sequence[Line]) -> dict[HourKey, int]:
    found: dict[HourKey, int] = {}
    for line in lines:
        host = line.labels.get(Label.HOST, "")
        for at, value in _good(line):
            if value > 0:
                key = host, int(at // 3600)
                found[key] = found.get(key, 0) | 1 << int(at % 3600 // SLOT_SECONDS)
    return found


def _bridge(seen: dict[HourKey, int], slots: int) -> None:
    """Take a host for seen between two reports that are no further apart than it takes to miss one."""
    if slots < 1:
        return
    moments: dict[str, list[int]] = {}
    for (host, hour), bits in seen.items():
        moments.setdefault(host, []).extend(hour * SLOTS + slot for slot in range(SLOTS) if bits >> slot & 1)
    for host, found in moments.items():
        found.sort()
        for before, after in pairwise(found):
            for number in range(before + 1, after) if after - before <= slots else ():
                key = host, number // SLOTS
                seen[key] = seen.get(key, 0) | 1 << number % SLOTS


def _shares(lines: Sequence[Line]) -> dict[PoolHour, list[float | None]]:
    found: dict[PoolHour, list[float | None]] = {}
    for line in lines:
        host, pool = line.labels.get(Label.HOST, ""), line.labels.get(Label.POOL, "")
        for at, value in _good(line) if pool else ():
            slots = found.setdefault((host, pool, int(at // 3600)), [None] * SLOTS)
            slots[int(at % 3600 // SLOT_SECONDS)] = value
    return found


def _worked(rows: Iterable[HostTokens]) -> dict[PoolHour, int]:
    found: dict[PoolHour, int] = {}
    for row in rows:
        if row.prompt_tokens + row.generation_tokens > 0:
            key = row.host, row.pool, hour_of(row.bucket)
            found[key] = found.get(key, 0) | 1 << _slot(row.bucket)
    return found


def _output(rows: Iterable[HostTokens]) -> dict[PoolHour, float]:
    found: dict[PoolHour, float] = {}
    for row in rows:
        key = row.host, row.pool, hour_of(row.bucket)
        found[key] = found.get(key, 0.0) + row.generation_tokens
    return found
