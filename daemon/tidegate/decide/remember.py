"""What the core carries from tick to tick, kept sound when the wall clock steps: nothing remembered lies in the future.

A time ahead of `now` can only come from a clock that was set back; it is taken as `now`, so that no cooldown and no
window can last longer than its own length again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tidegate.decide.guard import REGRETTED, Bounds, flapped, regretted
from tidegate.model.memory import Memory, ServiceMemory

_SILENCE = timedelta(seconds=300)


def began(memory: Memory, grace: timedelta, now: datetime) -> datetime:
    """When this controller began to observe; now, when it has just begun, or has not looked for as long as the grace.

    A wall clock that was set forward looks like a long silence: what the windows held is gone, so they fill again.
    """
    if memory.started_at is None or (memory.at is not None and now - memory.at > max(grace, _SILENCE)):
        return now
    return min(memory.started_at, now)


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


def with_change(memory: ServiceMemory, grew: int, shrank: int, bounds: Bounds, now: datetime) -> ServiceMemory:
    """Note how many replicas were ordered and how many were sent away at this tick."""
    period, window = bounds.steps.period, bounds.flaps.window
    turned = bool(shrank) and flapped(memory)
    taken_back = bool(grew) and regretted(memory, bounds.window, now)
    return replace(
        memory,
        last_out=now if grew else memory.last_out,
        last_in=now if shrank else memory.last_in,
        outs=(*_recent(memory.outs, period, now), *([(now, grew)] if grew else [])),
        ins=(*_recent(memory.ins, period, now), *([(now, shrank)] if shrank else [])),
        flaps=(*_within(memory.flaps, window, now), *([now] if turned else [])),
        regrets=(*_within(memory.regrets, REGRETTED, now), *([now] if taken_back else [])),
    )


def _within(moments: Sequence[datetime], window: timedelta, now: datetime) -> list[datetime]:
    return [min(at, now) for at in moments if now - at < window]


def _recent(changes: Sequence[tuple[datetime, int]], period: timedelta, now: datetime) -> list[tuple[datetime, int]]:
    return [(min(at, now), count) for at, count in changes if now - at < period]


def _not_ahead(at: datetime | None, now: datetime) -> datetime | None:
    return None if at is None else min(at, now)
