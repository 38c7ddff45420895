"""AIBrix' APA on requests in flight per replica.

`r = usage / target`: above 1.1 `min(ceil(n r), 2 n)`, below 0.9 `max(ceil(n r), n / 2)`, else n; then the smallest
recommendation of 0 s when growing and the largest of 300 s when shrinking. Source: vllm-project/aibrix,
`pkg/controller/podautoscaler`.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from tidegate.simulate.baselines.split import clamped, split, supply_of, total_of
from tidegate.simulate.observation import Answer, Observation

TOLERANCE = 0.1
DOWN_SECONDS = 300.0


@dataclass(slots=True)
class Aibrix:
    """One target of requests in flight per replica."""

    target: float = 16.0
    tick_seconds: float = 15.0
    name: str = ""
    _recommended: deque[tuple[float, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        """Name it by its target."""
        self.name = self.name or f"apa-{self.target:g}"

    def plan(self, seen: Observation) -> Answer:
        """One reconciliation."""
        current = supply_of(seen)
        total, known = total_of(seen.replicas("ready"), "running", "waiting")
        if not known:
            return split(current, seen)
        if not self._recommended:  # as the HPA does: what is found is the first recommendation
            self._recommended.append((seen.now, current))
        ratio = total / known / self.target
        desired = current
        if ratio > 1 + TOLERANCE:
            desired = min(math.ceil(current * ratio), 2 * current)
        elif ratio < 1 - TOLERANCE:
            desired = max(math.ceil(current * ratio), current // 2)
        self._recommended.append((seen.now, clamped(desired, seen)))
        while seen.now - self._recommended[0][0] > DOWN_SECONDS:
            self._recommended.popleft()
        if desired < current:
            desired = min(current, max(each for _, each in self._recommended))
        return split(desired, seen)

    def restart(self, *, memory_lost: bool) -> None:  # noqa: ARG002 - it has no other
        """Windows live in memory."""
        self._recommended.clear()
