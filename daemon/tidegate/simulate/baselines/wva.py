"""llm-d's workload variant autoscaler, version 1: spare KV cache and spare queue of the replicas that are not full.

A replica is saturated from 80 % of its KV cache or 5 waiting requests on. Over the others: one more when the mean
spare KV is below 0.10 or the mean spare queue below 3; one less when at least two are not saturated and both spares
still hold after the load moved to n-1. Frozen while the size has not arrived. Metrics are the maximum of a minute.
Source: llm-d-incubation/workload-variant-autoscaler, `internal/saturation`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tidegate.simulate.baselines.split import split, supply_of
from tidegate.simulate.observation import Answer, Observation

KV_FULL, QUEUE_FULL = 0.80, 5.0
SPARE_KV, SPARE_QUEUE = 0.10, 3.0
MAXIMUM_OVER_SECONDS = 60.0


@dataclass(slots=True)
class Wva:
    """The published thresholds."""

    tick_seconds: float = 30.0
    name: str = "wva-v1"
    _seen: dict[str, deque[tuple[float, float, float]]] = field(default_factory=dict)

    def plan(self, seen: Observation) -> Answer:
        """One optimisation cycle."""
        supply, full = supply_of(seen), []
        for replica in seen.replicas("ready"):
            signals = replica.signals
            if signals is None or signals.kv_usage is None or signals.waiting is None:
                return split(supply, seen)
            history = self._seen.setdefault(replica.id, deque())
            history.append((seen.now, signals.kv_usage, signals.waiting))
            while history[0][0] <= seen.now - MAXIMUM_OVER_SECONDS:
                history.popleft()
            full.append((max(kv for _, kv, _ in history), max(queue for _, _, queue in history)))
        if seen.replicas("starting") or not full:
            return split(supply, seen)
        return split(supply + _step(full), seen)

    def restart(self, *, memory_lost: bool) -> None:
        """What it knows is in Prometheus."""


def _step(full: list[tuple[float, float]]) -> int:
    free = [(kv, queue) for kv, queue in full if kv < KV_FULL and queue < QUEUE_FULL]
    if not free:
        return 1
    kv, queue = (sum(each) / len(free) for each in zip(*free, strict=True))
    if KV_FULL - kv < SPARE_KV or QUEUE_FULL - queue < SPARE_QUEUE:
        return 1
    if len(free) < 2:
        return 0
    moved = len(free) / (len(free) - 1)
    return -1 if KV_FULL - kv * moved >= SPARE_KV and QUEUE_FULL - queue * moved >= SPARE_QUEUE else 0
