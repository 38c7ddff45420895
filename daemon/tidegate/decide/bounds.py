"""The bounds that a pool has now: its own, narrowed by the schedules in force, and an operator's in their place.

A schedule's window is a span of moments, worked out in its own zone: from the first time that its start is on the
clock to the last time that its end is, so that a clock change neither splits nor loses it. Where windows overlap the
narrower bounds hold. A schedule never passes the pool's own bounds; an operator's command does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from tidegate.model.decision import Limit
from tidegate.model.fleet import PoolName
from tidegate.model.policy import Control, ControlKind, FleetPolicy, PoolPolicy, Schedule

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of what a pool may have, who set it, and until when."""

    count: int
    limit: Limit
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class PoolBounds:
    """What a pool may have now."""

    low: Bound
    high: Bound


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pools that may not grow, and those that may not shrink."""

    out: frozenset[PoolName] = frozenset()
    inward: frozenset[PoolName] = frozenset()


NO_PAUSES = Pauses()


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds now beside the policy."""

    bounds: Mapping[PoolName, PoolBounds]
    pauses: Pauses = NO_PAUSES


def effective(policy: FleetPolicy, now: datetime) -> tuple[FleetPolicy, Standing]:
    """The policy with every pool's bounds as they are now, where each comes from, and what is paused."""
    found = {name: bounds_of_pool(pool, policy.controls, now) for name, pool in policy.pools.items()}
    pools = {
        name: replace(pool, min=found[name].low.count, max=found[name].high.count)
        for name, pool in policy.pools.items()
    }
    return replace(policy, pools=pools), Standing(found, pauses(policy, now))


def bounds_of_pool(pool: PoolPolicy, controls: tuple[Control, ...], now: datetime) -> PoolBounds:
    """The bounds of one pool: its own, a schedule's, an operator's, each in the place of the one before."""
    low, high = Bound(pool.min, Limit.MIN), Bound(pool.max, Limit.MAX)
    for schedule in pool.schedules:
        end = _end_of_window(schedule, now)
        if end is not None:
            low = _narrower(low, schedule.minimum, end, 1)
            high = _narrower(high, schedule.maximum, end, -1)
    if low.count > high.count:
        low = replace(high)
    for control in controls:
        if control.kind is ControlKind.BOUNDS and _stands(control, pool.name, now):
            low, high = _manual(control, low, high)
    return PoolBounds(low, high)


def pauses(policy: FleetPolicy, now: datetime) -> Pauses:
    """What operators have paused, by pool."""
    return Pauses(
        frozenset(_paused(policy, ControlKind.PAUSE_OUT, now)), frozenset(_paused(policy, ControlKind.PAUSE_IN, now))
    )


def _paused(policy: FleetPolicy, kind: ControlKind, now: datetime) -> Iterator[PoolName]:
    for name in policy.pools:
        if any(control.kind is kind and _stands(control, name, now) for control in policy.controls):
            yield name


def _stands(control: Control, pool: PoolName, now: datetime) -> bool:
    return control.pool in (None, pool) and (control.until is None or control.until > now)


def _narrower(bound: Bound, count: int | None, until: datetime, direction: int) -> Bound:
    if count is None or direction * count <= direction * bound.count:
        return bound
    return Bound(count, Limit.SCHEDULE, until)


def _manual(control: Control, low: Bound, high: Bound) -> tuple[Bound, Bound]:
    """An end that is not given gives way to the one that is."""
    if control.minimum is not None:
        low = Bound(control.minimum, Limit.MANUAL, control.until)
        high = high if control.minimum <= high.count else low
    if control.maximum is not None:
        high = Bound(control.maximum, Limit.MANUAL, control.until)
        low = low if low.count <= control.maximum else high
    return low, high


def _end_of_window(schedule: Schedule, now: datetime) -> datetime | None:
    """When the window ends that `now` is in; None outside of every window."""
    today = now.astimezone(schedule.zone).date()
    for day in (today - _DAY, today):
        if day.weekday() in schedule.days:
            last = day if schedule.start < schedule.end else day + _DAY
            begin = _moment(day, schedule.start, schedule.zone, fold=0)
            end = _moment(last, schedule.end, schedule.zone, fold=1)
            if begin <= now < end:
                return end
    return None


def _moment(day: date, at: time, zone: tzinfo, fold: int) -> datetime:
    """When a clock in the zone shows this time: the first or (fold 1) last time; in a gap, the end of the gap."""
    local = datetime.combine(day, at)
    found = local.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    if found.astimezone(zone).replace(tzinfo=None) == local:
        return found
    early, late = (local.replace(tzinfo=zone, fold=side).astimezone(UTC) for side in (1, 0))
    while late - early > _MINUTE:  # the clock jumps over this time somewhere in between
        middle = early + (late - early) // 2
        before = middle.astimezone(zone).replace(tzinfo=None) < local
        early, late = (middle, late) if before else (early, middle)
    return late.replace(second=0, microsecond=0)
