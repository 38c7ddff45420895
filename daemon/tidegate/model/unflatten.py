"""A host reading out of a report's vector: what its layout means is worked out once, and each vector is picked apart.

A host sends the same layout for weeks. So a layout becomes a `Reader`, which knows the place of every figure; of a
vector it takes slices and makes dictionaries of them in the interpreter's own loops, seven times as fast as by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Generic, TypeVar

from tidegate.model.machine import Machine, MachineFigure
from tidegate.model.reading import (
    Counter,
    Distribution,
    EngineName,
    EngineReading,
    EngineState,
    Gap,
    Gauge,
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
from tidegate.model.series import BASES, KINDS, SOURCES, STATES, XID_EVENTS, XID_LAST, SeriesKey

_GAUGES = {gauge.value: gauge for gauge in Gauge}
_COUNTERS = {counter.value: counter for counter in Counter}
_BUCKETS = {f"{name.value}_bucket": name for name in Distribution}
_MACHINE = {figure.value: figure for figure in MachineFigure}
_GPU_FIGURES = {figure.value: figure for figure in GpuFigure}
_SHARED = 4_096
"""Words of one kind that are kept: a few hundred are in use, and a host may send any."""
_NOT_REPORTED = Missing(Gap.NOT_REPORTED)

_Cells = Mapping[tuple[str, str, str], int]
"""The places of one owner's series by (name, rank, le)."""
_Values = tuple[Number, ...]
_Word = TypeVar("_Word")


class Reader:
    """Reads the vectors of one layout."""

    __slots__ = ("_engines", "_gpus", "_machine", "_nvml_up", "keys")

    def __init__(self, keys: Sequence[SeriesKey]) -> None:
        """Raises ValueError when a bucket's bound is no number. Series of an unknown name are passed over."""
        self.keys = tuple(keys)
        table: dict[tuple[str, str], dict[tuple[str, str, str], int]] = {}
        for place, (scope, owner, *cell) in enumerate(self.keys):
            table.setdefault((scope, owner), {})[cell[0], cell[1], cell[2]] = place
        host = table.get(("host", ""), {})
        self._nvml_up = _place(host, "nvml_up")
        self._machine = _Row(((_MACHINE[name], rank), at) for (name, rank, _), at in host.items() if name in _MACHINE)
        self._gpus = [_Gpu.of(owner, cells) for (scope, owner), cells in table.items() if scope == "gpu"]
        self._engines = [_Engine.of(owner, cells) for (scope, owner), cells in table.items() if scope == "engine"]

    def read(self, host: HostName, at: datetime, vector: Sequence[Number]) -> HostReading:
        """The reading that `flatten` was given, less words (names, problems, hints) and non-finite counters.

        Raises ValueError when the vector is not as long as the layout, never for what a value is.
        """
        values = tuple(vector)
        if len(values) != len(self.keys):
            raise ValueError(f"{len(values)} values for {len(self.keys)} series are not as many")
        gpus = tuple(gpu.read(at, values) for gpu in self._gpus)
        engines = tuple(engine.read(at, values) for engine in self._engines)
        survey = GpuSurvey(_plain(values, self._nvml_up) == 1.0, "", at, gpus=gpus)
        return HostReading(host, at, survey, engines, Machine(self._machine.read(values)))


def check(keys: Iterable[SeriesKey]) -> None:
    """Raise ValueError, as `Reader` does, when no vector of this layout can be read; a fraction of its work."""
    for key in keys:
        if key.scope == "engine" and key.name in _BUCKETS:
            _bound(key.le)


def unflatten(host: HostName, at: datetime, keys: Sequence[SeriesKey], values: Sequence[Number]) -> HostReading:
    """One reading of a layout that is not met again; raises ValueError as `Reader` and its `read` do."""
    return Reader(keys).read(host, at, values)


class _Row(Generic[_Word]):
    """Some figures by their names, and where they stand: a slice where they lie together, as they do mostly."""

    __slots__ = ("_pick", "names")

    def __init__(self, found: Iterable[tuple[_Word, int]]) -> None:
        places = dict(found)  # of two series of one figure the last counts
        self.names = tuple(places)
        self._pick = _picker(tuple(places.values()))

    def read(self, values: _Values) -> dict[_Word, Number]:
        return dict(zip(self.names, self._pick(values), strict=True))

    def numbers(self, values: _Values) -> dict[_Word, float]:
        """Those that are not missing."""
        return {
            name: value
            for name, value in zip(self.names, self._pick(values), strict=True)
            if not isinstance(value, Missing)
        }


def _picker(places: Sequence[int]) -> Callable[[_Values], _Values]:
    first = places[0] if places else 0
    if tuple(places) == tuple(range(first, first + len(places))):
        return itemgetter(slice(first, first + len(places)))
    return itemgetter(*places)


@dataclass(frozen=True, slots=True)
class _Gpu:
    """Where the series of a GPU stand."""

    uuid: GpuUuid
    index: int | None
    up: int | None
    whole: _Row[GpuFigure]
    instances: Sequence[tuple[int, _Row[GpuFigure]]]
    xids: Sequence[tuple[int, int, int | None]]
    """Code, place of the count, place of the moment."""

    @classmethod
    def of(cls, uuid: str, cells: _Cells) -> _Gpu:
        by_rank: dict[str, list[tuple[GpuFigure, int]]] = {"": []}
        for (name, rank, _), place in cells.items():
            if name in _GPU_FIGURES:
                by_rank.setdefault(rank, []).append((_GPU_FIGURES[name], place))
        whole = _Row(by_rank.pop(""))
        numbers = sorted(int(rank) for rank in by_rank if _is_number(rank))
        xids = [
            (int(code), place, cells.get((XID_LAST, code, "")))
            for (name, code, _), place in cells.items()
            if name == XID_EVENTS and _is_number(code)
        ]
        instances = [(number, _Row(by_rank[str(number)])) for number in numbers]
        return cls(GpuUuid(uuid), _place(cells, "index"), _place(cells, "up"), whole, instances, xids)

    def read(self, at: datetime, values: _Values) -> GpuReading:
        index = _position(_plain(values, self.index), 1 << 16)
        found: dict[int, XidEvents] = {}
        for code, place, last in self.xids:
            count = values[place]
            if not isinstance(count, Missing):
                found[code] = XidEvents(int(count), _moment(_plain(values, last), at))
        return GpuReading(
            self.uuid,
            -1 if index is None else index,
            "",
            up=_plain(values, self.up) == 1.0,
            figures=self.whole.read(values),
            instances=tuple([GpuInstance(number, figures=row.read(values)) for number, row in self.instances]),
            xids=found,
        )


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Where a histogram stands."""

    key: tuple[Distribution, Rank]
    bounds: tuple[float, ...]
    pick: Callable[[_Values], _Values]
    """The counts, then sum and count."""

    def read(self, values: _Values) -> Histogram | None:
        """None when it is not whole: every bucket, the sum and the count have to be numbers."""
        numbers = _all_numbers(self.pick(values))
        return None if numbers is None else Histogram(self.bounds, numbers[:-2], numbers[-2], numbers[-1])


@dataclass(frozen=True, slots=True)
class _Engine:
    """Where the series of an engine stand."""

    name: EngineName
    plain: Mapping[str, int]
    gauges: _Row[tuple[Gauge, Rank]]
    counters: _Row[tuple[Counter, Rank]]
    histograms: Sequence[_Buckets]

    @classmethod
    def of(cls, name: str, cells: _Cells) -> _Engine:
        gauges, counters = [], []
        for (word, rank, _), place in cells.items():
            if word in _GAUGES:
                gauges.append((_gauge(word, rank), place))
            elif word in _COUNTERS:
                counters.append((_counter(word, rank), place))
        plain = {word: place for (word, rank, le), place in cells.items() if not rank and not le}
        return cls(EngineName(name), plain, _Row(gauges), _Row(counters), _histograms(cells))

    def read(self, at: datetime, values: _Values) -> EngineReading:
        def plain(name: str) -> Number:
            return _plain(values, self.plain.get(name))

        kind, state = _position(plain("kind"), len(KINDS)), _position(plain("state"), len(STATES))
        source, basis = _position(plain("gpus_source"), len(SOURCES)), _position(plain("kv_usage_basis"), len(BASES))
        started = plain("started")
        found = [(buckets.key, buckets.read(values)) for buckets in self.histograms]
        return EngineReading(
            engine=self.name,
            kind=None if kind is None else KINDS[kind],
            state=EngineState.FAILED if state is None else STATES[state],
            at=_moment(plain("at"), at),
            gauges=self.gauges.read(values),
            counters=self.counters.numbers(values),
            histograms={key: histogram for key, histogram in found if histogram is not None},
            started=None if isinstance(started, Missing) else started,
            gpus=_position(plain("gpus"), 1 << 16),
            gpus_source=None if source is None else SOURCES[source],
            kv_usage_basis=None if basis is None else BASES[basis],
        )


def _histograms(cells: _Cells) -> list[_Buckets]:
    """Those that have a sum and a count beside their buckets."""
    found: dict[tuple[Distribution, Rank], list[tuple[float, int]]] = {}
    for (name, rank, le), place in cells.items():
        if name in _BUCKETS:
            found.setdefault(_histogram(name, rank), []).append((_bound(le), place))
    whole = []
    for key, pairs in found.items():
        name, rank = key
        pairs.sort(key=itemgetter(0))
        ends = cells.get((f"{name.value}_sum", rank, "")), cells.get((f"{name.value}_count", rank, ""))
        if ends[0] is not None and ends[1] is not None:
            places = (*(place for _, place in pairs), ends[0], ends[1])
            whole.append(_Buckets(key, _bounds(*[bound for bound, _ in pairs]), _picker(places)))
    return whole


def _all_numbers(values: _Values) -> tuple[float, ...] | None:
    numbers = tuple([value for value in values if not isinstance(value, Missing)])
    return numbers if len(numbers) == len(values) else None


def _place(cells: _Cells, name: str) -> int | None:
    return cells.get((name, "", ""))


def _plain(values: _Values, place: int | None) -> Number:
    return _NOT_REPORTED if place is None else values[place]


def _position(value: Number, length: int) -> int | None:
    """An index into a closed list, None when it is not one."""
    return int(value) if not isinstance(value, Missing) and 0 <= value < length else None


def _is_number(text: str) -> bool:
    """True for a whole number as we write it."""
    return text.isascii() and text.isdecimal() and str(int(text)) == text


def _moment(value: Number, otherwise: datetime) -> datetime:
    try:
        return otherwise if isinstance(value, Missing) else datetime.fromtimestamp(value, otherwise.tzinfo)
    except (ValueError, OverflowError, OSError):  # beyond year 9999, or beyond the platform's time
        return otherwise


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
