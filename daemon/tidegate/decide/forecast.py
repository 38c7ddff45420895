"""How much load there will be when a replica that is ordered now is ready: a level, its trend, and how wrong both were.

The level and the trend are two exponential means; for a line they are exact, because a mean of time constant T lags
it by T times the slope. The margin is empirical: each forecast is kept until its time has come and then compared with
what came; the errors, weighted by the load that they concern, give the quantile that is added. So a load of bursts
after silence gets the margin of its bursts, however short they are, and a steady one next to none. Everything is
increasing in the present load, so more load never asks for less.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegate.model.memory import Forecast, Guess

_BRISK_S = 10.0
_FAST_S = 45.0
_MEAN_S = 7200.0
_PEAK_S = 14400.0
_LEAST_LAG_S = 60.0
_DOUBT = 0.8
"""Trends are trusted by half until about one rise as large as the mean load was seen."""
_BLOCK_S = 1200.0
_BLOCKS = 7
_HEAVIEST = 20.0
_RETURN = 1.1
_NEW_HEIGHT = 1.4
_TWICE = 8.0
_SMALL = 0.5
"""Errors are relative to the mean load, or to half a replica where that is less."""
_GAP = timedelta(seconds=180)
"""After so long without data the level starts anew."""
CELLS = 44
_ZERO = 12
_PRIOR_ERRORS = 0.12
"""Before anything is known errors are taken as normal around nothing with this relative spread,"""
_PRIOR_WEIGHT = 12.0
"""as if so many loads' worth of errors had been seen."""
_MOST_GUESSES = 60


def _error_at(cell: float) -> float:
    return 0.2 * math.sinh((cell - _ZERO) / 6.0)


def _cell_of(error: float) -> int:
    return min(CELLS - 1, max(0, round(6.0 * math.asinh(error / 0.2)) + _ZERO))


_ERRORS = tuple(map(_error_at, range(CELLS)))
_NEGLIGIBLE = 1e-5


def _normal() -> tuple[float, ...]:
    shape = [
        math.exp(-0.5 * (error / _PRIOR_ERRORS) ** 2) * math.cosh((cell - _ZERO) / 6.0)
        for cell, error in enumerate(_ERRORS)
    ]
    return tuple(weight / sum(shape) for weight in shape)


_PRIOR = _normal()


@dataclass(frozen=True, slots=True)
class Outlook:
    """The load expected after a horizon, and how likely which error is."""

    expected: float
    scale: float
    weights: tuple[float, ...]
    """Of the cells of errors; they sum to 1."""
    most: float
    """What no surprise exceeds: bursts come back to where they were, they do not grow from each new level."""

    def loads(self, extra: float = 0.0) -> list[tuple[float, float]]:
        """Probability and load of each case that matters; `extra` load in all of them."""
        return [
            (weight, extra + min(self.most, max(0.0, self.expected + error * self.scale)))
            for weight, error in zip(self.weights, _ERRORS, strict=True)
            if weight > _NEGLIGIBLE
        ]

    def peak(self, share: float) -> float:
        """The load that is not exceeded with this probability."""
        passed = 0.0
        for weight, error in zip(self.weights, _ERRORS, strict=True):
            passed += weight
            if passed >= share:
                return min(self.most, max(0.0, self.expected + error * self.scale))
        return self.most


def ahead(forecast: Forecast, load: float, horizon: float, now: datetime) -> Outlook:
    """What to expect after `horizon` seconds; `load` is the present one."""
    seen = _after(forecast, load, horizon, now)
    errors = _typical(forecast.blocks)
    total = sum(errors) + _PRIOR_WEIGHT
    weights = tuple((one + _PRIOR_WEIGHT * prior) / total for one, prior in zip(errors, _PRIOR, strict=True))
    expected = _line(seen, horizon)
    return Outlook(expected, _scale(seen), weights, max(_RETURN * seen.peak, _NEW_HEIGHT * expected))


def observed(forecast: Forecast, load: float, horizon: float, now: datetime) -> Forecast:
    """Take in the load of this tick: mark the guesses whose time has come, and guess anew."""
    seen = _after(forecast, load, horizon, now)
    due = [guess for guess in seen.guesses if (now - guess.at).total_seconds() >= horizon]
    if due:
        guess = due[-1]
        weight = min(_HEAVIEST, seen.brisk / seen.mean) if seen.mean > 0 else 0.0
        error = (seen.brisk - guess.forecast) / guess.scale if guess.scale > 0 else 0.0
        seen = _marked(seen, _cell_of(error), weight, max(_BLOCK_S, 2.0 * horizon), now)
        fade = math.exp(-_seconds(forecast, now) / _MEAN_S)
        came, rose = (fade * value for value in seen.trends)
        came, rose = came + guess.rise * (seen.fast - guess.level), rose + guess.rise * guess.rise
        seen = replace(seen, trends=(came, rose))
    guess = Guess(now, seen.fast, _rise(seen, horizon), _line(seen, horizon), _scale(seen))
    kept = (*(one for one in seen.guesses if one not in due), guess)[-_MOST_GUESSES:]
    return replace(seen, guesses=kept)


def _marked(seen: Forecast, cell: int, weight: float, length: float, now: datetime) -> Forecast:
    blocks, began = seen.blocks, seen.began
    if began is None or not blocks or (now - began).total_seconds() >= length:
        blocks, began = (*blocks, (0.0,) * CELLS)[-_BLOCKS:], now
    last = list(blocks[-1])
    last[cell] += weight
    return replace(seen, blocks=(*blocks[:-1], tuple(last)), began=min(began, now))


def _typical(blocks: Sequence[Sequence[float]]) -> list[float]:
    """The errors of all stretches, the worst bounded by the second worst: what came once is no pattern."""
    if len(blocks) < 2:
        return list(blocks[0]) if blocks else [0.0] * CELLS
    surprises = [_surprise(block) for block in blocks]
    *_, second, worst = sorted(surprises)
    part = min(1.0, _TWICE * second / worst) if worst > 0 else 1.0
    parts = [part if surprise == worst else 1.0 for surprise in surprises]
    return [sum(map(operator.mul, parts, cells)) for cells in zip(*blocks, strict=True)]


def _surprise(block: Sequence[float]) -> float:
    return sum(weight * max(0.0, error) ** 2 for weight, error in zip(block, _ERRORS, strict=True))


def scaled(forecast: Forecast, factor: float) -> Forecast:
    """The same forecast where loads are measured in another unit."""
    return replace(
        forecast,
        peak=forecast.peak * factor,
        brisk=forecast.brisk * factor,
        fast=forecast.fast * factor,
        slow=forecast.slow * factor,
        mean=forecast.mean * factor,
        guesses=tuple(_guess_scaled(one, factor) for one in forecast.guesses),
        trends=(forecast.trends[0] * factor * factor, forecast.trends[1] * factor * factor),
    )


def _guess_scaled(guess: Guess, factor: float) -> Guess:
    return Guess(guess.at, guess.level * factor, guess.rise * factor, guess.forecast * factor, guess.scale * factor)


def _after(forecast: Forecast, load: float, horizon: float, now: datetime) -> Forecast:
    """Level and trend with this tick's load in."""
    if forecast.at is None:
        return replace(forecast, since=now, at=now, anew=now, peak=load, brisk=load, fast=load, slow=load, mean=load)
    seconds = _seconds(forecast, now)
    if seconds > _GAP.total_seconds():
        return replace(forecast, at=now, anew=now, brisk=load, fast=load, slow=load, guesses=())
    slow = max(300.0, horizon)
    brisk = _toward(forecast.brisk, load, seconds, _BRISK_S)
    return replace(
        forecast,
        at=now,
        peak=max(brisk, _toward(forecast.peak, brisk, seconds, _PEAK_S)),
        brisk=brisk,
        fast=_toward(forecast.fast, load, seconds, _FAST_S),
        slow=_toward(forecast.slow, load, seconds, slow),
        mean=_toward(forecast.mean, load, seconds, min(_MEAN_S, max(seconds, _age(forecast, now)))),
    )


def _line(seen: Forecast, horizon: float) -> float:
    """The level and as much of its rise as rises were good for so far."""
    came, rose = seen.trends
    doubt = _DOUBT * _scale(seen) ** 2
    return seen.fast + min(1.2, max(0.0, (came + 0.5 * doubt) / (rose + doubt))) * _rise(seen, horizon)


def _rise(seen: Forecast, horizon: float) -> float:
    slow = max(300.0, horizon)
    lag = _lag(slow, seen) - _lag(_FAST_S, seen)
    return max(0.0, (seen.fast - seen.slow) / max(_LEAST_LAG_S, lag)) * (horizon + _FAST_S)


def _lag(constant: float, seen: Forecast) -> float:
    """How many seconds a mean of this constant lags a line: less than the constant while it is young.

    Source: the correction for a mean's first value, as in Adam (Kingma and Ba 2015), here for a line.
    """
    began = seen.anew or seen.since or seen.at
    age = max(0.0, (seen.at - began).total_seconds()) if seen.at and began else 0.0
    return constant * (1.0 - math.exp(-age / constant))


def _scale(seen: Forecast) -> float:
    return max(_SMALL, seen.mean)


def _toward(mean: float, load: float, seconds: float, constant: float) -> float:
    return load + (mean - load) * math.exp(-seconds / constant)


def _seconds(forecast: Forecast, now: datetime) -> float:
    return max(0.0, (now - forecast.at).total_seconds()) if forecast.at else 0.0


def _age(forecast: Forecast, now: datetime) -> float:
    return max(1.0, (now - forecast.since).total_seconds()) if forecast.since else 1.0
