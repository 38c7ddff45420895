"""Each pool's figures at one tick: sums over sums, rates from increases, quantiles from summed buckets. Pure.

Tokens per GPU and second are prompt plus generation tokens over the GPUs of the replicas that serve, leaving ones
included: what the pool served for what it held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from tidegate.controller.gather import Gathered
from tidegate.controller.hostview import EngineView, HostView
from tidegate.controller.signals import gpu_indices, gpu_mean
from tidegate.model.decision import Decision
from tidegate.model.fleet import LEAVING_STATES, STARTING_STATES, PoolName, ReplicaState
from tidegate.model.policy import FleetPolicy
from tidegate.model.reading import Counter, Distribution, Gap, Gauge, Histogram, Missing, Number
from tidegate.model.records import PoolFigures, ReplicaRecord
from tidegate.model.window import EngineWindow, gauge, hit_rate, quantile, ratio

_SERVING = LEAVING_STATES | {ReplicaState.READY}
_QUANTILES = (
    ("ttft_p95_seconds", Distribution.TTFT, 0.95),
    ("tpot_p95_seconds", Distribution.TPOT, 0.95),
    ("e2e_p99_seconds", Distribution.E2E, 0.99),
)


@dataclass(frozen=True, slots=True)
class PoolReport:
    """A pool's figures, and for each one that is missing or incomplete, why."""

    figures: PoolFigures
    gaps: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Engine:
    """One serving replica over the view window."""

    gpus: int
    view: EngineView
    utilization: Number


def pool_reports(
    gathered: Gathered,
    decisions: Sequence[Decision],
    policy: FleetPolicy,
    costs: Mapping[PoolName, Decimal | Missing],
    now: datetime,
) -> tuple[PoolReport, ...]:
    """Every pool's report at `now`, in the configuration's order."""
    targets = {decision.pool: decision.target for decision in decisions}
    reports = []
    by_pool: dict[PoolName, list[ReplicaRecord]] = {}
    for record in gathered.records:
        by_pool.setdefault(record.pool, []).append(record)
    for name, pool in policy.pools.items():
        records = by_pool.get(name, [])
        engines = [
            _engine(record, gathered.views[record.host])
            for record in records
            if record.state in _SERVING and record.host in gathered.views
        ]
        numbers, gaps = _numbers(engines)
        numbers["cost_per_million_tokens"] = _cost(costs.get(name, Missing(Gap.NOT_REPORTED)))
        gaps = {key: value.why.value for key, value in numbers.items() if isinstance(value, Missing)} | gaps
        figures = _figures(PoolFigures(now, name, pool.service, *_counts(records), 0), numbers)
        target = targets.get(name, figures.ready + figures.starting)
        gpus = sum(record.gpu_count for record in records if record.state in _SERVING)
        reports.append(PoolReport(replace(figures, target=target, gpus=gpus), gaps))
    return tuple(reports)


def _counts(records: Sequence[ReplicaRecord]) -> tuple[int, int, int]:
    """Ready, starting and leaving replicas."""
    states = [record.state for record in records]
    starting = sum(state in STARTING_STATES for state in states)
    return states.count(ReplicaState.READY), starting, sum(state in LEAVING_STATES for state in states)


def _figures(counted: PoolFigures, numbers: Mapping[str, Number]) -> PoolFigures:
    def known(name: str) -> float | None:
        number = numbers[name]
        return None if isinstance(number, Missing) else number

    return replace(
        counted,
        running=known("running"),
        queue_depth=known("queue_depth"),
        gpu_utilization=known("gpu_utilization"),
        kv_cache_usage=known("kv_cache_usage"),
        kv_cache_hit_rate=known("kv_cache_hit_rate"),
        prompt_tokens_per_second=known("prompt_tokens_per_second"),
        generation_tokens_per_second=known("generation_tokens_per_second"),
        tokens_per_gpu_per_second=known("tokens_per_gpu_per_second"),
        ttft_p95_seconds=known("ttft_p95_seconds"),
        tpot_p95_seconds=known("tpot_p95_seconds"),
        e2e_p99_seconds=known("e2e_p99_seconds"),
        cost_per_million_tokens=known("cost_per_million_tokens"),
    )


def _cost(cost: Decimal | Missing) -> Number:
    return cost if isinstance(cost, Missing) else float(cost)


def _engine(record: ReplicaRecord, view: HostView) -> _Engine:
    seen = view.engine(record)
    if not view.heard or not seen.readings:
        why = view.silence if view.heard and not view.readings else Gap.STALE
        return _Engine(record.gpu_count, EngineView((), Missing(why), why), Missing(why))
    return _Engine(record.gpu_count, seen, gpu_mean(view.readings, gpu_indices(record, view)))


def _numbers(engines: Sequence[_Engine]) -> tuple[dict[str, Number], dict[str, str]]:
    gaps: dict[str, str] = {}
    numbers: dict[str, Number] = {
        "running": _total(engines, Gauge.RUNNING, "running", gaps),
        "queue_depth": _total(engines, Gauge.QUEUE_DEPTH, "queue_depth", gaps),
        "kv_cache_usage": _mean(_gauges(engines, Gauge.KV_CACHE_USAGE), "kv_cache_usage", gaps),
        "gpu_utilization": _mean([engine.utilization for engine in engines], "gpu_utilization", gaps),
        "kv_cache_hit_rate": _hit_rate(engines),
        "prompt_tokens_per_second": _rate(engines, Counter.PROMPT_TOKENS, "prompt_tokens_per_second", gaps),
        "generation_tokens_per_second": _rate(engines, Counter.GENERATION_TOKENS, "generation_tokens_per_second", gaps),
    }
    for name, which, q in _QUANTILES:
        numbers[name] = _quantile(engines, which, q, name, gaps)
    numbers["tokens_per_gpu_per_second"] = _per_gpu(engines, numbers)
    if not engines:
        numbers = dict.fromkeys(numbers, Missing(Gap.NOT_REPORTED))
        gaps |= dict.fromkeys(numbers, "no replica serves")
    return numbers, gaps


def _gauges(engines: Sequence[_Engine], which: Gauge) -> list[Number]:
    return [
        gauge(engine.view.readings[-1], which) if engine.view.gap is None else Missing(engine.view.gap)
        for engine in engines
    ]


def _total(engines: Sequence[_Engine], which: Gauge, name: str, gaps: dict[str, str]) -> Number:
    cells = _gauges(engines, which)
    known = _known(cells, name, gaps)
    return sum(known) if known else _first_gap(cells)


def _mean(cells: Sequence[Number], name: str, gaps: dict[str, str]) -> Number:
    known = _known(cells, name, gaps)
    return sum(known) / len(known) if known else _first_gap(cells)


def _known(cells: Sequence[Number], name: str, gaps: dict[str, str]) -> list[float]:
    known = [cell for cell in cells if isinstance(cell, float)]
    if known and len(known) < len(cells):
        gaps[name] = f"{len(cells) - len(known)} of {len(cells)} replicas missing ({_first_gap(cells).why.value})"
    return known


def _first_gap(cells: Iterable[object]) -> Missing:
    return next((cell for cell in cells if isinstance(cell, Missing)), Missing(Gap.NOT_REPORTED))


def _windows(engines: Sequence[_Engine]) -> list[EngineWindow]:
    return [engine.view.window for engine in engines if isinstance(engine.view.window, EngineWindow)]


def _no_window(engines: Sequence[_Engine]) -> Missing | None:
    """Why not one engine has a window of its counters; None when one has."""
    return None if _windows(engines) else _first_gap([_window(engine) for engine in engines])


def _window(engine: _Engine) -> EngineWindow | Missing:
    """An engine's window, or why it has none: what ails it now says more than that a reading is missing."""
    window, gap = engine.view.window, engine.view.gap
    return Missing(gap) if isinstance(window, Missing) and gap is not None else window


def _hit_rate(engines: Sequence[_Engine]) -> Number:
    """Hits over queries of all engines together."""
    shares = ratio(_increase(engines, Counter.CACHE_HITS), _increase(engines, Counter.CACHE_QUERIES))
    return _no_window(engines) or hit_rate(shares)


def _increase(engines: Sequence[_Engine], counter: Counter) -> float | None:
    found = [window.increases[counter] for window in _windows(engines) if counter in window.increases]
    return sum(found) if found else None


def _rate(engines: Sequence[_Engine], counter: Counter, name: str, gaps: dict[str, str]) -> Number:
    """The sum of each replica's own rate: their windows need not be equally long."""
    cells = [_own_rate(_window(engine), counter) for engine in engines]
    known = _known(cells, name, gaps)
    return sum(known) if known else _first_gap(cells)


def _own_rate(window: EngineWindow | Missing, counter: Counter) -> Number:
    if isinstance(window, Missing):
        return window
    if counter not in window.increases or window.seconds <= 0:
        return Missing(Gap.NOT_REPORTED)
    return window.increases[counter] / window.seconds


def _quantile(engines: Sequence[_Engine], which: Distribution, q: float, name: str, gaps: dict[str, str]) -> Number:
    histograms = [window.distributions[which] for window in _windows(engines) if which in window.distributions]
    if not histograms:
        return _no_window(engines) or Missing(Gap.NOT_SUPPORTED)
    same = [histogram for histogram in histograms if histogram.bounds == histograms[0].bounds]
    if len(same) < len(histograms):
        gaps[name] = f"{len(histograms) - len(same)} of {len(histograms)} replicas left out (other buckets)"
    counts = tuple(sum(column) for column in zip(*(histogram.counts for histogram in same), strict=True))
    summed = Histogram(
        same[0].bounds, counts, sum(histogram.sum for histogram in same), sum(histogram.count for histogram in same)
    )
    return quantile(summed, q)


def _per_gpu(engines: Sequence[_Engine], numbers: Mapping[str, Number]) -> Number:
    rates = [numbers["prompt_tokens_per_second"], numbers["generation_tokens_per_second"]]
    known = [rate for rate in rates if isinstance(rate, float)]
    gpus = sum(engine.gpus for engine in engines)
    if len(known) < len(rates):
        return _first_gap(rates)
    return sum(known) / gpus if gpus else Missing(Gap.NOT_REPORTED)
