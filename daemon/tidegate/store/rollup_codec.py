"""Buckets of a rollup out of samples, by arrays alone: what a rollup's row is made of, and how rows are put together.

Sums and counts, extremes, increases and last values are such that buckets of an hour are made of those of five minutes
and a ratio stays a ratio of sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from tidegate.store.binary import microseconds
from tidegate.store.chunk_codec import Matrix, Moments

Buckets = Mapping[str, NDArray[np.float64]]
"""Arrays by the name of their column, each a row a series and a column a bucket; NaN where there is no figure."""

GAUGE = ("sum", "count", "minimum", "maximum")
COUNTER = ("increase", "last")
MOMENT = ("last",)
TYPES: Mapping[str, str] = dict.fromkeys((*GAUGE, *COUNTER), "f4") | {"count": "i2", "last": "f8"}


def edges(moments: Moments, start: datetime, step: timedelta, count: int) -> NDArray[np.intp]:
    """Where each bucket begins among the samples, and where the last one ends."""
    borders = microseconds(start) + np.arange(count + 1) * (step // timedelta(microseconds=1))
    return np.searchsorted(moments, borders, side="left")


def gauges(values: Matrix, borders: NDArray[np.intp]) -> Buckets:
    """Of samples in time order; a missing one is in no figure."""
    first, filled = _filled(borders)
    missing = np.isnan(values)
    some = bool(missing.any())
    numbers = np.where(missing, 0.0, values) if some else values
    low, high = (np.fmin, np.fmax) if some else (np.minimum, np.maximum)
    found = {
        "sum": np.add.reduceat(numbers, first, axis=1),
        "minimum": low.reduceat(values, first, axis=1),
        "maximum": high.reduceat(values, first, axis=1),
    }
    spread = {name: _spread(part, filled, np.nan) for name, part in found.items()}
    if some:
        spread["count"] = _spread(np.add.reduceat(~missing, first, axis=1, dtype=np.int32), filled, 0)
        spread["sum"] = np.where(spread["count"] > 0, spread["sum"], np.nan)
    else:
        spread["count"] = np.broadcast_to(np.diff(borders), (len(values), len(borders) - 1))
    return spread


def counters(values: Matrix, before: NDArray[np.float64], borders: NDArray[np.intp]) -> Buckets:
    """Of totals in time order; `before` is each series' total before its first sample, NaN where there was none.

    A total that falls was reset, and counts from zero. An increase over missing samples belongs to the later one.
    """
    first, filled = _filled(borders)
    totals = np.concatenate((before[:, None], values), axis=1)
    holed = np.isnan(totals).any(axis=1)
    steps = np.diff(totals, axis=1)
    if holed.any():
        steps[holed] = _steps_over_holes(totals[holed])
    fallen = steps < 0
    if fallen.any():
        steps = np.where(fallen, values, steps)
    unknown = np.isnan(steps)
    some = bool(unknown.any())
    increase = np.add.reduceat(np.where(unknown, 0.0, steps) if some else steps, first, axis=1)
    if some:
        known = np.add.reduceat(~unknown, first, axis=1, dtype=np.int32)
        increase = np.where(known > 0, increase, np.nan)
    return {"increase": _spread(increase, filled, np.nan), **moments_of(values, borders)}


def _steps_over_holes(totals: Matrix) -> Matrix:
    """Differences to the last total that is known, NaN where the later one is not."""
    places = np.where(np.isnan(totals), 0, np.arange(totals.shape[1]))
    np.maximum.accumulate(places, axis=1, out=places)
    return totals[:, 1:] - np.take_along_axis(totals, places, axis=1)[:, :-1]


def moments_of(values: Matrix, borders: NDArray[np.intp]) -> Buckets:
    """The last sample of each bucket that is a number."""
    _, filled = _filled(borders)
    ends = borders[1:][filled] - 1
    last = values[:, ends]
    holes = np.isnan(last)
    if holes.any():
        places = np.where(np.isnan(values), -1, np.arange(values.shape[1]))
        np.maximum.accumulate(places, axis=1, out=places)
        latest = places[:, ends]
        known = np.take_along_axis(values, np.maximum(latest, 0), axis=1)
        last = np.where(latest >= borders[:-1][filled], known, np.nan)
    return {"last": _spread(last, filled, np.nan)}


def wider(parts: Buckets, factor: int) -> Buckets:
    """Buckets `factor` times as wide, whose number is a multiple of it."""
    found = {}
    for name, part in parts.items():
        split = part.reshape(len(part), part.shape[1] // factor, factor)
        known = ~np.isnan(split)
        if name in ("sum", "increase", "count"):
            total = np.where(known, split, 0).sum(axis=2)
            found[name] = total if name == "count" else np.where(known.any(axis=2), total, np.nan)
        elif name == "last":
            latest = factor - 1 - known[:, :, ::-1].argmax(axis=2)
            found[name] = np.take_along_axis(split, latest[:, :, None], axis=2)[:, :, 0]
        else:
            found[name] = (np.fmin if name == "minimum" else np.fmax).reduce(split, axis=2)
    return found


def joined(parts: Sequence[tuple[NDArray[np.int32], Buckets]], widths: Sequence[int]) -> tuple[list[int], Buckets]:
    """Rows of one block that follow each other as one: every series of any of them; a width for each row."""
    ids = sorted({int(one) for series, _ in parts for one in series})
    places = {one: place for place, one in enumerate(ids)}
    names = dict.fromkeys(name for _, found in parts for name in found)
    whole = {name: np.full((len(ids), sum(widths)), 0.0 if name == "count" else np.nan) for name in names}
    offset = 0
    for (series, found), width in zip(parts, widths, strict=True):
        rows = [places[int(one)] for one in series]
        for name, part in found.items():
            whole[name][rows, offset : offset + width] = part
        offset += width
    return ids, whole


def _filled(borders: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where the buckets begin that have samples, and which these are."""
    filled = np.diff(borders) > 0
    return borders[:-1][filled], filled


def _spread(part: NDArray[np.float64], filled: NDArray[np.bool_], nothing: float) -> NDArray[np.float64]:
    """Columns for all buckets, from those of the filled ones."""
    if filled.all():
        return part
    whole = np.full((len(part), len(filled)), nothing)
    whole[:, filled] = part
    return whole
