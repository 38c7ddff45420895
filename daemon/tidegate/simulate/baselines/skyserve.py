"""SkyServe: requests per second over a target, with long hysteresis.

`ceil(requests of the last 60 s / 60 / target)`; ticks of 20 s; growing after 300 s of higher ticks, shrinking after
1200 s of lower ones. Source: skypilot, `sky/serve/autoscalers.py` (`RequestRateAutoscaler`). The target has no
default, every service states it.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from tidegate.simulate.baselines.split import clamped, split, supply_of
from tidegate.simulate.observation import Answer, Observation

WINDOW_SECONDS = 60.0
UP_SECONDS, DOWN_SECONDS = 300.0, 1200.0


@dataclass(slots=True)
class SkyServe:
    """One target of requests per second and replica."""

    target_qps: float = 4.0
    tick_seconds: float = 20.0
    name: str = ""
    _rates: deque[tuple[float, float]] = field(default_factory=deque)
    _up: int = 0
    _down: int = 0

    def __post_init__(self) -> None:
        """Name it by its target."""
        self.name = self.name or f"skyserve-{self.target_qps:g}"

    def plan(self, seen: Observation) -> Answer:
        """One tick of the service controller."""
        current = supply_of(seen)
        if seen.arrival_rps is None:
            return split(current, seen)
        self._rates.append((seen.now, seen.arrival_rps))
        while self._rates[0][0] <= seen.now - WINDOW_SECONDS:
            self._rates.popleft()
        rate = sum(value for _, value in self._rates) / len(self._rates)
        target = clamped(math.ceil(rate / self.target_qps), seen)
        self._up = self._up + 1 if target > current else 0
        self._down = self._down + 1 if target < current else 0
        if self._up >= UP_SECONDS / self.tick_seconds or self._down >= DOWN_SECONDS / self.tick_seconds:
            self._up = self._down = 0
            return split(target, seen)
        return split(current, seen)

    def restart(self, *, memory_lost: bool) -> None:  # noqa: ARG002 - it has no other
        """The counters are not saved."""
        self._rates.clear()
        self._up = self._down = 0
