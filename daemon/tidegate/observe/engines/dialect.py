"""What an engine's dialect is, and the reading of a page that all dialects share.

A dialect reads a `Page`: the body's series, the way to tell ranks apart, and the notes. Everything that is left out is
said: each step adds its doubts to the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from tidegate.model.reading import Basis, Counter, Distribution, EngineKind, Gauge, Histogram, Number, Rank
from tidegate.observe.engines.histogram import read_histogram
from tidegate.observe.engines.page import Page, by_key, parts_of, plus, plus_gauges
from tidegate.observe.engines.samples import (
    HISTOGRAM_PARTS,
    Body,
    Notes,
    RankOf,
    Selection,
    first_present,
    rank_of,
    read_counter,
    read_gauge,
)
from tidegate.observe.textformat import Exposition, Sample

__all__ = [
    "HISTOGRAM_PARTS",
    "Body",
    "Content",
    "Dialect",
    "Exposition",
    "JsonDialect",
    "Notes",
    "Page",
    "RankOf",
    "Sample",
    "Selection",
    "by_key",
    "first_present",
    "parts_of",
    "plus",
    "plus_gauges",
    "rank_of",
    "read_counter",
    "read_gauge",
    "read_histogram",
]


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
    also_wanted: Callable[[Set[str]], frozenset[str]] | None = None
    """What else to look at in a body with these names, where operators may rename an engine's families."""


@dataclass(frozen=True, slots=True)
class JsonDialect:
    """The dialect of an engine whose metrics are a JSON document."""

    kind: EngineKind
    title: str
    recognises: Callable[[object], bool]
    read: Callable[[object], Content]
