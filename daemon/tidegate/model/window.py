"""Figures over a window of readings of one engine: rates, ratios and quantiles from increases, never from totals.

Rules (reference: each engine's own counters, `docs/metrics.md`): an increase is taken per series before any sum; a
fall is a restart, counted from zero, and makes the window partial; a ratio is a sum over a sum; no traffic gives no
ratio; a quantile comes from bucket increases by linear interpolation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from tidegate.model.reading import (
    Counter,
    Distribution,
    EngineReading,
    EngineState,
    Gap,
    Gauge,
    Histogram,
    Missing,
    Number,
)


class Figure(StrEnum):
    """The normalized figures of an engine, by the names that `tidegate engine read --json` prints."""

    QUEUE_DEPTH = "queue_depth"
    RUNNING = "running"
    KV_CACHE_USAGE = "kv_cache_usage"
    KV_CACHE_HIT_RATE = "kv_cache_hit_rate"
    PROMPT_TOKENS_PER_SECOND = "prompt_tokens_per_second"
    CACHED_TOKENS_PER_SECOND = "cached_tokens_per_second"
    GENERATION_TOKENS_PER_SECOND = "generation_tokens_per_second"
    PREEMPTIONS = "preemptions"
    FINISHED = "finished"
    ABORTED = "aborted"
    ERRORS = "errors"
    TTFT_P50 = "ttft_p50"
    TTFT_P95 = "ttft_p95"
    TTFT_P99 = "ttft_p99"
    ITL_P50 = "itl_p50"
    ITL_P95 = "itl_p95"
    ITL_P99 = "itl_p99"
    TPOT_P50 = "tpot_p50"
    TPOT_P95 = "tpot_p95"
    TPOT_P99 = "tpot_p99"
    E2E_P50 = "e2e_p50"
    E2E_P95 = "e2e_p95"
    E2E_P99 = "e2e_p99"
    QUEUE_TIME_P50 = "queue_time_p50"
    QUEUE_TIME_P95 = "queue_time_p95"
    QUEUE_TIME_P99 = "queue_time_p99"


@dataclass(frozen=True, slots=True)
class EngineWindow:
    """What a window of readings says: summed increases, and how far they can be trusted."""

    seconds: float
    increases: Mapping[Counter, float]
    distributions: Mapping[Distribution, Histogram]
    """Histogram increases, summed over ranks whose bounds agree."""
    partial: bool
    """True when a counter fell inside the window (a restart): the increases are lower bounds."""
    progressing: bool
    """True when anything moved, or nothing was there to move it."""


def engine_window(readings: Sequence[EngineReading]) -> EngineWindow | Missing:
    """Increases over readings in time order; needs two that carry counters, else `Missing(ONE_SCRAPE)`."""
    good = [reading for reading in readings if reading.counters]
    if len(good) < 2:
        return Missing(Gap.ONE_SCRAPE)
    increases: dict[Counter, float] = {}
    histograms: dict[Distribution, Histogram] = {}
    partial = False
    for before, after in pairwise(good):
        restarted = _restarted(before, after)
        partial = partial or restarted
        _add_increases(increases, before, after, restarted=restarted)
        _add_histograms(histograms, before, after, restarted=restarted)
    seconds = (good[-1].at - good[0].at).total_seconds()
    return EngineWindow(seconds, increases, histograms, partial, _progressing(good, increases))


def _restarted(before: EngineReading, after: EngineReading) -> bool:
    if before.started is not None and after.started is not None and abs(after.started - before.started) > 1.0:
        return True
    return any(after.counters.get(key, total) < total for key, total in before.counters.items())


def _add_increases(into: dict[Counter, float], before: EngineReading, after: EngineReading, *, restarted: bool) -> None:
    for (counter, rank), total in after.counters.items():
        earlier = before.counters.get((counter, rank))
        if restarted:
            into[counter] = into.get(counter, 0.0) + total
        elif earlier is not None:
            into[counter] = into.get(counter, 0.0) + total - earlier


def _add_histograms(
    into: dict[Distribution, Histogram], before: EngineReading, after: EngineReading, *, restarted: bool
) -> None:
    for (name, rank), histogram in after.histograms.items():
        earlier = before.histograms.get((name, rank))
        if not restarted and (earlier is None or earlier.bounds != histogram.bounds):
            continue
        step = histogram if restarted or earlier is None else _minus(histogram, earlier)
        present = into.get(name)
        if present is None:
            into[name] = step
        elif present.bounds == step.bounds:
            into[name] = _plus(present, step)


def _minus(a: Histogram, b: Histogram) -> Histogram:
    counts = tuple(max(0.0, x - y) for x, y in zip(a.counts, b.counts, strict=True))
    return Histogram(a.bounds, counts, a.sum - b.sum, a.count - b.count)


def _plus(a: Histogram, b: Histogram) -> Histogram:
    counts = tuple(x + y for x, y in zip(a.counts, b.counts, strict=True))
    return Histogram(a.bounds, counts, a.sum + b.sum, a.count + b.count)


def _progressing(readings: Sequence[EngineReading], increases: Mapping[Counter, float]) -> bool:
    if any(delta > 0 for delta in increases.values()):
        return True
    return not (busy(readings[0]) and busy(readings[-1]))


def busy(reading: EngineReading) -> bool:
    """True when the engine says that requests run or wait."""
    return any(
        isinstance(value, float) and value > 0
        for (gauge, _), value in reading.gauges.items()
        if gauge in (Gauge.RUNNING, Gauge.QUEUE_DEPTH)
    )


def gauge(reading: EngineReading, name: Gauge) -> Number:
    """One gauge over the engine's ranks: the sum, and for the KV cache the fullest rank."""
    if reading.state is EngineState.STALLED:
        return Missing(Gap.STALE)
    values = [value for (found, _), value in reading.gauges.items() if found is name]
    for value in values:
        if isinstance(value, Missing):
            return value
    numbers = [value for value in values if isinstance(value, float)]
    if not numbers:
        return Missing(state_gap(reading.state) or Gap.NOT_SUPPORTED)
    return max(numbers) if name is Gauge.KV_CACHE_USAGE else sum(numbers)


_STATE_GAPS = {
    EngineState.READY: None,
    EngineState.STARTING: Gap.STARTING,
    EngineState.UNREACHABLE: Gap.UNREACHABLE,
    EngineState.HANGING: Gap.UNREACHABLE,
    EngineState.STALLED: Gap.STALE,
    EngineState.DISABLED: Gap.DISABLED,
    EngineState.UNAUTHORIZED: Gap.UNAUTHORIZED,
    EngineState.MALFORMED: Gap.MALFORMED,
    EngineState.EMPTY: Gap.MALFORMED,
    EngineState.TRUNCATED: Gap.MALFORMED,
    EngineState.FAILED: Gap.UNREACHABLE,
}


def state_gap(state: EngineState) -> Gap | None:
    """Why nothing can be known of an engine in this state; None when it can."""
    return _STATE_GAPS[state]


def quantile(histogram: Histogram, q: float) -> Number:
    """The q-quantile (0..1) of bucket increases; the highest finite bound when the rank falls beyond it.

    Source: the linear interpolation of PromQL's histogram_quantile.
    """
    total = histogram.counts[-1] if histogram.counts else 0.0
    if total <= 0:
        return Missing(Gap.NO_TRAFFIC)
    rank = q * total
    lower_bound, lower_count = 0.0, 0.0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=True):
        if count >= rank:
            if math.isinf(bound):
                return lower_bound
            width = count - lower_count
            share = (rank - lower_count) / width if width > 0 else 1.0
            return lower_bound + (bound - lower_bound) * share
        lower_bound, lower_count = bound, count
    return lower_bound


_RATES = {
    Figure.PROMPT_TOKENS_PER_SECOND: Counter.PROMPT_TOKENS,
    Figure.CACHED_TOKENS_PER_SECOND: Counter.CACHED_PROMPT_TOKENS,
    Figure.GENERATION_TOKENS_PER_SECOND: Counter.GENERATION_TOKENS,
}
_COUNTS = {
    Figure.PREEMPTIONS: Counter.PREEMPTIONS,
    Figure.FINISHED: Counter.FINISHED,
    Figure.ABORTED: Counter.ABORTED,
    Figure.ERRORS: Counter.ERRORS,
}
_GAUGES = {
    Figure.QUEUE_DEPTH: Gauge.QUEUE_DEPTH,
    Figure.RUNNING: Gauge.RUNNING,
    Figure.KV_CACHE_USAGE: Gauge.KV_CACHE_USAGE,
}
_QUANTILES = {
    Figure(f"{name.value}_p{percent}"): (name, percent / 100) for name in Distribution for percent in (50, 95, 99)
}


def figures(readings: Sequence[EngineReading]) -> dict[Figure, Number]:
    """Every normalized figure over readings in time order; gauges are those of the last one."""
    last = readings[-1]
    window = engine_window(readings)
    gap = state_gap(last.state)
    stale = isinstance(window, EngineWindow) and not window.progressing
    result: dict[Figure, Number] = {}
    for figure in Figure:
        if gap is not None:
            result[figure] = Missing(gap)
        elif figure in _GAUGES:
            result[figure] = Missing(Gap.STALE) if stale else gauge(last, _GAUGES[figure])
        elif isinstance(window, Missing):
            result[figure] = window if _supported(figure, last) else Missing(Gap.NOT_SUPPORTED)
        else:
            result[figure] = _windowed(figure, window)
    return result


def _supported(figure: Figure, reading: EngineReading) -> bool:
    counters = {counter for counter, _ in reading.counters}
    if figure is Figure.KV_CACHE_HIT_RATE:
        return {Counter.CACHE_QUERIES, Counter.CACHE_HITS} <= counters
    if figure in _QUANTILES:
        return any(name is _QUANTILES[figure][0] for name, _ in reading.histograms)
    return (_RATES.get(figure) or _COUNTS[figure]) in counters


def _windowed(figure: Figure, window: EngineWindow) -> Number:
    if figure in _RATES:
        total = window.increases.get(_RATES[figure])
        if total is None:
            return Missing(Gap.NOT_SUPPORTED)
        return total / window.seconds if window.seconds > 0 else Missing(Gap.ONE_SCRAPE)
    if figure in _COUNTS:
        return window.increases.get(_COUNTS[figure], Missing(Gap.NOT_SUPPORTED))
    if figure is Figure.KV_CACHE_HIT_RATE:
        return ratio(window.increases.get(Counter.CACHE_HITS), window.increases.get(Counter.CACHE_QUERIES))
    name, q = _QUANTILES[figure]
    histogram = window.distributions.get(name)
    return quantile(histogram, q) if histogram else Missing(Gap.NOT_SUPPORTED)


def ratio(numerator: float | None, denominator: float | None) -> Number:
    """A sum over a sum; no traffic gives no ratio."""
    if numerator is None or denominator is None:
        return Missing(Gap.NOT_SUPPORTED)
    return numerator / denominator if denominator > 0 else Missing(Gap.NO_TRAFFIC)
