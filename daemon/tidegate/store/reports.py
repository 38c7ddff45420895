"""The time series: one row a report, stored once however often it is delivered."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from tidegate.model.reading import HostName, HostReading
from tidegate.model.series import unflatten
from tidegate.model.vector import decode
from tidegate.runtime.errors import Transient
from tidegate.store import partitions
from tidegate.store.admission import Fresh, Keys, Place, admit, moment, ranges, read_layout
from tidegate.store.buckets import touched
from tidegate.store.database import Database
from tidegate.store.layouts import Layouts
from tidegate.store.locks import lock_host
from tidegate.store.marks import mark
from tidegate.store.pack import pack, unpack
from tidegate.store.schema import report
from tidegate.wire import Accepted, Layout, Report

_PAGE = 500
_log = structlog.get_logger()


class StoredReports:
    """Implements the port `Reports`; safe for many threads and several controllers."""

    def __init__(self, database: Database, layouts: Layouts) -> None:
        self._database = database
        self._layouts = layouts
        self._present: frozenset[date] = frozenset()

    def accept(
        self, host: HostName, layouts: Sequence[Layout], reports: Sequence[Report], received_at: datetime
    ) -> Accepted:
        """Store what is new, in one transaction; raises ValueError, and stores nothing, when a vector does not fit."""
        read = {item.id: read_layout(host, item) for item in layouts}
        self._ensure_partitions(reports, received_at)
        try:
            return self._store(host, read, reports, received_at)
        except Transient:
            self._present = frozenset()  # a day may have been dropped under our feet: look again next time
            raise

    def _store(
        self, host: HostName, read: Mapping[str, Keys], reports: Sequence[Report], received_at: datetime
    ) -> Accepted:
        with self._database.begin() as connection:
            lock_host(connection, host)
            stored = _stored(connection, host, reports)
            lengths = self._layouts.lengths(connection, host, read, {item.layout for item in reports})
            fresh, wanting = admit(reports, lengths, stored, received_at)
            self._layouts.write(connection, host, read, received_at)
            self._layouts.note_use(connection, host, {row.report.layout for row in fresh}, received_at)
            _write(connection, host, fresh, received_at)
        _tell(host, fresh)
        kept = stored | {(row.report.boot_id, row.report.sequence) for row in fresh}
        acknowledged = [place for place in map(_place, reports) if place in kept]
        return Accepted(ranges(acknowledged), tuple(wanting), len(fresh), len(acknowledged) - len(fresh))

    def _ensure_partitions(self, reports: Sequence[Report], received_at: datetime) -> None:
        days = {moment(item.at, received_at)[0].date() for item in reports}
        today = received_at.date()
        unsure = {day for day in days if day < today or day not in self._present}  # retention drops no day to come
        if unsure:
            partitions.ensure(self._database, unsure)
            self._present = frozenset(day for day in self._present | days if day >= today)

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
                keys = layouts[row.host, row.layout_id]
                yield unflatten(HostName(row.host), row.at, keys, decode(unpack(row.vector)))
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


def _place(item: Report) -> Place:
    return item.boot_id, item.sequence


def _stored(connection: Connection, host: HostName, reports: Sequence[Report]) -> frozenset[Place]:
    """Which of the batch are there already, whatever moment they were stored under."""
    places = set(map(_place, reports))
    query = select(report.c.boot_id, report.c.sequence).where(
        report.c.host == host,
        report.c.boot_id.in_({boot for boot, _ in places}),
        report.c.sequence.in_({sequence for _, sequence in places}),
    )
    return frozenset(places & {(row.boot_id, row.sequence) for row in connection.execute(query)})


def _write(connection: Connection, host: HostName, fresh: Sequence[Fresh], received_at: datetime) -> None:
    if not fresh:
        return
    rows = [
        {
            "host": host,
            "boot_id": row.report.boot_id,
            "sequence": row.report.sequence,
            "at": row.at,
            "received_at": received_at,
            "stamped": row.stamped,
            "layout_id": row.report.layout,
            "vector": pack(row.vector),
        }
        for row in fresh
    ]
    connection.execute(insert(report), rows)
    mark(connection, host, {bucket for row in fresh for bucket in touched(row.at)})


def _tell(host: HostName, fresh: Sequence[Fresh]) -> None:
    stamped = sum(1 for row in fresh if row.stamped)
    if stamped:
        _log.warning("host clock is wrong: reports stamped with the time of receipt", host=host, reports=stamped)
