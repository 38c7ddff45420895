"""Stored reports as the few counters that usage is made of, without unpacking the hundreds of series beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from tidegate.model.reading import HostName, HostReading
from tidegate.model.series import SeriesKey, unflatten
from tidegate.model.vector import decode
from tidegate.store.admission import Keys
from tidegate.store.buckets import COUNTERS
from tidegate.store.pack import unpack

_NAMES = frozenset({"state", "started", *(counter.value for counter in COUNTERS)})

Stored = tuple[datetime, str, bytes]
"""A row of `report`: when, under which layout, the packed vector."""


def counter_readings(
    host: HostName, rows: Iterable[Stored], layouts: Mapping[tuple[str, str], Keys]
) -> list[HostReading]:
    """The engines' states and counters in the rows, in their order."""
    chosen: dict[str, tuple[list[int], list[SeriesKey]]] = {}
    readings = []
    for at, layout_id, packed in rows:
        if layout_id not in chosen:
            chosen[layout_id] = _choose(layouts[host, layout_id])
        places, keys = chosen[layout_id]
        vector = unpack(packed)
        values = decode(b"".join(vector[8 * place : 8 * place + 8] for place in places))
        readings.append(unflatten(host, at, keys, values))
    return readings


def _choose(keys: Keys) -> tuple[list[int], list[SeriesKey]]:
    places = [place for place, key in enumerate(keys) if key.scope == "engine" and key.name in _NAMES and not key.le]
    return places, [keys[place] for place in places]
