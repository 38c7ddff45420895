"""Figures over a window of readings of one engine: rates, ratios and quantiles from increases, never from totals.

Rules (reference: each engine's own counters, `docs/metrics.md`): an increase is taken per series before any sum; a
fall is a restart, counted from zero, and makes the window partial; a ratio is a sum over a sum; no traffic gives no
ratio; a quantile comes from bucket increases by linear interpolation; whatever is lost is said (`partial`, `notes`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    """Why the window is partial or not progressing, in words, and what else is doubtful about it."""
    work: Mapping[Rank, float] = field(default_factory=dict)
    """Tokens that each rank computed or generated: what there is to share out evenly."""


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
    if totals.get(Counter.CACHE_HITS, 0.0) > totals.get(Counter.CACHE_QUERIES, math.inf):
        notes += ("more cache hits than lookups: the engine counts a retried lookup again; the hit rate stops at 1",)
    return EngineWindow(seconds, totals, distributions, bool(losses), not stuck, notes, _work_by_rank(found.counters))


def _work_by_rank(moved: Mapping[tuple[Counter, Rank], float]) -> dict[Rank, float]:
    work: dict[Rank, float] = {}
    for (counter, rank), increase in moved.items():
        if counter in (Counter.COMPUTED_PROMPT_TOKENS, Counter.GENERATION_TOKENS):
            work[rank] = work.get(rank, 0.0) + increase
    return work


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
    if counted and not working and _holds_requests(readings[0]) and _holds_requests(readings[-1]):
        return sorted(counted)
    if counted.isdisjoint(busy_throughout):  # gauges by rank beside counters that are not, or none that tell of work
        return [] if any(increase > 0 for increase in moved.values()) else sorted(busy_throughout)
    return sorted((busy_throughout & counted) - working)


def _busy_ranks(reading: EngineReading) -> set[Rank]:
    return {
        rank
        for (name, rank), value in reading.gauges.items()
        if name in (Gauge.RUNNING, Gauge.QUEUE_DEPTH) and not isinstance(value, Missing) and value > 0
    }


def _holds_requests(reading: EngineReading) -> bool:
    """True when the web server in front of the schedulers holds requests: a stopped one renews no gauge of its own."""
    held = (value for (name, _), value in reading.gauges.items() if name is Gauge.HELD)
    return any(not isinstance(value, Missing) and value > 0 for value in held)


_HIGHEST = frozenset({Gauge.KV_CACHE_USAGE, Gauge.SLEEP_LEVEL})


def gauge(reading: EngineReading, name: Gauge) -> Number:
    """One gauge over the engine's ranks: the sum; for the KV cache the fullest rank, for sleep the deepest."""
    numbers = _over_the_ranks(reading, name)
    if isinstance(numbers, Missing):
        return numbers
    return max(numbers) if name in _HIGHEST else sum(numbers)


def gauge_mean(reading: EngineReading, name: Gauge) -> Number:
    """The mean of one gauge over the engine's ranks."""
    numbers = _over_the_ranks(reading, name)
    return numbers if isinstance(numbers, Missing) else sum(numbers) / len(numbers)


def _over_the_ranks(reading: EngineReading, name: Gauge) -> list[float] | Missing:
    """Each rank's value, one at least; one that is missing makes the whole missing."""
    if reading.state is EngineState.STALLED:
        return Missing(Gap.STALE)
    numbers = []
    for (found, _), value in reading.gauges.items():
        if found is name and isinstance(value, Missing):
            return value
        if found is name and not isinstance(value, Missing):
            numbers.append(float(value))
    return numbers or Missing(state_gap(reading.state) or Gap.NOT_SUPPORTED)


def imbalance(window: EngineWindow) -> Number:
    """The busiest rank's work over the mean of all ranks: 1 is even, the number of ranks is one that does it all."""
    if len(window.work) < 2:
        return Missing(Gap.NOT_SUPPORTED)
    mean = sum(window.work.values()) / len(window.work)
    return ratio(max(window.work.values()), mean)


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


def is_saturated(histogram: Histogram, q: float) -> bool:
    """True when the q-quantile lies beyond the highest finite bound."""
    return len(histogram.bounds) > 1 and histogram.counts[-2] < q * histogram.counts[-1]


def hit_rate(share: Number) -> Number:
    """A share of hits, at most 1: retried lookups count twice in some releases (vllm#43736, sglang#25972)."""
    return share if isinstance(share, Missing) else min(share, 1.0)


def ratio(numerator: float | None, denominator: float | None) -> Number:
    """A sum over a sum; no traffic gives no ratio."""
    if numerator is None or denominator is None:
        return Missing(Gap.NOT_SUPPORTED)
    return numerator / denominator if denominator > 0 else Missing(Gap.NO_TRAFFIC)
