"""An engine's reading, window and figures as metric families; a figure that is missing is an absent series."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tidegate.expose import engine_families as families
from tidegate.expose.exposition import Exposition
from tidegate.model.figures import MEANS, QUANTILES, TIERS, Figure, basis, saturated
from tidegate.model.reading import (
    Counter,
    EngineReading,
    EngineState,
    Gap,
    Histogram,
    Missing,
    Number,
)
from tidegate.model.snapshot import AgentSnapshot, EngineLabels
from tidegate.model.window import ratio

Labels = Mapping[str, str]


def add_engine(out: Exposition, snapshot: AgentSnapshot, reading: EngineReading) -> None:
    """Add everything that is known of one engine."""
    place = snapshot.engines.get(reading.engine, EngineLabels())
    labels = {
        "engine": str(reading.engine),
        "pool": place.pool,
        "service": place.service,
        "replica": place.replica,
        "traffic": place.traffic.value,
    }
    _about(out, snapshot, reading, labels)
    _figures(out, snapshot, reading, labels)
    _totals(out, reading, labels)
    _workers(out, reading, labels)


def _about(out: Exposition, snapshot: AgentSnapshot, reading: EngineReading, labels: Labels) -> None:
    place = snapshot.engines.get(reading.engine, EngineLabels())
    usable = reading.state is EngineState.READY
    kind = reading.kind.value if reading.kind else ""
    last_success = snapshot.last_success.get(reading.engine, reading.at if usable else None)
    out.add("tidegate_engine_up", labels, float(usable))
    out.add("tidegate_engine_ready", labels, float(reading.ready))
    out.one_of("tidegate_engine_state", labels, "state", EngineState, reading.state)
    out.add("tidegate_engine_info", {**labels, "kind": kind, "model": reading.model or ""}, 1.0)
    out.add("tidegate_engine_gpus", {**labels, "source": place.gpus_source.value}, place.gpus)
    out.add("tidegate_engine_ranks", labels, len({rank for _, rank in reading.counters}) or None)
    out.add("tidegate_engine_start_time_seconds", labels, reading.started)
    out.add("tidegate_engine_problems", labels, len(reading.problems))
    out.add("tidegate_engine_scrape_duration_seconds", labels, reading.duration_seconds)
    out.add("tidegate_engine_last_success_timestamp_seconds", labels, _stamp(last_success))
    window = snapshot.windows.get(reading.engine)
    if window is not None:
        out.add("tidegate_engine_window_seconds", labels, window.seconds)
        out.add("tidegate_engine_window_partial", labels, float(window.partial))
        out.add("tidegate_engine_progressing", labels, float(window.progressing))


def _figures(out: Exposition, snapshot: AgentSnapshot, reading: EngineReading, labels: Labels) -> None:
    known = snapshot.figures.get(reading.engine, {})
    for figure in Figure:
        value = known.get(figure, Missing(Gap.NOT_REPORTED))
        _figure(out, figure, value, labels)
        _remark(out, reading, figure, value)
    for name, value in (
        ("tokens_per_gpu_per_second", tokens_per_gpu_per_second(snapshot, reading)),
        ("retry_rate", retry_rate(snapshot, reading)),
    ):
        out.add(f"tidegate_{name}", labels, value)
        _missing(out, reading, name, value)
    window = snapshot.windows.get(reading.engine)
    if window is not None:
        for figure in sorted(saturated(window)):
            if not isinstance(known.get(figure, Missing(Gap.NOT_REPORTED)), Missing):
                out.add("tidegate_figure_saturated", {"engine": str(reading.engine), "figure": figure.value}, 1.0)


def _figure(out: Exposition, figure: Figure, value: Number, labels: Labels) -> None:
    if figure in families.GAUGES:
        out.add(families.GAUGES[figure].name, labels, value)
    elif figure in families.QUEUES:
        out.add(families.QUEUE.name, {**labels, "queue": families.QUEUES[figure]}, value)
    elif figure in TIERS:
        out.add(families.TIER_HIT_RATE.name, {**labels, "tier": families.TIER_OF[TIERS[figure]]}, value)
    elif figure in MEANS:
        out.add(families.MEANS[MEANS[figure]].name, labels, value)
    elif figure in QUANTILES:
        name, q = QUANTILES[figure]
        out.quantile(families.QUANTILES[name].name, labels, q, value)


def _remark(out: Exposition, reading: EngineReading, figure: Figure, value: Number) -> None:
    _missing(out, reading, figure.value, value)
    counted_in = None if isinstance(value, Missing) else basis(figure, reading)
    if counted_in is not None:
        about = {"engine": str(reading.engine), "figure": figure.value, "basis": counted_in.value}
        out.add("tidegate_figure_basis", about, 1.0)


def _missing(out: Exposition, reading: EngineReading, name: str, value: Number) -> None:
    if isinstance(value, Missing):
        why = {"engine": str(reading.engine), "figure": name, "reason": value.why.value}
        out.add("tidegate_figure_missing", why, 1.0)


def _totals(out: Exposition, reading: EngineReading, labels: Labels) -> None:
    totals: dict[Counter, float] = {}
    for (counter, _), total in reading.counters.items():
        totals[counter] = totals.get(counter, 0.0) + total
    for counter, family in families.COUNTERS.items():
        out.add(family.name, labels, totals.get(counter))
    for counter, tier in families.TIER_OF.items():
        out.add(families.TIER_HITS.name, {**labels, "tier": tier}, totals.get(counter))
    for name, family in families.HISTOGRAMS.items():
        over_ranks = _over_ranks([h for (found, _), h in sorted(reading.histograms.items()) if found is name])
        if over_ranks is not None:
            out.histogram(family.name, labels, over_ranks)


def _workers(out: Exposition, reading: EngineReading, labels: Labels) -> None:
    """A gateway's figures of each worker, whose address stands as the rank."""
    for (name, worker), value in sorted(reading.gauges.items(), key=lambda item: item[0]):
        if name in families.WORKER_GAUGES:
            out.add(families.WORKER_GAUGES[name].name, {**labels, "worker": worker}, value)
    for (counter, worker), total in sorted(reading.counters.items()):
        if counter in families.WORKER_COUNTERS:
            out.add(families.WORKER_COUNTERS[counter].name, {**labels, "worker": worker}, total)


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
    """Retries over finished requests in the window, of a gateway over those that it took in.

    Not supported where nothing counts retries.
    """
    whole = Figure.REQUESTS if reading.kind is not None and reading.kind.is_gateway else Figure.FINISHED
    requests = snapshot.figures.get(reading.engine, {}).get(whole, Missing(Gap.NOT_REPORTED))
    window = snapshot.windows.get(reading.engine)
    if isinstance(requests, Missing):
        return requests
    return ratio(window.increases.get(Counter.RETRIES) if window else None, requests)


def _stamp(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
