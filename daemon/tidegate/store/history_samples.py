"""Samples of one host as they were taken: from chunks, and from the reports that no chunk holds yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from tidegate.store.binary import microseconds
from tidegate.store.chunk_codec import ABSENT, decode, decode_clock
from tidegate.store.history_find import Found
from tidegate.store.history_math import Matrix
from tidegate.store.layouts import Layouts
from tidegate.store.pack import columns
from tidegate.store.schema_series import COLD, WINDOW

Moments = NDArray[np.int64]
"""Microseconds since 1970."""

_CLOCKS = """
    SELECT start, payload FROM chunk_clock WHERE host = %s AND start > %s AND start < %s ORDER BY start
"""
_CHUNKS = """
    SELECT start, series, payload FROM chunk WHERE block = ANY(%s) AND start > %s AND start < %s
"""
_REPORTS = """
    SELECT (extract(epoch FROM r.at) * 1000000)::bigint, r.layout_id, r.vector FROM report r
    WHERE r.host = %s AND r.at >= %s AND r.at < %s
      AND NOT EXISTS (
          SELECT 1 FROM series_window w
          WHERE w.host = r.host AND w.start = date_bin(%s, r.at, TIMESTAMPTZ '2000-01-01 00:00+00')
            AND w.done >= w.version)
    ORDER BY r.at, r.boot_id, r.sequence
"""
"""Reports of windows that are done lie in their chunks, every one."""


@dataclass(frozen=True, slots=True)
class Samples:
    """A column a moment, in ascending order; a row a series, in the order that was asked for. NaN is missing.

    It is `chunk_codec.ABSENT` where the host was sampled and did not show the series.
    """

    moments: Moments
    values: Matrix


def read_samples(
    connection: Connection, layouts: Layouts, found: Sequence[Found], since: datetime, until: datetime
) -> Samples:
    """The samples with since <= at < until of some series of one host."""
    host = found[0].host
    clocks, values = _from_chunks(connection, host, found, since, until)
    moments, together = clocks, values
    late, late_values = _from_reports(connection, layouts, host, found, since, until)
    if len(late):
        fresh = ~np.isin(late, clocks)  # a report may lie in a chunk too: the same sample
        moments = np.concatenate((clocks, late[fresh]))
        together = np.concatenate((values, late_values[:, fresh]), axis=1)
    order = np.argsort(moments, kind="stable")
    first, last = np.searchsorted(moments, [microseconds(since), microseconds(until)], sorter=order)
    order = order[first:last]
    return Samples(moments[order], together[:, order])


def _from_chunks(
    connection: Connection, host: str, found: Sequence[Found], since: datetime, until: datetime
) -> tuple[Moments, Matrix]:
    driver: Any = connection.connection.driver_connection
    with driver.cursor(binary=True) as cursor:
        clocks = cursor.execute(_CLOCKS, [host, since - COLD, until]).fetchall()
        blocks = sorted({one.block for one in found})
        chunks = cursor.execute(_CHUNKS, [blocks, since - COLD, until]).fetchall()
    moments = [decode_clock(payload) for _, payload in clocks]
    ends = np.cumsum([len(one) for one in moments])
    places = {start: int(end) - len(one) for (start, _), end, one in zip(clocks, ends, moments, strict=True)}
    values = _absent(len(found), int(ends[-1]) if len(ends) else 0)
    lines = {one.id: line for line, one in enumerate(found)}
    for start, series, payload in chunks:
        wanted = [place for place, one in enumerate(series) if one in lines]
        if wanted and start in places:
            part = decode(payload, wanted)
            rows = [lines[series[place]] for place in wanted]
            values[rows, places[start] : places[start] + part.shape[1]] = part
    return np.concatenate(moments) if moments else np.empty(0, np.int64), values


def _from_reports(
    connection: Connection, layouts: Layouts, host: str, found: Sequence[Found], since: datetime, until: datetime
) -> tuple[Moments, Matrix]:
    driver: Any = connection.connection.driver_connection
    with driver.cursor(binary=True) as cursor:
        rows = cursor.execute(_REPORTS, [host, since, until, WINDOW]).fetchall()
    values = _absent(len(found), len(rows))
    known = layouts.load(connection, {(host, layout) for _, layout, _ in rows})
    chosen: dict[str, tuple[NDArray[np.intp], NDArray[np.intp]]] = {}
    for column, (_, layout, packed) in enumerate(rows):
        if layout not in chosen:
            chosen[layout] = _choose({key: place for place, key in enumerate(known.get((host, layout), ()))}, found)
        lines, places = chosen[layout]
        if len(lines):
            with suppress(ValueError, IndexError):  # damaged on disk, which compaction says: its values are missing
                values[lines, column] = columns(packed, places)
    values[np.isinf(values)] = np.nan  # as when the vector is read (model/vector.py)
    return np.array([at for at, _, _ in rows], np.int64), values


def _absent(series: int, samples: int) -> Matrix:
    return np.full((series, samples), ABSENT).view(np.float64)


def _choose(places: Mapping[Any, int], found: Sequence[Found]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows that the layout has, and where each stands in its vectors."""
    pairs = [(line, places[one.key]) for line, one in enumerate(found) if one.key in places]
    lines, columns_ = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(lines, np.intp), np.array(columns_, np.intp)
