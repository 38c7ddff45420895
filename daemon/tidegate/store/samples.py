"""Stored samples as the few counters that usage is made of, without the hundreds of series beside them.

Most samples say nothing that their neighbours do not: every counter went up, every engine went on. They are left out,
for the increase over all of them is the same; only when they were taken is told (a hole is a matter of moments).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tidegate.model.reading import HostName, HostReading
from tidegate.model.series import SeriesKey
from tidegate.model.unflatten import Reader
from tidegate.model.vector import decode
from tidegate.runtime.niceness import give_way
from tidegate.store.admission import Keys
from tidegate.store.binary import at as moment_at
from tidegate.store.buckets import COUNTERS
from tidegate.store.pack import columns, is_whole

_COUNTERS = frozenset(counter.value for counter in COUNTERS)
NAMES = _COUNTERS | {"state", "started"}
"""Names of the series of an engine that usage is made of."""

Stored = tuple[int, str, bytes]
"""A report: when (microseconds), under which layout, the packed vector."""


@dataclass(frozen=True, slots=True)
class Looks:
    """What was seen of a host in a span: every moment, and the readings that count, both in time order."""

    moments: Sequence[datetime]
    readings: Sequence[HostReading]


NOTHING = Looks((), ())


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a layout's vector has the series that usage is made of."""

    places: NDArray[np.intp]
    reader: Reader
    """Of what is there."""
    length: int
    """Of the vector."""


def choice_of(keys: Keys) -> Choice:
    """What to look at in vectors of this layout."""
    places = [place for place, key in enumerate(keys) if key.scope == "engine" and key.name in NAMES and not key.le]
    return Choice(np.array(places, np.intp), Reader([keys[place] for place in places]), len(keys))


def looks_of(host: HostName, rows: Sequence[Stored], choices: Mapping[str, Choice], *, thin: bool = True) -> Looks:
    """The engines' states and counters in the reports, which are in time order; one that cannot be read has a moment.

    Not `thin`: all of them, since others lie between them, and what adds nothing here may do so there.

    A report cannot be read when its bytes were damaged on disk, or when its layout is gone.
    """
    readings: list[HostReading] = []
    for layout, group in groupby(rows, key=lambda row: row[1]):
        choice = choices.get(layout)
        if choice is None:
            continue
        alike, values = _picked(list(group), choice)
        readings += readings_of(host, [at for at, _, _ in alike], choice.reader, values, thin=thin)
    return Looks([moment_at(at) for at, _, _ in rows], readings)


def readings_of(
    host: HostName, moments: Sequence[int], reader: Reader, values: NDArray[np.float64], *, thin: bool
) -> list[HostReading]:
    """The readings of one layout, a row of `values` for each moment: those that count, or all of them."""
    kept = _that_count(reader.keys, values) if thin else np.ones(len(moments), bool)
    return [
        reader.read(host, moment_at(moments[row]), decode(values[row].tobytes()))
        for row in np.flatnonzero(kept).tolist()
    ]


def _that_count(keys: Sequence[SeriesKey], values: NDArray[np.float64]) -> NDArray[np.bool_]:
    counts = np.array([key.name in _COUNTERS for key in keys], bool)
    bits = values.view(np.uint64)
    goes_on = (bits[1:] == bits[:-1]) | (counts & (values[1:] >= values[:-1]))
    steady = goes_on.all(axis=1)
    kept = np.ones(len(values), bool)
    kept[1:-1] = ~(steady[:-1] & steady[1:])
    return kept


def _picked(rows: list[Stored], choice: Choice) -> tuple[list[Stored], NDArray[np.float64]]:
    """The rows that can be read, and what their vectors have at the places."""
    try:
        values = _unpacked(rows, choice.places)
    except (ValueError, IndexError):
        rows = [row for row in rows if is_whole(row[2], choice.length)]
        values = _unpacked(rows, choice.places)
    return rows, np.array(values).reshape(len(rows), len(choice.places))


def _unpacked(rows: Sequence[Stored], places: NDArray[np.intp]) -> list[NDArray[np.float64]]:
    values = []
    for _, _, packed in rows:
        values.append(columns(packed, places))
        give_way()  # housekeeping does this beside reports that come in
    return values
