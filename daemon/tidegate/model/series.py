"""A host reading as a flat list of named series: what a report's layout and vector mean (back: `unflatten.py`).

Both ends of the wire use this one file, so that what the agent saw is what the controller computes with.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidegate.model.reading import (
    Basis,
    EngineKind,
    EngineReading,
    EngineState,
    GpuCountSource,
    GpuFigure,
    GpuReading,
    HostReading,
    Number,
)

STATES = tuple(EngineState)
"""What stands for a member of a closed list in a vector is its position."""
KINDS = tuple(EngineKind)
SOURCES = tuple(GpuCountSource)
BASES = tuple(Basis)
XID_EVENTS, XID_LAST = "xid_events", "xid_last_at"


class SeriesKey(NamedTuple):
    """One series of a report: `scope` is "host", "gpu" or "engine"; `owner` the GPU's uuid or the engine's name.

    A tuple, since a fleet has a million of them, which are made, hashed and compared by the interpreter itself.
    `rank` is the engine's; of a GPU's series it is the number of the partition, or the code of the XID.
    """

    scope: str
    owner: str
    name: str
    rank: str = ""
    le: str = ""
    """The bucket's upper bound as repr(float) or "+Inf"; empty when the series is no bucket."""

    def row(self) -> list[str]:
        """The key as the layout stores it."""
        return list(self)


def layout_id(keys: Sequence[SeriesKey]) -> str:
    """A stable name for an ordered list of series: 32 hex digits of its SHA-256."""
    return rows_id([key.row() for key in keys])


def rows_id(rows: Sequence[Sequence[str]]) -> str:
    """The same of series as rows."""
    text = json.dumps(rows, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def flatten(reading: HostReading) -> tuple[tuple[SeriesKey, ...], tuple[Number, ...]]:
    """Every figure of a host reading with its key, in a stable order."""
    pairs: list[tuple[SeriesKey, Number]] = [(SeriesKey("host", "", "nvml_up"), 1.0 if reading.gpus.up else 0.0)]
    for (name, device), value in sorted(reading.machine.figures.items()):
        pairs.append((SeriesKey("host", "", name.value, device), value))
    for gpu in sorted(reading.gpus.gpus, key=lambda gpu: gpu.uuid):
        pairs.extend(_gpu_pairs(gpu))
    for engine in sorted(reading.engines, key=lambda engine: engine.engine):
        pairs.extend(_engine_pairs(engine))
    return tuple(key for key, _ in pairs), tuple(value for _, value in pairs)


def _gpu_pairs(gpu: GpuReading) -> Iterable[tuple[SeriesKey, Number]]:
    yield SeriesKey("gpu", gpu.uuid, "up"), 1.0 if gpu.up else 0.0
    yield SeriesKey("gpu", gpu.uuid, "index"), float(gpu.index)
    for figure in GpuFigure:
        if figure in gpu.figures:
            yield SeriesKey("gpu", gpu.uuid, figure.value), gpu.figures[figure]
    for instance in gpu.instances:
        for figure in GpuFigure:
            if figure in instance.figures:
                yield SeriesKey("gpu", gpu.uuid, figure.value, str(instance.number)), instance.figures[figure]
    for code, seen in sorted(gpu.xids.items()):
        yield SeriesKey("gpu", gpu.uuid, XID_EVENTS, str(code)), float(seen.count)
        yield SeriesKey("gpu", gpu.uuid, XID_LAST, str(code)), seen.last_at.timestamp()


def _engine_pairs(reading: EngineReading) -> Iterable[tuple[SeriesKey, Number]]:
    owner = reading.engine
    for plain, number in _plain_pairs(reading):
        if number is not None:
            yield SeriesKey("engine", owner, plain), float(number)
    for (gauge, rank), value in sorted(reading.gauges.items()):
        yield SeriesKey("engine", owner, gauge.value, rank), value
    for (counter, rank), total in sorted(reading.counters.items()):
        yield SeriesKey("engine", owner, counter.value, rank), total
    for (name, rank), histogram in sorted(reading.histograms.items(), key=lambda item: item[0]):
        for bound, count in zip(histogram.bounds, histogram.counts, strict=True):
            yield SeriesKey("engine", owner, f"{name.value}_bucket", rank, _le(bound)), count
        yield SeriesKey("engine", owner, f"{name.value}_sum", rank), histogram.sum
        yield SeriesKey("engine", owner, f"{name.value}_count", rank), histogram.count


def _plain_pairs(reading: EngineReading) -> Iterable[tuple[str, float | None]]:
    """What an engine has one of; a member of a closed list as its position."""
    source, basis = reading.gpus_source, reading.kv_usage_basis
    yield "state", STATES.index(reading.state)
    yield "at", reading.at.timestamp()
    yield "kind", None if reading.kind is None else KINDS.index(reading.kind)
    yield "started", reading.started
    yield "gpus", reading.gpus
    yield "gpus_source", None if source is None else SOURCES.index(source)
    yield "kv_usage_basis", None if basis is None else BASES.index(basis)


def _le(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else repr(bound)
