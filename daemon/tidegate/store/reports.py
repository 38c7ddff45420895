"""The time series as it comes in: one row a report, stored once however often it is delivered."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
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
from tidegate.store.locks import lock_hosts
from tidegate.store.marks import mark
from tidegate.store.pack import pack, unpack
from tidegate.store.partitions import Partitions
from tidegate.store.schema import report
from tidegate.store.windows import Windows, window_of
from tidegate.wire import Accepted, Layout, Report

_PAGE = 500
_MOST_BATCHES = 64
"""In one transaction."""
_COLUMNS = ("host", "boot_id", "sequence", "at", "received_at", "stamped", "layout_id", "vector")
_STORED = (
    "SELECT w.host, w.boot_id, w.sequence FROM unnest(%s::text[], %s::text[], %s::int8[]) "
    "AS w (host, boot_id, sequence) WHERE EXISTS (SELECT FROM report r WHERE r.host = w.host "
    "AND r.boot_id = w.boot_id AND r.sequence = w.sequence)"
)
_NO_SCAN = "SET LOCAL enable_seqscan = off"
"""A part that is young has no statistics yet; for so few rows its index is always right."""
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one call wants to store."""

    host: HostName
    layouts: Mapping[str, Keys]
    fresh: Sequence[Fresh]
    rows: Sequence[bytes]
    """Those of `fresh`, ready to be copied in."""
    received_at: datetime


class StoredReports:
    """Implements the port `Reports`; safe for many threads and several controllers."""

    def __init__(self, database: Database, layouts: Layouts, partitions: Partitions) -> None:
        self._database = database
        self._layouts = layouts
        self._partitions = partitions
        self._windows = Windows()
        self._preparing = Lock()
        """One at a time: the interpreter lets no more run anyway, and those that wait here cost nothing meanwhile."""
        self._joining: Joining[_Batch, list[Fresh]] = Joining(self._store, _MOST_BATCHES)

    def accept(
        self, host: HostName, layouts: Sequence[Layout], reports: Sequence[Report], received_at: datetime
    ) -> Accepted:
        """Store what is new, in one transaction with what others bring at the same time.

        Raises ValueError, and stores nothing of the batch, when a vector does not fit its layout.
        """
        unread = [item for item in layouts if not self._layouts.is_stored(host, item.id, received_at)]
        read = {item.id: read_layout(host, item) for item in unread}
        lengths = self._layouts.lengths(host, read, {item.layout for item in reports}, received_at)
        with self._preparing:
            fresh, wanting = admit(reports, lengths, frozenset(), received_at)
            rows = [_row(host, row, received_at) for row in fresh]
        batch = _Batch(host, self._layouts.unstored(host, read), fresh, rows, received_at)
        stored = self._submit(batch) if fresh or batch.layouts else []
        _tell(host, stored)
        known = {(row.report.boot_id, row.report.sequence) for row in fresh}
        acknowledged = [place for place in map(_place, reports) if place in known]
        return Accepted(ranges(acknowledged), tuple(wanting), len(stored), len(acknowledged) - len(stored))

    def _submit(self, batch: _Batch) -> list[Fresh]:
        self._partitions.ensure("report", (row.at for row in batch.fresh), batch.received_at)
        try:
            return self._joining.submit(batch)
        except Transient:
            self._partitions.forget()  # a part may have been dropped under our feet: look again next time
            self._windows.forget()
            raise

    def _store(self, batches: Sequence[_Batch]) -> list[list[Fresh]]:
        """Write the batches in one transaction; answers what of each was not there before."""
        with self._database.begin() as connection:
            lock_hosts(connection, {batch.host for batch in batches})
            taken = _stored(connection, batches)
            news = [_news(batch, taken) for batch in batches]
            for batch in batches:
                self._layouts.write(connection, batch.host, batch.layouts, batch.received_at)
            rows = [row for new in news for _, row in new]
            binary.copy_in(connection, "report", _COLUMNS, rows)
            moments = [(batch.host, row.at) for batch, new in zip(batches, news, strict=True) for row, _ in new]
            mark(connection, {(host, bucket) for host, at in moments for bucket in touched(at)})
            latest = max(batch.received_at for batch in batches)
            noted = self._windows.note(connection, {(host, window_of(at)) for host, at in moments}, latest)
        self._windows.remember(noted)
        for batch in batches:
            if batch.layouts:
                lengths = {name: len(keys) for name, keys in batch.layouts.items()}
                self._layouts.remember(batch.host, lengths, batch.received_at)
        return [[row for row, _ in new] for new in news]

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


def _row(host: HostName, row: Fresh, received_at: datetime) -> bytes:
    report_ = row.report
    return b"".join(
        (
            binary.text(host),
            binary.text(report_.boot_id),
            binary.big(report_.sequence),
            binary.moment(row.at),
            binary.moment(received_at),
            binary.flag(row.stamped),
            binary.text(report_.layout),
            binary.blob(pack(row.vector)),
        )
    )


def _stored(connection: Connection, batches: Sequence[_Batch]) -> set[tuple[HostName, str, int]]:
    """Which reports of the batches are there already, whatever moment they were stored under."""
    places = [(batch.host, *_place(row.report)) for batch in batches for row in batch.fresh]
    if not places:
        return set()
    hosts, boots, sequences = zip(*places, strict=True)
    with binary.cursor(connection) as cursor:
        cursor.execute(_NO_SCAN)
        cursor.execute(_STORED, [text_array(hosts), text_array(boots), number_array(sequences)])
        return {(HostName(host), boot, sequence) for host, boot, sequence in cursor.fetchall()}


def _news(batch: _Batch, taken: set[tuple[HostName, str, int]]) -> list[tuple[Fresh, bytes]]:
    """What of the batch is not taken yet; takes it."""
    found = []
    for fresh, row in zip(batch.fresh, batch.rows, strict=True):
        place = (batch.host, *_place(fresh.report))
        if place not in taken:
            taken.add(place)
            found.append((fresh, row))
    return found


def _tell(host: HostName, fresh: Sequence[Fresh]) -> None:
    stamped = sum(1 for row in fresh if row.stamped)
    if stamped:
        _log.warning("host clock is wrong: reports stamped with the time of receipt", host=host, reports=stamped)
