"""What the core carries from tick to tick, kept sound when the wall clock steps: nothing remembered lies in the future.

A time ahead of `now` can only come from a clock that was set back; it is taken as `now`, so that no cooldown and no
window can last longer than its own length again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tidegate.model.memory import ServiceMemory


def began(started_at: datetime | None, now: datetime) -> datetime:
    """When this controller began to observe; now, when it has just begun."""
    return now if started_at is None else min(started_at, now)


def with_wish(memory: ServiceMemory, wish: int, window: timedelta, now: datetime) -> ServiceMemory:
    """Add this tick's raw wish and forget what no longer matters.

    A wish that a later one equals or exceeds can never again be the highest of the window, so only the falling
    staircase is kept: a handful of entries whatever the tick and the window are.
    """
    past = ((min(at, now), count) for at, count in memory.wishes)
    kept = tuple((at, count) for at, count in past if now - at < window and count > wish)
    return replace(
        memory,
        wishes=(*kept, (now, wish)),
        last_out=_not_ahead(memory.last_out, now),
        last_in=_not_ahead(memory.last_in, now),
    )


def with_change(memory: ServiceMemory, now: datetime, *, grew: bool, shrank: bool) -> ServiceMemory:
    """Note that replicas were ordered or sent away at this tick."""
    return replace(
        memory,
        last_out=now if grew else memory.last_out,
        last_in=now if shrank else memory.last_in,
    )


def _not_ahead(at: datetime | None, now: datetime) -> datetime | None:
    return None if at is None else min(at, now)
