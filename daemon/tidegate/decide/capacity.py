"""What one replica can carry within the objective, learned while it carries: every replica teaches at every tick.

Two steps. First a yardstick: an engine's steps get slower with the work between them, TPOT = t0 / (1 - w), so
objective / TPOT falls in a straight line with prompt and generated tokens per second; fitted by least squares that
fade, with a weak prior. Its unit, `load`, is 1 where the fitted p95 of TPOT meets the objective. It can be read from
light load alone. Then the limit: by steps of load, how many requests missed TTFT or TPOT, as the p95s tell. The share
of misses grows with load, so a monotone fit (pool adjacent violators) over those steps gives the highest load that is
safe, whatever the first limit is: queues behind long prompts, a full batch, the KV cache, or bursts within a tick.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.decide.flow import Sample
from tidegate.model.memory import Capacity
from tidegate.model.policy import SloPolicy

STEP = 0.05
STEPS = 44
"""Loads up to 2.2; what is above counts as that."""
_FADE_S = 7200.0
"""The fit forgets over two hours,"""
_FADE_MISSES_S = 3600.0
"""the misses over one, and"""
_FADE_WORK_S = 240.0
"""the size of a request over a quarter."""
_IDLE_SPEED = 3.5
"""Before anything is known: an idle engine answers this many times as fast as the objective asks."""
_PRIOR = 20.0
"""That guess weighs as much as so many samples of an idle replica; real ones outweigh it soon."""
_TOKEN_PRICE = 2.5
"""Before anything is known: the work of a generated token, in prompt tokens."""
_FASTEST = 20.0
_DIRECTION = 5.0
_ENOUGH = 24
"""Samples before the fit is taken as the unit at all."""
_MOVED = 0.08
_SLACK = 0.8
_PRIOR_FIRST = 0.15
_FEW = 8.0
_WAIT_BEHIND = 0.08
"""Before queues were seen: a queue grows by this part of what a long prompt (the p95) takes by itself."""
_PRIOR_WAITS = 20.0
_BY_ITSELF = 0.7
"""A long prompt that takes more than this part of the objective by itself will often miss it by itself."""
_MOST_CROWDED = 0.95
_CROWD = 3.0
_PRIOR_MISSES = ((0.60, 0.0), (0.80, 0.006), (0.90, 0.02), (1.0, 0.05), (1.2, 0.3), (2.3, 0.9))
_PRIOR_WEIGHT = 4.0
_NOTHING = (0.0, 0.0)
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Yardstick:
    """How tokens per second become load."""

    prompt: float
    answer: float

    def load(self, sample: Sample) -> float:
        """The share of a replica's capacity that it uses; 1 where TPOT meets the objective."""
        return min(self.prompt * sample.prompt + self.answer * sample.answer, 1000.0)


def yardstick(capacity: Capacity) -> Yardstick | None:
    """The unit of load as it stands; None before anything is known."""
    return Yardstick(*capacity.unit) if capacity.unit else None


def fitted(capacity: Capacity, slo: SloPolicy) -> Yardstick | None:
    """What the sums say; None where they say that more tokens make answers no slower."""
    n, p, a, pp, pa, aa, y, py, ay = capacity.sums or (0.0,) * 9
    if n < 1:
        return None
    pull, price = _DIRECTION * aa / n, _TOKEN_PRICE
    top = y + _PRIOR * _IDLE_SPEED
    matrix = (
        (n + _PRIOR, -p, -a),
        (-p, pp + pull * price * price, pa - pull * price),
        (-a, pa - pull * price, aa + pull),
    )
    idle, prompt, answer = _solve(matrix, (top, -py, -ay))
    if prompt <= 0 or answer <= 0:  # the mix tells them not apart: keep the guess of their prices
        s, ss, sy = p + price * a, pp + 2 * price * pa + price * price * aa, py + price * ay
        determinant = max((n + _PRIOR) * ss - s * s, _TINY)
        idle, prompt = (top * ss - s * sy) / determinant, (s * top - (n + _PRIOR) * sy) / determinant
        answer = prompt * price
    unit = slo.tpot_s / (max(idle, 1.25) - 1.0)
    return Yardstick(prompt * unit, answer * unit) if prompt > 0 else None


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
    bins, floor = capacity.bins or (_NOTHING,) * STEPS, unfixable(capacity)
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
    loads = (min(_MOST_CROWDED, (place + 0.5) * STEP) for place in range(STEPS))
    slack = _slack(capacity, slo)
    return [math.exp(-slack * (1.0 - load) / (per_load * load)) for load in loads]


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


def learned(
    capacity: Capacity, samples: Sequence[Sample], slo: SloPolicy, seconds: float, *, prefill: bool = False
) -> Capacity:
    """The capacity after one tick's samples; `seconds` since the tick before.

    Replicas that only prefill have no TPOT: there the fit is of TTFT, which a queue stretches in the same way.
    """
    teachers = [sample for sample in samples if sample.warm and (sample.ttft or sample.tpot)]
    speeds = _speeds(teachers, slo, prefill=prefill)
    capacity = _in_unit(replace(capacity, sums=_sums(capacity.sums, speeds, slo, math.exp(-seconds / _FADE_S))), slo)
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
        crowd = min(mean, _MOST_CROWDED)
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
        return capacity
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


def conversion(old: Sequence[float], new: Sequence[float], prompt: float, answer: float) -> float:
    """Loads in the new unit for one in the old, at this mix of tokens."""
    before = old[0] * prompt + old[1] * answer
    return (new[0] * prompt + new[1] * answer) / before if before > 0 else 1.0


def _speeds(samples: Sequence[Sample], slo: SloPolicy, *, prefill: bool) -> list[tuple[Sample, float]]:
    """How many times as fast as asked each replica is, where it says so."""
    seen = ((one, slo.ttft_s, one.ttft) if prefill else (one, slo.tpot_s, _tpot(one)) for one in samples)
    return [(one, min(_FASTEST, asked / found)) for one, asked, found in seen if found]


def _sums(
    sums: tuple[float, ...], speeds: Sequence[tuple[Sample, float]], slo: SloPolicy, fade: float
) -> tuple[float, ...]:
    n, p, a, pp, pa, aa, y, py, ay = (fade * value for value in sums or (0.0,) * 9)
    for sample, speed in speeds:
        prompt, answer = sample.prompt * slo.tpot_s, sample.answer * slo.tpot_s
        n, p, a, y = n + 1.0, p + prompt, a + answer, y + speed
        pp, pa, aa = pp + prompt * prompt, pa + prompt * answer, aa + answer * answer
        py, ay = py + prompt * speed, ay + answer * speed
    return (n, p, a, pp, pa, aa, y, py, ay)


def _with_misses(capacity: Capacity, loads: Sequence[tuple[float, Sample]], slo: SloPolicy, seconds: float) -> Capacity:
    fade = math.exp(-seconds / _FADE_MISSES_S)
    found = [[fade * seen, fade * missed] for seen, missed in capacity.bins or (_NOTHING,) * STEPS]
    each = capacity.work / capacity.requests if capacity.requests > 1e-9 else 0.0
    short = capacity.alone[0] >= 2 * _FEW and _alone(capacity, slo) <= _BY_ITSELF * slo.ttft_s
    for load, sample in loads:
        wait, late = queued(sample) * each, _late(sample, slo)
        first = max(_clamped(wait / slo.ttft_s - 0.5) * 2.0, late if short or wait > 0.5 * slo.ttft_s else 0.0)
        place = min(STEPS - 1, int(load / STEP))
        found[place][0] += 1.0
        found[place][1] += max(first, _slow(sample, slo))
    return replace(capacity, bins=tuple((seen, missed) for seen, missed in found))


def _late(sample: Sample, slo: SloPolicy) -> float:
    """About how many requests had their first token late: waits are about exponential, 5 % lie above the p95."""
    return 0.05 ** (slo.ttft_s / sample.ttft) if sample.ttft else 0.0


def _slow(sample: Sample, slo: SloPolicy) -> float:
    """About how many requests were answered too slowly: TPOT is a mean over many steps and so close to its p95."""
    tpot = _tpot(sample)
    return 0.05 ** ((slo.tpot_s / tpot) ** 4) if tpot else 0.0


def _tpot(sample: Sample) -> float | None:
    """The p95 of TPOT as well as it can be known.

    Out of wide histogram buckets it may lie far too high. By Little's law running / (tokens per second) is the mean,
    above which the p95 lies by about an eighth; it is noisy, for what runs is known at one moment only.
    """
    if sample.tpot is None or sample.answer <= 0 or sample.running < _CROWD:
        return sample.tpot
    return min(sample.tpot, max(0.6 * sample.tpot, 1.125 * sample.running / sample.answer))


def _clamped(share: float) -> float:
    return min(0.5, max(0.0, share))


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


def _solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> tuple[float, float, float]:
    """Three equations by Cramer's rule; zeros where they do not have one solution."""
    (a, b, c), (d, e, f), (g, h, i) = matrix
    u, v, w = right
    determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    determinant = determinant if abs(determinant) > _TINY else math.inf
    x = u * (e * i - f * h) - b * (v * i - f * w) + c * (v * h - e * w)
    y = a * (v * i - f * w) - u * (d * i - f * g) + c * (d * w - v * g)
    z = a * (e * w - v * h) - b * (d * w - v * g) + u * (d * h - e * g)
    return (x / determinant, y / determinant, z / determinant)
