"""One body as a dialect reads it: families by names in order of preference, every figure by rank."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tidegate.model.reading import Counter, Distribution, Gap, Gauge, Histogram, Missing, Number, Rank
from tidegate.observe.engines.histogram import read_histogram
from tidegate.observe.engines.samples import (
    HISTOGRAM_PARTS,
    Body,
    Notes,
    RankOf,
    add,
    first_present,
    join,
    rank_of,
    read_counter,
    read_gauge,
)
from tidegate.observe.exposition import Sample
from tidegate.observe.labels import Labels


def parts_of(histograms: Iterable[str]) -> frozenset[str]:
    """The sample names of histograms, for `Dialect.wanted`."""
    return frozenset(f"{name}{part}" for name in histograms for part in HISTOGRAM_PARTS)


@dataclass(slots=True)
class Page:
    """One body, as a dialect reads it: families by names in order of preference, every figure by rank."""

    exposition: Body
    rank_of: RankOf = rank_of
    notes: Notes = field(default_factory=Notes)

    def gauge(self, *names: str, is_share: bool = False) -> dict[Rank, Number]:
        """The first of the gauges that is present; one with a line that cannot be read is `MALFORMED`."""
        name, samples = first_present(self.exposition, names)
        if name in self.exposition.spoiled:
            self.notes.add(f"{name} has a line that cannot be read")
            return {Rank("0"): Missing(Gap.MALFORMED)}
        return read_gauge(name, samples, is_share=is_share, notes=self.notes, rank=self.rank_of)

    def gauge_where(self, name: str, label: str, accept: Callable[[str], bool]) -> dict[Rank, Number]:
        """A gauge over the series whose label is accepted, added up."""
        samples = self.exposition.samples.get(name, ())
        chosen = [sample for sample in samples if accept(sample.labels.get(label, ""))]
        return read_gauge(name, chosen, is_share=False, notes=self.notes, rank=self.rank_of)

    def counter(self, *names: str) -> dict[Rank, float]:
        """The first of the counters that is present, added up over a rank's series."""
        name, samples = first_present(self.exposition, names)
        return read_counter(name, samples, self.notes, self.rank_of)

    def counter_where(self, name: str, label: str, accept: Callable[[str], bool]) -> dict[Rank, float]:
        """A counter over the series whose label is accepted; 0 for a rank that has the family and no such series.

        Empty when the family is absent or no series of it has the label at all.
        """
        samples = self.exposition.samples.get(name)
        if samples is None or not any(label in labels for labels in samples.labels.sets):
            return {}
        everybody = dict.fromkeys(samples.labels.derive(_ranks, self.rank_of), 0.0)
        chosen = [sample for sample in samples if accept(sample.labels.get(label, ""))]
        found = read_counter(name, chosen, self.notes, self.rank_of)
        return {} if chosen and not found else everybody | found

    def histogram(self, *names: str) -> dict[Rank, Histogram]:
        """The first of the histograms that is present."""
        bucket, samples = first_present(self.exposition, [f"{name}_bucket" for name in names])
        name = bucket.removesuffix("_bucket")
        return read_histogram(name, self.exposition, self.notes, self.rank_of) if samples else {}

    def models(self, *labels: str) -> list[str]:
        """The served models' names, in the order of the body; more than one is noted."""
        found = (samples.labels.derive(_values_of, labels) for samples in self.exposition.samples.values())
        names = dict.fromkeys(name for one in found for name in one)
        if len(names) > 1:
            self.notes.add(f"several model names ({', '.join(list(names)[:5])}): their series are added up")
        return list(names)

    def hints(self, versions: Sequence[tuple[str, str]], traits: Sequence[tuple[str, str]] = ()) -> tuple[str, ...]:
        """The newest release that the presence of families proves (newest first), and every trait."""
        present = self.exposition.present
        version = next((hint for name, hint in versions if name in present), None)
        found = tuple(hint for name, hint in traits if name in present)
        return (version, *found) if version else found


def _ranks(sets: Sequence[Labels], rank_of: RankOf) -> tuple[Rank, ...]:
    """Every rank, once."""
    return tuple(dict.fromkeys(rank_of(Sample(labels, math.nan)) for labels in sets))


def _values_of(sets: Sequence[Labels], names: tuple[str, ...]) -> tuple[str, ...]:
    """What the labels of these names hold, each value once."""
    return tuple(dict.fromkeys(labels[name] for labels in sets for name in names if labels.get(name)))


_Key = TypeVar("_Key", Counter, Gauge, Distribution)
_Value = TypeVar("_Value")


def by_key(found: Mapping[_Key, Mapping[Rank, _Value]]) -> dict[tuple[_Key, Rank], _Value]:
    """Figures by rank, as a reading holds them."""
    return {(key, rank): value for key, ranks in found.items() for rank, value in ranks.items()}


def plus(*parts: Mapping[Rank, float]) -> dict[Rank, float]:
    """Counters of different names added up by rank, over the ranks that have each of them."""
    ranks = [rank for rank in parts[0] if all(rank in part for part in parts)]
    return {rank: sum(part[rank] for part in parts) for rank in ranks}


def plus_gauges(*parts: Mapping[Rank, Number]) -> dict[Rank, Number]:
    """Gauges of different names added up by rank; an absent name adds nothing, a missing value spoils the sum."""
    totals: dict[Rank, Number] = {}
    for part in parts:
        for rank, value in part.items():
            totals[rank] = join(totals[rank], value, add) if rank in totals else value
    return totals
