"""Make chunks and rollups of reports, a host's two hours at a time, and of four such windows one cold row a day later.

Every window is one transaction that may fail or be killed anywhere: the window stays marked until it is done. Late
reports mark their window again; what was made of it before is read, put together with them and written anew, and so is
the window after it when its first increases begin elsewhere now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import numpy as np
import structlog
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from tidegate.model.reading import HostName
from tidegate.model.records import Compacted
from tidegate.runtime.errors import Permanent
from tidegate.runtime.pace import Pace
from tidegate.store.binary import microseconds
from tidegate.store.chunks import Span, remove, stands, write
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.locks import lock_series
from tidegate.store.matrix import (
    Samples,
    Stored,
    of_reports,
    read_before,
    read_chunks,
    read_reports,
    together,
    without_damaged,
)
from tidegate.store.partitions import Part, ensure, part_of
from tidegate.store.registering import Registering
from tidegate.store.schema_series import COLD, WINDOW
from tidegate.store.series import KINDS, Columns, SeriesBook, note_seen
from tidegate.store.series_kinds import SeriesKind
from tidegate.store.totals import last_before, mark_next
from tidegate.store.windows import Window, due, mergeable, put_off, refreshed, settle, settle_cold, span_start

_WINDOWS = 30
"""In one call: a tick's worth of work at most, beside everything else that the controller does."""
_MERGES = 8
_NEAR = timedelta(minutes=10)
"""The report before a window is looked for so far back; beyond it rollups tell the last totals."""
_AGAIN = timedelta(hours=1)
"""What cannot be compacted is tried again so much later."""
_HOT = ("chunk_hot", "chunk_clock_hot", "rollup_5m_hot", "rollup_1h_hot", "rollup_1m_hot")
_COLD = ("chunk_cold", "chunk_clock_cold", "rollup_5m_cold", "rollup_1h_cold")
_COUNTERS = KINDS.index(SeriesKind.COUNTER)
_MINUTES = text("SELECT id FROM series_block WHERE host = :host AND name = ANY (CAST(:names AS text[]))")
_log = structlog.get_logger()


class StoredCompaction:
    """Implements the port `Compaction`; several controllers may share the work."""

    def __init__(self, database: Database, book: SeriesBook, fence: Fence, pace: Pace) -> None:
        self._database, self._book, self._fence, self._pace = database, book, fence, pace
        self._registering = Registering(database, book, fence)

    def compact(self, now: datetime, minute_series: frozenset[str] = frozenset()) -> Compacted:
        """Compact the oldest windows that are due, then merge some that have cooled; bounded per call.

        First of all the series of new layouts are given their numbers.
        `minute_series`: names of which a rollup by the minute is made as well.
        """
        self._registering.register(now)
        with self._database.begin() as connection:
            windows = due(connection, now, _WINDOWS)
            merges = mergeable(connection, now, _MERGES) if len(windows) < _WINDOWS else []
        ensure(self._database, {part for window in windows for part in _parts(window.start)})
        ensure(self._database, {part_of(parent, start) for _, start in merges for parent in _COLD})
        total = Compacted()
        for window in windows:
            with self._pace.piece(), self._sparing_others(window.host, window.start, WINDOW, now):
                total += self._window(window, minute_series)
        for host, start in merges:
            with self._pace.piece(), self._sparing_others(host, start, COLD, now):
                total += self._merge(host, start)
        return total

    @contextmanager
    def _sparing_others(self, host: HostName, start: datetime, length: timedelta, now: datetime) -> Iterator[None]:
        """What cannot be done, since something stored is damaged, is said and put off: the others have their turn."""
        try:
            yield
        except (ValueError, Permanent) as error:
            with self._database.begin() as connection:
                self._fence.check(connection)
                put_off(connection, host, start, start + length, now + _AGAIN)
            _log.error(
                "samples of a host cannot be compacted: its reports are kept, and it is tried again",
                host=host,
                window=start.isoformat(),
                again_in=str(_AGAIN),
                error=str(error),
                remedy="the database's disk may be failing: look at its log, and take the rest with `tidegate db dump`",
            )

    def _window(self, window: Window, minute_series: frozenset[str]) -> Compacted:
        """Compact one window, whatever has been made of it already."""
        with self._database.begin() as connection:
            self._fence.check(connection)
            lock_series(connection, window.host)
            found = refreshed(connection, window)
            if stands(connection, window.host, window.start):
                settle(connection, found, 0)
                return Compacted(1)
            done, layouts = self._compact(connection, found, minute_series)
        self._book.remember(window.host, layouts)
        return done

    def _compact(
        self, connection: Connection, window: Window, minute_series: frozenset[str]
    ) -> tuple[Compacted, Mapping[str, Columns]]:
        host, end = window.host, window.start + WINDOW
        span = _span(window)
        rows = read_reports(connection, host, window.start, end)
        until = span.start + span.length
        earlier = read_chunks(connection, host, span.start, until, cold=span.cold) if window.done or span.cold else None
        if earlier is not None and len(earlier.moments):
            held = set(earlier.moments.tolist())
            rows = [row for row in rows if row[0] not in held]
        before_rows = read_before(connection, host, span.start, _NEAR)
        layouts = self._book.columns(connection, host, {row[1] for row in (*rows, *before_rows)}, (window.start, end))
        fresh = _samples(host, rows, layouts)
        samples = together([earlier, fresh]) if earlier is not None else fresh
        if len(samples.moments):
            before = _before(connection, span, samples, _samples(host, before_rows, layouts))
            if earlier is not None:
                remove(connection, host, span.start, until, cold=span.cold)
            write(connection, span, samples, before, _minutes(connection, host, minute_series))
            note_seen(connection, fresh.ids.tolist(), window.start, end)
        mark_next(connection, host, lambda: _moved(samples, earlier), until)
        first, last = np.searchsorted(samples.moments, [microseconds(window.start), microseconds(end)])
        settle(connection, window, int(last - first))
        return Compacted(1, fresh.values.size, left_out=_left_out(host, layouts)), layouts

    def _merge(self, host: HostName, start: datetime) -> Compacted:
        """One cold row in place of the windows of eight hours."""
        span = Span(host, start, COLD, cold=True)
        with self._database.begin() as connection:
            self._fence.check(connection)
            lock_series(connection, host)
            samples = read_chunks(connection, host, start, start + COLD, cold=False)
            if not settle_cold(connection, host, start):
                return Compacted()  # a late report was quicker
            if len(samples.moments):
                before = _before(connection, span, samples, None)
                remove(connection, host, start, start + COLD, cold=False)
                write(connection, span, samples, before, frozenset())
        return Compacted(merged=1)


def _samples(host: HostName, rows: Sequence[Stored], layouts: Mapping[str, Columns]) -> Samples:
    """Samples of reports; one whose bytes were damaged is said, and has a moment and no value."""
    try:
        return of_reports(rows, layouts)
    except ValueError:
        whole, damaged = without_damaged(rows, layouts)
        _log.error("stored reports are damaged: their samples are missing", host=host, reports=damaged)
        return of_reports(whole, layouts)


def _parts(start: datetime) -> Iterator[Part]:
    """What rows of a window may be written to, cold ones included."""
    yield from (part_of(parent, start) for parent in _HOT)
    yield from (part_of(parent, span_start(start)) for parent in _COLD)


def _span(window: Window) -> Span:
    if window.cold:
        return Span(window.host, span_start(window.start), COLD, cold=True)
    return Span(window.host, window.start, WINDOW, cold=False)


def _before(connection: Connection, span: Span, samples: Samples, near: Samples | None) -> NDArray[np.float64]:
    """Each series' last total earlier than the span, NaN where none is known."""
    before = near.last_of(samples.ids) if near is not None else np.full(len(samples.ids), np.nan)
    wanting = np.isnan(before) & (samples.kinds == _COUNTERS)
    if wanting.any():
        told = last_before(connection, np.unique(samples.blocks[wanting]).tolist(), span.start)
        for row in np.flatnonzero(wanting).tolist():
            before[row] = told.get(int(samples.ids[row]), np.nan)
    return before


def _moved(samples: Samples, earlier: Samples | None) -> dict[int, int]:
    """The counters that end at another total than they did, with their blocks."""
    counters = samples.kinds == _COUNTERS
    blocks = dict(zip(samples.ids[counters].tolist(), samples.blocks[counters].tolist(), strict=True))
    known = earlier.last() if earlier is not None else {}
    return {one: blocks[one] for one, total in samples.last().items() if one in blocks and known.get(one) != total}


def _minutes(connection: Connection, host: HostName, names: frozenset[str]) -> frozenset[int]:
    if not names:
        return frozenset()
    return frozenset(connection.execute(_MINUTES, {"host": host, "names": sorted(names)}).scalars())


def _left_out(host: HostName, layouts: Mapping[str, Columns]) -> Mapping[HostName, int]:
    """How many series of the host's widest layout have no number."""
    most = max((columns.length - len(columns.places) for columns in layouts.values()), default=0)
    return {host: most}
