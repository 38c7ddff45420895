"""The normalized figures of an engine: each a rule over its newest reading and the window of increases before it.

A figure is a number or says why it is none. What a share counts (`basis`), and a quantile that lies beyond the last
finite bucket (`saturated`), are told beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.model.reading import Basis, Counter, Distribution, EngineReading, Gap, Gauge, Histogram, Missing, Number
from tidegate.model.window import (
    EngineWindow,
    engine_window,
    gauge,
    gauge_mean,
    hit_rate,
    imbalance,
    is_saturated,
    quantile,
    ratio,
    state_gap,
)


class Figure(StrEnum):
    """The figures, by the names that `tidegate engine read --json` prints."""

    QUEUE_DEPTH = "queue_depth"
    RUNNING = "running"
    PREFILL_BOOTSTRAP_QUEUE = "prefill_bootstrap_queue"
    PREFILL_INFLIGHT_QUEUE = "prefill_inflight_queue"
    DECODE_PREALLOC_QUEUE = "decode_prealloc_queue"
    DECODE_TRANSFER_QUEUE = "decode_transfer_queue"
    DECODE_RECEIVE_QUEUE = "decode_receive_queue"
    GRAMMAR_QUEUE = "grammar_queue"
    WAITING_DEFERRED = "waiting_deferred"
    GATEWAY_QUEUE = "gateway_queue"
    HELD = "held"
    WORKERS = "workers"
    WORKERS_UP = "workers_up"
    SLEEP_LEVEL = "sleep_level"
    KV_CACHE_USAGE = "kv_cache_usage"
    KV_CACHE_USAGE_MEAN = "kv_cache_usage_mean"
    RANK_IMBALANCE = "rank_imbalance"
    KV_CACHE_HIT_RATE = "kv_cache_hit_rate"
    KV_CACHE_HIT_RATE_DEVICE = "kv_cache_hit_rate_device"
    KV_CACHE_HIT_RATE_HOST = "kv_cache_hit_rate_host"
    KV_CACHE_HIT_RATE_DISK = "kv_cache_hit_rate_disk"
    KV_CACHE_HIT_RATE_EXTERNAL = "kv_cache_hit_rate_external"
    PROMPT_TOKENS_PER_SECOND = "prompt_tokens_per_second"
    CACHED_TOKENS_PER_SECOND = "cached_tokens_per_second"
    COMPUTED_TOKENS_PER_SECOND = "computed_tokens_per_second"
    GENERATION_TOKENS_PER_SECOND = "generation_tokens_per_second"
    REQUESTS = "requests"
    FINISHED = "finished"
    ABORTED = "aborted"
    ERRORS = "errors"
    HTTP_ERRORS = "http_errors"
    ADMISSION_REJECTIONS = "admission_rejections"
    PREEMPTIONS = "preemptions"
    RETRIES = "retries"
    KV_TRANSFERS = "kv_transfers"
    KV_TRANSFER_FAILURES = "kv_transfer_failures"
    TTFT_MEAN = "ttft_mean"
    TTFT_P50 = "ttft_p50"
    TTFT_P90 = "ttft_p90"
    TTFT_P95 = "ttft_p95"
    TTFT_P99 = "ttft_p99"
    ITL_MEAN = "itl_mean"
    ITL_P50 = "itl_p50"
    ITL_P90 = "itl_p90"
    ITL_P95 = "itl_p95"
    ITL_P99 = "itl_p99"
    TPOT_MEAN = "tpot_mean"
    TPOT_P50 = "tpot_p50"
    TPOT_P90 = "tpot_p90"
    TPOT_P95 = "tpot_p95"
    TPOT_P99 = "tpot_p99"
    E2E_MEAN = "e2e_mean"
    E2E_P50 = "e2e_p50"
    E2E_P90 = "e2e_p90"
    E2E_P95 = "e2e_p95"
    E2E_P99 = "e2e_p99"
    QUEUE_TIME_MEAN = "queue_time_mean"
    QUEUE_TIME_P50 = "queue_time_p50"
    QUEUE_TIME_P90 = "queue_time_p90"
    QUEUE_TIME_P95 = "queue_time_p95"
    QUEUE_TIME_P99 = "queue_time_p99"


QUANTILES: Mapping[Figure, tuple[Distribution, float]] = {
    Figure(f"{name.value}_p{percent}"): (name, percent / 100) for name in Distribution for percent in (50, 90, 95, 99)
}
MEANS: Mapping[Figure, Distribution] = {Figure(f"{name.value}_mean"): name for name in Distribution}
TIERS: Mapping[Figure, Counter] = {
    Figure.KV_CACHE_HIT_RATE_DEVICE: Counter.CACHE_HITS_DEVICE,
    Figure.KV_CACHE_HIT_RATE_HOST: Counter.CACHE_HITS_HOST,
    Figure.KV_CACHE_HIT_RATE_DISK: Counter.CACHE_HITS_DISK,
    Figure.KV_CACHE_HIT_RATE_EXTERNAL: Counter.CACHE_HITS_EXTERNAL,
}
"""Shares of the same lookups, so that they add up: hot, warm and cold."""


_IN_FRONT = frozenset({Gauge.HELD, Gauge.GATEWAY_QUEUE, Gauge.WORKERS, Gauge.WORKERS_UP})
"""What is kept by whoever stands in front of the core: it does not freeze with it."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The newest reading, and the window that ends with it."""

    reading: EngineReading
    window: EngineWindow | Missing
    counters: frozenset[Counter]
    distributions: frozenset[Distribution]
    """What the newest reading has, whatever there is to compare it with."""

    def gauge(self, name: Gauge, over_ranks: Callable[[EngineReading, Gauge], Number] = gauge) -> Number:
        value = over_ranks(self.reading, name)
        stands_still = isinstance(self.window, EngineWindow) and not self.window.progressing
        if stands_still and name not in _IN_FRONT and value != Missing(Gap.NOT_SUPPORTED):
            return Missing(Gap.STALE)
        return value

    def increase(self, counter: Counter) -> Number:
        if counter not in self.counters:
            return Missing(Gap.NOT_SUPPORTED)
        if isinstance(self.window, Missing):
            return self.window
        return self.window.increases.get(counter, self._unknown(self.window))

    def distribution(self, name: Distribution) -> Histogram | Missing:
        if name not in self.distributions:
            return Missing(Gap.NOT_SUPPORTED)
        if isinstance(self.window, Missing):
            return self.window
        return self.window.distributions.get(name, self._unknown(self.window))

    def rate(self, counter: Counter) -> Number:
        increase = self.increase(counter)
        if isinstance(increase, Missing) or isinstance(self.window, Missing):
            return increase
        return increase / self.window.seconds if self.window.seconds > 0 else self._unknown(self.window)

    def share(self, part: Counter, whole: Counter) -> Number:
        numerator, denominator = self.increase(part), self.increase(whole)
        if isinstance(numerator, Missing):
            return numerator
        return denominator if isinstance(denominator, Missing) else ratio(numerator, denominator)

    @staticmethod
    def _unknown(window: EngineWindow) -> Missing:
        """The newest reading has the series; without an increase there was nothing to compare it with."""
        return Missing(Gap.RESET if window.partial else Gap.ONE_SCRAPE)


_Rule = Callable[[_Look], Number]


def _hit_rate(look: _Look) -> Number:
    match basis(Figure.KV_CACHE_HIT_RATE, look.reading):
        case Basis.TOKENS:
            return hit_rate(look.share(Counter.CACHE_HITS, Counter.CACHE_QUERIES))
        case Basis.BLOCKS:
            return hit_rate(look.share(Counter.CACHE_BLOCK_HITS, Counter.CACHE_BLOCK_QUERIES))
        case _:
            return look.gauge(Gauge.CACHE_HIT_RATE, _of_one_rank)


def _of_one_rank(reading: EngineReading, name: Gauge) -> Number:
    """A share without its parts: those of several ranks have no sum and no mean."""
    ranks = sum(found is name for found, _ in reading.gauges)
    return gauge(reading, name) if ranks == 1 else Missing(Gap.NOT_SUPPORTED)


def _tpot_mean(look: _Look) -> Number:
    """Seconds of decode over the tokens that they made where both are counted: true with several tokens a step too."""
    exact = look.share(Counter.DECODE_SECONDS, Counter.DECODE_TOKENS)
    return _mean(look, Distribution.TPOT) if exact == Missing(Gap.NOT_SUPPORTED) else exact


def _mean(look: _Look, name: Distribution) -> Number:
    histogram = look.distribution(name)
    return histogram if isinstance(histogram, Missing) else ratio(histogram.sum, histogram.count)


def _quantile(look: _Look, name: Distribution, q: float) -> Number:
    histogram = look.distribution(name)
    return histogram if isinstance(histogram, Missing) else quantile(histogram, q)


def _imbalance(look: _Look) -> Number:
    ranks = sum(counter is Counter.GENERATION_TOKENS for counter, _ in look.reading.counters)
    if ranks < 2:
        return Missing(Gap.NOT_SUPPORTED)
    return look.window if isinstance(look.window, Missing) else imbalance(look.window)


def _gauge_rule(name: Gauge) -> _Rule:
    return lambda look: look.gauge(name)


def _rate_rule(counter: Counter) -> _Rule:
    return lambda look: look.rate(counter)


def _count_rule(counter: Counter) -> _Rule:
    return lambda look: look.increase(counter)


def _tier_rule(counter: Counter) -> _Rule:
    return lambda look: hit_rate(look.share(counter, Counter.CACHE_QUERIES))


def _mean_rule(name: Distribution) -> _Rule:
    return lambda look: _mean(look, name)


def _quantile_rule(name: Distribution, q: float) -> _Rule:
    return lambda look: _quantile(look, name, q)


_NAMED_GAUGES = {gauge.value: gauge for gauge in Gauge}
_NAMED_COUNTERS = {counter.value: counter for counter in Counter}
_RULES: Mapping[Figure, _Rule] = {
    **{figure: _gauge_rule(_NAMED_GAUGES[figure.value]) for figure in Figure if figure.value in _NAMED_GAUGES},
    **{figure: _count_rule(_NAMED_COUNTERS[figure.value]) for figure in Figure if figure.value in _NAMED_COUNTERS},
    **{figure: _tier_rule(counter) for figure, counter in TIERS.items()},
    **{figure: _mean_rule(name) for figure, name in MEANS.items()},
    **{figure: _quantile_rule(name, q) for figure, (name, q) in QUANTILES.items()},
    Figure.PROMPT_TOKENS_PER_SECOND: _rate_rule(Counter.PROMPT_TOKENS),
    Figure.CACHED_TOKENS_PER_SECOND: _rate_rule(Counter.CACHED_PROMPT_TOKENS),
    Figure.COMPUTED_TOKENS_PER_SECOND: _rate_rule(Counter.COMPUTED_PROMPT_TOKENS),
    Figure.GENERATION_TOKENS_PER_SECOND: _rate_rule(Counter.GENERATION_TOKENS),
    Figure.KV_CACHE_USAGE_MEAN: lambda look: look.gauge(Gauge.KV_CACHE_USAGE, gauge_mean),
    Figure.KV_CACHE_HIT_RATE: _hit_rate,
    Figure.RANK_IMBALANCE: _imbalance,
    Figure.TPOT_MEAN: _tpot_mean,
}
"""A figure that is called like a gauge or a counter is that gauge, or that counter's increase."""


def figures(readings: Sequence[EngineReading], window: EngineWindow | Missing | None = None) -> dict[Figure, Number]:
    """Every figure over readings in time order; gauges are those of the last one.

    `window` is that of the same readings, where the caller has it already.
    """
    last = readings[-1]
    gap = state_gap(last.state)
    if gap is not None:
        return dict.fromkeys(Figure, Missing(gap))
    look = _Look(
        last,
        engine_window(readings) if window is None else window,
        frozenset(counter for counter, _ in last.counters),
        frozenset(name for name, _ in last.histograms),
    )
    return {figure: _RULES[figure](look) for figure in Figure}


def basis(figure: Figure, reading: EngineReading) -> Basis | None:
    """What a share counts in this engine; None for a figure that is no share."""
    if figure in TIERS:
        return Basis.TOKENS
    if figure in (Figure.KV_CACHE_USAGE, Figure.KV_CACHE_USAGE_MEAN):
        return reading.kv_usage_basis
    if figure is not Figure.KV_CACHE_HIT_RATE:
        return None
    counters = {counter for counter, _ in reading.counters}
    if {Counter.CACHE_QUERIES, Counter.CACHE_HITS} <= counters:
        return Basis.TOKENS
    if {Counter.CACHE_BLOCK_QUERIES, Counter.CACHE_BLOCK_HITS} <= counters:
        return Basis.BLOCKS
    return Basis.LIFETIME if any(name is Gauge.CACHE_HIT_RATE for name, _ in reading.gauges) else None


def saturated(window: EngineWindow) -> frozenset[Figure]:
    """The quantiles that lie beyond the last finite bucket: the figure is that bucket's bound, the truth is above."""
    return frozenset(
        figure
        for figure, (name, q) in QUANTILES.items()
        if name in window.distributions and is_saturated(window.distributions[name], q)
    )
