"""Samples and buckets as arrays: sums over steps, increases with resets taken out, groups of series, quantiles. Pure.

A row is a series, a column a sample or a bucket; NaN is missing and never counts as zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tidegate.model.history import Across, Aggregate

Matrix = NDArray[np.float64]
Numbers = NDArray[np.intp]
Parts = Mapping[str, Matrix]
"""What a step is made of. Of a gauge: sum, count, minimum, maximum, last; of a counter: increase, last."""

PARTS: Mapping[Aggregate, tuple[str, ...]] = {
    Aggregate.AVG: ("sum", "count"),
    Aggregate.SUM: ("sum", "count"),
    Aggregate.COUNT: ("count",),
    Aggregate.MIN: ("minimum",),
    Aggregate.MAX: ("maximum",),
    Aggregate.LAST: ("last",),
    Aggregate.INCREASE: ("increase",),
    Aggregate.RATE: ("increase",),
    Aggregate.P50: ("increase",),
    Aggregate.P95: ("increase",),
    Aggregate.P99: ("increase",),
}
"""What each aggregate is worked out from."""


def empty(names: Sequence[str], series: int, buckets: int) -> dict[str, Matrix]:
    """Buckets in which nothing is known yet."""
    return {name: np.full((series, buckets), np.nan) for name in names}


def increments(values: Matrix) -> Matrix:
    """What each sample adds to the last good one before it; a fall is a start at zero. NaN for the first.

    Source: Prometheus' rule for a counter reset: the value after a fall is the whole increase.
    """
    series, samples = values.shape
    places = np.where(np.isnan(values), -1, np.arange(samples))
    before = np.full((series, samples), -1)
    if samples > 1:
        before[:, 1:] = np.maximum.accumulate(places, axis=1)[:, :-1]
    earlier = np.where(before < 0, np.nan, np.take_along_axis(values, np.maximum(before, 0), axis=1))
    return np.where(values < earlier, values, values - earlier)


def bucketed(names: Sequence[str], values: Matrix, places: Numbers, buckets: int) -> dict[str, Matrix]:
    """The parts of each bucket from samples in time order; `places` says each sample's bucket, in ascending order.

    Samples of buckets outside 0..buckets only say where an increase begins.
    """
    grown = increments(values) if "increase" in names else values
    inside = (places >= 0) & (places < buckets)
    places, values, grown = places[inside], values[:, inside], grown[:, inside]
    parts = empty(names, len(values), buckets)
    if not len(places):
        return parts
    firsts = np.flatnonzero(np.diff(places, prepend=-1))
    columns = places[firsts]
    good = ~np.isnan(values)
    count = np.add.reduceat(good, firsts, axis=1, dtype=np.float64)
    for name in names:
        parts[name][:, columns] = _part(name, grown if name == "increase" else values, firsts, count)
    return parts


def _part(name: str, values: Matrix, firsts: Numbers, count: Matrix) -> Matrix:
    if name == "count":
        return np.where(count > 0, count, np.nan)
    if name == "minimum":
        return np.fmin.reduceat(values, firsts, axis=1)
    if name == "maximum":
        return np.fmax.reduceat(values, firsts, axis=1)
    if name == "last":
        return _last(values, firsts)
    return _sum(values, firsts)


def _sum(values: Matrix, firsts: Numbers) -> Matrix:
    known = ~np.isnan(values)
    total = np.add.reduceat(np.where(known, values, 0.0), firsts, axis=1)
    return np.where(np.add.reduceat(known, firsts, axis=1, dtype=np.intp) > 0, total, np.nan)


def _last(values: Matrix, firsts: Numbers) -> Matrix:
    places = np.where(np.isnan(values), -1, np.arange(values.shape[1]))
    newest = np.maximum.reduceat(places, firsts, axis=1)
    found = np.take_along_axis(values, np.maximum(newest, 0), axis=1)
    return np.where(newest >= firsts, found, np.nan)


def widened(parts: Parts, factor: int) -> dict[str, Matrix]:
    """Buckets `factor` times as wide; their number must be a multiple of it."""
    if factor == 1:
        return dict(parts)
    firsts = np.arange(0, next(iter(parts.values())).shape[1], factor)
    return {name: _wider(name, values, firsts) for name, values in parts.items()}


def _wider(name: str, values: Matrix, firsts: Numbers) -> Matrix:
    if name in ("minimum", "maximum", "last"):
        return _part(name, values, firsts, values)
    return _sum(values, firsts)


def values_of(aggregate: Aggregate, parts: Parts, seconds: float) -> Matrix:
    """The value of each step of `seconds`."""
    if aggregate is Aggregate.AVG:
        return parts["sum"] / np.where(parts["count"] > 0, parts["count"], np.nan)
    if aggregate is Aggregate.SUM:
        return np.where(parts["count"] > 0, parts["sum"], np.nan)
    values = parts[PARTS[aggregate][0]]
    if aggregate is Aggregate.COUNT:
        return np.where(values > 0, values, np.nan)
    return values / seconds if aggregate is Aggregate.RATE else values


def grouped(values: Matrix, groups: Sequence[int], number: int, across: Across) -> Matrix:
    """One row for each of `number` groups; `groups` says each row's. A series without a value is left out."""
    order = np.argsort(groups, kind="stable")
    rows, firsts = values[order], np.searchsorted(np.asarray(groups)[order], np.arange(number))
    if across is Across.MIN:
        return np.fmin.reduceat(rows, firsts, axis=0)
    if across is Across.MAX:
        return np.fmax.reduceat(rows, firsts, axis=0)
    known = ~np.isnan(rows)
    count = np.add.reduceat(known, firsts, axis=0, dtype=np.float64)
    total = np.where(count > 0, np.add.reduceat(np.where(known, rows, 0.0), firsts, axis=0), np.nan)
    return total / np.where(count > 0, count, np.nan) if across is Across.AVG else total


def quantiles(bounds: Sequence[float], increases: Matrix, q: float) -> Matrix:
    """The q-quantile of each column of cumulative bucket increases, a row a bound, ascending, the last +Inf.

    Linear inside a bucket, the highest finite bound beyond it; NaN without traffic. Source: PromQL's
    histogram_quantile, as in model/window.py.
    """
    if len(bounds) < 2:
        return np.full(increases.shape[1], np.nan)
    known = ~np.isnan(increases[-1])
    counts = np.maximum.accumulate(np.nan_to_num(increases), axis=0)
    total = counts[-1]
    rank = q * total
    place = np.argmax(counts >= rank, axis=0)
    columns = np.arange(counts.shape[1])
    edges = np.concatenate(([0.0], bounds))
    below = np.where(place > 0, counts[np.maximum(place - 1, 0), columns], 0.0)
    inside = counts[place, columns] - below
    lower, upper = edges[place], np.asarray(bounds)[place]
    share = np.divide(rank - below, inside, out=np.zeros_like(rank), where=inside > 0)
    beyond = place == len(bounds) - 1
    found = np.where(beyond, bounds[-2], lower + (np.where(beyond, lower, upper) - lower) * share)
    return np.where(known & (total > 0), found, np.nan)
