"""What a wish must pass before it becomes a target. Guards only ever hold a size; min and max cut last.

Growing is quick and shrinking is slow. Growth under the `target` policy waits for no cooldown: starting replicas are
counted, so growing again means that the need has grown again (the rule of AWS step scaling). Under `threshold` any
change waits for the cooldown since the last one in either direction, as that policy's users know it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.decide.demand import Demand
from tidegate.model.decision import Limit
from tidegate.model.memory import ServiceMemory
from tidegate.model.policy import FlapBudget, Steps


@dataclass(frozen=True, slots=True)
class Bounds:
    """The manners of the pools that serve together."""

    minimum: int
    maximum: int
    cooldown: timedelta
    window: timedelta
    """A shrinking service stops at the highest wish of this long."""
    growth_waits: bool
    """True when growing waits for the cooldown as well."""
    steps: Steps
    flaps: FlapBudget

    def clamp(self, count: int) -> int:
        """The count within minimum and maximum."""
        return max(self.minimum, min(self.maximum, count))


REGRETTED = timedelta(seconds=2400)
"""A scale-in that had to be taken back is held against the next ones for so long:"""
_PATIENCE, _MOST_PATIENCE = 1.5, 6.0
"""each makes the window that a lower wish must last by so much longer, up to that."""
_SOON = 4.0
"""Growth within so many windows after a scale-in takes it back."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A guard in force, and when it lets go; None when that is not a matter of time."""

    limit: Limit
    until: datetime | None = None
    detail: str = ""
    """What more there is to say of it, in words."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """The size that may be made so now, and what held it."""

    target: int
    holds: tuple[Hold, ...] = ()


def guard(demand: Demand, supply: int, bounds: Bounds, memory: ServiceMemory, grace_until: datetime) -> Guarded:
    """Hold a wish as the guards ask; `memory` already has this tick's wish as its last."""
    blind = (Hold(Limit.MISSING_DATA),) if demand.blind else ()
    wish, supply = bounds.clamp(demand.wish), bounds.clamp(supply)
    if wish == supply:
        return Guarded(wish, blind)
    now = memory.wishes[-1][0]
    waits = _cooldown(bounds, memory, now) if wish < supply or bounds.growth_waits else ()
    if wish > supply:
        held = _stepped(Guarded(supply if waits else wish, blind + waits), supply, bounds.steps, memory.outs, now)
    else:
        waits += _grace(grace_until, now) + _flap(bounds.flaps, memory, now)
        floor, window = _window(supply, bounds, memory)
        held = Guarded(supply if waits else max(wish, floor), blind + waits + (window if floor > wish else ()))
        held = _stepped(held, supply, bounds.steps, memory.ins, now)
    return Guarded(bounds.clamp(held.target), held.holds)


def flapped(memory: ServiceMemory) -> bool:
    """Whether shrinking now would turn the direction of the last change."""
    return memory.last_out is not None and (memory.last_in is None or memory.last_in < memory.last_out)


def regretted(memory: ServiceMemory, window: timedelta, now: datetime) -> bool:
    """Whether growing now takes back what just went: the replica was not away for as long as its start will take."""
    return memory.last_in is not None and not flapped(memory) and now - memory.last_in < _SOON * window


def patience(memory: ServiceMemory, now: datetime) -> float:
    """How many times as long a lower wish must last, for the scale-ins that were taken back lately."""
    return min(_MOST_PATIENCE, _PATIENCE ** sum(now - at < REGRETTED for at in memory.regrets))


def _flap(budget: FlapBudget, memory: ServiceMemory, now: datetime) -> tuple[Hold, ...]:
    """In force when the group has turned often enough: within the window, or in a quarter of it by half of that."""
    if not flapped(memory):
        return ()
    half = math.ceil(budget.scale_ins / 2)
    waits = [_spent(memory.flaps, budget.scale_ins, budget.window, now)]
    waits.append(_spent(memory.flaps, half, budget.window / 4, now))
    found = [until for until in waits if until is not None]
    return (Hold(Limit.FLAP, max(found)),) if found else ()


def _spent(moments: Sequence[datetime], most: int, window: timedelta, now: datetime) -> datetime | None:
    """When the next of at most so many in a window may come; None: now."""
    within = [at for at in moments if now - at < window]
    return within[-most] + window if most and len(within) >= most else None


def _stepped(
    guarded: Guarded, supply: int, steps: Steps, changes: Sequence[tuple[datetime, int]], now: datetime
) -> Guarded:
    """No more replicas in either direction than one period allows."""
    most = steps.out if guarded.target > supply else steps.inward
    if not most or guarded.target == supply:
        return guarded
    within = [(at, count) for at, count in changes if now - at < steps.period]
    room = max(0, most - sum(count for _, count in within))
    target = max(supply - room, min(supply + room, guarded.target))
    if target == guarded.target:
        return guarded
    until = (within[0][0] if within else now) + steps.period
    return Guarded(target, (*guarded.holds, Hold(Limit.STEP, until)))


def _cooldown(bounds: Bounds, memory: ServiceMemory, now: datetime) -> tuple[Hold, ...]:
    changes = [at for at in (memory.last_out, memory.last_in) if at is not None]
    if not changes:
        return ()
    until = max(changes) + bounds.cooldown
    return (Hold(Limit.COOLDOWN, until),) if now < until else ()


def _grace(grace_until: datetime, now: datetime) -> tuple[Hold, ...]:
    return (Hold(Limit.RESTART_GRACE, grace_until),) if now < grace_until else ()


def _window(supply: int, bounds: Bounds, memory: ServiceMemory) -> tuple[int, tuple[Hold, ...]]:
    """The lowest size that the window allows, and until when."""
    floor = min(supply, max(count for _, count in memory.wishes))
    last = max(at for at, count in memory.wishes if count >= floor)
    return floor, (Hold(Limit.SCALE_IN_WINDOW, last + bounds.window),)
