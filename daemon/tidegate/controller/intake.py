"""Take in what agents report: into the store first, then into the recent past in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from tidegate.controller.head import Head
from tidegate.controller.ports import Hosts, Reports
from tidegate.controller.state import State
from tidegate.controller.wishes import Wishes
from tidegate.model.reading import HostName
from tidegate.model.vector import decode
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import TidegateError, Transient
from tidegate.wire import Accepted, Answer, Arrival, Batch, Incoming, Report

_log = structlog.get_logger()

CLOCK_TOLERANCE = timedelta(seconds=30)
"""A host's clock may be off by this much before its reports are stamped anew."""
_TRANSIT_REAL_SECONDS = 2.0
"""What a message may take on its way; under a played clock this is more than the tolerance."""


_Taken = Sequence[tuple[Arrival, Sequence[Report]]]
"""Batches, with their reports as they were stamped."""
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
        self._taken: deque[tuple[_Taken, datetime]] = deque()
        self.heard: dict[HostName, datetime] = {}
        """When each host last spoke to this controller."""

    def take(self, host: HostName, batch: Batch, clock: Clock) -> Answer:
        """Store one batch and answer it; raises ValueError (nothing stored) when a vector does not fit its layout."""
        (answer,) = self.take_all([Arrival(host, batch, clock.now())], clock)
        self.look()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def take_all(self, arrivals: Sequence[Arrival], clock: Clock) -> list[Answer | Exception]:
        """The same for batches of many hosts, stored together: an answer for each, or what it failed by.

        What hosts said is remembered by the next `look`.
        """
        now, tolerance = clock.now(), _tolerance(clock)
        offsets = [clock_offset(one.batch.sent_at, one.at, tolerance) for one in arrivals]
        reports = [
            [_stamped(report, offset) for report in one.batch.reports]
            for one, offset in zip(arrivals, offsets, strict=True)
        ]
        accepted = self._reports.accept_all(
            [Incoming(one.host, one.batch.layouts, told, now) for one, told in zip(arrivals, reports, strict=True)]
        )
        looked = [
            (one, told)
            for one, told, found in zip(arrivals, reports, accepted, strict=True)
            # What was not acknowledged since the database is away comes again; but it is true now.
            if isinstance(found, Accepted | Transient)
        ]
        for one, offset, found in zip(arrivals, offsets, accepted, strict=True):
            if isinstance(found, Accepted):
                self._note_offset(one.host, offset)
        self._taken.append((looked, now))
        return [self._answer(one, found, now) for one, found in zip(arrivals, accepted, strict=True)]

    def _answer(
        self, one: Arrival, accepted: Accepted | TidegateError | ValueError, now: datetime
    ) -> Answer | Exception:
        if isinstance(accepted, Transient):
            self._state.counts.reports("failed", len(one.batch.reports))
        if isinstance(accepted, Exception):
            return accepted
        self._state.counts.reports("stored", accepted.stored)
        self._state.counts.reports("duplicate", accepted.duplicates)
        try:
            desired = self.wishes.desired(one.host) if one.batch.state is not None else None
        except TidegateError as error:
            return error
        return Answer(
            now=now.timestamp(),
            acknowledged=list(accepted.acknowledged),
            need_layouts=list(accepted.need_layouts),
            desired=desired,
        )

    def look(self) -> None:
        """Remember what hosts said, for the next tick."""
        while self._taken:
            self._look(*self._taken.popleft())

    def _look(self, arrivals: _Taken, now: datetime) -> None:
        self._feed([(one.host, report) for one, reports in arrivals for report in reports], now)
        for one, reports in arrivals:
            self._prepare(one.host, now)
            if one.batch.state is not None:
                self._hosts.seen(one.host, one.batch.state, now)
                self.heard[one.host] = now
                for report in reports[:1]:
                    self._state.twins.heard(one.host, report.boot_id, now)

    def _note_offset(self, host: HostName, offset: timedelta) -> None:
        if offset and host not in self._state.offsets:
            _log.warning("host clock is off, its reports are stamped anew", host=host, seconds=offset.total_seconds())
        if offset:
            self._state.offsets[host] = offset.total_seconds()
        else:
            self._state.offsets.pop(host, None)

    def _feed(self, reports: Sequence[tuple[HostName, Report]], now: datetime) -> None:
        recent = [(host, report) for host, report in reports if self._head.covers(_at(report), now)]
        try:
            readers = self._reports.readers({(host, report.layout) for host, report in recent})
        except Transient:  # the database is away, and they are not known
            return
        self._head.add(
            [
                readers[host, report.layout].read(host, _at(report), decode(report.values))
                for host, report in recent
                if (host, report.layout) in readers
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
