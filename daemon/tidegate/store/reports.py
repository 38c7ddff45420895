"""The time series as it comes in: one row a report, stored once however often it is delivered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection, func, select, tuple_

from tidegate.model.reading import HostName, HostReading
from tidegate.model.series import unflatten
from tidegate.model.vector import decode
from tidegate.runtime.errors import Transient
from tidegate.store import binary
from tidegate.store.admission import Fresh, Keys, Place, admit, ranges, read_layout
from tidegate.store.binary import number_array, text_array
from tidegate.store.buckets import touched
from tidegate.store.database import Database
from tidegate.store.joining import Joining
from tidegate.store.layouts import Layouts
from tidegate.store.locks import HOSTS_LOCKED
from tidegate.store.marks import mark
from tidegate.store.pack import pack, unpack
from tidegate.store.partitions import Partitions
from tidegate.store.schema import report
from tidegate.store.windows import Windows, window_of
from tidegate.wire import Accepted, Layout, Report

_PAGE = 500
_MOST_BATCHES = 64
"""In one transaction."""
_COLUMNS = ("host", "boot_id", "layout_id", "sequence", "at", "received_at", "stamped", "vector")
_NO_SCAN = "SET LOCAL enable_seqscan = off"
"""A part that is young has no statistics yet; for so few rows its index is always right."""
_STORED = (
    "SELECT w.host, w.boot_id, w.sequence FROM unnest(%(hosts)s::text[], %(boots)s::text[], %(sequences)s::int8[]) "
    "AS w (host, boot_id, sequence) WHERE EXISTS (SELECT FROM report r WHERE r.host = w.host "
    "AND r.boot_id = w.boot_id AND r.sequence = w.sequence)"
)
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one call wants to store."""

    host: HostName
    layouts: Mapping[str, Keys]
    """Those that are not stored yet."""
    lengths: Mapping[str, int]
    reports: Sequence[Report]
    received_at: datetime


@dataclass(frozen=True, slots=True)
class _Work:
    """A batch that was looked at: what of it may be stored, and which layouts are wanting."""

    batch: _Batch
    fresh: Sequence[Fresh]
    wanting: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of a batch."""

    work: _Work
    stored: Sequence[Fresh]
    """What of it was not there before."""


class StoredReports:
    """Implements the port `Reports`; safe for many threads and several controllers."""

    def __init__(self, database: Database, layouts: Layouts, partitions: Partitions) -> None:
        self._database = database
        self._layouts = layouts
        self._partitions = partitions
        self._windows = Windows()
        self._joining: Joining[_Batch, _Outcome | ValueError] = Joining(self._take, _MOST_BATCHES)

    def accept(
        self, host: HostName, layouts: Sequence[Layout], reports: Sequence[Report], received_at: datetime
    ) -> Accepted:
        """Store what is new, in one transaction with what others bring at the same time.

        Raises ValueError, and stores nothing of the batch, when a vector does not fit its layout.
        """
        unread = [item for item in layouts if not self._layouts.is_stored(host, item.id, received_at)]
        read = {item.id: read_layout(host, item) for item in unread}
        lengths = self._layouts.lengths(host, read, {item.layout for item in reports}, received_at)
        batch = _Batch(host, self._layouts.unstored(host, read), lengths, reports, received_at)
        try:
            outcome = self._joining.submit(batch)
        except Transient:
            self._partitions.forget()  # a part may have been dropped under our feet: look again next time
            self._windows.forget()
            raise
        if isinstance(outcome, ValueError):
            raise outcome
        _tell(host, outcome.stored)
        known = {_place(row.report) for row in outcome.work.fresh}
        acknowledged = [place for place in map(_place, reports) if place in known]
        stored = len(outcome.stored)
        return Accepted(ranges(known), tuple(outcome.work.wanting), stored, len(acknowledged) - stored)

    def _take(self, batches: Sequence[_Batch]) -> list[_Outcome | ValueError]:
        """Prepare batches one after the other, which no thread of theirs could do sooner, and store them."""
        work = [_admitted(batch) for batch in batches]
        writing = [one for one in work if isinstance(one, _Work) and (one.fresh or one.batch.layouts)]
        stored = iter(self._store(writing) if writing else ())
        written = {id(one) for one in writing}
        return [
            one if isinstance(one, ValueError) else _Outcome(one, next(stored) if id(one) in written else ())
            for one in work
        ]

    def _store(self, work: Sequence[_Work]) -> list[list[Fresh]]:
        """Write in one transaction; answers what of each batch was not there before."""
        received = [one.batch.received_at for one in work]
        self._partitions.ensure("report", (row.at for one in work for row in one.fresh), min(received))
        with self._database.begin() as connection:
            taken = _stored(connection, work)
            news = [_news(one, taken) for one in work]
            for one in work:
                self._layouts.write(connection, one.batch.host, one.batch.layouts, one.batch.received_at)
            rows = [line for one, new in zip(work, news, strict=True) for line in _rows(one.batch, new)]
            binary.copy_in(connection, "report", _COLUMNS, rows)
            moments = [(one.batch.host, row.at) for one, new in zip(work, news, strict=True) for row in new]
            mark(connection, {(host, bucket) for host, at in moments for bucket in touched(at)})
            windows = {(host, window_of(at)) for host, at in moments}
            noted = self._windows.note(connection, windows, max(received))
        self._windows.remember(noted)
        for one in work:
            if one.batch.layouts:
                lengths = {name: len(keys) for name, keys in one.batch.layouts.items()}
                self._layouts.remember(one.batch.host, lengths, one.batch.received_at)
        return news

    def series(self, host: HostName, layouts: Collection[str]) -> Mapping[str, Keys]:
        """The series of these layouts, by id; one that is not stored is left out."""
        pairs = {(host, name) for name in layouts}
        found: Mapping[tuple[str, str], Keys] = self._layouts.known(pairs)
        if len(found) < len(pairs):
            with self._database.begin() as connection:
                found = self._layouts.load(connection, pairs)
        return {name: keys for (_, name), keys in found.items()}

    def readings(self, since: datetime, until: datetime, host: HostName | None = None) -> Iterator[HostReading]:
        """Stored readings with since <= at < until, by host, then by time; read in pages, no transaction held open."""
        span = [report.c.at >= since, report.c.at < until]
        if host is not None:
            span.append(report.c.host == host)
        after: tuple[object, ...] | None = None
        while True:
            rows, layouts = self._page(span, after)
            for row in rows:
                look = _reading(row, layouts)
                if look is not None:
                    yield look
            if len(rows) < _PAGE:
                return
            after = (rows[-1].host, rows[-1].at, rows[-1].boot_id, rows[-1].sequence)

    def count(self, host: HostName) -> int:
        """How many reports of the host are stored."""
        with self._database.begin() as connection:
            query = select(func.count()).select_from(report).where(report.c.host == host)
            return int(connection.execute(query).scalar_one())

    def _page(
        self, span: Sequence[ColumnElement[bool]], after: tuple[object, ...] | None
    ) -> tuple[Sequence[Any], Mapping[tuple[str, str], Keys]]:
        order = (report.c.host, report.c.at, report.c.boot_id, report.c.sequence)
        query = select(*order, report.c.layout_id, report.c.vector).where(*span).order_by(*order).limit(_PAGE)
        if after is not None:
            query = query.where(tuple_(*order) > after)
        with self._database.begin() as connection:
            rows = connection.execute(query).all()
            return rows, self._layouts.load(connection, {(row.host, row.layout_id) for row in rows})


def _reading(row: Any, layouts: Mapping[tuple[str, str], Keys]) -> HostReading | None:
    """What a stored row says; None when its bytes were damaged on disk, or its layout is gone."""
    try:
        return unflatten(HostName(row.host), row.at, layouts[row.host, row.layout_id], decode(unpack(row.vector)))
    except (KeyError, ValueError) as error:
        _log.error("a stored report cannot be read", host=row.host, at=row.at.isoformat(), error=str(error))
        return None


def _place(item: Report) -> Place:
    return item.boot_id, item.sequence


def _admitted(batch: _Batch) -> _Work | ValueError:
    try:
        return _Work(batch, *admit(batch.reports, batch.lengths, frozenset(), batch.received_at))
    except ValueError as error:
        return error


def _rows(batch: _Batch, fresh: Iterable[Fresh]) -> Iterator[bytes]:
    """As `_COLUMNS` says."""
    host, received = binary.text(batch.host), binary.moment(batch.received_at)
    for row in fresh:
        told = row.report
        yield b"".join(
            (
                host,
                binary.text(told.boot_id),
                binary.text(told.layout),
                binary.big(told.sequence),
                binary.moment(row.at),
                received,
                binary.flag(row.stamped),
                binary.blob(pack(row.vector)),
            )
        )


def _stored(connection: Connection, work: Sequence[_Work]) -> set[tuple[HostName, str, int]]:
    """Which reports are there already, whatever moment they were stored under; locks the hosts before it looks."""
    places = [(one.batch.host, *_place(row.report)) for one in work for row in one.fresh]
    hosts, boots, sequences = zip(*places, strict=True) if places else ((), (), ())
    values = {
        "locked": text_array(sorted({one.batch.host for one in work})),
        "hosts": text_array(hosts),
        "boots": text_array(boots),
        "sequences": number_array(sequences),
    }
    return {
        (HostName(host), boot, sequence)
        for host, boot, sequence in binary.last_of(connection, (HOSTS_LOCKED, _NO_SCAN, _STORED), values)
    }


def _news(work: _Work, taken: set[tuple[HostName, str, int]]) -> list[Fresh]:
    """What of the batch is not taken yet; takes it."""
    found = []
    for fresh in work.fresh:
        place = (work.batch.host, *_place(fresh.report))
        if place not in taken:
            taken.add(place)
            found.append(fresh)
    return found


def _tell(host: HostName, fresh: Sequence[Fresh]) -> None:
    stamped = sum(1 for row in fresh if row.stamped)
    if stamped:
        _log.warning("host clock is wrong: reports stamped with the time of receipt", host=host, reports=stamped)
