"""A dialect as a table: for each word of the vocabulary the names of an engine's families, in order of preference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.model.reading import Basis, Counter, Distribution, Gap, Gauge, Histogram, Missing, Number, Rank
from tidegate.observe.engines.dialect import Content
from tidegate.observe.engines.page import Page, by_key, parts_of

Names = tuple[str, ...]

_SHARES = frozenset({Gauge.KV_CACHE_USAGE, Gauge.CACHE_HIT_RATE})


@dataclass(slots=True)
class Draft:
    """What was read so far: a dialect adds what its table cannot say."""

    gauges: dict[Gauge, Mapping[Rank, Number]]
    counters: dict[Counter, Mapping[Rank, float]]
    histograms: dict[Distribution, Mapping[Rank, Histogram]]

    def content(
        self, page: Page, model: str | None = None, hints: tuple[str, ...] = (), gpus: int | None = None
    ) -> Content:
        """All of it as a dialect gives it back; a share of the KV cache that is read by a table counts blocks."""
        return Content(
            by_key(self.gauges),
            by_key(self.counters),
            by_key(self.histograms),
            model=model,
            hints=hints,
            problems=page.notes.words(),
            gpus=gpus,
            kv_usage_basis=Basis.BLOCKS if self.gauges.get(Gauge.KV_CACHE_USAGE) else None,
        )


@dataclass(frozen=True, slots=True)
class Table:
    """Names of one thing are never added up: the first that a body has is read."""

    gauges: Mapping[Gauge, Names] = field(default_factory=dict)
    counters: Mapping[Counter, Names] = field(default_factory=dict)
    histograms: Mapping[Distribution, Names] = field(default_factory=dict)

    def names(self) -> frozenset[str]:
        """Every sample name that the table reads, for `Dialect.wanted`."""
        plain = (*self.gauges.values(), *self.counters.values())
        parts = parts_of(name for names in self.histograms.values() for name in names)
        return frozenset(name for names in plain for name in names) | parts

    def read(self, page: Page) -> Draft:
        """What a body has of the table."""
        return Draft(
            {gauge: page.gauge(*names, is_share=gauge in _SHARES) for gauge, names in self.gauges.items()},
            {counter: page.counter(*names) for counter, names in self.counters.items()},
            {which: page.histogram(*names) for which, names in self.histograms.items()},
        )


def mean_only(seconds: Mapping[Rank, float], counts: Mapping[Rank, float]) -> dict[Rank, Histogram]:
    """A sum and a count that come without buckets: enough for a mean, and for no quantile."""
    return {
        rank: Histogram((math.inf,), (counts[rank],), total, counts[rank])
        for rank, total in seconds.items()
        if rank in counts
    }


def combined(
    one: Mapping[Rank, Number], other: Mapping[Rank, Number], how: Callable[[float, float], Number]
) -> dict[Rank, Number]:
    """A gauge out of two, for the ranks that have both; what is missing stays missing, with the first reason."""
    found: dict[Rank, Number] = {}
    for rank, number in one.items():
        second = other.get(rank)
        if isinstance(number, Missing):
            found[rank] = number
        elif second is not None:
            found[rank] = second if isinstance(second, Missing) else how(number, second)
    return found


def share(part: float, whole: float) -> Number:
    """The part of a whole; of nothing there is none."""
    return part / whole if whole > 0 else Missing(Gap.NOT_REPORTED)


def total(*parts: Mapping[Rank, float]) -> dict[Rank, float]:
    """Counters of different names added up by rank, over what there is."""
    totals: dict[Rank, float] = {}
    for part in parts:
        for rank, number in part.items():
            totals[rank] = totals.get(rank, 0.0) + number
    return totals


def one_rank(_: object) -> Rank:
    """The rank of an engine that knows no ranks, whatever labels its series carry."""
    return Rank("0")
