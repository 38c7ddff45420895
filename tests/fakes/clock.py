"""A clock that moves only when it is told to."""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import Event


class ManualClock:
    """Time stands still until `forward`; waiting returns at once and moves nothing."""

    def __init__(self, now: datetime) -> None:
        self._start = self._now = now

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    def real_seconds(self, span: timedelta) -> float:
        return span.total_seconds()

    def wait(self, event: Event, span: timedelta) -> bool:
        return event.is_set()

    def forward(self, seconds: float) -> datetime:
        """Move on; answers the new time."""
        self._now += timedelta(seconds=seconds)
        return self._now
