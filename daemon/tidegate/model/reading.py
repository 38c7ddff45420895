"""What one look at a host says: engine and GPU figures, each a number or a stated reason for its absence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from operator import add
from typing import NewType

from tidegate.model.gpu import (
    ClockEvent,
    GpuFault,
    GpuFigure,
    GpuInstance,
    GpuProcess,
    GpuReading,
    GpuSurvey,
    GpuUuid,
    MemoryType,
    XidEvents,
)
from tidegate.model.machine import Machine
from tidegate.model.missing import Gap, Missing, Number
from tidegate.model.vocabulary import (
    Basis,
    Counter,
    Distribution,
    EngineKind,
    EngineState,
    Gauge,
    GpuCountSource,
)

__all__ = [
    "Basis",
    "ClockEvent",
    "Counter",
    "Distribution",
    "EngineKind",
    "EngineName",
    "EngineReading",
    "EngineState",
    "Gap",
    "Gauge",
    "GpuCountSource",
    "GpuFault",
    "GpuFigure",
    "GpuInstance",
    "GpuProcess",
    "GpuReading",
    "GpuSurvey",
    "GpuUuid",
    "Histogram",
    "HostName",
    "HostReading",
    "MemoryType",
    "Missing",
    "Number",
    "Rank",
    "XidEvents",
]

HostName = NewType("HostName", str)
EngineName = NewType("EngineName", str)
Rank = NewType("Rank", str)
"""Data-parallel rank inside one engine, as the engine labels it; "0" where it names none."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """One cumulative histogram: `bounds` ascending, the last +Inf; `counts` cumulative and as long; sum in seconds."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float
    count: float

    def plus(self, other: Histogram) -> Histogram:
        """Both together; raises ValueError when the bounds differ."""
        if self.bounds != other.bounds:
            raise ValueError("histograms with different bounds cannot be added up")
        counts = tuple(map(add, self.counts, other.counts))
        return Histogram(self.bounds, counts, self.sum + other.sum, self.count + other.count)

    def minus(self, earlier: Histogram) -> Histogram:
        """What was observed since; never negative, and monotone. Raises ValueError when the bounds differ.

        Source: PromQL's ensureMonotonic: a server with several processes writes its buckets one after the other.
        """
        if self.bounds != earlier.bounds:
            raise ValueError("histograms with different bounds cannot be subtracted")
        steps = [x - y if x > y else 0.0 for x, y in zip(self.counts, earlier.counts, strict=True)]
        count = max(0.0, self.count - earlier.count)
        return Histogram(self.bounds, tuple(accumulate(steps, max)), max(0.0, self.sum - earlier.sum), count)


@dataclass(frozen=True, slots=True)
class EngineReading:
    """One scrape of one engine, in the one vocabulary, before any rate is taken.

    A key that is absent was not exported by the engine (`NOT_SUPPORTED`); a `Missing` value says another reason.
    """

    engine: EngineName
    kind: EngineKind | None
    state: EngineState
    at: datetime
    """When the body arrived (UTC, the clock of the reading host)."""
    gauges: Mapping[tuple[Gauge, Rank], Number] = field(default_factory=dict)
    counters: Mapping[tuple[Counter, Rank], float] = field(default_factory=dict)
    histograms: Mapping[tuple[Distribution, Rank], Histogram] = field(default_factory=dict)
    started: float | None = None
    """The engine process's start as unix seconds, where it says so: a change is a reset."""
    model: str | None = None
    hints: tuple[str, ...] = ()
    """What the presence of families says about the version ("vLLM >= 0.22")."""
    problems: tuple[str, ...] = ()
    """Everything that was skipped, dropped or doubted, in words."""
    duration_seconds: float = 0.0
    gpus: int | None = None
    """GPUs that the engine holds, where somebody could find out, and who that was."""
    gpus_source: GpuCountSource | None = None
    kv_usage_basis: Basis | None = None
    """What `Gauge.KV_CACHE_USAGE` counts in this engine."""
    summed: bool = False
    """True when a counter here is the sum over ranks that may restart one by one: of a fall nobody can tell how much
    was added since."""

    @property
    def up(self) -> bool:
        """True when the endpoint gave the engine's own figures: a stalled engine is up, and does nothing."""
        return self.state in (EngineState.READY, EngineState.STALLED)

    @property
    def ready(self) -> bool:
        """True when the engine takes requests, as far as its page tells: it answers, moves and no rank sleeps."""
        levels = (value for (name, _), value in self.gauges.items() if name is Gauge.SLEEP_LEVEL)
        return self.state is EngineState.READY and not any(isinstance(value, float) and value > 0 for value in levels)


@dataclass(frozen=True, slots=True)
class HostReading:
    """Everything one collection saw on one host."""

    host: HostName
    at: datetime
    gpus: GpuSurvey
    engines: tuple[EngineReading, ...] = ()
    machine: Machine = field(default_factory=Machine)
