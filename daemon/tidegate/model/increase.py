"""Increases of an engine's counters and histograms over readings, by series and before any sum.

An increase is taken against the last reading that had the series, so one that is absent in the middle costs nothing.
A rank whose counter fell began again at zero, and so did every rank when the process' start changed. A series that
appears adds nothing at first: what it counted before nobody saw. Each loss is said, and makes the window partial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import le, sub
from typing import TypeVar

from tidegate.model.reading import Counter, Distribution, EngineReading, Histogram, Rank

_Name = TypeVar("_Name", Counter, Distribution)
_SAME_START_SECONDS = 1.0
_EVENTS = frozenset(
    {
        Counter.PREEMPTIONS,
        Counter.ABORTED,
        Counter.ERRORS,
        Counter.RETRIES,
        Counter.HTTP_ERRORS,
        Counter.ADMISSION_REJECTIONS,
        Counter.KV_TRANSFER_FAILURES,
    }
)
"""Counters of events that may never happen; some engines show the series with the first one. Its appearance says
nothing of the others, so it does not make the window partial: the counter alone has no increase yet."""


@dataclass(slots=True)
class Increases:
    """What accumulated over one engine's readings."""

    counters: dict[tuple[Counter, Rank], float] = field(default_factory=dict)
    histograms: dict[tuple[Distribution, Rank], Histogram] = field(default_factory=dict)
    losses: dict[str, None] = field(default_factory=dict)
    """Why the increases are lower bounds, in words; an ordered set."""


def increases(readings: Sequence[EngineReading]) -> Increases:
    """Over readings in time order that all carry counters."""
    if _undisturbed(readings):
        return _from_end_to_end(readings[0], readings[-1])
    total = Increases()
    for run in _runs(readings, total):
        _Run(run[0], total).follow(run)
    return total


def _undisturbed(readings: Sequence[EngineReading]) -> bool:
    """True when one process showed the same series throughout, and none of them fell: nearly always."""
    first = readings[0]
    return len(readings) > 1 and all(
        later.started == first.started
        and tuple(later.counters) == tuple(earlier.counters)
        and all(map(le, earlier.counters.values(), later.counters.values()))
        and tuple(later.histograms) == tuple(earlier.histograms)
        and all(map(_goes_on, earlier.histograms.values(), later.histograms.values()))
        for earlier, later in pairwise(readings)
    )


def _goes_on(earlier: Histogram, later: Histogram) -> bool:
    return earlier.count <= later.count and earlier.bounds == later.bounds


def _from_end_to_end(first: EngineReading, last: EngineReading) -> Increases:
    """What lies in between changes nothing: one subtraction a series."""
    grown = map(sub, last.counters.values(), first.counters.values())
    histograms = {key: last.histograms[key].minus(begun) for key, begun in first.histograms.items()}
    return Increases(dict(zip(first.counters, grown, strict=True)), histograms)


def _runs(readings: Sequence[EngineReading], total: Increases) -> list[list[EngineReading]]:
    """The readings, or those of each process when several answer in turn: then a start goes backwards.

    To take each change for a restart would count the lifetime of a process again and again (vllm#18053).
    """
    starts = [reading.started for reading in readings if reading.started is not None]
    if all(earlier - later <= _SAME_START_SECONDS for earlier, later in pairwise(starts)):
        return [list(readings)]
    total.losses["several processes answer in turn at this address: each was compared with itself alone"] = None
    runs: dict[int | None, list[EngineReading]] = {}
    for reading in readings:
        runs.setdefault(None if reading.started is None else round(reading.started), []).append(reading)
    return list(runs.values())


@dataclass(slots=True)
class _Stretch:
    """A histogram from where its counting is known up to now: one subtraction, however many readings lie between."""

    begun: Histogram
    last: Histogram | None = None
    """None while there is only the beginning."""

    @property
    def latest(self) -> Histogram:
        """What was seen last."""
        return self.last or self.begun


class _Run:
    """Follows one process, and those that take its place, through readings."""

    def __init__(self, first: EngineReading, total: Increases) -> None:
        self._total = total
        self._counters = dict(first.counters)
        self._stretches = {key: _Stretch(histogram) for key, histogram in first.histograms.items()}
        self._started = first.started
        self._fresh: set[Rank] = set()
        """Ranks that began at zero inside the window: all that they count belongs to it."""
        self._all_fresh = False

    def follow(self, readings: Sequence[EngineReading]) -> None:
        for reading in readings[1:]:
            self._notice_new_process(reading)
            for rank in self._fallen(reading):
                self._forget(rank, from_zero=not reading.summed)
            for counter, total in reading.counters.items():
                self._add_counter(counter, total)
            for distribution, histogram in reading.histograms.items():
                self._add_histogram(distribution, histogram)
        last = readings[-1]
        for name, rank in (*(self._counters.keys() - last.counters), *(self._stretches.keys() - last.histograms)):
            self._lose(f"{name.value} of rank {rank} is missing at the end")
        self._end_stretches(list(self._stretches))

    def _lose(self, words: str) -> None:
        self._total.losses[words] = None

    def _notice_new_process(self, reading: EngineReading) -> None:
        if reading.started is None:
            return
        if self._started is not None and reading.started - self._started > _SAME_START_SECONDS:
            self._lose("the engine restarted")
            self._all_fresh = True
            self._counters.clear()
            self._end_stretches(list(self._stretches))
        self._started = reading.started

    def _fallen(self, reading: EngineReading) -> list[Rank]:
        fallen = {key[1] for key, total in reading.counters.items() if total < self._counters.get(key, 0.0)}
        for key, histogram in reading.histograms.items():
            stretch = self._stretches.get(key)
            if stretch is not None and histogram.count < stretch.latest.count:
                fallen.add(key[1])
        return sorted(fallen)

    def _forget(self, rank: Rank, *, from_zero: bool) -> None:
        """One counter of the rank fell: all of them began again, those too that are higher than before by now.

        In a sum over ranks the others' totals stand on: what the fallen one added is not known, so nothing is counted.
        """
        self._lose(f"rank {rank} restarted")
        if from_zero:
            self._fresh.add(rank)
        else:
            self._all_fresh = False
        self._counters = {key: total for key, total in self._counters.items() if key[1] != rank}
        self._end_stretches([key for key in self._stretches if key[1] == rank])

    def _add_counter(self, key: tuple[Counter, Rank], total: float) -> None:
        earlier = self._counters.get(key)
        self._counters[key] = total
        if earlier is None:
            if not self._began_at_zero(key):
                return
            earlier = 0.0
        self._total.counters[key] = self._total.counters.get(key, 0.0) + total - earlier

    def _add_histogram(self, key: tuple[Distribution, Rank], histogram: Histogram) -> None:
        stretch = self._stretches.get(key)
        if stretch is None:
            if self._began_at_zero(key):
                zeros = Histogram(histogram.bounds, (0.0,) * len(histogram.bounds), 0.0, 0.0)
                self._stretches[key] = _Stretch(zeros, histogram)
            else:
                self._stretches[key] = _Stretch(histogram)
        elif stretch.begun.bounds == histogram.bounds:
            stretch.last = histogram
        else:
            self._lose_buckets(key)
            self._end_stretches([key])
            self._stretches[key] = _Stretch(histogram)

    def _end_stretches(self, keys: Sequence[tuple[Distribution, Rank]]) -> None:
        """Add what was counted up to here."""
        for key in keys:
            stretch = self._stretches.pop(key)
            if stretch.last is None:
                continue
            present, grown = self._total.histograms.get(key), stretch.last.minus(stretch.begun)
            if present is None or present.bounds == grown.bounds:
                self._total.histograms[key] = grown if present is None else present.plus(grown)
            else:
                self._lose_buckets(key)

    def _lose_buckets(self, key: tuple[Distribution, Rank]) -> None:
        self._lose(f"the buckets of {key[0].value} of rank {key[1]} changed")

    def _began_at_zero(self, key: tuple[_Name, Rank]) -> bool:
        if self._all_fresh or key[1] in self._fresh:
            return True
        if key[0] not in _EVENTS:
            self._lose(f"{key[0].value} of rank {key[1]} appeared inside the window")
        return False
