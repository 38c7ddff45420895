"""Read histograms out of a page: which sample is whose bucket is worked out once for a layout, not at every scrape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tidegate.model.reading import Histogram, Rank
from tidegate.observe.engines.samples import Body, Notes, RankOf, rank_of
from tidegate.observe.exposition import Sample
from tidegate.observe.labels import Labels

_Series = tuple[Rank, frozenset[tuple[str, str]]]
"""One histogram of a name: its rank, and its labels without the bound."""
_Places = TypeVar("_Places")


@dataclass(frozen=True, slots=True)
class _Buckets:
    """The bounds of one histogram, ascending, and where its buckets stand among the samples of the name."""

    bounds: tuple[float, ...]
    places: tuple[int, ...]


def read_histogram(name: str, body: Body, notes: Notes, rank: RankOf = rank_of) -> dict[Rank, Histogram]:
    """One histogram by rank, added up over a rank's series (several models) whose bounds agree.

    None at all when one is incomplete, as `read_counter` has none when a value is bad.
    """
    buckets, counts = _column(body, f"{name}_bucket", _buckets, rank)
    sum_at, sums = _column(body, f"{name}_sum", _singles, rank)
    count_at, totals = _column(body, f"{name}_count", _singles, rank)
    by_rank: dict[Rank, Histogram] = {}
    complete = True
    for series in dict.fromkeys((*buckets, *sum_at, *count_at)):
        owner, found, histogram = series[0], buckets.get(series), None
        if found is not None and series in sum_at and series in count_at:
            histogram = _whole(found, counts, sums[sum_at[series]], totals[count_at[series]])
        if histogram is None:
            complete = False
            notes.add(f"{name} is incomplete: a bucket, the sum or the count is not there")
        elif owner not in by_rank:
            by_rank[owner] = histogram
        elif by_rank[owner].bounds == histogram.bounds:
            by_rank[owner] = by_rank[owner].plus(histogram)
        else:
            notes.add(f"{name} of rank {owner} has series with different bounds: the first one is read")
    return by_rank if complete else {}


def _whole(buckets: _Buckets, counts: Sequence[float], total: float, count: float) -> Histogram | None:
    """The histogram; None when a part of it is not finite."""
    found = tuple([counts[place] for place in buckets.places])
    if not all(map(math.isfinite, (total, count, *found))):
        return None
    return Histogram(buckets.bounds, found, total, count)


def _column(
    body: Body, name: str, places: Callable[[Sequence[Labels], RankOf], dict[_Series, _Places]], rank: RankOf
) -> tuple[dict[_Series, _Places], Sequence[float]]:
    """Where the series of a name stand, and its values."""
    samples = body.samples.get(name)
    return (samples.labels.derive(places, rank), samples.values) if samples is not None else ({}, ())


def _series(labels: Labels, rank: RankOf) -> _Series:
    return rank(Sample(labels, math.nan)), frozenset(item for item in labels.items() if item[0] != "le")


def _singles(sets: Sequence[Labels], rank: RankOf) -> dict[_Series, int]:
    return {_series(labels, rank): place for place, labels in enumerate(sets)}


def _buckets(sets: Sequence[Labels], rank: RankOf) -> dict[_Series, _Buckets | None]:
    """By series; None where the +Inf bucket is not there, or a bound is no number."""
    found: dict[_Series, dict[float, int]] = {}
    for place, labels in enumerate(sets):
        # "1" and "1.0" are one bucket: written twice, it is not added twice.
        found.setdefault(_series(labels, rank), {}).setdefault(_bound(labels.get("le", "")), place)
    return {series: _in_order(places) for series, places in found.items()}


def _in_order(places: dict[float, int]) -> _Buckets | None:
    if math.inf not in places or any(map(math.isnan, places)):
        return None
    bounds = tuple(sorted(places))
    return _Buckets(bounds, tuple(places[bound] for bound in bounds))


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
