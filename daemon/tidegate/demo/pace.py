"""How fast the day is played, and every interval of the demo that follows from it. Pure.

All intervals are in played time. Each has a floor in real time, because real processes on a small machine do real work
in them: a faster day is watched more coarsely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

DAY = timedelta(hours=24)
MINUTES, MOST_MINUTES = 2.5, 5.0
"""Real minutes of a day that nobody gave a length: on a quiet machine, and on the busiest."""
BUSY = 2.0
"""Runnable processes for each core; up to so many the shorter day goes well beside them."""
REAL_AGENT_SECONDS = 0.31
REAL_TICK_SECONDS = 0.52
REAL_ROUTE_SECONDS = 0.1
"""The gateway's step."""


def minutes_beside(load: float, cores: int) -> float:
    """Real minutes for a day on a machine with this load average, from `MINUTES` to `MOST_MINUTES`.

    Half the share of the cores is a day at half the speed: what takes part in it does as much for each played hour.
    """
    return round(min(MOST_MINUTES, MINUTES * max(1.0, load / (BUSY * cores))), 1)


@dataclass(frozen=True, slots=True)
class Pace:
    """Played seconds per real second."""

    speed: float
    load: timedelta = timedelta(minutes=8)
    """How long an engine loads before it answers."""

    @staticmethod
    def of_minutes(minutes: float) -> Pace:
        """The pace that plays a day in so many real minutes."""
        return Pace(DAY.total_seconds() / (60.0 * minutes))

    def _at_least(self, played: timedelta, real_seconds: float) -> timedelta:
        return timedelta(seconds=math.ceil(max(played.total_seconds(), real_seconds * self.speed)))

    @property
    def agent_interval(self) -> timedelta:
        """Between two collections of an agent."""
        return self._at_least(timedelta(seconds=15), REAL_AGENT_SECONDS)

    @property
    def tick(self) -> timedelta:
        """Between two decisions."""
        return self._at_least(timedelta(seconds=15), REAL_TICK_SECONDS)

    @property
    def view_window(self) -> timedelta:
        """Over which a tick takes its rates: at least a few collections."""
        return max(timedelta(minutes=5), 4 * self.agent_interval)

    @property
    def stale_after(self) -> timedelta:
        """A host silent for longer is missing; two real seconds, so that a busy machine is not one."""
        return self._at_least(timedelta(minutes=1), 2.0)

    @property
    def start_deadline(self) -> timedelta:
        """When a start is given up: loading, and six real seconds for a process to begin at all."""
        return self.load + self._at_least(timedelta(minutes=10), 6.0)

    @property
    def drain_grace(self) -> timedelta:
        """How long requests may still be on their way to a cordoned engine."""
        return self._at_least(timedelta(seconds=30), 1.0)

    @property
    def stop_timeout(self) -> timedelta:
        """How long after SIGTERM an engine is killed: it lingers for a real second at most."""
        return self._at_least(timedelta(seconds=30), 2.4)

    @property
    def drain_deadline(self) -> timedelta:
        """When a drain is cut short; no request of this day takes nearly as long."""
        return self._at_least(timedelta(minutes=30), 6.0)

    @property
    def cooldown(self) -> timedelta:
        """Between two changes of size."""
        return max(timedelta(minutes=10), 2 * self.tick)

    @property
    def scale_in_window(self) -> timedelta:
        """How long a smaller size must have been enough: longer than a busy machine keeps the traffic waiting."""
        return max(self._at_least(timedelta(minutes=30), 4.5), 4 * self.tick)

    @property
    def alert_window(self) -> timedelta:
        """Over which the hit rate is taken."""
        return max(timedelta(minutes=20), 3 * self.agent_interval)

    @property
    def alert_hold(self) -> timedelta:
        """How long a hit rate must be low before it is told."""
        return timedelta(minutes=5)

    @property
    def alert_shows(self) -> timedelta:
        """For how long after its end a spoilt hit rate may still be told: its window, the hold, and the rounds."""
        return self.alert_window + self.alert_hold + self.stale_after + 2 * self.housekeeping

    @property
    def housekeeping(self) -> timedelta:
        """Between two rounds of usage, alerts and notices."""
        return self._at_least(timedelta(minutes=1), 0.6)
