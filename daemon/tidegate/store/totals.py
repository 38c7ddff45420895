"""Where the increases of a span begin, and whose begin at its end: the last totals before it, the next ones after it.

An increase reaches over at most `FAR` without a sample: beyond it nobody knows how often the counter was reset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select, update

from tidegate.model.reading import HostName
from tidegate.store.binary import cursor, elements, number_array
from tidegate.store.schema_series import COLD, STEPS, WINDOW, rollup_5m, series_window

FAR = timedelta(days=1)
_STEP = STEPS[rollup_5m]
_LAST = (
    'SELECT start, buckets, series, array_send("last") FROM rollup_5m WHERE block = ANY (%s::int[]) '
    "AND start >= %s AND start < %s AND increase IS NOT NULL ORDER BY start"
)
_FOLLOWING = (
    "SELECT cold, start FROM chunk_clock WHERE host = %s AND start >= %s AND start < %s ORDER BY start, cold DESC"
)
_Row = tuple[datetime, NDArray[np.int32], NDArray[np.float64]]
"""Of one block: the start, its counters, and the last totals in buckets, a row a counter."""


def last_before(connection: Connection, blocks: Iterable[int], start: datetime) -> Mapping[int, float]:
    """The last total of each counter of the blocks before the start of a span, by the counter's number."""
    found: dict[int, float] = {}
    for begin, ids, totals in _rows(connection, blocks, start - FAR - COLD, start):
        first = max(0, -((begin - (start - FAR)) // _STEP))  # a row may begin earlier than what counts
        known = ~np.isnan(totals[:, first:])
        for row in np.flatnonzero(known.any(axis=1)).tolist():
            found[int(ids[row])] = float(totals[row, first:][known[row]][-1])
    return found


def mark_next(connection: Connection, host: HostName, moved: Callable[[], Mapping[int, int]], until: datetime) -> None:
    """The last totals of these counters (each with its block) moved: what is made of their next ones is made anew.

    That may be several windows, since not every counter is in the next one.
    """
    following = _following(connection, host, until)
    waiting = dict(moved()) if following else {}
    for cold, start in following:
        if not waiting:
            return
        rows = _rows(connection, sorted(set(waiting.values())), start, start + timedelta(microseconds=1))
        present = {int(one) for _, ids, totals in rows for one in ids[~np.isnan(totals).all(axis=1)]}
        if not present.isdisjoint(waiting):
            _mark(connection, host, start, COLD if cold else WINDOW)
            waiting = {one: block for one, block in waiting.items() if one not in present}


def _rows(connection: Connection, blocks: Iterable[int], since: datetime, until: datetime) -> Iterator[_Row]:
    with cursor(connection) as bare:
        found = bare.execute(_LAST, [number_array(blocks), since, until]).fetchall()
    for start, buckets, ids, sent in found:
        yield start, np.array(ids, np.int32), elements(sent, "f8").reshape(-1, buckets)


def _following(connection: Connection, host: HostName, until: datetime) -> list[tuple[bool, datetime]]:
    with cursor(connection) as bare:
        return [(bool(cold), start) for cold, start in bare.execute(_FOLLOWING, [host, until, until + FAR]).fetchall()]


def _mark(connection: Connection, host: HostName, start: datetime, length: timedelta) -> None:
    """One window of a row is enough: the row is made anew as a whole."""
    found = series_window.c
    inside = (found.host == host) & (found.start >= start) & (found.start < start + length) & (found.done > 0)
    first = select(func.min(found.start)).where(inside).scalar_subquery()
    again = update(series_window).where(found.host == host, found.start == first)
    connection.execute(again.values(version=found.version + 1))
