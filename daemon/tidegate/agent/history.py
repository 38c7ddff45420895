"""What recent readings of one engine say that a single one cannot: whether it moves at all. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tidegate.model.reading import EngineReading, EngineState
from tidegate.model.window import EngineWindow, engine_window

_STALL_INTERVALS = 3
_STALL_AT_LEAST = timedelta(seconds=10)


def stall_after(interval: timedelta) -> timedelta:
    """How long a busy engine may show no movement: three intervals, at least 10 s."""
    return max(_STALL_INTERVALS * interval, _STALL_AT_LEAST)


def trimmed(readings: Sequence[EngineReading], now: datetime, keep: timedelta) -> tuple[EngineReading, ...]:
    """The readings of the last `keep`, from the reading at its beginning or else the one before it."""
    older = [reading for reading in readings if reading.at <= now - keep]
    return (*older[-1:], *(reading for reading in readings if reading.at > now - keep))


def stalled(readings: Sequence[EngineReading], bound: timedelta) -> bool:
    """True when the engine answers and is busy, and not one of its counters moved for at least `bound`.

    An engine whose core hangs answers 200 with standing figures for as long as its server lives.
    """
    if not readings or readings[-1].state is not EngineState.READY:
        return False
    # Counters alone tell of movement.
    good = [replace(reading, histograms={}) for reading in readings if reading.counters]
    tail = trimmed(good, readings[-1].at, bound)
    window = engine_window(tail)
    return isinstance(window, EngineWindow) and window.seconds >= bound.total_seconds() and not window.progressing


def told(readings: Sequence[EngineReading], bound: timedelta, *, starting: bool) -> EngineReading:
    """The last reading with the state that the readings before it prove: STALLED, or STARTING for UNREACHABLE."""
    last = readings[-1]
    if stalled(readings, bound):
        problem = f"busy, and nothing moved for {bound.total_seconds():.0f} s: the engine's core hangs"
        return replace(last, state=EngineState.STALLED, problems=(*last.problems, problem))
    if starting and last.state is EngineState.UNREACHABLE:
        return replace(last, state=EngineState.STARTING)
    return last
