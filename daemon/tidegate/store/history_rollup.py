"""Rollups into arrays: the rows of many blocks and windows laid into one matrix, without a loop over values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table

from tidegate.store.history_find import Found
from tidegate.store.history_math import Matrix, Numbers, empty
from tidegate.store.schema_series import COLD, STEPS

_HEADER = 20
"""Bytes before the elements of a one-dimensional array in Postgres' binary form: array_send in arrayfuncs.c."""
_TYPES = {
    "series": np.dtype([("size", ">i4"), ("value", ">i4")]),
    "count": np.dtype([("size", ">i4"), ("value", ">i2")]),
    "last": np.dtype([("size", ">i4"), ("value", ">f8")]),
}
_FLOAT = np.dtype([("size", ">i4"), ("value", ">f4")])
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_rollup(
    connection: Connection, table: Table, found: Sequence[Found], names: Sequence[str], grid: range
) -> dict[str, Matrix]:
    """The parts of each bucket of the grid (Unix seconds, steps of the table's width), a row a series of `found`."""
    parts = empty(names, len(found), len(grid))
    rows = _fetch(connection, table, sorted({one.block for one in found}), names, grid)
    if rows:
        lay(parts, rows, {one.id: place for place, one in enumerate(found)}, grid)
    return parts


def _fetch(connection: Connection, table: Table, blocks: Sequence[int], names: Sequence[str], grid: range) -> list[Any]:
    """Rows of (start in Unix seconds, buckets, series, parts ...), arrays in their binary form."""
    arrays = ", ".join(f'array_send("{name}")' for name in ("series", *names))  # names are ours: PARTS
    query = (
        f"SELECT extract(epoch FROM start)::bigint, buckets, {arrays} FROM {table.name} "  # noqa: S608
        "WHERE block = ANY(%s) AND start > %s AND start < %s"
    )
    since, until = _moment(grid.start) - COLD, _moment(grid.stop)
    driver: Any = connection.connection.driver_connection
    with driver.cursor(binary=True) as cursor:  # as text every byte would be two, and decoded one by one
        cursor.execute(query, [list(blocks), since, until])
        rows: list[Any] = cursor.fetchall()
    return rows


def _moment(seconds: int) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)


def lay(parts: Mapping[str, Matrix], rows: Sequence[Sequence[Any]], lines: Mapping[int, int], grid: range) -> None:
    """Put the rows' values where they belong; values of other series and times are left out."""
    series = _elements("series", (row[2] for row in rows)).astype(np.int64)
    buckets = np.array([row[1] for row in rows], np.int64)
    held = np.array([(len(row[2]) - _HEADER) // _TYPES["series"].itemsize for row in rows], np.int64)
    first = np.array([(row[0] - grid.start) // grid.step for row in rows], np.int64)
    wide, column = np.repeat(buckets, held), np.repeat(first, held)
    line = np.repeat(_lines_of(series, lines), wide)
    begins = np.repeat(np.cumsum(wide) - wide, wide)
    columns = np.repeat(column, wide) + np.arange(len(line)) - begins
    inside = np.flatnonzero((line >= 0) & (columns >= 0) & (columns < len(grid)))
    line, columns = line[inside], columns[inside]
    for place, name in enumerate(parts, 3):
        parts[name][line, columns] = _elements(name, (row[place] for row in rows))[inside]


def _lines_of(series: NDArray[np.int64], lines: Mapping[int, int]) -> Numbers:
    """For each series id its line, -1 where nobody asked for it."""
    ids = np.array(sorted(lines), np.int64)
    places = np.array([lines[int(one)] for one in ids], np.intp)
    at = np.minimum(np.searchsorted(ids, series), len(ids) - 1)
    return np.where(ids[at] == series, places[at], -1)


def _elements(name: str, arrays: Iterable[bytes]) -> NDArray[Any]:
    joined = b"".join(array[_HEADER:] for array in arrays)
    elements: NDArray[Any] = np.frombuffer(joined, _TYPES.get(name, _FLOAT))["value"]
    return elements


def width(table: Table) -> int:
    """Seconds of a bucket."""
    return int(STEPS[table].total_seconds())
