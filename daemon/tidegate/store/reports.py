"""The time series as it comes in: one row a report, stored once however often it is delivered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection, Select, func, select, tuple_

from tidegate.model.reading import HostName, HostReading
from tidegate.model.unflatten import Reader
from tidegate.model.vector import decode
from tidegate.runtime.errors import TidegateError, Transient
from tidegate.store import binary
from tidegate.store.admission import Fresh, Keys, Place, admit, ranges, read_layout
from tidegate.store.binary import number_array, text_array
from tidegate.store.buckets import touched
from tidegate.store.database import Database
from tidegate.store.few_reports import NO_SCAN, Row, store_few
from tidegate.store.layout_readers import LayoutReaders
from tidegate.store.layouts import Layouts
from tidegate.store.locks import HOSTS_LOCKED
from tidegate.store.marks import mark
from tidegate.store.pack import pack, unpack
from tidegate.store.partitions import Partitions
from tidegate.store.schema import report
from tidegate.store.windows import Windows, is_over, note, window_of
from tidegate.wire import Accepted, Incoming, Layout, Report

_PAGE = 500
_MOST_BATCHES = 64
"""In one transaction."""
_COLUMNS = ("host", "boot_id", "layout_id", "sequence", "at", "received_at", "stamped", "vector")
_FEW = 16
"""Reports that are better told as text in one message than copied in binary in six."""
_STORED = (
    "SELECT w.host, w.boot_id, w.sequence FROM unnest(%(hosts)s::text[], %(boots)s::text[], %(sequences)s::int8[]) "
    "AS w (host, boot_id, sequence) WHERE EXISTS (SELECT FROM report r WHERE r.host = w.host "
    "AND r.boot_id = w.boot_id AND r.sequence = w.sequence)"
)
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Batch:
    """What a host wants to have stored."""

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


class StoredReports:
    """Implements the port `Reports`; safe for many threads and several controllers."""

    def __init__(self, database: Database, layouts: Layouts, partitions: Partitions) -> None:
        self._database = database
        self._layouts = layouts
        self._partitions = partitions
        self._windows = Windows()
        self._readers = LayoutReaders(database, layouts)

    def accept(
        self, host: HostName, layouts: Sequence[Layout], reports: Sequence[Report], received_at: datetime
    ) -> Accepted:
        """Store what is new, in one transaction.

        Raises ValueError, and stores nothing of the batch, when a vector does not fit its layout.
        """
        (outcome,) = self.accept_all([Incoming(host, layouts, reports, received_at)])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def accept_all(self, incoming: Sequence[Incoming]) -> list[Accepted | TidegateError | ValueError]:
        """The same for what many hosts sent, a transaction for every `_MOST_BATCHES`: one answer each, or its failure.

        So a fleet costs a fraction of a transaction a report (DeWitt and others, Implementation Techniques for Main
        Memory Database Systems, 1984, 3: group commit). What cannot be written fails alone.
        """
        outcomes: list[Accepted | TidegateError | ValueError] = []
        for first in range(0, len(incoming), _MOST_BATCHES):
            outcomes += self._accept_group(incoming[first : first + _MOST_BATCHES])
        return outcomes

    def _accept_group(self, group: Sequence[Incoming]) -> list[Accepted | TidegateError | ValueError]:
        try:
            work = [one if isinstance(one, ValueError) else _admitted(one) for one in self._batches(group)]
        except Transient as error:
            return [error] * len(group)
        writing = [one for one in work if isinstance(one, _Work) and (one.fresh or one.batch.layouts)]
        news = iter(self._written(writing))
        written = {id(one) for one in writing}
        return [
            one if isinstance(one, ValueError) else _accepted(one, next(news) if id(one) in written else ())
            for one in work
        ]

    def _batches(self, group: Sequence[Incoming]) -> list[_Batch | ValueError]:
        """With the layouts that are new and the lengths of those in use, which takes one question for all of them."""
        read = [self._read(one) for one in group]
        at = max(one.received_at for one in group)
        used = {(one.host, item.layout) for one in group for item in one.reports}
        for one, layouts in zip(group, read, strict=True):
            used |= {(one.host, name) for name in ({} if isinstance(layouts, ValueError) else layouts)}
        stored = self._layouts.lengths(used, at)
        return [
            layouts if isinstance(layouts, ValueError) else _batch(one, layouts, stored)
            for one, layouts in zip(group, read, strict=True)
        ]

    def _read(self, one: Incoming) -> dict[str, Keys] | ValueError:
        unread = [item for item in one.layouts if not self._layouts.is_stored(one.host, item.id, one.received_at)]
        try:
            return {item.id: read_layout(one.host, item) for item in unread}
        except ValueError as error:
            return error

    def _written(self, work: Sequence[_Work]) -> list[Sequence[Fresh] | TidegateError | ValueError]:
        """What of each was not there before; when several together are refused each is tried alone."""
        try:
            return list(self._store(work)) if work else []
        except (TidegateError, ValueError) as error:
            if isinstance(error, Transient):
                self._partitions.forget()  # a part may have been dropped under our feet: look again next time
                self._windows.forget()
            if len(work) == 1 or isinstance(error, Transient):
                return [error] * len(work)
        return [outcome for one in work for outcome in self._written([one])]

    def _store(self, work: Sequence[_Work]) -> list[list[Fresh]]:
        """Write in one transaction; answers what of each batch was not there before."""
        received = [one.batch.received_at for one in work]
        self._partitions.ensure("report", (row.at for one in work for row in one.fresh), min(received))
        rows = [Row(one.batch.host, fresh, one.batch.received_at) for one in work for fresh in one.fresh]
        windows = {(row.host, window_of(row.fresh.at)) for row in rows}
        few = 0 < len(rows) <= _FEW and not any(one.batch.layouts for one in work)
        if few and not any(is_over(start, max(received)) for _, start in windows):
            firsts = {row.place: row for row in reversed(rows)}
            noted = self._windows.unnoted(windows, max(received))
            stored = store_few(self._database, list(firsts.values()), noted)
            self._windows.remember(noted, max(received))
            return [_news(one, firsts.keys() - stored) for one in work]
        return self._store_many(work, max(received))

    def _store_many(self, work: Sequence[_Work], received_at: datetime) -> list[list[Fresh]]:
        """Whatever they are, and however many."""
        with self._database.begin() as connection:
            taken = _stored(connection, work)
            news = [_news(one, taken) for one in work]
            for one in work:
                self._layouts.write(connection, one.batch.host, one.batch.layouts, one.batch.received_at)
            rows = [line for one, new in zip(work, news, strict=True) for line in _rows(one.batch, new)]
            binary.copy_in(connection, "report", _COLUMNS, rows)
            moments = [(one.batch.host, row.at) for one, new in zip(work, news, strict=True) for row in new]
            mark(connection, {(host, bucket) for host, at in moments for bucket in touched(at)})
            noted = self._windows.unnoted({(host, window_of(at)) for host, at in moments}, received_at)
            note(connection, noted)
        self._windows.remember(noted, received_at)
        for one in work:
            if one.batch.layouts:
                lengths = {(one.batch.host, name): len(keys) for name, keys in one.batch.layouts.items()}
                self._layouts.remember(lengths, one.batch.received_at)
        return news

    def readers(
        self, wanted: Collection[tuple[HostName, str]], *, remembered: bool = False
    ) -> Mapping[tuple[HostName, str], Reader]:
        """What reads the vectors of these layouts, by host and id; one that is not stored is left out.

        `remembered`: those alone that can be had without asking the database.
        """
        return self._readers.of(wanted, remembered=remembered)

    def readings(self, since: datetime, until: datetime, host: HostName | None = None) -> Iterator[HostReading]:
        """Stored readings with since <= at < until, by host, then by time; read in pages, no transaction held open."""
        span = [report.c.at >= since, report.c.at < until]
        if host is not None:
            span.append(report.c.host == host)
        after: tuple[object, ...] | None = None
        while True:
            with self._database.begin() as connection:
                rows = connection.execute(_page(span, after)).all()
            readers = self.readers({(HostName(row.host), row.layout_id) for row in rows})
            for row in rows:
                look = _reading(row, readers)
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


def _page(span: Sequence[ColumnElement[bool]], after: tuple[object, ...] | None) -> Select[Any]:
    order = (report.c.host, report.c.at, report.c.boot_id, report.c.sequence)
    query = select(*order, report.c.layout_id, report.c.vector).where(*span).order_by(*order).limit(_PAGE)
    return query if after is None else query.where(tuple_(*order) > after)


def _reading(row: Any, readers: Mapping[tuple[HostName, str], Reader]) -> HostReading | None:
    """What a stored row says; None when its bytes were damaged on disk, or its layout is gone."""
    host = HostName(row.host)
    try:
        return readers[host, row.layout_id].read(host, row.at, decode(unpack(row.vector)))
    except (KeyError, ValueError) as error:
        _log.error("a stored report cannot be read", host=host, at=row.at.isoformat(), error=str(error))
        return None


def _batch(one: Incoming, layouts: Mapping[str, Keys], stored: Mapping[tuple[HostName, str], int]) -> _Batch:
    """`stored`: the lengths of the layouts that are."""
    names = layouts.keys() | {item.layout for item in one.reports}
    known = {name: stored[one.host, name] for name in names if (one.host, name) in stored}
    lengths = {name: len(keys) for name, keys in layouts.items()} | known
    unstored = {name: keys for name, keys in layouts.items() if name not in known}
    return _Batch(one.host, unstored, lengths, one.reports, one.received_at)


def _accepted(
    work: _Work, stored: Sequence[Fresh] | TidegateError | ValueError
) -> Accepted | TidegateError | ValueError:
    if isinstance(stored, Exception):
        return stored
    _tell(work.batch.host, stored)
    known = {_place(row.report) for row in work.fresh}
    acknowledged = [place for place in map(_place, work.batch.reports) if place in known]
    return Accepted(ranges(known), tuple(work.wanting), len(stored), len(acknowledged) - len(stored))


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
        for host, boot, sequence in binary.last_of(connection, (HOSTS_LOCKED, NO_SCAN, _STORED), values)
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
