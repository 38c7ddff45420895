"""What one replica can carry within the objective, learned while it carries: every replica teaches at every tick.

First the unit of load (`yardstick.py`), then the share of requests that miss by load (`misses.py`), whatever the first
limit is: queues behind long prompts, a full batch, the KV cache, or bursts within a tick.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tidegate.decide.flow import Sample
from tidegate.decide.misses import MOST_CROWDED, NOTHING, STEP, STEPS, has_time_to_wait
from tidegate.decide.yardstick import (
    conversion,
    fitted,
    guessed,
    speeds_of,
    tpot_of,
    with_paces,
    with_speeds,
    yardstick,
)
from tidegate.model.memory import Capacity
from tidegate.model.policy import SloPolicy

_ALL = 10.0
"""So many times quicker than the objective nobody is too slow: a TPOT of almost nothing is not raised to a power."""
_FADE_S = 7200.0
"""The fit forgets over two hours,"""
_FADE_MISSES_S = 3600.0
"""the misses over one, and"""
_FADE_WORK_S = 240.0
"""the size of a request over a quarter."""
_ENOUGH = 24
"""Samples before the fit is taken as the unit at all."""
_MOVED = 0.08


def learned(
    capacity: Capacity, samples: Sequence[Sample], slo: SloPolicy, seconds: float, *, prefill: bool = False
) -> Capacity:
    """The capacity after one tick's samples; `seconds` since the tick before.

    Replicas that only prefill have no TPOT: there the fit is of TTFT, which a queue stretches in the same way.
    """
    teachers = [sample for sample in samples if sample.warm and (sample.ttft or sample.tpot)]
    speeds = speeds_of(teachers, slo, prefill=prefill)
    crowd = sum(sample.running for sample in samples) / max(1, len(samples))
    capacity = replace(capacity, crowd=max(crowd, capacity.crowd * math.exp(-seconds / _FADE_S)))
    fade = math.exp(-seconds / _FADE_S)
    sums, paces = with_speeds(capacity.sums, speeds, slo, fade), with_paces(capacity.paces, speeds, fade)
    capacity = _in_unit(replace(capacity, sums=sums, paces=paces), slo)
    stick = yardstick(capacity)
    if stick is None:
        return capacity
    fade = math.exp(-seconds / _FADE_WORK_S)
    told = [sample for sample in samples if sample.rate > 0]
    capacity = replace(
        capacity,
        told=capacity.told * fade + len(told),
        work=capacity.work * fade + sum(stick.load(sample) for sample in told),
        requests=capacity.requests * fade + sum(sample.rate for sample in told),
    )
    mean = sum(stick.load(sample) for sample in samples) / max(1, len(samples))
    capacity = _with_waits(capacity, mean, samples, slo, seconds)
    return _with_misses(capacity, [(0.5 * (mean + stick.load(one)), one) for one in teachers], slo, seconds)


def _with_waits(capacity: Capacity, mean: float, samples: Sequence[Sample], slo: SloPolicy, seconds: float) -> Capacity:
    fade = math.exp(-seconds / _FADE_MISSES_S)
    waited, crowded = (fade * value for value in capacity.waits)
    quick = math.exp(-seconds / _FADE_WORK_S)
    seen, alone = (quick * value for value in capacity.alone)
    free = [sample.ttft for sample in samples if sample.ttft and queued(sample) <= 0]
    capacity = replace(capacity, alone=(seen + len(free), alone + sum(free)))
    each = wait_each(capacity)
    if samples:
        wait = min(0.5 * slo.ttft_s, sum(map(queued, samples)) / len(samples) * each)
        crowd = min(mean, MOST_CROWDED)
        crowd /= 1.0 - crowd
        waited, crowded = waited + wait, crowded + crowd
    return replace(capacity, waits=(waited, crowded))


def queued(sample: Sample) -> float:
    """Requests that wait behind another; engines differ in whether the one that is being read counts as waiting."""
    return max(0.0, sample.waiting - 1.0)


def wait_each(capacity: Capacity) -> float:
    """Seconds of waiting that a waiting request stands for, by Little's law: 1 / (a replica's requests per second)."""
    return capacity.told / capacity.requests if capacity.requests > 1e-9 else 0.0


def _in_unit(capacity: Capacity, slo: SloPolicy) -> Capacity:
    """Take the fit as the unit when it has moved; what was measured in the old one is converted."""
    now, n, p, a = fitted(capacity, slo), *(capacity.sums[:3] or (0.0,) * 3)
    if now is None or n < _ENOUGH:
        guess = None if capacity.unit else guessed(capacity, slo)
        return replace(capacity, unit=(guess.prompt, guess.answer)) if guess else capacity
    unit = (now.prompt, now.answer)
    if not capacity.unit:
        return replace(capacity, unit=unit)
    factor = conversion(capacity.unit, unit, p, a)
    if abs(factor - 1.0) < _MOVED:
        return capacity
    bins = [[0.0, 0.0] for _ in range(STEPS)]
    for place, (seen, missed) in enumerate(capacity.bins):
        to = min(STEPS - 1, int((place + 0.5) * factor))
        bins[to][0] += seen
        bins[to][1] += missed
    found = tuple((seen, missed) for seen, missed in bins) if capacity.bins else ()
    return replace(capacity, unit=unit, bins=found, work=capacity.work * factor)


def _with_misses(capacity: Capacity, loads: Sequence[tuple[float, Sample]], slo: SloPolicy, seconds: float) -> Capacity:
    fade = math.exp(-seconds / _FADE_MISSES_S)
    found = [[fade * seen, fade * missed] for seen, missed in capacity.bins or (NOTHING,) * STEPS]
    each = capacity.work / capacity.requests if capacity.requests > 1e-9 else 0.0
    short = has_time_to_wait(capacity, slo)
    for load, sample in loads:
        wait, late = queued(sample) * each, _late(sample, slo)
        queues = 1.0 if short else min(1.0, wait / (0.5 * slo.ttft_s))
        first = max(_clamped(wait / slo.ttft_s - 0.5) * 2.0, queues * late)
        place = min(STEPS - 1, int(load / STEP))
        found[place][0] += 1.0
        found[place][1] += max(first, _slow(sample, slo))
    return replace(capacity, bins=tuple((seen, missed) for seen, missed in found))


def _late(sample: Sample, slo: SloPolicy) -> float:
    """About how many requests had their first token late: waits are about exponential, 5 % lie above the p95."""
    return 0.05 ** (slo.ttft_s / sample.ttft) if sample.ttft else 0.0


def _slow(sample: Sample, slo: SloPolicy) -> float:
    """About how many requests were answered too slowly: TPOT is a mean over many steps and so close to its p95."""
    tpot = tpot_of(sample)
    return 0.05 ** (min(slo.tpot_s / tpot, _ALL) ** 4) if tpot else 0.0


def _clamped(share: float) -> float:
    return min(0.5, max(0.0, share))
