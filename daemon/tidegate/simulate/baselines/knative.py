"""Knative's KPA on requests in flight, with its stable and its panic window.

Ticks of 2 s; stable window 60 s, panic window 6 s; target 70 % of the concurrency limit; panic from twice the ready
replicas on, renewed while it lasts, over after 60 s without, and never below its maximum meanwhile. At most
a thousandfold up (in effect no limit) and half down at once. Source: knative/serving, `pkg/autoscaler`.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from tidegate.simulate.baselines.split import split, supply_of, total_of
from tidegate.simulate.observation import Answer, Observation

STABLE_SECONDS, PANIC_SECONDS = 60.0, 6.0
PANIC_THRESHOLD = 2.0
UTILISATION = 0.7


@dataclass(slots=True)
class Knative:
    """One concurrency limit; 100 is the published default."""

    concurrency: float = 100.0
    tick_seconds: float = 2.0
    name: str = ""
    _seen: deque[tuple[float, float]] = field(default_factory=deque)
    _panic_at: float | None = None
    _panic_most: int = 0

    def __post_init__(self) -> None:
        """Name it by its limit."""
        self.name = self.name or f"kpa-{self.concurrency:g}"

    def plan(self, seen: Observation) -> Answer:
        """One tick of the pod autoscaler."""
        ready = max(1, len(seen.replicas("ready")))
        total, known = total_of(seen.replicas("ready"), "running", "waiting")
        total += seen.gateway_waiting or 0  # the activator in the path counts what it holds
        if not known and seen.gateway_waiting is None:
            return split(supply_of(seen), seen)
        self._seen.append((seen.now, total))
        while self._seen[0][0] <= seen.now - STABLE_SECONDS:
            self._seen.popleft()
        floor, target = ready // 2, self.concurrency * UTILISATION
        stable = max(floor, math.ceil(self._mean(seen.now, STABLE_SECONDS) / target))
        panic = max(floor, math.ceil(self._mean(seen.now, PANIC_SECONDS) / target))
        return split(self._decide(seen.now, ready, stable, panic), seen)

    def restart(self, *, memory_lost: bool) -> None:  # noqa: ARG002 - it has no other
        """Windows live in memory; a new instance begins in panic, so that nothing shrinks."""
        self._seen.clear()
        self._panic_at, self._panic_most = 0.0, 0

    def _decide(self, now: float, ready: int, stable: int, panic: int) -> int:
        over = panic / ready >= PANIC_THRESHOLD
        if over:
            self._panic_at = now
        elif self._panic_at is not None and now - self._panic_at > STABLE_SECONDS:
            self._panic_at, self._panic_most = None, 0
        if self._panic_at is None:
            return stable
        self._panic_most = max(self._panic_most, stable, panic, ready)
        return self._panic_most

    def _mean(self, now: float, seconds: float) -> float:
        values = [value for at, value in self._seen if at > now - seconds]
        return sum(values) / len(values)
