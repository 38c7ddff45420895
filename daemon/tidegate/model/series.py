"""A host reading as a flat list of named series, and back: what a report's layout and vector mean.

Both ends of the wire use this one file, so that what the agent saw is what the controller computes with.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from tidegate.model.machine import Machine, MachineFigure
from tidegate.model.reading import (
    Basis,
    Counter,
    Distribution,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    Gap,
    Gauge,
    GpuCountSource,
    GpuFigure,
    GpuInstance,
    GpuReading,
    GpuSurvey,
    GpuUuid,
    Histogram,
    HostName,
    HostReading,
    Missing,
    Number,
    Rank,
    XidEvents,
)

_STATES = tuple(EngineState)
_KINDS = tuple(EngineKind)
_SOURCES = tuple(GpuCountSource)
_BASES = tuple(Basis)
_GAUGES = {gauge.value: gauge for gauge in Gauge}
_COUNTERS = {counter.value: counter for counter in Counter}
_BUCKETS = {f"{name.value}_bucket": name for name in Distribution}
_MACHINE = {figure.value: figure for figure in MachineFigure}
_GPU_FIGURES = {figure.value: figure for figure in GpuFigure}
_SHARED = 4_096
"""Words of one kind that are kept: a few hundred are in use, and a host may send any."""
_XID_EVENTS, _XID_LAST = "xid_events", "xid_last_at"


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
        yield SeriesKey("gpu", gpu.uuid, _XID_EVENTS, str(code)), float(seen.count)
        yield SeriesKey("gpu", gpu.uuid, _XID_LAST, str(code)), seen.last_at.timestamp()


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
    yield "state", _STATES.index(reading.state)
    yield "at", reading.at.timestamp()
    yield "kind", None if reading.kind is None else _KINDS.index(reading.kind)
    yield "started", reading.started
    yield "gpus", reading.gpus
    yield "gpus_source", None if source is None else _SOURCES.index(source)
    yield "kv_usage_basis", None if basis is None else _BASES.index(basis)


def _le(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else repr(bound)


_Cells = Mapping[tuple[str, str, str], Number]
"""The series of one owner by (name, rank, le)."""


def unflatten(host: HostName, at: datetime, keys: Sequence[SeriesKey], values: Sequence[Number]) -> HostReading:
    """The host reading that `flatten` was given, less words (names, problems, hints) and non-finite counters.

    Series of a name that is not known here are passed over: a newer agent's. Raises ValueError when the lengths differ
    or a bucket's bound is no number, never for what a value is.
    """
    table: dict[tuple[str, str], dict[tuple[str, str, str], Number]] = {}
    for key, value in zip(keys, values, strict=True):
        table.setdefault((key.scope, key.owner), {})[key.name, key.rank, key.le] = value
    host_cells = table.get(("host", ""), {})
    nvml_up = host_cells.get(("nvml_up", "", "")) == 1.0
    machine = Machine({(_MACHINE[n], device): value for (n, device, _), value in host_cells.items() if n in _MACHINE})
    gpus = tuple(_gpu(owner, at, cells) for (scope, owner), cells in table.items() if scope == "gpu")
    engines = tuple(_engine(owner, at, cells) for (scope, owner), cells in table.items() if scope == "engine")
    return HostReading(host, at, GpuSurvey(nvml_up, "", at, gpus=gpus), engines, machine)


def _plain(cells: _Cells, name: str) -> Number:
    return cells.get((name, "", ""), Missing(Gap.NOT_REPORTED))


def _position(value: Number, length: int) -> int | None:
    """An index into a closed list, None when it is not one."""
    return int(value) if not isinstance(value, Missing) and 0 <= value < length else None


def _gpu(uuid: str, at: datetime, cells: _Cells) -> GpuReading:
    index = _position(_plain(cells, "index"), 1 << 16)
    figures: dict[str, dict[GpuFigure, Number]] = {"": {}}
    for (name, rank, _), value in cells.items():
        if name in _GPU_FIGURES:
            figures.setdefault(rank, {})[_GPU_FIGURES[name]] = value
    whole = figures.pop("")
    numbers = sorted(int(rank) for rank in figures if _is_number(rank))
    return GpuReading(
        GpuUuid(uuid),
        -1 if index is None else index,
        "",
        up=_plain(cells, "up") == 1.0,
        figures=whole,
        instances=tuple(GpuInstance(number, figures=figures[str(number)]) for number in numbers),
        xids=_xids(at, cells),
    )


def _is_number(text: str) -> bool:
    """True for a whole number as we write it."""
    return text.isascii() and text.isdecimal() and str(int(text)) == text


def _xids(at: datetime, cells: _Cells) -> dict[int, XidEvents]:
    """The XID events whose code and count are numbers."""
    found = {}
    for (name, code, _), count in cells.items():
        if name == _XID_EVENTS and _is_number(code) and not isinstance(count, Missing):
            last = _moment(cells.get((_XID_LAST, code, ""), Missing(Gap.NOT_REPORTED)), at)
            found[int(code)] = XidEvents(int(count), last)
    return found


def _engine(owner: str, at: datetime, cells: _Cells) -> EngineReading:
    kind = _position(_plain(cells, "kind"), len(_KINDS))
    state = _position(_plain(cells, "state"), len(_STATES))
    started = _plain(cells, "started")
    source = _position(_plain(cells, "gpus_source"), len(_SOURCES))
    basis = _position(_plain(cells, "kv_usage_basis"), len(_BASES))
    gauges: dict[tuple[Gauge, Rank], Number] = {}
    counters: dict[tuple[Counter, Rank], float] = {}
    for (name, rank, _), value in cells.items():
        if name in _GAUGES:
            gauges[_gauge(name, rank)] = value
        elif name in _COUNTERS and not isinstance(value, Missing):
            counters[_counter(name, rank)] = value
    return EngineReading(
        engine=EngineName(owner),
        kind=None if kind is None else _KINDS[kind],
        state=EngineState.FAILED if state is None else _STATES[state],
        at=_moment(_plain(cells, "at"), at),
        gauges=gauges,
        counters=counters,
        histograms=_histograms(cells),
        started=None if isinstance(started, Missing) else started,
        gpus=_position(_plain(cells, "gpus"), 1 << 16),
        gpus_source=None if source is None else _SOURCES[source],
        kv_usage_basis=None if basis is None else _BASES[basis],
    )


def _moment(value: Number, otherwise: datetime) -> datetime:
    try:
        return otherwise if isinstance(value, Missing) else datetime.fromtimestamp(value, otherwise.tzinfo)
    except (ValueError, OverflowError, OSError):  # beyond year 9999, or beyond the platform's time
        return otherwise


def _histograms(cells: _Cells) -> dict[tuple[Distribution, Rank], Histogram]:
    """The histograms that are whole: every bucket, the sum and the count are numbers."""
    buckets: dict[tuple[Distribution, Rank], list[tuple[float, Number]]] = {}
    for (name, rank, le), value in cells.items():
        if name in _BUCKETS:
            buckets.setdefault(_histogram(name, rank), []).append((_bound(le), value))
    result: dict[tuple[Distribution, Rank], Histogram] = {}
    for key, pairs in buckets.items():
        name, rank = key
        pairs.sort(key=lambda pair: pair[0])
        numbers = [count for _, count in pairs if not isinstance(count, Missing)]
        total = cells.get((f"{name.value}_sum", rank, ""), Missing(Gap.NOT_REPORTED))
        count = cells.get((f"{name.value}_count", rank, ""), Missing(Gap.NOT_REPORTED))
        if len(numbers) == len(pairs) and not isinstance(total, Missing) and not isinstance(count, Missing):
            result[key] = Histogram(_bounds(*[bound for bound, _ in pairs]), tuple(numbers), total, count)
    return result


# Tens of thousands of readings are held at a time, all with the same few keys and bounds: one copy of each serves them
# all, or the garbage collector has twice as much to look through, and everybody waits while it does.


@lru_cache(_SHARED)
def _gauge(name: str, rank: str) -> tuple[Gauge, Rank]:
    return _GAUGES[name], Rank(rank)


@lru_cache(_SHARED)
def _counter(name: str, rank: str) -> tuple[Counter, Rank]:
    return _COUNTERS[name], Rank(rank)


@lru_cache(_SHARED)
def _histogram(name: str, rank: str) -> tuple[Distribution, Rank]:
    return _BUCKETS[name], Rank(rank)


@lru_cache(_SHARED)
def _bounds(*bounds: float) -> tuple[float, ...]:
    return bounds


@lru_cache(_SHARED)
def _bound(le: str) -> float:
    bound = float(le)
    if math.isnan(bound):
        raise ValueError("a bucket's bound is not a number")
    return bound
