"""The one place that asks what time it is, and the one place that waits.

`ScaledClock` plays time faster for the demo and for rehearsals: every process that is given the same
`TIDEGATE_CLOCK=ORIGIN,EPOCH,SPEED` agrees on the time. Network time-outs stay in real seconds.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Protocol

from tidegate.runtime.errors import ConfigError

VARIABLE = "TIDEGATE_CLOCK"


class Clock(Protocol):
    """Tells the time and waits for it."""

    def now(self) -> datetime:
        """The time of day, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards, in this clock's time."""
        ...

    def real_seconds(self, span: timedelta) -> float:
        """How many real seconds pass while `span` passes on this clock."""
        ...

    def wait(self, event: Event, span: timedelta) -> bool:
        """Wait until the event is set or the span is over; True when it was set."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The time of day, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return time.monotonic()

    def real_seconds(self, span: timedelta) -> float:
        """The span itself."""
        return span.total_seconds()

    def wait(self, event: Event, span: timedelta) -> bool:
        """Wait on the event for at most the span."""
        return event.wait(span.total_seconds())


@dataclass(frozen=True, slots=True)
class ScaledClock:
    """Time that began as `epoch` at unix second `origin` and runs `speed` times as fast."""

    origin: float
    epoch: datetime
    speed: float

    def now(self) -> datetime:
        """The played time of day, UTC."""
        return self.epoch + timedelta(seconds=(time.time() - self.origin) * self.speed)

    def monotonic(self) -> float:
        """Played seconds since the machine's start."""
        return time.monotonic() * self.speed

    def real_seconds(self, span: timedelta) -> float:
        """The span divided by the speed."""
        return span.total_seconds() / self.speed

    def wait(self, event: Event, span: timedelta) -> bool:
        """Wait on the event for at most the played span."""
        return event.wait(self.real_seconds(span))

    def text(self) -> str:
        """The value of `TIDEGATE_CLOCK` that makes another process agree."""
        return f"{self.origin!r},{self.epoch.timestamp()!r},{self.speed!r}"


def clock_from_environment() -> Clock:
    """The machine's clock, or the played one that `TIDEGATE_CLOCK` asks for; raises ConfigError on a bad value."""
    text = os.environ.get(VARIABLE)
    if not text:
        return SystemClock()
    try:
        origin, epoch, speed = (float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"{VARIABLE}={text!r} is not ORIGIN,EPOCH,SPEED (three numbers)") from error
    if not 0 < speed < math.inf or not math.isfinite(origin):
        raise ConfigError(f"{VARIABLE}: SPEED must be above 0, not {speed}, and ORIGIN a time, not {origin}")
    try:
        return ScaledClock(origin, datetime.fromtimestamp(epoch, UTC), speed)
    except (ValueError, OverflowError, OSError) as error:
        raise ConfigError(f"{VARIABLE}: EPOCH must be a time in unix seconds, not {epoch}") from error
