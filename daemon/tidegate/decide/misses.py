"""The share of requests that miss the objective, by the load of a replica: what was seen, and what waits foretell.

Seen: by steps of load, how many requests missed, as the p95s tell; it grows with load, so a monotone fit (pool
adjacent violators) over those steps and a weak prior. Foretold: a queue grows as load / (1 - load), so the waits at
light load say what heavier load would make of them, before it comes to that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.model.memory import Capacity
from tidegate.model.policy import SloPolicy

STEP = 0.05
STEPS = 44
"""Loads up to 2.2; what is above counts as that."""
_SLACK = 0.8
_PRIOR_FIRST = 0.15
_FEW = 8.0
_WAIT_BEHIND = 0.08
"""Before queues were seen: a queue grows by this part of what a long prompt (the p95) takes by itself."""
_PRIOR_WAITS = 20.0
_BY_ITSELF = 0.7
"""A long prompt that takes more than this part of the objective by itself will often miss it by itself."""
MOST_CROWDED = 0.95
_PRIOR_MISSES = ((0.60, 0.0), (0.80, 0.006), (0.90, 0.02), (1.0, 0.05), (1.2, 0.3), (2.3, 0.9))
_PRIOR_WEIGHT = 4.0
NOTHING = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Curve:
    """The share of requests that miss the objective, by the load of a replica; never falling."""

    shares: tuple[float, ...]
    """In the middle of each step."""

    def at(self, load: float) -> float:
        """Between the steps in a straight line."""
        place = load / STEP - 0.5
        if place <= 0:
            return self.shares[0]
        if place >= STEPS - 1:
            return self.shares[-1]
        low = int(place)
        return self.shares[low] + (self.shares[low + 1] - self.shares[low]) * (place - low)

    def limit(self, allowed: float) -> float:
        """The highest load with no more misses than that."""
        for place, share in enumerate(self.shares):
            if share > allowed:
                below = self.shares[place - 1] if place else 0.0
                return max(STEP, STEP * (place - 0.5 + (allowed - below) / (share - below)))
        return STEP * STEPS


def curve(capacity: Capacity, slo: SloPolicy) -> Curve:
    """What was seen, over a weak prior, and what the waits so far say of higher loads; the worse of both.

    What misses on replicas that have next to nothing to do no replica could mend: it is left out.
    """
    bins, floor = capacity.bins or (NOTHING,) * STEPS, unfixable(capacity)
    seen = (max(0.0, share - floor) for share in _monotone(bins))
    return Curve(tuple(map(max, seen, _late_by_waits(capacity, slo))))


def _late_by_waits(capacity: Capacity, slo: SloPolicy) -> list[float]:
    """The share of requests that wait longer than most of the objective, by step of load.

    A queue grows as load / (1 - load) (Pollaczek-Khinchine); how long it is at a given load is learned. Waits are
    about exponential.
    """
    waited, crowded = capacity.waits
    per_load = (waited + _PRIOR_WAITS * _WAIT_BEHIND * min(_alone(capacity, slo), 0.5 * slo.ttft_s)) / (
        crowded + _PRIOR_WAITS
    )
    loads = (min(MOST_CROWDED, (place + 0.5) * STEP) for place in range(STEPS))
    slack = _slack(capacity, slo)
    return [math.exp(-slack * (1.0 - load) / (per_load * load)) for load in loads]


def has_time_to_wait(capacity: Capacity, slo: SloPolicy) -> bool:
    """Whether long prompts meet the objective by themselves, so that a late first token speaks of a queue."""
    return capacity.alone[0] >= 2 * _FEW and _alone(capacity, slo) <= _BY_ITSELF * slo.ttft_s


def _alone(capacity: Capacity, slo: SloPolicy) -> float:
    """Seconds to the first token of a long prompt (the p95) with nothing before it."""
    seen, alone = capacity.alone
    return (alone + _FEW * _PRIOR_FIRST * slo.ttft_s) / (seen + _FEW)


def _slack(capacity: Capacity, slo: SloPolicy) -> float:
    """Seconds that a request may wait: what the objective leaves beside a prompt's own time.

    Where long prompts miss the objective by themselves, that is nothing to size by: the others' time is.
    """
    alone, most = _alone(capacity, slo), _SLACK * slo.ttft_s
    return most if alone > _BY_ITSELF * slo.ttft_s else min(most, slo.ttft_s - _SLACK * alone)


def overall_misses(capacity: Capacity) -> float:
    """The share of all requests that missed the objective lately, one in a hundred before anything is known."""
    seen = sum(weight for weight, _ in capacity.bins)
    missed = sum(misses for _, misses in capacity.bins)
    return (missed + 0.01 * 20) / (seen + 20)


def unfixable(capacity: Capacity) -> float:
    """The share of requests that miss the objective on replicas that have next to nothing to do."""
    low = capacity.bins[:6]
    weight = sum(seen for seen, _ in low)
    return sum(missed for _, missed in low) / weight if weight >= 20 else 0.0


def _monotone(bins: Sequence[tuple[float, float]]) -> list[float]:
    """The share of misses by step of load, never falling: pool adjacent violators, over data and a weak prior."""
    blocks: list[list[float]] = []
    for place, (seen, missed) in enumerate(bins):
        weight = seen + _PRIOR_WEIGHT
        blocks.append([missed + _PRIOR_WEIGHT * _PRIOR_SHARES[place], weight, 1])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            misses, weights, count = blocks.pop()
            blocks[-1][0] += misses
            blocks[-1][1] += weights
            blocks[-1][2] += count
    return [misses / weight for misses, weight, count in blocks for _ in range(int(count))]


def _prior_share(load: float) -> float:
    before = (0.0, 0.0)
    for at, share in _PRIOR_MISSES:
        if load <= at:
            return before[1] + (share - before[1]) * (load - before[0]) / (at - before[0])
        before = (at, share)
    return before[1]  # pragma: no cover - the last step is below the last entry


_PRIOR_SHARES = tuple(_prior_share((place + 0.5) * STEP) for place in range(STEPS))
