"""What each sample of the agents' page stands for: the exposition read backwards, by the tables that it is made from.

A sample becomes the series of a report (model/series.py), so that a reading from a Prometheus and one from a report are
put together by the same code. Not to be had back: words (names, problems), what each rank did alone, which XIDs there
were, the clock events of a GPU, and whose worker is which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tidegate.expose import engine_families as engines
from tidegate.expose import gpu_families as gpus
from tidegate.expose import host_families as hosts
from tidegate.expose.families import FAMILIES
from tidegate.model.figures import Figure
from tidegate.model.gpu import GpuFigure
from tidegate.model.machine import BY_DEVICE, MachineFigure
from tidegate.model.missing import Gap, Missing, Number
from tidegate.model.scrape import Labels
from tidegate.model.series import SeriesKey
from tidegate.model.vocabulary import Basis, Counter, Distribution, EngineKind, EngineState, Gauge, GpuCountSource

SCRAPE = "scrape"
"""The scope of what a scrape says of itself; its names are COLLECTED, SECONDS, HOST and RANKS."""
COLLECTED, SECONDS, HOST, RANKS = "collected", "seconds", "host", "ranks"
ONE_RANK = "0"
AGENT_INFO = "tidegate_agent_info"
"""The family that says which host a target is."""
OWN_LABELS = frozenset({"le", *(label for family in FAMILIES.values() for label in family.labels)})
"""Labels of ours; whatever else a series has, its target was given."""

Reader = Callable[[Labels], "Cell | None"]


@dataclass(frozen=True, slots=True)
class Cell:
    """Where a sample belongs; its value, unless the label says it (then only a sample of 1 counts)."""

    key: SeriesKey
    said: Number | None = None


def cells(name: str, labels: Labels) -> Iterator[Cell]:
    """What a sample of this name and these (our own) labels stands for; nothing for what is not read back."""
    for reader in READERS.get(name, ()):
        cell = reader(labels)
        if cell is not None:
            yield cell


def _of_engine(name: str, rank: str = ONE_RANK) -> Reader:
    return lambda labels: Cell(SeriesKey("engine", labels["engine"], name, rank))


def _of_worker(name: str) -> Reader:
    return lambda labels: Cell(SeriesKey("engine", labels["engine"], name, labels["worker"]))


def _of_scrape(name: str) -> Reader:
    return lambda labels: Cell(SeriesKey(SCRAPE, labels.get("engine", ""), name))


def _labelled(label: str, by_value: Mapping[str, Reader]) -> Reader:
    """A family whose label says which of several series it is."""

    def read(labels: Labels) -> Cell | None:
        reader = by_value.get(labels[label])
        return None if reader is None else reader(labels)

    return read


def _position(name: str, label: str, members: tuple[str, ...]) -> Reader:
    """A family of value 1 whose label names a member of a closed list."""
    places = {member: float(place) for place, member in enumerate(members)}

    def read(labels: Labels) -> Cell | None:
        place = places.get(labels[label])
        return None if place is None else Cell(SeriesKey("engine", labels["engine"], name), place)

    return read


def _bucket(name: Distribution) -> Reader:
    def read(labels: Labels) -> Cell | None:
        try:
            bound = float(labels["le"])
        except ValueError:
            return None
        le = "+Inf" if math.isinf(bound) else repr(bound)
        return (
            None if math.isnan(bound) else Cell(SeriesKey("engine", labels["engine"], f"{name}_bucket", ONE_RANK, le))
        )

    return read


GAUGE_OF: Mapping[Figure, Gauge] = {
    figure: Gauge(figure.value)
    for figure in (*engines.GAUGES, *engines.QUEUES)
    if figure.value in {gauge.value for gauge in Gauge}
}
"""The figures that are a gauge of the engine: the sum over its ranks, or their highest."""


_KNOWN_GAUGES = frozenset(figure.value for figure in GAUGE_OF)
_GAPS = {gap.value: Missing(gap) for gap in Gap}


def _gap(reason: str) -> Missing:
    return _GAPS.get(reason, _GAPS[Gap.NOT_REPORTED.value])


def _engine_gap(labels: Labels) -> Cell | None:
    name, gap = labels["figure"], _gap(labels["reason"])
    if name not in _KNOWN_GAUGES or gap.why is Gap.NOT_SUPPORTED:
        return None
    return Cell(SeriesKey("engine", labels["engine"], name, ONE_RANK), gap)


def _basis(labels: Labels) -> Cell | None:
    if labels["figure"] != Figure.KV_CACHE_USAGE.value:
        return None
    return _position("kv_usage_basis", "basis", tuple(Basis))(labels)


def _gpu_index(labels: Labels) -> Cell | None:
    index = labels["index"]
    return Cell(SeriesKey("gpu", labels["uuid"], "index"), float(index)) if index.isdecimal() else None


def _of_gpu(name: str) -> Reader:
    return lambda labels: Cell(SeriesKey("gpu", labels["uuid"], name, labels.get("gpu_instance", "")))


def _gpu_gap(labels: Labels) -> Cell | None:
    return Cell(SeriesKey("gpu", labels["uuid"], labels["figure"]), _gap(labels["reason"]))


def _of_host(name: str) -> Reader:
    return lambda labels: Cell(SeriesKey("host", "", name, labels.get("device", "")))


def _host_gap(labels: Labels) -> Cell | None:
    figure = labels["figure"]
    whole = figure not in {name.value for name in BY_DEVICE}  # of which device is not said
    return Cell(SeriesKey("host", "", figure), _gap(labels["reason"])) if whole else None


def _about() -> Iterator[tuple[str, Reader]]:
    yield AGENT_INFO, _of_scrape(HOST)
    yield "tidegate_last_collection_timestamp_seconds", _of_scrape(COLLECTED)
    yield "tidegate_collection_duration_seconds", _of_scrape(SECONDS)
    yield "tidegate_engine_ranks", _of_scrape(RANKS)
    yield "tidegate_nvml_up", _of_host("nvml_up")
    yield "tidegate_engine_state", _position("state", "state", tuple(EngineState))
    yield "tidegate_engine_info", _position("kind", "kind", tuple(EngineKind))
    yield "tidegate_engine_gpus", _of_engine("gpus", "")
    yield "tidegate_engine_gpus", _position("gpus_source", "source", tuple(GpuCountSource))
    yield "tidegate_engine_start_time_seconds", _of_engine("started", "")
    yield "tidegate_figure_basis", _basis


def _gauges() -> Iterator[tuple[str, Reader]]:
    for figure, family in engines.GAUGES.items():
        if figure in GAUGE_OF:
            yield family.name, _of_engine(figure.value)
    queues = {queue: _of_engine(figure.value) for figure, queue in engines.QUEUES.items()}
    yield engines.QUEUE.name, _labelled("queue", queues)
    for gauge, family in engines.WORKER_GAUGES.items():
        yield family.name, _of_worker(gauge.value)


def _counters() -> Iterator[tuple[str, Reader]]:
    for counter, family in engines.COUNTERS.items():
        yield family.name, _of_engine(counter.value)
    tiers = {tier: _of_engine(counter.value) for counter, tier in engines.TIER_OF.items()}
    yield engines.TIER_HITS.name, _labelled("tier", tiers)
    for counter, family in engines.WORKER_COUNTERS.items():
        yield family.name, _of_worker(counter.value)


def _histograms() -> Iterator[tuple[str, Reader]]:
    for name, family in engines.HISTOGRAMS.items():
        yield f"{family.name}_bucket", _bucket(name)
        yield f"{family.name}_sum", _of_engine(f"{name}_sum")
        yield f"{family.name}_count", _of_engine(f"{name}_count")


def _devices() -> Iterator[tuple[str, Reader]]:
    yield "tidegate_gpu_up", _of_gpu("up")
    yield "tidegate_gpu_info", _gpu_index
    yield "tidegate_gpu_figure_missing", _gpu_gap
    for figure in gpus.TEXTS:
        if figure is not GpuFigure.CLOCK_EVENTS:
            yield gpus.family_name(figure), _of_gpu(figure.value)
    for figure in gpus.INSTANCE_FIGURES:
        yield gpus.instance_family_name(figure), _of_gpu(figure.value)
    for machine in MachineFigure:
        yield hosts.family_name(machine), _of_host(machine.value)
    yield "tidegate_host_figure_missing", _host_gap


def _collected(*parts: Iterator[tuple[str, Reader]]) -> dict[str, tuple[Reader, ...]]:
    found: dict[str, tuple[Reader, ...]] = {}
    for part in parts:
        for name, reader in part:
            found[name] = (*found.get(name, ()), reader)
    return found


ABOUT = _collected(_about(), _gauges())
COUNTERS = _collected(_counters())
HISTOGRAMS = _collected(_histograms())
DEVICES = _collected(_devices())
MISSING: Mapping[str, tuple[Reader, ...]] = {"tidegate_figure_missing": (_engine_gap,)}
READERS: Mapping[str, tuple[Reader, ...]] = {**ABOUT, **COUNTERS, **HISTOGRAMS, **DEVICES, **MISSING}
"""Every sample's name as it is scraped, with what it stands for."""
LABELS_OF: Mapping[str, tuple[str, ...]] = {
    **{name: FAMILIES[name].labels for name in READERS if name in FAMILIES},
    **{name: (*FAMILIES[name.rpartition("_")[0]].labels, "le") for name in READERS if name not in FAMILIES},
}
"""The labels of ours that a sample of this name has."""
USAGE_COUNTERS = tuple(
    engines.COUNTERS[counter].name
    for counter in (
        Counter.PROMPT_TOKENS,
        Counter.CACHED_PROMPT_TOKENS,
        Counter.GENERATION_TOKENS,
        Counter.CACHE_QUERIES,
        Counter.CACHE_HITS,
    )
)
