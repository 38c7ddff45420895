"""Is the controller doing its work? Judged by its ticks."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidegate.runtime.clock import Clock
from tidegate.runtime.loop import JobHealth

TICK = "tick"
_MISSED_TICKS = 4
_REAL_GRACE_SECONDS = 10.0


def longest_silence(tick: timedelta, clock: Clock) -> timedelta:
    """How old the last good tick may be: some intervals, and never less than some real seconds."""
    real_second = clock.real_seconds(timedelta(seconds=1))
    return max(_MISSED_TICKS * tick, timedelta(seconds=_REAL_GRACE_SECONDS / real_second))


def readiness(health: JobHealth | None, longest: timedelta, began_at: datetime, now: datetime) -> tuple[bool, str]:
    """Ready while ticks go through; the sentence says since when they do not, and the last error.

    A tick of an earlier term, before `began_at`, is none.
    """
    because = f": {health.error}" if health is not None and health.error else ""
    if health is None or health.last_success is None or health.last_success < began_at:
        return False, f"no tick has gone through yet{because}" if because else "starting: no tick has gone through yet"
    age = now - health.last_success
    if age > longest:
        return False, f"the last tick went through {age.total_seconds():.0f} s ago{because}"
    return True, "ready"
