"""Write a host's samples of one span: chunks, their clock, and the rollups, in place of what was there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, text

from tidegate.model.reading import HostName
from tidegate.store import binary
from tidegate.store.chunk_codec import encode, encode_clock
from tidegate.store.matrix import Samples
from tidegate.store.rollup_codec import TYPES, Buckets, counters, edges, gauges, moments_of, wider
from tidegate.store.schema_series import STEPS, rollup_1h, rollup_1m, rollup_5m
from tidegate.store.series import KINDS
from tidegate.store.series_kinds import SeriesKind
from tidegate.store.windows import span_start

_PARTS = ("sum", "count", "minimum", "maximum", "increase", "last")
_CHUNK = ("cold", "block", "start", "series", "payload")
_CLOCK = ("cold", "host", "start", "samples", "payload")
_ROLLUP = ("cold", "block", "start", "buckets", "series", *_PARTS)
_OF_BLOCKS = ("chunk", "rollup_1m", "rollup_5m", "rollup_1h")


_STANDS = text(
    "SELECT EXISTS (SELECT FROM horizon WHERE reports_from > :start) AND EXISTS (SELECT FROM series_block b "
    "JOIN rollup_1h r ON r.block = b.id WHERE b.host = :host AND r.start = CASE WHEN r.cold THEN :span ELSE :start END)"
)


@dataclass(frozen=True, slots=True)
class Span:
    """What one row covers."""

    host: HostName
    start: datetime
    length: timedelta
    cold: bool


@dataclass(frozen=True, slots=True)
class _Block:
    number: int
    rows: slice
    series: bytes
    """The numbers of its series as a field."""


def remove(connection: Connection, host: HostName, since: datetime, until: datetime, *, cold: bool) -> None:
    """Take away everything of the host in one layer that begins with since <= start < until."""
    values = {"cold": cold, "host": host, "since": since, "until": until}
    where = "cold = :cold AND start >= :since AND start < :until"
    connection.execute(text(f"DELETE FROM chunk_clock WHERE {where} AND host = :host"), values)  # noqa: S608
    for table in _OF_BLOCKS:
        ours = "block IN (SELECT id FROM series_block WHERE host = :host)"
        connection.execute(text(f"DELETE FROM {table} WHERE {where} AND {ours}"), values)  # noqa: S608 - our own names


def stands(connection: Connection, host: HostName, start: datetime) -> bool:
    """True when a window's samples were forgotten and the rollups made of all of them are there: they stay as they are.

    Made anew of the few reports that came after that, they would lose the others.
    """
    values = {"host": host, "start": start, "span": span_start(start)}
    return bool(connection.execute(_STANDS, values).scalar_one())


def write(
    connection: Connection, span: Span, samples: Samples, before: NDArray[np.float64], minutes: frozenset[int]
) -> None:
    """Write the span; `before`: the last total of each series before it, `minutes`: blocks rolled up by the minute."""
    blocks = list(_blocks(samples))
    key = binary.moment(span.start)
    cold = binary.flag(span.cold)
    clock = cold + binary.text(span.host) + key + binary.integer(len(samples.moments))
    payload = binary.blob(encode_clock(samples.moments))
    binary.copy_in(connection, "chunk_clock", _CLOCK, [clock + payload])
    chunks = [
        cold + binary.integer(block.number) + key + block.series + binary.blob(encode(samples.values[block.rows]))
        for block in blocks
    ]
    binary.copy_in(connection, "chunk", _CHUNK, chunks)
    narrow = _buckets(samples, span, STEPS[rollup_5m], before)
    _copy(connection, rollup_5m, span, blocks, narrow)
    _copy(connection, rollup_1h, span, blocks, [(first, wider(part, 12)) for first, part in narrow])
    if not span.cold and minutes:
        named = [block for block in blocks if block.number in minutes]
        _copy(connection, rollup_1m, span, named, _buckets(samples, span, STEPS[rollup_1m], before))


def _blocks(samples: Samples) -> Iterator[_Block]:
    borders = np.flatnonzero(np.diff(samples.blocks, prepend=-1, append=-1))
    for first, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        rows = slice(first, end)
        yield _Block(int(samples.blocks[first]), rows, binary.array(samples.ids[rows], "i4"))


_Regions = Sequence[tuple[int, Buckets]]
"""Buckets of the series of each kind, with the row that the kind begins at."""


def _buckets(samples: Samples, span: Span, step: timedelta, before: NDArray[np.float64]) -> _Regions:
    borders = edges(samples.moments, span.start, step, span.length // step)
    found: list[tuple[int, Buckets]] = []
    for number, kind in enumerate(KINDS):
        first, end = np.searchsorted(samples.kinds, [number, number + 1]).tolist()
        values = samples.values[first:end]
        if kind is SeriesKind.GAUGE:
            found.append((first, gauges(values, borders)))
        elif kind is SeriesKind.COUNTER:
            found.append((first, counters(values, before[first:end], borders)))
        else:
            found.append((first, moments_of(values, borders)))
    return found


def _copy(connection: Connection, table: Table, span: Span, blocks: Sequence[_Block], regions: _Regions) -> None:
    opening = binary.flag(span.cold), binary.moment(span.start), binary.small(span.length // STEPS[table])
    rows = []
    for block in blocks:
        first, parts = next(region for region in reversed(regions) if region[0] <= block.rows.start and region[1])
        mine = slice(block.rows.start - first, block.rows.stop - first)
        rows.append(_row(block, opening, parts, mine))
    binary.copy_in(connection, table.name, _ROLLUP, rows)


def _row(block: _Block, opening: tuple[bytes, bytes, bytes], parts: Buckets, mine: slice) -> bytes:
    cold, start, buckets = opening
    arrays = [binary.array(parts[name][mine], TYPES[name]) if name in parts else binary.NULL for name in _PARTS]
    return b"".join((cold, binary.integer(block.number), start, buckets, block.series, *arrays))
