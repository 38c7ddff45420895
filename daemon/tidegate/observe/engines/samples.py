"""Gauges and counters out of the samples of a body, by rank; every doubt is noted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.model.reading import Gap, Missing, Number, Rank
from tidegate.observe.textformat import Sample, Samples


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


class Body(Protocol):
    """The series of a body: an `Exposition`, or what a dialect chose of one."""

    @property
    def samples(self) -> Mapping[str, Samples]:
        """By normalised name."""

    @property
    def present(self) -> frozenset[str]:
        """The names of all sample lines."""

    @property
    def spoiled(self) -> frozenset[str]:
        """The names that have a line that cannot be read, and no samples for that reason."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Series that a dialect chose of a body, or renamed."""

    samples: Mapping[str, Samples]
    present: frozenset[str]
    spoiled: frozenset[str]


def first_present(exposition: Body, names: Iterable[str]) -> tuple[str, Sequence[Sample]]:
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
        by_series[key] = join(by_series[key], value, max) if key in by_series else value
    by_rank: dict[Rank, Number] = {}
    fold = max if is_share else add
    for (owner, _), value in by_series.items():
        by_rank[owner] = join(by_rank[owner], value, fold) if owner in by_rank else value
    return by_rank


def _gauge_value(name: str, value: float, *, is_share: bool, notes: Notes) -> Number:
    if not math.isfinite(value):
        notes.add(f"{name} is {value}: not a finite number")
        return Missing(Gap.NOT_FINITE)
    if value < 0 or (is_share and value > 1.01):
        notes.add(f"{name} is {value:g}: {'not between 0 and 1' if is_share else 'below zero'}")
        return Missing(Gap.MALFORMED)
    return value


def join(one: Number, other: Number, fold: Callable[[float, float], float]) -> Number:
    """Both folded; what is missing stays missing."""
    if isinstance(one, Missing):
        return one
    return other if isinstance(other, Missing) else fold(one, other)


def add(one: float, other: float) -> float:
    """The sum, by name."""
    return one + other


def read_counter(name: str, samples: Iterable[Sample], notes: Notes, rank: RankOf = rank_of) -> dict[Rank, float]:
    """One counter by rank, added up over a rank's series.

    None at all when a value among them is bad: an engine's total without one of its ranks would look like one that
    fell, and then like one that rose by all that was ever counted.
    """
    totals: dict[Rank, float] = {}
    bad = False
    for sample in samples:
        owner = rank(sample)
        if math.isfinite(sample.value) and sample.value >= 0:
            totals[owner] = totals.get(owner, 0.0) + sample.value
        else:
            notes.add(f"{name} is {sample.value:g}: a counter is finite and not below zero")
            bad = True
    return {} if bad else totals
