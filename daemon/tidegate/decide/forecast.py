"""How much load there will be when a replica that is ordered now is ready: a level, its trend, and how wrong both were.

The level and the trend are two exponential means; for a line they are exact, because a mean of time constant T lags
it by T times the slope. The margin is empirical: each forecast is kept until its time has come and then compared with
what came; the errors, weighted by the load that they concern, give the quantile that is added. So a load of bursts
after silence gets the margin of its bursts, however short they are, and a steady one next to none. Everything is
increasing in the present load, so more load never asks for less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegate.model.memory import Forecast, Guess

_FAST_S = 45.0
_MEAN_S = 7200.0
_FADE_S = 7200.0
_GAP = timedelta(seconds=180)
"""After so long without data the level starts anew."""
_CELLS = 44
_ZERO = 12
_PRIOR_ERRORS = 0.12
"""Before anything is known errors are taken as normal around nothing with this relative spread,"""
_PRIOR_WEIGHT = 12.0
"""as if so many loads' worth of errors had been seen."""
_MOST_GUESSES = 60


def _error_at(cell: float) -> float:
    return 0.2 * math.sinh((cell - _ZERO) / 6.0)


def _cell_of(error: float) -> int:
    return min(_CELLS - 1, max(0, round(6.0 * math.asinh(error / 0.2)) + _ZERO))


_ERRORS = tuple(map(_error_at, range(_CELLS)))
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

    def loads(self, extra: float = 0.0) -> list[tuple[float, float]]:
        """Probability and load of each case that matters; `extra` load in all of them."""
        return [
            (weight, max(0.0, self.expected + extra + error * self.scale))
            for weight, error in zip(self.weights, _ERRORS, strict=True)
            if weight > _NEGLIGIBLE
        ]

    def peak(self, share: float) -> float:
        """The load that is not exceeded with this probability."""
        passed = 0.0
        for weight, error in zip(self.weights, _ERRORS, strict=True):
            passed += weight
            if passed >= share:
                return max(0.0, self.expected + error * self.scale)
        return self.expected + _ERRORS[-1] * self.scale


def ahead(forecast: Forecast, load: float, horizon: float, now: datetime) -> Outlook:
    """What to expect after `horizon` seconds; `load` is the present one."""
    seen = _after(forecast, load, horizon, now)
    errors = forecast.errors or (0.0,) * _CELLS
    total = sum(errors) + _PRIOR_WEIGHT
    weights = tuple((one + _PRIOR_WEIGHT * prior) / total for one, prior in zip(errors, _PRIOR, strict=True))
    return Outlook(_line(seen, horizon), _scale(seen), weights)


def observed(forecast: Forecast, load: float, horizon: float, now: datetime) -> Forecast:
    """Take in the load of this tick: mark the guesses whose time has come, and guess anew."""
    seen = _after(forecast, load, horizon, now)
    due = [guess for guess in seen.guesses if (now - guess.at).total_seconds() >= horizon]
    errors = seen.errors or (0.0,) * _CELLS
    if due:
        fade = math.exp(-_seconds(forecast, now) / _FADE_S)
        cells = [fade * seen_before for seen_before in errors]
        guess = due[-1]
        weight = seen.fast / seen.mean if seen.mean > 0 else 0.0
        cells[_cell_of((seen.fast - guess.level) / guess.scale if guess.scale > 0 else 0.0)] += min(weight, 20.0)
        errors = tuple(cells)
    guess = Guess(now, _line(seen, horizon), _scale(seen))
    kept = (*(one for one in seen.guesses if one not in due), guess)[-_MOST_GUESSES:]
    return replace(seen, guesses=kept, errors=errors)


def scaled(forecast: Forecast, factor: float) -> Forecast:
    """The same forecast where loads are measured in another unit."""
    return replace(
        forecast,
        fast=forecast.fast * factor,
        slow=forecast.slow * factor,
        mean=forecast.mean * factor,
        guesses=tuple(Guess(one.at, one.level * factor, one.scale * factor) for one in forecast.guesses),
    )


def _after(forecast: Forecast, load: float, horizon: float, now: datetime) -> Forecast:
    """Level and trend with this tick's load in."""
    if forecast.at is None:
        return replace(forecast, since=now, at=now, fast=load, slow=load, mean=load)
    seconds = _seconds(forecast, now)
    if seconds > _GAP.total_seconds():
        return replace(forecast, at=now, fast=load, slow=load, guesses=())
    slow = max(300.0, horizon)
    return replace(
        forecast,
        at=now,
        fast=_toward(forecast.fast, load, seconds, _FAST_S),
        slow=_toward(forecast.slow, load, seconds, slow),
        mean=_toward(forecast.mean, load, seconds, min(_MEAN_S, max(seconds, _age(forecast, now)))),
    )


def _line(seen: Forecast, horizon: float) -> float:
    trend = (seen.fast - seen.slow) / (max(300.0, horizon) - _FAST_S)
    return seen.fast + max(0.0, trend) * (horizon + _FAST_S) * 0.5


def _scale(seen: Forecast) -> float:
    return 0.5 * (seen.fast + seen.mean)


def _toward(mean: float, load: float, seconds: float, constant: float) -> float:
    return load + (mean - load) * math.exp(-seconds / constant)


def _seconds(forecast: Forecast, now: datetime) -> float:
    return max(0.0, (now - forecast.at).total_seconds()) if forecast.at else 0.0


def _age(forecast: Forecast, now: datetime) -> float:
    return max(1.0, (now - forecast.since).total_seconds()) if forecast.since else 1.0
