"""What an engine's dialect is, and the reading of gauges, counters and histograms that all dialects share.

A dialect reads a `Page`: the body's series, the way to tell ranks apart, and the notes. Everything that is left out is
said: each step adds its doubts to the notes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeVar

from tidegate.model.reading import (
    Basis,
    Counter,
    Distribution,
    EngineKind,
    Gap,
    Gauge,
    Histogram,
    Missing,
    Number,
    Rank,
)
from tidegate.observe.textformat import Exposition, Sample


@dataclass(frozen=True, slots=True)
class Content:
    """What a body said of its engine, in the one vocabulary."""

    gauges: Mapping[tuple[Gauge, Rank], Number]
    counters: Mapping[tuple[Counter, Rank], float]
    histograms: Mapping[tuple[Distribution, Rank], Histogram]
    started: float | None = None
    model: str | None = None
    hints: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    gpus: int | None = None
    """GPUs that the engine says it holds."""
    kv_usage_basis: Basis | None = None


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's way to say what all engines say."""

    kind: EngineKind
    title: str
    wanted: frozenset[str]
    """Normalised names of the samples that `read` looks at."""
    ends_with: frozenset[str]
    """Those of them that a whole page is known to end with."""
    recognises: Callable[[Set[str]], bool]
    """Whether a body with these (normalised) sample names is this engine's."""
    read: Callable[[Exposition], Content]


@dataclass(frozen=True, slots=True)
class JsonDialect:
    """The dialect of an engine whose metrics are a JSON document."""

    kind: EngineKind
    title: str
    recognises: Callable[[object], bool]
    read: Callable[[object], Content]


@dataclass(slots=True)
class Notes:
    """Problems met on the way, each said once with how often."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, problem: str) -> None:
        """Note one occurrence."""
        self.counts[problem] = self.counts.get(problem, 0) + 1

    def words(self) -> tuple[str, ...]:
        """The problems in the order in which they were first met."""
        return tuple(text if count == 1 else f"{text} ({count} times)" for text, count in self.counts.items())


RankOf = Callable[[Sample], Rank]
"""Which of the engine's ranks a series belongs to."""

HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


def rank_of(sample: Sample) -> Rank:
    """The data-parallel rank by the `engine` label; "0" where there is none."""
    return Rank(sample.labels.get("engine", "0"))


def parts_of(histograms: Iterable[str]) -> frozenset[str]:
    """The sample names of histograms, for `Dialect.wanted`."""
    return frozenset(f"{name}{part}" for name in histograms for part in HISTOGRAM_PARTS)


@dataclass(slots=True)
class Page:
    """One body, as a dialect reads it: families by names in order of preference, every figure by rank."""

    exposition: Exposition
    rank_of: RankOf = rank_of
    notes: Notes = field(default_factory=Notes)

    def gauge(self, *names: str, is_share: bool = False) -> dict[Rank, Number]:
        """The first of the gauges that is present; one with a line that cannot be read is `MALFORMED`."""
        name, samples = first_present(self.exposition, names)
        if name in self.exposition.spoiled:
            self.notes.add(f"{name} has a line that cannot be read")
            return {Rank("0"): Missing(Gap.MALFORMED)}
        return read_gauge(name, samples, is_share=is_share, notes=self.notes, rank=self.rank_of)

    def counter(self, *names: str) -> dict[Rank, float]:
        """The first of the counters that is present, added up over a rank's series."""
        name, samples = first_present(self.exposition, names)
        return read_counter(name, samples, self.notes, self.rank_of)

    def counter_where(self, name: str, label: str, accept: Callable[[str], bool]) -> dict[Rank, float]:
        """A counter over the series whose label is accepted; 0 for a rank that has the family and no such series.

        Empty when the family is absent or no series of it has the label at all.
        """
        samples = self.exposition.samples.get(name, ())
        if not any(label in sample.labels for sample in samples):
            return {}
        everybody = dict.fromkeys(map(self.rank_of, samples), 0.0)
        chosen = [sample for sample in samples if accept(sample.labels.get(label, ""))]
        found = read_counter(name, chosen, self.notes, self.rank_of)
        unreadable = {self.rank_of(sample) for sample in chosen} - found.keys()
        return {rank: found.get(rank, total) for rank, total in everybody.items() if rank not in unreadable}

    def histogram(self, *names: str) -> dict[Rank, Histogram]:
        """The first of the histograms that is present."""
        bucket, samples = first_present(self.exposition, [f"{name}_bucket" for name in names])
        name = bucket.removesuffix("_bucket")
        return read_histogram(name, self.exposition, self.notes, self.rank_of) if samples else {}

    def models(self, *labels: str) -> list[str]:
        """The served models' names, in the order of the body; more than one is noted."""
        names = {
            sample.labels[label]: None
            for samples in self.exposition.samples.values()
            for sample in samples
            for label in labels
            if sample.labels.get(label)
        }
        if len(names) > 1:
            self.notes.add(f"several model names ({', '.join(list(names)[:5])}): their series are added up")
        return list(names)

    def hints(self, versions: Sequence[tuple[str, str]], traits: Sequence[tuple[str, str]] = ()) -> tuple[str, ...]:
        """The newest release that the presence of families proves (newest first), and every trait."""
        present = self.exposition.present
        version = next((hint for name, hint in versions if name in present), None)
        found = tuple(hint for name, hint in traits if name in present)
        return (version, *found) if version else found


_Key = TypeVar("_Key", Counter, Gauge, Distribution)
_Value = TypeVar("_Value")


def by_key(found: Mapping[_Key, Mapping[Rank, _Value]]) -> dict[tuple[_Key, Rank], _Value]:
    """Figures by rank, as a reading holds them."""
    return {(key, rank): value for key, ranks in found.items() for rank, value in ranks.items()}


def plus(*parts: Mapping[Rank, float]) -> dict[Rank, float]:
    """Counters of different names added up by rank, over the ranks that have each of them."""
    ranks = [rank for rank in parts[0] if all(rank in part for part in parts)]
    return {rank: sum(part[rank] for part in parts) for rank in ranks}


def first_present(exposition: Exposition, names: Iterable[str]) -> tuple[str, Sequence[Sample]]:
    """The first of the names that the body has, with its samples; names of one thing are never added up.

    There are no samples when that name has a line that cannot be read: a synonym may count from another start.
    """
    for name in names:
        if name in exposition.spoiled:
            return name, ()
        if name in exposition.samples:
            return name, exposition.samples[name]
    return "", ()


def read_gauge(
    name: str, samples: Sequence[Sample], *, is_share: bool, notes: Notes, rank: RankOf = rank_of
) -> dict[Rank, Number]:
    """One gauge by rank: a count is added up over a rank's series (several models), a share is the fullest.

    Series that differ by `pid` alone are the same gauge of processes old and new: the highest is taken.
    """
    by_series: dict[tuple[Rank, frozenset[tuple[str, str]]], Number] = {}
    for sample in samples:
        series = frozenset(item for item in sample.labels.items() if item[0] != "pid")
        value = _gauge_value(name, sample.value, is_share=is_share, notes=notes)
        key = (rank(sample), series)
        by_series[key] = _join(by_series[key], value, max) if key in by_series else value
    by_rank: dict[Rank, Number] = {}
    fold = max if is_share else _add
    for (owner, _), value in by_series.items():
        by_rank[owner] = _join(by_rank[owner], value, fold) if owner in by_rank else value
    return by_rank


def _gauge_value(name: str, value: float, *, is_share: bool, notes: Notes) -> Number:
    if not math.isfinite(value):
        notes.add(f"{name} is {value}: not a finite number")
        return Missing(Gap.NOT_FINITE)
    if value < 0 or (is_share and value > 1.01):
        notes.add(f"{name} is {value:g}: {'not between 0 and 1' if is_share else 'below zero'}")
        return Missing(Gap.MALFORMED)
    return value


def _join(one: Number, other: Number, fold: Callable[[float, float], float]) -> Number:
    if isinstance(one, Missing):
        return one
    return other if isinstance(other, Missing) else fold(one, other)


def _add(one: float, other: float) -> float:
    return one + other


def read_counter(name: str, samples: Iterable[Sample], notes: Notes, rank: RankOf = rank_of) -> dict[Rank, float]:
    """One counter by rank, added up over a rank's series; a rank with a bad value among them has none."""
    totals: dict[Rank, float] = {}
    bad: set[Rank] = set()
    for sample in samples:
        owner = rank(sample)
        if math.isfinite(sample.value) and sample.value >= 0:
            totals[owner] = totals.get(owner, 0.0) + sample.value
        else:
            notes.add(f"{name} is {sample.value:g}: a counter is finite and not below zero")
            bad.add(owner)
    return {owner: total for owner, total in totals.items() if owner not in bad}


def read_histogram(name: str, exposition: Exposition, notes: Notes, rank: RankOf = rank_of) -> dict[Rank, Histogram]:
    """One histogram by rank, added up over a rank's series (several models) whose bounds agree."""
    parts = _collect_parts(name, exposition, rank)
    by_rank: dict[Rank, Histogram] = {}
    for (owner, _), part in parts.items():
        histogram = part.build()
        if histogram is None:
            notes.add(f"{name} is incomplete: a bucket, the sum or the count is not there")
            continue
        earlier = by_rank.get(owner)
        if earlier is None:
            by_rank[owner] = histogram
        elif earlier.bounds == histogram.bounds:
            by_rank[owner] = earlier.plus(histogram)
        else:
            notes.add(f"{name} of rank {owner} has series with different bounds: the first one is read")
    return by_rank


@dataclass(slots=True)
class _Parts:
    buckets: dict[float, float] = field(default_factory=dict)
    sum: float = math.nan
    count: float = math.nan

    def build(self) -> Histogram | None:
        if math.inf not in self.buckets or not all(map(math.isfinite, (self.sum, self.count, *self.buckets.values()))):
            return None
        bounds = tuple(sorted(self.buckets))
        return Histogram(bounds, tuple(self.buckets[bound] for bound in bounds), self.sum, self.count)


def _collect_parts(
    name: str, exposition: Exposition, rank: RankOf
) -> dict[tuple[Rank, frozenset[tuple[str, str]]], _Parts]:
    parts: dict[tuple[Rank, frozenset[tuple[str, str]]], _Parts] = {}

    def part(sample: Sample) -> _Parts:
        series = frozenset(item for item in sample.labels.items() if item[0] != "le")
        return parts.setdefault((rank(sample), series), _Parts())

    for sample in exposition.samples.get(f"{name}_bucket", ()):
        bound = _bound(sample.labels.get("le", ""))
        # "1" and "1.0" are one bucket: written twice, it is not added twice. One that is no number spoils the whole.
        part(sample).buckets.setdefault(bound, math.nan if math.isnan(bound) else sample.value)
    for sample in exposition.samples.get(f"{name}_sum", ()):
        part(sample).sum = sample.value
    for sample in exposition.samples.get(f"{name}_count", ()):
        part(sample).count = sample.value
    return parts


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
