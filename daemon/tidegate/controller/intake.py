"""Take in what agents report: into the store first, then into the recent past in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from tidegate.controller.head import Head
from tidegate.controller.ports import Hosts, Replicas, Reports
from tidegate.controller.state import State
from tidegate.model.reading import HostName, HostReading
from tidegate.model.series import SeriesKey, flatten, layout_id, unflatten
from tidegate.model.vector import decode
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import Transient
from tidegate.wire import Answer, Batch, Report

_log = structlog.get_logger()

CLOCK_TOLERANCE = timedelta(seconds=30)
"""A host's clock may be off by this much before its reports are stamped anew."""
_TRANSIT_REAL_SECONDS = 2.0
"""What a message may take on its way; under a played clock this is more than the tolerance."""
_MOMENT = timedelta(microseconds=1)
_MAX_LAYOUTS = 4096

Keys = tuple[SeriesKey, ...]


class Intake:
    """Stores batches; safe to call from many threads, the same batch any number of times."""

    def __init__(self, reports: Reports, hosts: Hosts, replicas: Replicas, head: Head, state: State) -> None:
        self._reports, self._hosts, self._replicas = reports, hosts, replicas
        self._head, self._state = head, state
        self._lock = threading.Lock()
        self._layouts: dict[tuple[HostName, str], Keys] = {}

    def take(self, host: HostName, batch: Batch, clock: Clock) -> Answer:
        """Store the batch and answer it; raises ValueError (nothing stored) when a vector does not fit its layout."""
        now = clock.now()
        offset = clock_offset(batch.sent_at, now, _tolerance(clock))
        reports = [_stamped(report, offset) for report in batch.reports]
        try:
            accepted = self._reports.accept(host, batch.layouts, reports, now)
        except Transient:
            self._state.counts.reports("failed", len(reports))
            raise
        self._state.counts.reports("stored", accepted.stored)
        self._state.counts.reports("duplicate", accepted.duplicates)
        self._note_offset(host, offset)
        self._feed(host, batch, [report for report in reports if report.layout not in accepted.need_layouts], now)
        if batch.state is not None:
            self._hosts.seen(host, batch.state, now)
        return Answer(
            now=now.timestamp(),
            acknowledged=list(accepted.acknowledged),
            need_layouts=list(accepted.need_layouts),
            desired=self._replicas.desired(host) if batch.state is not None else None,
        )

    def _note_offset(self, host: HostName, offset: timedelta) -> None:
        if offset and host not in self._state.offsets:
            _log.warning("host clock is off, its reports are stamped anew", host=host, seconds=offset.total_seconds())
        if offset:
            self._state.offsets[host] = offset.total_seconds()
        else:
            self._state.offsets.pop(host, None)

    def _feed(self, host: HostName, batch: Batch, reports: Sequence[Report], now: datetime) -> None:
        with self._lock:
            if len(self._layouts) > _MAX_LAYOUTS:
                self._layouts.clear()
            for layout in batch.layouts:
                self._layouts[host, layout.id] = tuple(SeriesKey(*row) for row in layout.series)
        self._head.add(self._readings(host, reports), now)

    def _readings(self, host: HostName, reports: Sequence[Report]) -> Iterator[HostReading]:
        unknown: list[Report] = []
        for report in reports:
            keys = self._layouts.get((host, report.layout))
            if keys is None:
                unknown.append(report)
            else:
                yield unflatten(host, _at(report), keys, decode(report.vector()))
        if unknown:
            yield from self._stored(host, unknown)

    def _stored(self, host: HostName, reports: Sequence[Report]) -> Iterator[HostReading]:
        """The readings of reports whose layouts only the store knows, from there; their layouts are learnt on the way.

        Happens once a layout after a start: the agent sends a layout only when it is new.
        """
        moments = [_at(report) for report in reports]
        wanted = {report.layout for report in reports}
        for reading in self._reports.readings(min(moments), max(moments) + _MOMENT, host):
            keys, _ = flatten(reading)
            if (name := layout_id(keys)) in wanted:
                with self._lock:
                    self._layouts[host, name] = keys
            yield reading


def clock_offset(sent_at: float, now: datetime, tolerance: timedelta) -> timedelta:
    """How far ahead the host's clock is; zero within the tolerance, and for a time that is none."""
    try:
        offset = datetime.fromtimestamp(sent_at, UTC) - now
    except (OverflowError, ValueError, OSError):
        return timedelta()
    return offset if abs(offset) > tolerance else timedelta()


def _tolerance(clock: Clock) -> timedelta:
    real_second = clock.real_seconds(timedelta(seconds=1))
    return max(CLOCK_TOLERANCE, timedelta(seconds=_TRANSIT_REAL_SECONDS / real_second))


def _stamped(report: Report, offset: timedelta) -> Report:
    if not offset:
        return report
    return report.model_copy(update={"at": report.at - offset.total_seconds()})


def _at(report: Report) -> datetime:
    return datetime.fromtimestamp(report.at, UTC)
