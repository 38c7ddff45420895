"""What a wish must pass before it becomes a target. Guards only ever hold a size; min and max cut last.

Growing is quick and shrinking is slow. Growth under the `target` policy waits for no cooldown: starting replicas are
counted, so growing again means that the need has grown again (the rule of AWS step scaling). Under `threshold` any
change waits for the cooldown since the last one in either direction, as that policy's users know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.decide.demand import Demand
from tidegate.model.decision import Limit
from tidegate.model.memory import ServiceMemory


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

    def clamp(self, count: int) -> int:
        """The count within minimum and maximum."""
        return max(self.minimum, min(self.maximum, count))


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
    if wish < supply:
        waits += _grace(grace_until, now)
        floor, window = _window(supply, bounds, memory)
        held = Guarded(supply if waits else max(wish, floor), blind + waits + (window if floor > wish else ()))
    else:
        held = Guarded(supply if waits else wish, blind + waits)
    return Guarded(bounds.clamp(held.target), held.holds)


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
