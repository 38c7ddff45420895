"""The unit of load of a replica: 1 where its p95 of TPOT meets the objective, fitted while it works.

An engine's steps get slower with the work between them, TPOT = t0 / (1 - w), so objective / TPOT falls in a straight
line with prompt and generated tokens per second; least squares that fade, with a weak prior. It can be read from
light load alone. Replicas that only prefill have no TPOT: there the fit is of TTFT, which a queue stretches alike.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tidegate.decide.flow import Sample
from tidegate.model.memory import Capacity
from tidegate.model.policy import SloPolicy

_IDLE_SPEED = 3.5
"""Before anything is known: an idle engine answers this many times as fast as the objective asks."""
_PRIOR = 20.0
"""That guess weighs as much as so many samples of an idle replica; real ones outweigh it soon."""
_TOKEN_PRICE = 2.5
"""Before anything is known: the work of a generated token, in prompt tokens."""
_FASTER_IDLE = 1.3
_FASTEST = 20.0
_DIRECTION = 5.0
_CROWD = 3.0
_ENOUGH = 24
_QUICK = 0.95
_STEEPEST = 3.0
_SLOWEST, _PACE, _PACES = 0.25, 1.15, 36
"""Steps of speed: from a quarter of what is asked, each a seventh faster."""
_TINY = 1e-12
_HARDLY_ANY = 0.01
"""Tokens per objective of TPOT and replica: less says nothing of what a token costs."""


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
    """What the sums say; None where more tokens make answers no slower and none were faster than others."""
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
    mean, seen = y / n, quick(capacity)
    if prompt <= 0 and seen > mean and p + price * a > _HARDLY_ANY * n:
        idle, prompt = seen, n * (seen - mean) / (p + price * a)
        answer = prompt * price
    part = _stretched(idle, mean, seen)
    prompt, answer, idle = prompt * part, answer * part, mean + (idle - mean) * part
    unit = slo.tpot_s / (max(idle, 1.25) - 1.0)
    return Yardstick(prompt * unit, answer * unit) if prompt > 0 else None


def quick(capacity: Capacity) -> float:
    """The speed that only one sample in twenty exceeds; 0 before there are enough."""
    passed = list(accumulate(capacity.paces))
    if not passed or passed[-1] < _ENOUGH:
        return 0.0
    step = bisect_left(passed, _QUICK * passed[-1])
    over = (passed[step] - _QUICK * passed[-1]) / capacity.paces[step]
    return float(_SLOWEST * _PACE ** (step + 1.0 - over))


def _stretched(idle: float, mean: float, seen: float) -> float:
    """By how much the fit's slopes are too flat: an idle engine is at least as fast as engines were seen to be.

    Prompts are counted when they end, all at once, while answers were slow before: such errors in what is regressed on
    flatten the slopes (attenuation), and so would hide most of the load of long prompts.
    """
    return min(_STEEPEST, (seen - mean) / (idle - mean)) if seen > idle > mean else 1.0


def guessed(capacity: Capacity, slo: SloPolicy) -> Yardstick | None:
    """The unit before a fit stands: how fast answers are, against what an idle engine would make of them."""
    n, p, a, _, _, _, y, *_ = capacity.sums or (0.0,) * 9
    tokens = p + _TOKEN_PRICE * a
    if n < 1 or tokens <= _TINY:
        return None
    idle = max(_IDLE_SPEED, _FASTER_IDLE * y / n)
    prompt = slo.tpot_s * (n * idle - y) / tokens / (idle - 1.0)
    return Yardstick(prompt, prompt * _TOKEN_PRICE)


def conversion(old: Sequence[float], new: Sequence[float], prompt: float, answer: float) -> float:
    """Loads in the new unit for one in the old, at this mix of tokens."""
    before = old[0] * prompt + old[1] * answer
    return (new[0] * prompt + new[1] * answer) / before if before > 0 else 1.0


def speeds_of(samples: Sequence[Sample], slo: SloPolicy, *, prefill: bool) -> list[tuple[Sample, float]]:
    """How many times as fast as asked each replica is, where it says so."""
    seen = ((one, slo.ttft_s, one.ttft) if prefill else (one, slo.tpot_s, tpot_of(one)) for one in samples)
    return [(one, min(_FASTEST, asked / found)) for one, asked, found in seen if found]


def with_speeds(
    sums: tuple[float, ...], speeds: Sequence[tuple[Sample, float]], slo: SloPolicy, fade: float
) -> tuple[float, ...]:
    """The sums of the regression, faded, with these samples in; tokens are counted per objective of TPOT."""
    n, p, a, pp, pa, aa, y, py, ay = (fade * value for value in sums or (0.0,) * 9)
    for sample, speed in speeds:
        prompt, answer = sample.prompt * slo.tpot_s, sample.answer * slo.tpot_s
        n, p, a, y = n + 1.0, p + prompt, a + answer, y + speed
        pp, pa, aa = pp + prompt * prompt, pa + prompt * answer, aa + answer * answer
        py, ay = py + prompt * speed, ay + answer * speed
    return (n, p, a, pp, pa, aa, y, py, ay)


def with_paces(paces: tuple[float, ...], speeds: Sequence[tuple[Sample, float]], fade: float) -> tuple[float, ...]:
    """How fast answers were, faded, with these samples in; prompts alone have no pace."""
    found = [fade * seen for seen in paces or (0.0,) * _PACES]
    for sample, speed in speeds:
        if sample.answer > 0 and sample.running >= 1:
            step = int(math.log(max(speed, _SLOWEST) / _SLOWEST, _PACE))
            found[min(_PACES - 1, step)] += 1.0
    return tuple(found)


def tpot_of(sample: Sample) -> float | None:
    """The p95 of TPOT as well as it can be known.

    Out of wide histogram buckets it may lie far too high. By Little's law running / (tokens per second) is the mean,
    above which the p95 lies by about an eighth; it is noisy, for what runs is known at one moment only.
    """
    if sample.tpot is None or sample.answer <= 0 or sample.running < _CROWD:
        return sample.tpot
    return min(sample.tpot, max(0.6 * sample.tpot, 1.125 * sample.running / sample.answer))


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
