"""Counters by steps, from what a Prometheus says of each step: exact increases, and groups of series. Pure.

Prometheus' own increase() extrapolates to the edges of a step, so that steps do not add up to the counter. Here the
increase between two samples belongs to the later one's step, as in our own store; a fall counts from zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidegate.model.history import Across

Steps = Sequence[float | None]
"""One value for each step of a grid; None where there was no sample."""


@dataclass(frozen=True, slots=True)
class CounterSteps:
    """What is known of one counter in each step: its last and lowest value, its samples, the falls among them.

    A fall with a NaN right before it is none to Prometheus; agents write no NaN into a counter.
    """

    last: Steps
    low: Steps
    count: Steps
    falls: Steps


def fallen(counter: CounterSteps) -> list[int]:
    """The steps that need their samples: the counter fell in them or at the border before, or they end in a NaN."""
    found, before = [], None
    for place, (last, low, falls) in enumerate(zip(counter.last, counter.low, counter.falls, strict=True)):
        if low is None:
            continue
        if last is None or falls or (before is not None and low < before):
            found.append(place)
        before = before if last is None else last
    return found


def increases(counter: CounterSteps, samples: Mapping[int, Sequence[float]], *, summed: bool) -> list[float | None]:
    """The increase in each step; None where there is nothing to compare with.

    `samples` has those of the steps that `fallen` names; without them what stands at the end is a lower bound.
    """
    broken = set(fallen(counter))
    found: list[float | None] = []
    before: float | None = None
    for place in range(len(counter.last)):
        values = samples.get(place, ()) if place in broken else ()
        values = values or _ends(counter, place, broken=place in broken)
        if not values:
            found.append(None)
            continue
        after = values[-1]
        if before is not None:
            values = [before, *values]
        found.append(_added(values, summed=summed) if len(values) > 1 else None)
        before = after
    return found


def _ends(counter: CounterSteps, place: int, *, broken: bool) -> Sequence[float]:
    """The first and the last value of a step: where the counter did not fall the lowest is the first."""
    last, low, count = counter.last[place], counter.low[place], counter.count[place]
    if last is None:
        return ()
    return [last] if broken or low is None or not count or count < 2 else [low, last]


def _added(values: Sequence[float], *, summed: bool) -> float:
    """What was added from the first value on: after a fall from zero; in a sum over ranks only a part began there."""
    return sum(
        later - earlier if later >= earlier else (0.0 if summed else later) for earlier, later in pairwise(values)
    )


def either(series: Sequence[Steps]) -> list[float | None]:
    """One series that was kept more than once (two Prometheus): in each step the first that has a value."""
    return [next((value for value in values if value is not None), None) for values in zip(*series, strict=True)]


def together(series: Sequence[Steps], across: Across) -> list[float | None]:
    """Several series as one, step by step, over those that have a value."""
    return [_one([value for value in values if value is not None], across) for values in zip(*series, strict=True)]


def _one(values: Sequence[float], across: Across) -> float | None:
    if not values:
        return None
    match across:
        case Across.SUM:
            return sum(values)
        case Across.AVG:
            return sum(values) / len(values)
        case Across.MIN:
            return min(values)
        case Across.MAX:
            return max(values)


def aligned(points: Iterable[tuple[float, float]], ends: Sequence[float]) -> list[float | None]:
    """The values of a query at the ends of the steps, one for each; what is no finite number is missing."""
    known = {round(at): value for at, value in points if abs(value) != float("inf") and value == value}  # noqa: PLR0124 - NaN
    return [known.get(round(end)) for end in ends]
