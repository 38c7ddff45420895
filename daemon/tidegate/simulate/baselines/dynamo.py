"""NVIDIA Dynamo's planner, the load loop in SLA mode: one more when all are over, one less when all would hold.

Every 5 s. Per replica it predicts the time to first token of a request that comes now from the queue's prompt tokens
and the time per token from the KV tokens in use, both by a regression over what the replica showed (64 samples, at
least 5). Up when every replica is over its SLO; down when, with the load of n on n - 1, every prediction stays under
80 % of it. It holds while replicas are starting. Source: ai-dynamo/dynamo, `components/planner` (2026). Our engines
do not export the tokens of the queue, so the mean prompt stands in for each waiting request.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tidegate.simulate.baselines.split import split, supply_of
from tidegate.simulate.observation import Answer, Observation, SeenReplica

SAMPLES, FEWEST = 64, 5
SENSITIVITY = 0.8


@dataclass(frozen=True, slots=True)
class _Load:
    running: float
    waiting: float
    ttft: float | None
    tpot: float | None


@dataclass(slots=True)
class Dynamo:
    """The load loop with its published sensitivity."""

    tick_seconds: float = 5.0
    name: str = "dynamo-load"
    _itl: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    _prefill: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def plan(self, seen: Observation) -> Answer:
        """One turn of the loop."""
        supply, ready = supply_of(seen), seen.replicas("ready")
        loads = [load for replica in ready if (load := _load(replica)) is not None]
        for load in loads:
            self._learn(load)
        if seen.replicas("starting") or len(loads) < len(ready) or not ready or len(self._itl) < FEWEST:
            return split(supply, seen)
        if all(self._over(load, seen, 1.0, 1.0) for load in loads):
            return split(supply + 1, seen)
        moved = len(loads) / (len(loads) - 1) if len(loads) > 1 else 0.0
        if moved and not any(self._over(load, seen, moved, SENSITIVITY) for load in loads):
            return split(supply - 1, seen)
        return split(supply, seen)

    def restart(self, *, memory_lost: bool) -> None:  # noqa: ARG002 - it has no other
        """Regressions live in memory."""
        self._itl.clear()
        self._prefill.clear()

    def _learn(self, load: _Load) -> None:
        if load.tpot is not None:
            self._itl.append((load.running, load.tpot))
        if load.ttft is not None and load.waiting == 0:
            self._prefill.append(load.ttft)

    def _over(self, load: _Load, seen: Observation, times: float, share: float) -> bool:
        """Whether a replica with `times` what it has would miss this share of the SLO."""
        own = sum(self._prefill) / len(self._prefill) if self._prefill else 0.0
        queued = load.waiting * times * own
        return queued + own > seen.ttft_s * share or self._token_time(load.running * times) > seen.tpot_s * share

    def _token_time(self, running: float) -> float:
        n = len(self._itl)
        x = sum(a for a, _ in self._itl) / n
        y = sum(b for _, b in self._itl) / n
        spread = sum((a - x) ** 2 for a, _ in self._itl)
        slope = sum((a - x) * (b - y) for a, b in self._itl) / spread if spread > 1e-9 else 0.0
        return y + max(0.0, slope) * (running - x)


def _load(replica: SeenReplica) -> _Load | None:
    signals = replica.signals
    if signals is None or signals.running is None or signals.waiting is None:
        return None
    return _Load(signals.running, signals.waiting, signals.ttft_p95_s, signals.tpot_p95_s)
