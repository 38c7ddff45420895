"""A host reading as a flat list of named series, and back: what a report's layout and vector mean.

Both ends of the wire use this one file, so that what the agent saw is what the controller computes with.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.model.reading import (
    Counter,
    Distribution,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    Gap,
    Gauge,
    GpuReading,
    GpuSurvey,
    GpuUuid,
    Histogram,
    HostName,
    HostReading,
    Missing,
    Number,
    Rank,
)

_STATES = tuple(EngineState)
_GPU_FIELDS = (
    "utilization",
    "memory_used_bytes",
    "memory_total_bytes",
    "memory_reserved_bytes",
    "power_watts",
    "energy_joules",
    "temperature_celsius",
)


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """One series of a report: `scope` is "host", "gpu" or "engine"; `owner` the GPU's uuid or the engine's name."""

    scope: str
    owner: str
    name: str
    rank: str = ""
    le: str = ""
    """The bucket's upper bound as repr(float) or "+Inf"; empty when the series is no bucket."""

    def row(self) -> list[str]:
        """The key as the layout stores it."""
        return [self.scope, self.owner, self.name, self.rank, self.le]


def layout_id(keys: Sequence[SeriesKey]) -> str:
    """A stable name for an ordered list of series: 32 hex digits of its SHA-256."""
    text = json.dumps([key.row() for key in keys], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def flatten(reading: HostReading) -> tuple[tuple[SeriesKey, ...], tuple[Number, ...]]:
    """Every figure of a host reading with its key, in a stable order."""
    pairs: list[tuple[SeriesKey, Number]] = [(SeriesKey("host", "", "nvml_up"), 1.0 if reading.gpus.up else 0.0)]
    for gpu in sorted(reading.gpus.gpus, key=lambda gpu: gpu.uuid):
        pairs.extend(_gpu_pairs(gpu))
    for engine in sorted(reading.engines, key=lambda engine: engine.engine):
        pairs.extend(_engine_pairs(engine))
    return tuple(key for key, _ in pairs), tuple(value for _, value in pairs)


def _gpu_pairs(gpu: GpuReading) -> Iterable[tuple[SeriesKey, Number]]:
    yield SeriesKey("gpu", gpu.uuid, "up"), 1.0 if gpu.up else 0.0
    yield SeriesKey("gpu", gpu.uuid, "index"), float(gpu.index)
    for name in _GPU_FIELDS:
        yield SeriesKey("gpu", gpu.uuid, name), getattr(gpu, name)


def _engine_pairs(reading: EngineReading) -> Iterable[tuple[SeriesKey, Number]]:
    owner = reading.engine
    yield SeriesKey("engine", owner, "state"), float(_STATES.index(reading.state))
    yield SeriesKey("engine", owner, "at"), reading.at.timestamp()
    if reading.started is not None:
        yield SeriesKey("engine", owner, "started"), reading.started
    for (gauge, rank), value in sorted(reading.gauges.items()):
        yield SeriesKey("engine", owner, gauge.value, rank), value
    for (counter, rank), total in sorted(reading.counters.items()):
        yield SeriesKey("engine", owner, counter.value, rank), total
    for (name, rank), histogram in sorted(reading.histograms.items(), key=lambda item: item[0]):
        for bound, count in zip(histogram.bounds, histogram.counts, strict=True):
            yield SeriesKey("engine", owner, f"{name.value}_bucket", rank, _le(bound)), count
        yield SeriesKey("engine", owner, f"{name.value}_sum", rank), histogram.sum
        yield SeriesKey("engine", owner, f"{name.value}_count", rank), histogram.count


def _le(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else repr(bound)


def unflatten(host: HostName, at: datetime, keys: Sequence[SeriesKey], values: Sequence[Number]) -> HostReading:
    """The host reading that `flatten` was given, less words (names, problems, hints, the kind's evidence)."""
    table: dict[tuple[str, str], dict[SeriesKey, Number]] = {}
    for key, value in zip(keys, values, strict=True):
        table.setdefault((key.scope, key.owner), {})[key] = value
    nvml_up = table.get(("host", ""), {}).get(SeriesKey("host", "", "nvml_up")) == 1.0
    gpus = tuple(_gpu(owner, cells) for (scope, owner), cells in table.items() if scope == "gpu")
    engines = tuple(_engine(owner, at, cells) for (scope, owner), cells in table.items() if scope == "engine")
    return HostReading(host, at, GpuSurvey(nvml_up, "", at, gpus=gpus), engines)


def _gpu(uuid: str, cells: Mapping[SeriesKey, Number]) -> GpuReading:
    def cell(name: str) -> Number:
        return cells.get(SeriesKey("gpu", uuid, name), Missing(Gap.NOT_REPORTED))

    index = cell("index")
    return GpuReading(
        GpuUuid(uuid),
        int(index) if isinstance(index, float) else -1,
        "",
        up=cell("up") == 1.0,
        utilization=cell("utilization"),
        memory_used_bytes=cell("memory_used_bytes"),
        memory_total_bytes=cell("memory_total_bytes"),
        memory_reserved_bytes=cell("memory_reserved_bytes"),
        power_watts=cell("power_watts"),
        energy_joules=cell("energy_joules"),
        temperature_celsius=cell("temperature_celsius"),
    )


def _engine(owner: str, at: datetime, cells: Mapping[SeriesKey, Number]) -> EngineReading:
    def cell(name: str) -> Number:
        return cells.get(SeriesKey("engine", owner, name), Missing(Gap.NOT_REPORTED))

    state, read_at, started = cell("state"), cell("at"), cell("started")
    position = int(state) if isinstance(state, float) else -1
    return EngineReading(
        engine=EngineName(owner),
        kind=EngineKind.VLLM,
        state=_STATES[position] if 0 <= position < len(_STATES) else EngineState.FAILED,
        at=datetime.fromtimestamp(read_at, at.tzinfo) if isinstance(read_at, float) else at,
        gauges={(Gauge(k.name), Rank(k.rank)): v for k, v in cells.items() if k.name in set(Gauge)},
        counters={
            (Counter(k.name), Rank(k.rank)): v
            for k, v in cells.items()
            if k.name in set(Counter) and isinstance(v, float)
        },
        histograms=_histograms(cells),
        started=started if isinstance(started, float) else None,
    )


def _histograms(cells: Mapping[SeriesKey, Number]) -> dict[tuple[Distribution, Rank], Histogram]:
    buckets: dict[tuple[Distribution, Rank], list[tuple[float, float]]] = {}
    for key, value in cells.items():
        if key.le and isinstance(value, float):
            name = Distribution(key.name.removesuffix("_bucket"))
            buckets.setdefault((name, Rank(key.rank)), []).append((float(key.le), value))
    owner = next(iter(cells)).owner
    result = {}
    for (name, rank), pairs in buckets.items():
        total = cells.get(SeriesKey("engine", owner, f"{name.value}_sum", rank))
        count = cells.get(SeriesKey("engine", owner, f"{name.value}_count", rank))
        if isinstance(total, float) and isinstance(count, float):
            pairs.sort()
            bounds, counts = zip(*pairs, strict=True)
            result[name, rank] = Histogram(bounds, counts, total, count)
    return result
