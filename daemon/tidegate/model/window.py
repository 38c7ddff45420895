"""Figures over a window of readings of one engine: rates, ratios and quantiles from increases, never from totals.

Rules (reference: each engine's own counters, `docs/metrics.md`): an increase is taken per series before any sum; a
fall is a restart, counted from zero, and makes the window partial; a ratio is a sum over a sum; no traffic gives no
ratio; a quantile comes from bucket increases by linear interpolation; whatever is lost is said (`partial`, `notes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.model.increase import increases
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
    Rank,
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
    """True when something was lost (a restart, a rank that came or went): the increases are lower bounds."""
    progressing: bool
    """False when requests ran or waited at both ends and some rank of theirs did nothing: its gauges stand still."""
    notes: tuple[str, ...] = ()
    """Why the window is partial or not progressing, in words."""


def engine_window(readings: Sequence[EngineReading]) -> EngineWindow | Missing:
    """Increases over readings in time order; needs two that carry counters, else `Missing(ONE_SCRAPE)`."""
    good = [reading for reading in readings if reading.counters]
    if len(good) < 2:
        return Missing(Gap.ONE_SCRAPE)
    found = increases(good)
    totals: dict[Counter, float] = {}
    for (counter, _), increase in found.counters.items():
        totals[counter] = totals.get(counter, 0.0) + increase
    distributions, losses = _over_ranks(found.histograms)
    losses = (*found.losses, *losses)
    seconds = (good[-1].at - good[0].at).total_seconds()
    stuck = _stuck(good, found.counters) if seconds > 0 else []
    notes = tuple(f"lower bounds: {words}" for words in losses)
    if stuck:
        notes += (f"not progressing: rank {', '.join(stuck)} has requests and did nothing for {seconds:g} s",)
    return EngineWindow(seconds, totals, distributions, bool(losses), not stuck, notes)


def _over_ranks(
    by_rank: Mapping[tuple[Distribution, Rank], Histogram],
) -> tuple[dict[Distribution, Histogram], tuple[str, ...]]:
    totals: dict[Distribution, Histogram] = {}
    losses = []
    for (name, rank), histogram in sorted(by_rank.items(), key=lambda item: item[0]):
        present = totals.get(name)
        if present is None:
            totals[name] = histogram
        elif present.bounds == histogram.bounds:
            totals[name] = present.plus(histogram)
        else:
            losses.append(f"{name.value} of rank {rank} has other buckets and is left out")
    return totals, tuple(losses)


_STEPS = frozenset({Counter.STEPS, Counter.WORK})
"""What moves while requests run, in every engine that has it."""
_WORK = _STEPS | {Counter.PROMPT_TOKENS, Counter.GENERATION_TOKENS}
"""What only the engine's core moves; requests are turned away and given up without it."""


def _stuck(readings: Sequence[EngineReading], moved: Mapping[tuple[Counter, Rank], float]) -> list[Rank]:
    """The ranks that had requests at both ends and did no work in between."""
    kind = readings[-1].kind
    if kind is not None and kind.counts_at_end and not any(counter in _STEPS for counter, _ in moved):
        return []  # one long answer moves nothing that this engine counts
    busy_throughout = _busy_ranks(readings[0]) & _busy_ranks(readings[-1])
    counted = {rank for counter, rank in moved if counter in _WORK}
    working = {rank for (counter, rank), increase in moved.items() if counter in _WORK and increase > 0}
    if counted.isdisjoint(busy_throughout):  # gauges by rank beside counters that are not, or none that tell of work
        return [] if any(increase > 0 for increase in moved.values()) else sorted(busy_throughout)
    return sorted((busy_throughout & counted) - working)


def _busy_ranks(reading: EngineReading) -> set[Rank]:
    return {
        rank
        for (name, rank), value in reading.gauges.items()
        if name in (Gauge.RUNNING, Gauge.QUEUE_DEPTH) and not isinstance(value, Missing) and value > 0
    }


def gauge(reading: EngineReading, name: Gauge) -> Number:
    """One gauge over the engine's ranks: the sum, and for the KV cache the fullest rank."""
    if reading.state is EngineState.STALLED:
        return Missing(Gap.STALE)
    numbers = []
    for (found, _), value in reading.gauges.items():
        if found is name and isinstance(value, Missing):
            return value
        if found is name and not isinstance(value, Missing):
            numbers.append(float(value))
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
    EngineState.UNSUPPORTED: Gap.NOT_SUPPORTED,
}


def state_gap(state: EngineState) -> Gap | None:
    """Why nothing can be known of an engine in this state; None when it can."""
    return _STATE_GAPS[state]


def quantile(histogram: Histogram, q: float) -> Number:
    """The q-quantile (0..1) of bucket increases; the highest finite bound when the rank falls beyond it.

    Source: the linear interpolation of PromQL's histogram_quantile.
    """
    if len(histogram.bounds) < 2:
        return Missing(Gap.NOT_SUPPORTED)
    total = histogram.counts[-1]
    if total <= 0:
        return Missing(Gap.NO_TRAFFIC)
    rank = q * total
    lower_bound, lower_count = 0.0, 0.0
    for bound, count in zip(histogram.bounds[:-1], histogram.counts[:-1], strict=True):
        if count >= rank and count > lower_count:
            return lower_bound + (bound - lower_bound) * (rank - lower_count) / (count - lower_count)
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
    gap = state_gap(last.state)
    if gap is not None:
        return dict.fromkeys(Figure, Missing(gap))
    window = engine_window(readings)
    stale = isinstance(window, EngineWindow) and not window.progressing
    result: dict[Figure, Number] = {}
    for figure in Figure:
        if figure in _GAUGES:
            result[figure] = Missing(Gap.STALE) if stale else gauge(last, _GAUGES[figure])
        elif not _exported(figure, last):
            result[figure] = Missing(Gap.NOT_SUPPORTED)
        else:
            result[figure] = window if isinstance(window, Missing) else _windowed(figure, window)
    return result


def _exported(figure: Figure, reading: EngineReading) -> bool:
    counters = {counter for counter, _ in reading.counters}
    if figure is Figure.KV_CACHE_HIT_RATE:
        return {Counter.CACHE_QUERIES, Counter.CACHE_HITS} <= counters
    if figure in _QUANTILES:
        return any(name is _QUANTILES[figure][0] for name, _ in reading.histograms)
    return (_RATES.get(figure) or _COUNTS[figure]) in counters


def _windowed(figure: Figure, window: EngineWindow) -> Number:
    # The newest reading has the series, see `figures`; without an increase there was nothing to compare it with.
    unknown = Missing(Gap.RESET if window.partial else Gap.ONE_SCRAPE)
    if figure is Figure.KV_CACHE_HIT_RATE:
        return hit_rate(window.increases) if Counter.CACHE_QUERIES in window.increases else unknown
    if figure in _QUANTILES:
        name, q = _QUANTILES[figure]
        histogram = window.distributions.get(name)
        return quantile(histogram, q) if histogram else unknown
    increase = window.increases.get(_RATES.get(figure) or _COUNTS[figure])
    if increase is None or (figure in _RATES and window.seconds <= 0):
        return unknown
    return increase / window.seconds if figure in _RATES else increase


def hit_rate(increases: Mapping[Counter, float]) -> Number:
    """Hits over queries, at most 1: retried lookups count twice in some releases (vllm#43736)."""
    share = ratio(increases.get(Counter.CACHE_HITS), increases.get(Counter.CACHE_QUERIES))
    return share if isinstance(share, Missing) else min(share, 1.0)


def ratio(numerator: float | None, denominator: float | None) -> Number:
    """A sum over a sum; no traffic gives no ratio."""
    if numerator is None or denominator is None:
        return Missing(Gap.NOT_SUPPORTED)
    return numerator / denominator if denominator > 0 else Missing(Gap.NO_TRAFFIC)
