"""The samples around some buckets of one host: out of reports, and out of chunks where the reports are gone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
from sqlalchemy import Connection

from tidegate.model.reading import HostName, HostReading
from tidegate.model.series import SeriesKey
from tidegate.model.unflatten import Reader
from tidegate.model.usage import BUCKET
from tidegate.store.binary import at as moment_at
from tidegate.store.binary import cursor, microseconds
from tidegate.store.chunk_codec import ABSENT, Matrix, Moments, decode, decode_clock
from tidegate.store.layouts import Layouts
from tidegate.store.matrix import read_reports
from tidegate.store.samples import NAMES, Looks, Stored, choice_of, looks_of, readings_of
from tidegate.store.schema_series import COLD, WINDOW

_REACH = timedelta(minutes=10)
"""Samples on either side that are read along: the nearest ones are nearly always among them."""
_CLOCK = (
    "SELECT start, payload FROM chunk_clock WHERE host = %(host)s AND start < %(until)s AND (NOT cold AND start > "
    "%(hot)s OR cold AND start > %(cold)s) ORDER BY start"
)
_CHUNKS = (
    "SELECT c.series, c.payload FROM series_block b JOIN chunk c ON c.block = b.id WHERE b.host = %s "
    "AND b.scope = 'engine' AND b.name = ANY (%s) AND c.start = %s"
)
_LAST = "SELECT max(at) FROM report WHERE host = %s AND at < %s"
_NEXT = "SELECT min(at) FROM report WHERE host = %s AND at >= %s"
_SERIES = "SELECT id, scope, owner, name, rank, le FROM series WHERE host = %s AND scope = 'engine' AND name = ANY (%s)"


class Past:
    """What was sampled in the buckets and close to them, read in few pieces."""

    def __init__(self, connection: Connection, layouts: Layouts, host: HostName, buckets: Sequence[datetime]) -> None:
        self._connection, self._host = connection, host
        self._rows: list[Stored] = []
        self._clocks: dict[datetime, Moments] = {}
        for first, last in _runs(buckets):
            since, until = first - _REACH, last + BUCKET + _REACH
            self._rows += read_reports(connection, host, since, until)
            self._clocks |= self._read_clocks(since, until)
        self._read: dict[datetime, tuple[Sequence[SeriesKey], Matrix]] = {}
        self._told = [at for at, _, _ in self._rows]
        held = frozenset(self._told)
        self._gone = {at for clock in self._clocks.values() for at in clock.tolist() if at not in held}
        """Moments that chunks alone know of: their reports have been dropped."""
        self._moments = sorted(held | self._gone)
        known = layouts.load(connection, {(host, layout) for _, layout, _ in self._rows})
        self._choices = {layout: choice_of(keys) for (_, layout), keys in known.items()}

    def looks(self, bucket: datetime) -> Looks:
        """The samples of a bucket."""
        since, until = microseconds(bucket), microseconds(bucket + BUCKET)
        rows = self._rows[bisect_left(self._told, since) : bisect_left(self._told, until)]
        gone = [at for at in self._moments[slice(*self._inside(bucket))] if at in self._gone]
        if not gone:
            return looks_of(self._host, rows, self._choices)
        return self._with_chunks(looks_of(self._host, rows, self._choices, thin=False), gone)

    def around(self, bucket: datetime) -> tuple[datetime | None, datetime | None]:
        """The host's nearest sample on either side of a bucket."""
        first, end = self._inside(bucket)
        before = moment_at(self._moments[first - 1]) if first else None
        after = moment_at(self._moments[end]) if end < len(self._moments) else None
        return (
            before if before and before >= bucket - _REACH else self._before(bucket),
            after if after and after < bucket + BUCKET + _REACH else self._after(bucket + BUCKET),
        )

    def _inside(self, bucket: datetime) -> tuple[int, int]:
        """Where the moments of the bucket begin and end."""
        since, until = (bisect_left(self._moments, microseconds(at)) for at in (bucket, bucket + BUCKET))
        return since, until

    def _before(self, moment: datetime) -> datetime | None:
        stored = [at for at in self._clock(moment - WINDOW, moment) if at < moment]
        return max(filter(None, [self._nearest(_LAST, moment), *stored[-1:]]), default=None)

    def _after(self, moment: datetime) -> datetime | None:
        stored = [at for at in self._clock(moment, moment + WINDOW) if at >= moment]
        return min(filter(None, [self._nearest(_NEXT, moment), *stored[:1]]), default=None)

    def _nearest(self, query: str, moment: datetime) -> datetime | None:
        with cursor(self._connection) as bare:
            row = bare.execute(query, [self._host, moment]).fetchone()
        return row[0] if row else None

    def _clock(self, since: datetime, until: datetime) -> list[datetime]:
        """The moments of the chunks that reach into the span."""
        return [moment_at(at) for clock in self._read_clocks(since, until).values() for at in clock.tolist()]

    def _read_clocks(self, since: datetime, until: datetime) -> dict[datetime, Moments]:
        """The moments of the chunks that reach into the span, by where the chunks begin."""
        values = {"host": self._host, "until": until, "hot": since - WINDOW, "cold": since - COLD}
        with cursor(self._connection) as bare:
            rows = bare.execute(_CLOCK, values).fetchall()
        return {start: decode_clock(payload) for start, payload in rows}

    def _with_chunks(self, found: Looks, gone: Sequence[int]) -> Looks:
        """What was found in reports, and the samples of other moments out of chunks."""
        moments = sorted([*found.moments, *map(moment_at, gone)])
        readings = list(found.readings)
        for start, clock in self._clocks.items():
            inside = np.isin(clock, gone)
            named, values = self._chunks(start) if inside.any() else ((), np.empty((0, 0)))
            if len(named):
                mine = np.ascontiguousarray(values[:, inside].T)
                readings += _present(self._host, clock[inside].tolist(), named, mine, thin=not found.moments)
        return Looks(moments, sorted(readings, key=lambda reading: reading.at))

    def _chunks(self, start: datetime) -> tuple[Sequence[SeriesKey], Matrix]:
        """What the chunks that begin there hold of the series that usage is made of: a row a series."""
        if start not in self._read:
            with cursor(self._connection) as bare:
                names = sorted(NAMES)
                rows = bare.execute(_CHUNKS, [self._host, names, start]).fetchall()
                keys = {row[0]: SeriesKey(*row[1:]) for row in bare.execute(_SERIES, [self._host, names]).fetchall()}
            named = [keys[one] for series, _ in rows for one in series]
            self._read[start] = named, np.concatenate([decode(data) for _, data in rows] or [np.empty((0, 0))])
        return self._read[start]


def _present(
    host: HostName, moments: Sequence[int], keys: Sequence[SeriesKey], values: Matrix, *, thin: bool
) -> list[HostReading]:
    """Readings of chunks, each run of samples with the series that its reports had."""
    there = values.view(np.uint64) != ABSENT
    borders = [0, *(np.flatnonzero((there[1:] != there[:-1]).any(axis=1)) + 1).tolist(), len(moments)]
    found: list[HostReading] = []
    for first, end in pairwise(borders):
        mine = np.flatnonzero(there[first])
        reader = Reader([keys[place] for place in mine.tolist()])
        part = np.ascontiguousarray(values[first:end, mine])
        found += readings_of(host, moments[first:end], reader, part, thin=thin)
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
