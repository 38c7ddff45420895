"""Kubernetes HPA v2 on running plus waiting requests per replica.

Every 15 s `desired = ceil(total / target)`, nothing within 10 % of the target; replicas without metrics are taken at
the target when shrinking and at zero when growing, not yet ready ones at zero when growing; the highest
recommendation of 300 s when shrinking; at most doubling or four more per 15 s. Source: the documentation of HPA v2,
`autoscaling/v2` behaviour defaults.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from tidegate.simulate.baselines.split import clamped, split, supply_of, total_of
from tidegate.simulate.observation import Answer, Observation

TOLERANCE = 0.1
STABILISATION_SECONDS = 300.0


@dataclass(slots=True)
class Hpa:
    """One metric, one target."""

    target: float = 16.0
    """Requests in flight per replica; no default is published, teams choose it."""
    tick_seconds: float = 15.0
    name: str = ""
    _recommended: deque[tuple[float, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        """Name it by its target."""
        self.name = self.name or f"hpa-{self.target:g}"

    def plan(self, seen: Observation) -> Answer:
        """One sync of the horizontal pod autoscaler."""
        current = supply_of(seen)
        if not self._recommended:  # the controller records what it finds before it recommends anything
            self._recommended.append((seen.now, current))
        desired = clamped(self._desired(seen, current), seen)
        self._recommended.append((seen.now, desired))
        while seen.now - self._recommended[0][0] > STABILISATION_SECONDS:
            self._recommended.popleft()
        if desired < current:
            desired = min(current, max(each for _, each in self._recommended))
        return split(min(desired, max(2 * current, current + 4)), seen)

    def restart(self, *, memory_lost: bool) -> None:  # noqa: ARG002 - it has no other
        """The stabilisation window lives in the controller's memory."""
        self._recommended.clear()

    def _desired(self, seen: Observation, current: int) -> int:
        ready = seen.replicas("ready")
        total, known = total_of(ready, "running", "waiting")
        if not known:
            return current
        missing, unready = len(ready) - known, len(seen.replicas("starting"))
        ratio = total / (known * self.target)
        if ratio > 1:
            again = total / ((known + missing + unready) * self.target)
        else:
            again = (total + missing * self.target) / ((known + missing) * self.target)
        if abs(ratio - 1) <= TOLERANCE or abs(again - 1) <= TOLERANCE or (ratio > 1) != (again > 1):
            return current
        counted = known + missing + (unready if ratio > 1 else 0)
        return math.ceil(again * counted - 1e-9)
