"""Take in what agents report: into the store first, then into the recent past in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from tidegate.controller.head import Head
from tidegate.controller.ports import Hosts, Reports
from tidegate.controller.state import State
from tidegate.controller.wishes import Wishes
from tidegate.model.reading import HostName
from tidegate.model.series import unflatten
from tidegate.model.vector import decode
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import Transient
from tidegate.wire import Answer, Batch, Report

_log = structlog.get_logger()

CLOCK_TOLERANCE = timedelta(seconds=30)
"""A host's clock may be off by this much before its reports are stamped anew."""
_TRANSIT_REAL_SECONDS = 2.0
"""What a message may take on its way; under a played clock this is more than the tolerance."""


Prepare = Callable[[HostName, datetime], None]


def _leave(_host: HostName, _now: datetime) -> None:
    """Leave everything to the tick."""


class Intake:
    """Stores batches; safe to call from many threads, the same batch any number of times."""

    def __init__(
        self, reports: Reports, hosts: Hosts, wishes: Wishes, head: Head, state: State, prepare: Prepare = _leave
    ) -> None:
        """`prepare` is told of each host that was heard, for what can be worked out before the next tick."""
        self._prepare = prepare
        self._reports, self._hosts, self.wishes = reports, hosts, wishes
        self._head, self._state = head, state
        self.heard: dict[HostName, datetime] = {}
        """When each host last spoke to this controller."""

    def take(self, host: HostName, batch: Batch, clock: Clock, arrived: datetime | None = None) -> Answer:
        """Store the batch and answer it; raises ValueError (nothing stored) when a vector does not fit its layout.

        `arrived`: when it came, where that was earlier than now: what waits here for its turn was not sent later.
        """
        now = clock.now()
        offset = clock_offset(batch.sent_at, arrived or now, _tolerance(clock))
        reports = [_stamped(report, offset) for report in batch.reports]
        try:
            accepted = self._reports.accept(host, batch.layouts, reports, now)
        except Transient:
            self._state.counts.reports("failed", len(reports))
            self._look(host, batch, reports, now)  # not acknowledged: it comes again; but it is true now
            raise
        self._state.counts.reports("stored", accepted.stored)
        self._state.counts.reports("duplicate", accepted.duplicates)
        self._note_offset(host, offset)
        self._look(host, batch, reports, now)
        return Answer(
            now=now.timestamp(),
            acknowledged=list(accepted.acknowledged),
            need_layouts=list(accepted.need_layouts),
            desired=self.wishes.desired(host) if batch.state is not None else None,
        )

    def _look(self, host: HostName, batch: Batch, reports: Sequence[Report], now: datetime) -> None:
        """Remember what the host is now, for the next tick."""
        self._feed(host, reports, now)
        self._prepare(host, now)
        if batch.state is not None:
            self._hosts.seen(host, batch.state, now)
            self.heard[host] = now
            for report in reports[:1]:
                self._state.twins.heard(host, report.boot_id, now)

    def _note_offset(self, host: HostName, offset: timedelta) -> None:
        if offset and host not in self._state.offsets:
            _log.warning("host clock is off, its reports are stamped anew", host=host, seconds=offset.total_seconds())
        if offset:
            self._state.offsets[host] = offset.total_seconds()
        else:
            self._state.offsets.pop(host, None)

    def _feed(self, host: HostName, reports: Sequence[Report], now: datetime) -> None:
        recent = [report for report in reports if self._head.covers(_at(report), now)]
        try:
            series = self._reports.series(host, {report.layout for report in recent})
        except Transient:  # the database is away, and they are not known
            return
        self._head.add(
            [
                unflatten(host, _at(report), series[report.layout], decode(report.values))
                for report in recent
                if report.layout in series
            ],
            now,
        )


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
