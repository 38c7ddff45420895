"""What hosts said in a run of buckets each: out of reports, and out of chunks where the reports are gone.

Many hosts are read together: of one alone the messages to the database would cost far more than what they bring.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise

import numpy as np
from sqlalchemy import Connection

from tidegate.model.reading import HostName, HostReading
from tidegate.model.series import SeriesKey
from tidegate.model.unflatten import Reader
from tidegate.model.usage import BUCKET
from tidegate.store.binary import at as moment_at
from tidegate.store.binary import cursor, microseconds, text_array
from tidegate.store.chunk_codec import ABSENT, Matrix, Moments, decode, decode_clock
from tidegate.store.layouts import Layouts
from tidegate.store.samples import NAMES, Choice, Looks, Stored, choice_of, looks_of, readings_of
from tidegate.store.schema_series import COLD, WINDOW

Runs = Mapping[HostName, Sequence[datetime]]
"""Of each host buckets that follow one another without a gap, at least one."""

_RUNS = "unnest(%(hosts)s::text[], %(since)s::timestamptz[], %(until)s::timestamptz[]) AS w (host, since, until)"
_REPORTS = (
    f"SELECT w.host, r.at, r.layout_id, r.vector FROM {_RUNS} CROSS JOIN LATERAL (SELECT at, layout_id, vector "  # noqa: S608
    "FROM report WHERE host = w.host AND at >= w.since AND at < w.until ORDER BY at, boot_id, sequence) AS r"
)
_NEAREST = (
    "SELECT w.host, (SELECT max(at) FROM report WHERE host = w.host AND at < w.since), "  # noqa: S608
    f"(SELECT min(at) FROM report WHERE host = w.host AND at >= w.until) FROM {_RUNS}"
)
_HOURS = int(WINDOW.total_seconds() // 3_600), int(COLD.total_seconds() // 3_600)
_CLOCKS = (
    f"SELECT w.host, c.cold, c.start, c.payload FROM {_RUNS} CROSS JOIN LATERAL (SELECT cold, start, payload "  # noqa: S608
    f"FROM chunk_clock WHERE host = w.host AND start < w.until + interval '{_HOURS[0]} h' "
    f"AND (NOT cold AND start > w.since - interval '{2 * _HOURS[0]} h' "
    f"OR cold AND start > w.since - interval '{sum(_HOURS)} h') ORDER BY start) AS c"
)
"""Those that reach into a run, or into a window's length around it."""
_CHUNKS = (
    "SELECT c.series, c.payload FROM series_block b JOIN chunk c ON c.block = b.id WHERE b.host = %s "
    "AND b.scope = 'engine' AND b.name = ANY (%s) AND c.start = %s"
)
_SERIES = "SELECT id, scope, owner, name, rank, le FROM series WHERE host = %s AND scope = 'engine' AND name = ANY (%s)"


def read_pasts(connection: Connection, layouts: Layouts, runs: Runs) -> dict[HostName, Past]:
    """What each host said in its run, in few questions for all of them."""
    values = _values(runs)
    rows: dict[HostName, list[Stored]] = {host: [] for host in runs}
    clocks: dict[HostName, list[_Clock]] = {host: [] for host in runs}
    with cursor(connection) as bare:
        for host, at, layout, vector in bare.execute(_REPORTS, values):
            rows[host].append((microseconds(at), layout, vector))
        nearest = {host: (before, after) for host, before, after in bare.execute(_NEAREST, values)}
        for host, cold, start, payload in bare.execute(_CLOCKS, values):
            clocks[host].append(_Clock(start, start + (COLD if cold else WINDOW), payload))
    keys = layouts.load(connection, {(host, layout) for host, told in rows.items() for _, layout, _ in told})
    choices = {place: choice_of(of) for place, of in keys.items()}
    return {
        host: Past(_Chunks(connection, host), told, _of_host(choices, host, told), nearest[host], clocks[host])
        for host, told in rows.items()
    }


def _values(runs: Runs) -> dict[str, str]:
    return {
        "hosts": text_array(list(runs)),
        "since": text_array([run[0].isoformat() for run in runs.values()]),
        "until": text_array([(run[-1] + BUCKET).isoformat() for run in runs.values()]),
    }


def _of_host(choices: Mapping[tuple[str, str], Choice], host: HostName, told: Sequence[Stored]) -> dict[str, Choice]:
    names = {layout for _, layout, _ in told}
    return {name: choices[host, name] for name in names if (host, name) in choices}


@dataclass(frozen=True)
class _Clock:
    """The moments of a host's samples in the chunks of a window."""

    start: datetime
    end: datetime
    payload: bytes

    @cached_property
    def moments(self) -> Moments:
        return decode_clock(self.payload)


class _Chunks:
    """The chunks of a host, read where they are wanted: once its reports are gone, and one comes late."""

    def __init__(self, connection: Connection, host: HostName) -> None:
        self._connection, self.host = connection, host
        self._read: dict[datetime, tuple[Sequence[SeriesKey], Matrix]] = {}

    def starting(self, start: datetime) -> tuple[Sequence[SeriesKey], Matrix]:
        """What those that begin there hold of the series that usage is made of: a row a series."""
        if start not in self._read:
            names = sorted(NAMES)
            with cursor(self._connection) as bare:
                rows = bare.execute(_CHUNKS, [self.host, names, start]).fetchall()
                keys = {row[0]: SeriesKey(*row[1:]) for row in bare.execute(_SERIES, [self.host, names]).fetchall()}
            named = [keys[one] for series, _ in rows for one in series]
            self._read[start] = named, np.concatenate([decode(data) for _, data in rows] or [np.empty((0, 0))])
        return self._read[start]


class Past:
    """One host's samples in its run of buckets, and the nearest ones on either side of each."""

    def __init__(
        self,
        chunks: _Chunks,
        rows: Sequence[Stored],
        choices: Mapping[str, Choice],
        nearest: tuple[datetime | None, datetime | None],
        clocks: Sequence[_Clock],
    ) -> None:
        """`rows`: the run's reports in time order; `nearest`: those before and after the run."""
        self._chunks, self._rows, self._choices, self._clocks = chunks, rows, choices, clocks
        self._told = [at for at, _, _ in rows]
        self._before, self._after = nearest

    def looks(self, bucket: datetime) -> Looks:
        """The samples of a bucket."""
        first, end = self._inside(bucket)
        rows, told = self._rows[first:end], frozenset(self._told[first:end])
        gone = [at for at in self._in_chunks(bucket, bucket + BUCKET) if at not in told]
        if not gone:
            return looks_of(self._chunks.host, rows, self._choices)
        return self._with_chunks(looks_of(self._chunks.host, rows, self._choices, thin=False), gone)

    def around(self, bucket: datetime) -> tuple[datetime | None, datetime | None]:
        """The host's nearest sample on either side of a bucket."""
        first, end = self._inside(bucket)
        before = moment_at(self._told[first - 1]) if first else self._before
        after = moment_at(self._told[end]) if end < len(self._told) else self._after
        over = bucket + BUCKET
        earlier = self._in_chunks(bucket - WINDOW if before is None else max(before, bucket - WINDOW), bucket)
        later = self._in_chunks(over, over + WINDOW if after is None else min(after, over + WINDOW))
        return moment_at(earlier[-1]) if earlier else before, moment_at(later[0]) if later else after

    def _inside(self, bucket: datetime) -> tuple[int, int]:
        """Where the reports of the bucket begin and end."""
        since, until = (bisect_left(self._told, microseconds(at)) for at in (bucket, bucket + BUCKET))
        return since, until

    def _in_chunks(self, since: datetime, until: datetime) -> list[int]:
        """The moments of the span that chunks know of, in order."""
        first, end = microseconds(since), microseconds(until)
        clocks = [clock for clock in self._clocks if clock.start < until and clock.end > since]
        return sorted({at for clock in clocks for at in clock.moments.tolist() if first <= at < end})

    def _with_chunks(self, found: Looks, gone: Sequence[int]) -> Looks:
        """What was found in reports, and the samples of other moments out of chunks."""
        moments = sorted([*found.moments, *map(moment_at, gone)])
        readings = list(found.readings)
        for start, clock in {clock.start: clock.moments for clock in self._clocks}.items():
            inside = np.isin(clock, gone)
            named, values = self._chunks.starting(start) if inside.any() else ((), np.empty((0, 0)))
            if len(named):
                mine = np.ascontiguousarray(values[:, inside].T)
                readings += _present(self._chunks.host, clock[inside].tolist(), named, mine, thin=not found.moments)
        return Looks(moments, sorted(readings, key=lambda reading: reading.at))


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
