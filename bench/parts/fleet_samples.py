"""A synthetic fleet whose samples look like a real one's: the same input for our store and for the peers.

Every host has a thousand series at 15 s: 25 % whole-numbered GPU gauges, 35 % histogram buckets, 10 % token counters,
10 % queue depths, 5 % power (milliwatts, told in watts), 5 % shares of the KV cache (a fraction with all its digits),
10 % constants. Load follows the day; an engine restarts now and then and its counters begin at zero. Everything
depends on the host's number alone, so that any part of the fleet can be made anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from tidegate.model.gpu import GpuFigure
from tidegate.model.reading import Counter, Distribution, Gauge
from tidegate.model.series import SeriesKey, layout_id

STEP_SECONDS = 15.0
START = datetime(2026, 11, 2, tzinfo=UTC).timestamp()
"""A Monday at midnight."""
GPUS, ENGINES = 8, 8
SERIES = 1_000
_DAY = 86_400.0
_BLOCKS = 7_231
"""Of a KV cache: its share is a whole number of these."""
_WHOLE = (
    GpuFigure.TEMPERATURE,
    GpuFigure.MEMORY_TEMPERATURE,
    GpuFigure.MEMORY_USED,
    GpuFigure.SM_CLOCK,
    GpuFigure.MEMORY_CLOCK,
    GpuFigure.PROCESSES,
    GpuFigure.CLOCK_EVENTS,
    GpuFigure.PCIE_TRANSMIT_RATE,
    GpuFigure.PCIE_RECEIVE_RATE,
    GpuFigure.TEMPERATURE_MARGIN,
)
_CONSTANT = (GpuFigure.MEMORY_TOTAL, GpuFigure.POWER_LIMIT, GpuFigure.SM_CLOCK_MAX, GpuFigure.PCIE_WIDTH)
_BOUNDS = (*(round(0.001 * 1.7**power, 6) for power in range(21)), float("inf"))
_TOKENS = (Counter.PROMPT_TOKENS, Counter.GENERATION_TOKENS, Counter.CACHE_QUERIES, Counter.CACHE_HITS)

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Samples:
    """Some of a host's rounds: Unix seconds of each, and a row of values in the order of the host's keys."""

    moments: NDArray[np.float64]
    values: Matrix

    def cut(self, first: int, end: int) -> Samples:
        """Some of the rounds."""
        return Samples(self.moments[first:end], self.values[first:end])


def keys_of(number: int) -> tuple[SeriesKey, ...]:
    """The thousand series of a host."""
    gpus = [f"GPU-{number:04d}-{gpu}" for gpu in range(GPUS)]
    engines = [f"vllm-{engine}" for engine in range(ENGINES)]
    whole = [
        SeriesKey("gpu", gpu, figure.value, rank) for figure in _WHOLE for gpu in gpus for rank in ("", "0", "1", "2")
    ]
    buckets = [
        SeriesKey("engine", engine, f"{name.value}_bucket", "0", "+Inf" if bound == float("inf") else repr(bound))
        for engine in engines
        for name in (Distribution.TTFT, Distribution.E2E)
        for bound in _BOUNDS
    ]
    ranks = [str(rank) for rank in range(4)]
    tokens = [SeriesKey("engine", engine, name.value, rank) for name in _TOKENS for engine in engines for rank in ranks]
    depths = [
        SeriesKey("engine", engine, name.value, rank)
        for name in (Gauge.RUNNING, Gauge.QUEUE_DEPTH)
        for engine in engines
        for rank in map(str, range(7))
    ]
    power = [SeriesKey("gpu", gpu, GpuFigure.POWER.value, rank) for gpu in gpus for rank in map(str, range(7))]
    shares = [
        SeriesKey("engine", engine, Gauge.KV_CACHE_USAGE.value, rank)
        for engine in engines
        for rank in map(str, range(7))
    ]
    constant = [SeriesKey("gpu", gpu, figure.value, rank) for figure in _CONSTANT for gpu in gpus for rank in ranks]
    parts = (whole, buckets, tokens, depths, power, shares, constant)
    return tuple(key for part, count in zip(parts, _COUNTS, strict=True) for key in part[:count])


_COUNTS = (250, 350, 100, 100, 50, 50, 100)


@dataclass(slots=True)
class HostSamples:
    """One host's samples, round after round."""

    number: int
    start: float = START
    _round: int = 0
    _rng: np.random.Generator = field(init=False)
    _totals: Matrix = field(init=False)
    _walk: Matrix = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng((20261102, self.number))
        self._totals = np.floor(self._rng.uniform(0, 1e6, 450))
        self._walk = self._rng.normal(0, 2.0, 250)

    @property
    def name(self) -> str:
        """As an enrolled host."""
        return f"gpu-{self.number:04d}"

    @property
    def keys(self) -> tuple[SeriesKey, ...]:
        """The series, in the order of the columns."""
        return keys_of(self.number)

    @property
    def layout(self) -> str:
        """The id of its layout."""
        return layout_id(self.keys)

    def next(self, count: int) -> Samples:
        """The next rounds."""
        ideal = self.start + STEP_SECONDS * (self._round + np.arange(count))
        moments = np.round(ideal + self.number % 15 + self._rng.normal(0, 0.004, count), 3)
        load = 0.55 - 0.45 * np.cos(2 * np.pi * (ideal % _DAY) / _DAY) + self._rng.normal(0, 0.03, count)
        load = np.clip(load, 0.02, 1.0)[:, None]
        parts = (
            self._whole(count, load),
            self._counters(count, load),
            self._depths(count, load),
            np.round(120_000 + 500_000 * load + self._rng.normal(0, 4_000, (count, 50))) / 1_000,
            np.clip(np.round(_BLOCKS * (load + self._rng.normal(0, 0.05, (count, 50)))), 0, _BLOCKS) / _BLOCKS,
            np.broadcast_to(np.arange(100) * 1024.0, (count, 100)),
        )
        self._round += count
        return Samples(moments, np.hstack(parts))

    def _whole(self, count: int, load: Matrix) -> Matrix:
        """Most rounds a gauge stays where it was: temperatures and clocks move slowly."""
        moves = self._rng.integers(-1, 2, (count, 250)) * (self._rng.random((count, 250)) < 0.3)
        walk = self._walk + np.cumsum(moves, axis=0)
        self._walk = walk[-1] * 0.9
        return np.round(40 + 30 * load + walk)

    def _counters(self, count: int, load: Matrix) -> Matrix:
        """Cumulative buckets (a request counts in all that lie above it), then tokens; a restart about once a week."""
        arrivals = self._rng.poisson(6 * load, (count, 16))
        slots = self._rng.integers(0, 22, 16)
        shape = np.clip((np.arange(22)[None, :] - slots[:, None] / 3) / 16, 0, 1)
        buckets = self._rng.binomial(arrivals[:, :, None], shape[None]).reshape(count, -1)[:, :350]
        tokens = self._rng.poisson(900 * load, (count, 100)) * (self._rng.random((count, 100)) < 0.9)
        steps = np.hstack((buckets, tokens)).astype(np.float64)
        totals = self._totals + np.cumsum(steps, axis=0)
        for engine in np.flatnonzero(self._rng.random(ENGINES) < count * STEP_SECONDS / (7 * _DAY)):
            at, mine = int(self._rng.integers(count)), slice(engine * 44, min((engine + 1) * 44, 350))
            totals[at:, mine] -= totals[at, mine].copy()
        self._totals = totals[-1].copy()
        return totals

    def _depths(self, count: int, load: Matrix) -> Matrix:
        return self._rng.poisson(np.clip(12 * load - 2, 0.05, None), (count, 100)).astype(np.float64)
