"""Ray Serve's autoscaling: ongoing requests per replica over 30 s, with delays before it acts.

`desired = n * (ongoing / (target * n))`; growing after 30 s of agreeing ticks, shrinking after 600 s; a change of
sign or equality begins the count anew. Compared with the target, not with what runs. Source: ray, `serve`
`autoscaling_policy.py`: target 2, look-back 30 s, upscale delay 30 s, downscale delay 600 s, smoothing factor 1.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from tidegate.simulate.baselines.split import clamped, split, supply_of, total_of
from tidegate.simulate.observation import Answer, Observation

LOOK_BACK_SECONDS = 30.0
UP_SECONDS, DOWN_SECONDS = 30.0, 600.0


@dataclass(slots=True)
class RayServe:
    """One target of ongoing requests; 2 is the published default."""

    target: float = 2.0
    tick_seconds: float = 5.0
    name: str = ""
    _seen: deque[tuple[float, float]] = field(default_factory=deque)
    _sign: int = 0
    _since: float = 0.0

    def __post_init__(self) -> None:
        """Name it by its target."""
        self.name = self.name or f"ray-{self.target:g}"

    def plan(self, seen: Observation) -> Answer:
        """One tick of the controller's loop."""
        current = supply_of(seen)
        total, known = total_of(seen.replicas("ready"), "running", "waiting")
        if not known:
            return split(current, seen)
        self._seen.append((seen.now, total + (seen.gateway_waiting or 0)))
        while self._seen[0][0] <= seen.now - LOOK_BACK_SECONDS:
            self._seen.popleft()
        mean = sum(value for _, value in self._seen) / len(self._seen)
        desired = clamped(math.ceil(mean / self.target), seen)
        sign = (desired > current) - (desired < current)
        if sign != self._sign:
            self._sign, self._since = sign, seen.now
        delay = UP_SECONDS if sign > 0 else DOWN_SECONDS
        if not sign or seen.now - self._since < delay:
            return split(current, seen)
        self._sign = 0
        return split(desired, seen)

    def restart(self, *, memory_lost: bool) -> None:
        """The counts are saved with the controller's state."""
        if memory_lost:
            self._seen.clear()
            self._sign = 0
