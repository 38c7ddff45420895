"""Samples of one host as a matrix, a row a series and a column a moment: from reports, from chunks, and together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from tidegate.model.reading import Gap, HostName, Missing
from tidegate.model.vector import encode as encode_vector
from tidegate.store.binary import cursor, microseconds
from tidegate.store.chunk_codec import ABSENT, Matrix, Moments, decode, decode_clock
from tidegate.store.pack import is_whole, unpack_all
from tidegate.store.series import KINDS, Columns

_NOT_FINITE = np.frombuffer(encode_vector([Missing(Gap.NOT_FINITE)]), "<f8")[0]
_REPORTS = (
    "SELECT at, layout_id, vector FROM report WHERE host = %s AND at >= %s AND at < %s ORDER BY at, boot_id, sequence"
)
_BEFORE = (
    "SELECT at, layout_id, vector FROM report WHERE host = %s AND at >= %s AND at < %s "
    "ORDER BY at DESC, boot_id DESC, sequence DESC LIMIT 1"
)
_CLOCKS = (
    "SELECT start, payload FROM chunk_clock WHERE cold = %s AND host = %s AND start >= %s AND start < %s ORDER BY start"
)
_CHUNKS = (
    "SELECT c.start, c.block, b.kind, c.series, c.payload FROM series_block b JOIN chunk c ON c.block = b.id "
    "WHERE c.cold = %s AND b.host = %s AND c.start >= %s AND c.start < %s"
)

Stored = tuple[int, str, bytes]
"""A report: when (microseconds), under which layout, the packed vector."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Series in the order of kind, block and number; moments in ascending order."""

    moments: Moments
    ids: NDArray[np.int32]
    blocks: NDArray[np.int32]
    kinds: NDArray[np.int8]
    """Positions in `series.KINDS`."""
    values: Matrix

    def last(self) -> dict[int, float]:
        """The last value of each series that is a number, by the series' number."""
        found = np.flatnonzero(~np.isnan(totals := self._last()))
        return dict(zip(self.ids[found].tolist(), totals[found].tolist(), strict=True))

    def last_of(self, ids: NDArray[np.int32]) -> NDArray[np.float64]:
        """The same for these series, NaN where there is none."""
        if not len(self.ids):
            return np.full(len(ids), np.nan)
        order = np.argsort(self.ids)
        places = order[np.searchsorted(self.ids, ids, sorter=order).clip(max=len(order) - 1)]
        return np.where(self.ids[places] == ids, self._last()[places], np.nan)

    def _last(self) -> NDArray[np.float64]:
        if not len(self.moments):
            return np.full(len(self.ids), np.nan)
        last = self.values[:, -1].copy()
        holed = np.flatnonzero(np.isnan(last))
        if len(holed):
            values = self.values[holed]
            places = np.where(np.isnan(values), 0, np.arange(values.shape[1])).max(axis=1)
            last[holed] = values[np.arange(len(holed)), places]
        return last


def read_reports(connection: Connection, host: HostName, since: datetime, until: datetime) -> list[Stored]:
    """The host's reports with since <= at < until, in order."""
    with cursor(connection) as bare:
        rows = bare.execute(_REPORTS, [host, since, until]).fetchall()
    return [(microseconds(at), layout, vector) for at, layout, vector in rows]


def read_before(connection: Connection, host: HostName, moment: datetime, reach: timedelta) -> list[Stored]:
    """The host's last report before the moment, if there is one within reach."""
    with cursor(connection) as bare:
        rows = bare.execute(_BEFORE, [host, moment - reach, moment]).fetchall()
    return [(microseconds(at), layout, vector) for at, layout, vector in rows]


def of_reports(rows: Sequence[Stored], layouts: Mapping[str, Columns]) -> Samples:
    """Reports of layouts by numbers; one whose layout is not among them has a moment and no value."""
    by_layout: dict[str, list[int]] = {}
    for place, (_, layout, _) in enumerate(rows):
        by_layout.setdefault(layout, []).append(place)
    parts = []
    for layout, places in by_layout.items():
        moments = np.array([rows[place][0] for place in places], np.int64)
        known = layouts.get(layout)
        if known is None:
            parts.append(_empty(moments))
            continue
        values = unpack_all([rows[place][2] for place in places], known.length)[known.places]
        values[np.isinf(values)] = _NOT_FINITE
        parts.append(Samples(moments, known.ids, known.blocks, known.kinds, values))
    return together(parts)


def without_damaged(rows: Sequence[Stored], layouts: Mapping[str, Columns]) -> tuple[list[Stored], int]:
    """The rows, those whose bytes were damaged on disk under no layout; and how many these are."""
    kept = [
        (at, layout if layout not in layouts or is_whole(packed, layouts[layout].length) else "", packed)
        for at, layout, packed in rows
    ]
    return kept, sum(after[1] != before[1] for after, before in zip(kept, rows, strict=True))


def read_chunks(connection: Connection, host: HostName, since: datetime, until: datetime, *, cold: bool) -> Samples:
    """What the host's chunks of one layer hold, of those that begin with since <= start < until."""
    with cursor(connection) as bare:
        clocks = bare.execute(_CLOCKS, [cold, host, since, until]).fetchall()
        chunks = bare.execute(_CHUNKS, [cold, host, since, until]).fetchall()
    parts = []
    for start, payload in clocks:
        moments = decode_clock(payload)
        mine = [row for row in chunks if row[0] == start]
        parts.append(_of_chunks(moments, [row[1:] for row in mine]))
    return together(parts)


def _of_chunks(moments: Moments, rows: Sequence[tuple[int, str, Sequence[int], bytes]]) -> Samples:
    if not rows:
        return _empty(moments)
    counts = [len(series) for _, _, series, _ in rows]
    ids = np.concatenate([np.array(series, np.int32) for _, _, series, _ in rows])
    blocks = np.repeat(np.array([block for block, _, _, _ in rows], np.int32), counts)
    kinds = np.repeat(np.array([_KIND_NUMBERS[kind] for _, kind, _, _ in rows], np.int8), counts)
    values = np.concatenate([decode(payload) for _, _, _, payload in rows])
    order = np.lexsort((ids, blocks, kinds))
    return Samples(moments, ids[order], blocks[order], kinds[order], values[order])


_KIND_NUMBERS = {kind.value: number for number, kind in enumerate(KINDS)}


def together(parts: Collection[Samples]) -> Samples:
    """All samples in the order of their moments; a series is ABSENT where only others were sampled."""
    kept = [part for part in parts if len(part.moments)]
    if len(kept) == 1:
        return _in_order(kept[0])
    if not kept:
        return _empty(np.empty(0, np.int64))
    ids, first = np.unique(np.concatenate([part.ids for part in kept]), return_index=True)
    blocks = np.concatenate([part.blocks for part in kept])[first]
    kinds = np.concatenate([part.kinds for part in kept])[first]
    order = np.lexsort((ids, blocks, kinds))
    lines = np.empty(len(ids), np.intp)
    lines[order] = np.arange(len(ids))
    values = np.full((len(ids), sum(len(part.moments) for part in kept)), ABSENT).view(np.float64)
    column = 0
    for part in kept:
        values[lines[np.searchsorted(ids, part.ids)], column : column + len(part.moments)] = part.values
        column += len(part.moments)
    moments = np.concatenate([part.moments for part in kept])
    return _in_order(Samples(moments, ids[order], blocks[order], kinds[order], values))


def _in_order(samples: Samples) -> Samples:
    moments = samples.moments
    if (moments[1:] >= moments[:-1]).all():
        return samples
    order = np.argsort(moments, kind="stable")
    return Samples(moments[order], samples.ids, samples.blocks, samples.kinds, samples.values[:, order])


def _empty(moments: Moments) -> Samples:
    none, kinds = np.empty(0, np.int32), np.empty(0, np.int8)
    return Samples(moments, none, none, kinds, np.empty((0, len(moments))))
