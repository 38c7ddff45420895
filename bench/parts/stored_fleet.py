"""Write a synthetic fleet into our store as compaction leaves it: cold rows of eight hours, rollups included."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from tidegate.model.reading import HostName
from tidegate.model.series import SeriesKey, layout_id
from tidegate.store.chunks import Span, write
from tidegate.store.database import Database
from tidegate.store.layouts import Layouts
from tidegate.store.matrix import Samples
from tidegate.store.partitions import ensure, part_of
from tidegate.store.schema_series import COLD
from tidegate.store.series import Columns, SeriesBook

_PARENTS = ("chunk_cold", "chunk_clock_cold", "rollup_5m_cold", "rollup_1h_cold")
SPAN_SECONDS = COLD.total_seconds()


class StoredHost:
    """One host's series in the store, written span after span."""

    def __init__(self, database: Database, name: str, keys: Sequence[SeriesKey], since: float) -> None:
        self._database, self.name = database, HostName(name)
        first = datetime.fromtimestamp(since, UTC)
        layouts, layout = Layouts(database), layout_id(tuple(keys))
        with database.begin() as connection:
            layouts.write(connection, self.name, {layout: tuple(keys)}, first)
            found = SeriesBook(layouts).columns(connection, self.name, [layout], (first, first))
            connection.exec_driver_sql("UPDATE series SET last_seen = '2100-01-01' WHERE host = %s", (name,))
        self._columns: Columns = found[layout]
        self._before = np.full(len(self._columns.ids), np.nan)

    def write(self, start: float, moments: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """One span: a row of `values` for each moment (Unix seconds), a column for each key."""
        columns = self._columns
        microseconds = np.round(moments * 1_000_000).astype(np.int64)
        rows = np.ascontiguousarray(values.T[columns.places])
        samples = Samples(microseconds, columns.ids, columns.blocks, columns.kinds, rows)
        begin = datetime.fromtimestamp(start, UTC)
        ensure(self._database, {part_of(parent, begin) for parent in _PARENTS})
        with self._database.begin() as connection:
            write(connection, Span(self.name, begin, COLD, cold=True), samples, self._before, frozenset())
        self._before = rows[:, -1].copy()
