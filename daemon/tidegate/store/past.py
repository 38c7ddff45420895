"""The samples around some buckets of one host: out of reports, and out of chunks where the reports are gone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
from sqlalchemy import Connection, func, select

from tidegate.model.reading import HostName, HostReading
from tidegate.model.series import SeriesKey
from tidegate.model.usage import BUCKET
from tidegate.store.binary import at as moment_at
from tidegate.store.binary import cursor, microseconds
from tidegate.store.chunk_codec import ABSENT, Matrix, decode, decode_clock
from tidegate.store.layouts import Layouts
from tidegate.store.matrix import read_reports
from tidegate.store.samples import NAMES, Looks, Stored, looks_of, readings_of
from tidegate.store.schema import report
from tidegate.store.schema_series import COLD, WINDOW, series_window
from tidegate.store.windows import window_of

_REACH = timedelta(minutes=10)
"""Samples on either side that are read along: the nearest ones are nearly always among them."""
_CLOCK = "SELECT start, payload FROM chunk_clock WHERE host = %s AND start > %s AND start < %s ORDER BY start"
_CHUNKS = (
    "SELECT c.start, c.series, c.payload FROM series_block b JOIN chunk c ON c.block = b.id WHERE b.host = %s "
    "AND b.scope = 'engine' AND b.name = ANY (%s) AND c.start > %s AND c.start < %s"
)
_SERIES = "SELECT id, scope, owner, name, rank, le FROM series WHERE host = %s AND scope = 'engine' AND name = ANY (%s)"


class Past:
    """What was sampled in the buckets and close to them, read in few pieces."""

    def __init__(self, connection: Connection, layouts: Layouts, host: HostName, buckets: Sequence[datetime]) -> None:
        self._connection, self._layouts, self._host = connection, layouts, host
        self._rows: list[Stored] = []
        for first, last in _runs(buckets):
            self._rows += read_reports(connection, host, first - _REACH, last + BUCKET + _REACH)
        self._moments = [at for at, _, _ in self._rows]
        self._known = layouts.load(connection, {(host, layout) for _, layout, _ in self._rows})
        self._compacted = self._read_compacted(buckets)

    def looks(self, bucket: datetime) -> Looks:
        """The samples of a bucket."""
        first, end = (bisect_left(self._moments, microseconds(at)) for at in (bucket, bucket + BUCKET))
        rows = self._rows[first:end]
        if window_of(bucket) not in self._compacted:
            return looks_of(self._host, rows, self._known)
        return self._with_chunks(bucket, looks_of(self._host, rows, self._known, thin=False))

    def around(self, bucket: datetime) -> tuple[datetime | None, datetime | None]:
        """The host's nearest sample on either side of a bucket."""
        first, end = (bisect_left(self._moments, microseconds(at)) for at in (bucket, bucket + BUCKET))
        before = moment_at(self._moments[first - 1]) if first and not self._compacted else None
        after = moment_at(self._moments[end]) if end < len(self._moments) and not self._compacted else None
        return (
            before if before and before >= bucket - _REACH else self._before(bucket),
            after if after and after < bucket + BUCKET + _REACH else self._after(bucket + BUCKET),
        )

    def _before(self, moment: datetime) -> datetime | None:
        query = select(func.max(report.c.at)).where(report.c.host == self._host, report.c.at < moment)
        clocks = self._clock(moment - WINDOW, moment)
        stored = [at for at in clocks if at < moment]
        return max(filter(None, [self._connection.execute(query).scalar_one(), *stored[-1:]]), default=None)

    def _after(self, moment: datetime) -> datetime | None:
        query = select(func.min(report.c.at)).where(report.c.host == self._host, report.c.at >= moment)
        stored = [at for at in self._clock(moment, moment + WINDOW) if at >= moment]
        return min(filter(None, [self._connection.execute(query).scalar_one(), *stored[:1]]), default=None)

    def _clock(self, since: datetime, until: datetime) -> list[datetime]:
        """The moments of the chunks that reach into the span."""
        with cursor(self._connection) as bare:
            rows = bare.execute(_CLOCK, [self._host, since - COLD, until]).fetchall()
        return [moment_at(at) for _, payload in rows for at in decode_clock(payload).tolist()]

    def _read_compacted(self, buckets: Sequence[datetime]) -> frozenset[datetime]:
        """Those windows of the buckets that chunks have been made of: their reports may be gone."""
        windows = {window_of(bucket) for bucket in buckets}
        found = series_window.c
        query = select(found.start).where(found.host == self._host, found.start.in_(windows), found.done > 0)
        return frozenset(self._connection.execute(query).scalars()) if windows else frozenset()

    def _with_chunks(self, bucket: datetime, found: Looks) -> Looks:
        since, until = window_of(bucket) - COLD, bucket + BUCKET
        with cursor(self._connection) as bare:
            names = sorted(NAMES)
            keys = {row[0]: SeriesKey(*row[1:]) for row in bare.execute(_SERIES, [self._host, names]).fetchall()}
            clocks = bare.execute(_CLOCK, [self._host, since, until]).fetchall()
            chunks = bare.execute(_CHUNKS, [self._host, names, since, until]).fetchall()
        held = {microseconds(at) for at in found.moments}
        moments, readings = list(found.moments), list(found.readings)
        for start, payload in clocks:
            clock = decode_clock(payload)
            inside = (clock >= microseconds(bucket)) & (clock < microseconds(until))
            inside &= ~np.isin(clock, list(held))
            mine = [(series, decode(data)) for begin, series, data in chunks if begin == start and inside.any()]
            if not mine:
                continue
            named = [keys[one] for series, _ in mine for one in series]
            values = np.concatenate([part for _, part in mine])[:, inside].T
            moments += [moment_at(at) for at in clock[inside].tolist()]
            values = np.ascontiguousarray(values)
            readings += _present(self._host, clock[inside].tolist(), named, values, thin=not held)
        return Looks(sorted(moments), sorted(readings, key=lambda reading: reading.at))


def _present(
    host: HostName, moments: Sequence[int], keys: Sequence[SeriesKey], values: Matrix, *, thin: bool
) -> list[HostReading]:
    """Readings of chunks, each run of samples with the series that its reports had."""
    there = values.view(np.uint64) != ABSENT
    borders = [0, *(np.flatnonzero((there[1:] != there[:-1]).any(axis=1)) + 1).tolist(), len(moments)]
    found: list[HostReading] = []
    for first, end in pairwise(borders):
        mine = np.flatnonzero(there[first])
        named = [keys[place] for place in mine.tolist()]
        part = np.ascontiguousarray(values[first:end, mine])
        found += readings_of(host, moments[first:end], named, part, thin=thin)
    return found


def _runs(buckets: Sequence[datetime]) -> list[tuple[datetime, datetime]]:
    """The first and last of buckets that lie close together; what is read of two runs does not overlap."""
    runs: list[tuple[datetime, datetime]] = []
    for bucket in buckets:
        if runs and bucket - runs[-1][1] <= BUCKET + 2 * _REACH:
            runs[-1] = runs[-1][0], bucket
        else:
            runs.append((bucket, bucket))
    return runs
