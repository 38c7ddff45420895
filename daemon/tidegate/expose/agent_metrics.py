"""The agent's snapshot as metric families, rendered at scrape time; a figure that is missing is an absent series."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from prometheus_client.core import Metric

from tidegate.expose.exposition import Exposition, render
from tidegate.expose.families import Role
from tidegate.expose.gpu_metrics import add_gpus
from tidegate.model.figures import Figure
from tidegate.model.fleet import ReplicaState
from tidegate.model.reading import (
    Counter,
    Distribution,
    EngineReading,
    EngineState,
    Gap,
    Histogram,
    Missing,
    Number,
)
from tidegate.model.snapshot import AgentSnapshot, EngineLabels
from tidegate.model.window import ratio

__all__ = ["AgentCollector", "render", "retry_rate", "tokens_per_gpu_per_second"]

_GAUGES = {
    Figure.QUEUE_DEPTH: "tidegate_queue_depth",
    Figure.RUNNING: "tidegate_running_requests",
    Figure.KV_CACHE_USAGE: "tidegate_kv_cache_usage",
    Figure.KV_CACHE_HIT_RATE: "tidegate_kv_cache_hit_rate",
    Figure.PROMPT_TOKENS_PER_SECOND: "tidegate_prompt_tokens_per_second",
    Figure.CACHED_TOKENS_PER_SECOND: "tidegate_cached_tokens_per_second",
    Figure.GENERATION_TOKENS_PER_SECOND: "tidegate_generation_tokens_per_second",
}
_STEMS = {
    Distribution.TTFT: "tidegate_ttft",
    Distribution.ITL: "tidegate_itl",
    Distribution.TPOT: "tidegate_tpot",
    Distribution.E2E: "tidegate_e2e_latency",
    Distribution.QUEUE_TIME: "tidegate_queue_time",
}
_QUANTILES = {
    Figure(f"{name.value}_p{percent}"): (f"{stem}_window_seconds", percent / 100)
    for name, stem in _STEMS.items()
    for percent in (50, 95, 99)
}
_COUNTERS = {
    Counter.PROMPT_TOKENS: "tidegate_prompt_tokens_total",
    Counter.CACHED_PROMPT_TOKENS: "tidegate_cached_prompt_tokens_total",
    Counter.GENERATION_TOKENS: "tidegate_generation_tokens_total",
    Counter.CACHE_QUERIES: "tidegate_kv_cache_queries_total",
    Counter.CACHE_HITS: "tidegate_kv_cache_hits_total",
    Counter.PREEMPTIONS: "tidegate_preemptions_total",
    Counter.FINISHED: "tidegate_finished_requests_total",
    Counter.ABORTED: "tidegate_aborted_requests_total",
    Counter.ERRORS: "tidegate_request_errors_total",
    Counter.RETRIES: "tidegate_request_retries_total",
    Counter.STEPS: "tidegate_engine_steps_total",
}


class AgentCollector:
    """Yields the families of the latest snapshot.

    A snapshot that is no longer `fresh` yields only what the agent knows of itself: old figures are never served as
    live ones.
    """

    def __init__(
        self,
        snapshot: Callable[[], AgentSnapshot | None],
        fresh: Callable[[AgentSnapshot], bool] = lambda _: True,
    ) -> None:
        self._snapshot = snapshot
        self._fresh = fresh

    def collect(self) -> Iterable[Metric]:
        """The families; none before the first collection."""
        out = Exposition(Role.AGENT)
        snapshot = self._snapshot()
        if snapshot is not None:
            _agent(out, snapshot)
            if self._fresh(snapshot):
                add_gpus(out, snapshot.reading.gpus)
                for reading in snapshot.reading.engines:
                    _engine(out, snapshot, reading)
        return out.metrics()


def _agent(out: Exposition, snapshot: AgentSnapshot) -> None:
    out.add("tidegate_build_info", {"version": snapshot.version}, 1.0)
    out.add("tidegate_config_last_reload_successful", {}, float(snapshot.config_reload_ok))
    out.add("tidegate_config_last_reload_success_timestamp_seconds", {}, _stamp(snapshot.config_loaded_at))
    out.add("tidegate_collections_total", {}, snapshot.collections)
    out.add("tidegate_collection_duration_seconds", {}, snapshot.collect_seconds)
    out.add("tidegate_last_collection_timestamp_seconds", {}, _stamp(snapshot.collected_at))
    spool, link = snapshot.spool, snapshot.link
    out.add("tidegate_spool_reports", {}, spool.reports)
    out.add("tidegate_spool_bytes", {}, spool.size_bytes)
    out.add("tidegate_spool_dropped_total", {}, spool.dropped)
    if spool.oldest_at is not None:
        age = (snapshot.collected_at - spool.oldest_at).total_seconds()
        out.add("tidegate_spool_oldest_age_seconds", {}, max(0.0, age))
    if link.configured:
        out.add("tidegate_link_failures_total", {}, link.failures)
        out.add("tidegate_link_last_success_timestamp_seconds", {}, _stamp(link.last_success))
    for source, found in snapshot.sources.items():
        out.add("tidegate_discovery_up", {"source": source.value}, float(found.ok))
        out.add("tidegate_discovered_engines", {"source": source.value}, found.engines)
    for replica, state in sorted(snapshot.replicas.items()):
        out.one_of("tidegate_replica_state", {"replica": replica}, "state", ReplicaState, state)


def _engine(out: Exposition, snapshot: AgentSnapshot, reading: EngineReading) -> None:
    place = snapshot.engines.get(reading.engine, EngineLabels())
    labels = {
        "engine": str(reading.engine),
        "pool": place.pool,
        "service": place.service,
        "replica": place.replica,
        "traffic": place.traffic.value,
    }
    ready = reading.state is EngineState.READY
    kind = reading.kind.value if reading.kind else ""
    last_success = snapshot.last_success.get(reading.engine, reading.at if ready else None)
    out.add("tidegate_engine_up", labels, float(ready))
    out.one_of("tidegate_engine_state", labels, "state", EngineState, reading.state)
    out.add("tidegate_engine_info", {**labels, "kind": kind, "model": reading.model or ""}, 1.0)
    out.add("tidegate_engine_gpus", {**labels, "source": place.gpus_source.value}, place.gpus)
    out.add("tidegate_engine_problems", labels, len(reading.problems))
    out.add("tidegate_engine_scrape_duration_seconds", labels, reading.duration_seconds)
    out.add("tidegate_engine_last_success_timestamp_seconds", labels, _stamp(last_success))
    window = snapshot.windows.get(reading.engine)
    if window is not None:
        out.add("tidegate_engine_window_seconds", labels, window.seconds)
        out.add("tidegate_engine_window_partial", labels, float(window.partial))
    _figures(out, snapshot, reading, labels)
    _totals(out, reading, labels)


def _figures(out: Exposition, snapshot: AgentSnapshot, reading: EngineReading, labels: Mapping[str, str]) -> None:
    known = snapshot.figures.get(reading.engine, {})
    values: dict[str, Number] = {}
    for figure in Figure:
        value = values[figure.value] = known.get(figure, Missing(Gap.NOT_REPORTED))
        if figure in _GAUGES:
            out.add(_GAUGES[figure], labels, value)
        elif figure in _QUANTILES:
            family, q = _QUANTILES[figure]
            out.quantile(family, labels, q, value)
    for name, value in (
        ("tokens_per_gpu_per_second", tokens_per_gpu_per_second(snapshot, reading)),
        ("retry_rate", retry_rate(snapshot, reading)),
    ):
        values[name] = value
        out.add(f"tidegate_{name}", labels, value)
    for name, value in values.items():
        if isinstance(value, Missing):
            why = {"engine": str(reading.engine), "figure": name, "reason": value.why.value}
            out.add("tidegate_figure_missing", why, 1.0)


def _totals(out: Exposition, reading: EngineReading, labels: Mapping[str, str]) -> None:
    for counter, family in _COUNTERS.items():
        ranks = [total for (found, _), total in reading.counters.items() if found is counter]
        out.add(family, labels, sum(ranks) if ranks else None)
    for name, stem in _STEMS.items():
        over_ranks = _over_ranks([h for (found, _), h in sorted(reading.histograms.items()) if found is name])
        if over_ranks is not None:
            out.histogram(f"{stem}_seconds", labels, over_ranks)


def _over_ranks(ranks: list[Histogram]) -> Histogram | None:
    """The sum over the ranks that share the first one's bounds: counts of unlike buckets have no sum."""
    alike = [histogram for histogram in ranks if histogram.bounds == ranks[0].bounds]
    if not alike:
        return None
    counts = tuple(map(sum, zip(*(histogram.counts for histogram in alike), strict=True)))
    return Histogram(alike[0].bounds, counts, sum(h.sum for h in alike), sum(h.count for h in alike))


def tokens_per_gpu_per_second(snapshot: AgentSnapshot, reading: EngineReading) -> Number:
    """Prompt (cached ones included) and generated tokens per second, over the GPUs that the engine holds."""
    known = snapshot.figures.get(reading.engine, {})
    total = 0.0
    for figure in (Figure.PROMPT_TOKENS_PER_SECOND, Figure.GENERATION_TOKENS_PER_SECOND):
        value = known.get(figure, Missing(Gap.NOT_REPORTED))
        if isinstance(value, Missing):
            return value
        total += value
    gpus = snapshot.engines.get(reading.engine, EngineLabels()).gpus
    return total / gpus if gpus > 0 else Missing(Gap.NOT_SUPPORTED)


def retry_rate(snapshot: AgentSnapshot, reading: EngineReading) -> Number:
    """Retries over finished requests in the window; not supported where nothing counts retries."""
    finished = snapshot.figures.get(reading.engine, {}).get(Figure.FINISHED, Missing(Gap.NOT_REPORTED))
    window = snapshot.windows.get(reading.engine)
    if isinstance(finished, Missing):
        return finished
    return ratio(window.increases.get(Counter.RETRIES) if window else None, finished)


def _stamp(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
