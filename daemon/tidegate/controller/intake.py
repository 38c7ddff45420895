"""Take in what agents report: into the store, and word of it to those who look at the recent past."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tidegate.controller.heard import Heard, Listener, Look, Told
from tidegate.controller.ports import Reports
from tidegate.controller.wishes import Wishes
from tidegate.model.reading import HostName
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import TidegateError, Transient
from tidegate.wire import Accepted, Answer, Arrival, Batch, Incoming, Report

CLOCK_TOLERANCE = timedelta(seconds=30)
"""A host's clock may be off by this much before its reports are stamped anew."""
_TRANSIT_REAL_SECONDS = 2.0
"""What a message may take on its way; under a played clock this is more than the tolerance."""
_AHEAD = timedelta(hours=1)
"""No look is further ahead: it would not be kept, and the farthest are no times at all."""
_Found = Accepted | TidegateError | ValueError


class Intake:
    """Stores batches; safe to call from many threads, the same batch any number of times."""

    def __init__(self, reports: Reports, wishes: Wishes, listener: Listener, recent: timedelta) -> None:
        """`listener` is told of what came, of reports those that are younger than `recent`."""
        self._reports, self._wishes, self._listener, self._recent = reports, wishes, listener, recent

    def take(self, host: HostName, batch: Batch, clock: Clock) -> Answer:
        """Store one batch and answer it; raises ValueError (nothing stored) when a vector does not fit its layout."""
        (answer,) = self.take_all([Arrival(host, batch, clock.now())], clock)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def take_all(self, arrivals: Sequence[Arrival], clock: Clock) -> list[Answer | Exception]:
        """The same for batches of many hosts, stored together: an answer for each, or what it failed by."""
        now, tolerance = clock.now(), _tolerance(clock)
        offsets = [clock_offset(one.batch.sent_at, one.at, tolerance) for one in arrivals]
        reports = [
            [_stamped(report, offset) for report in one.batch.reports]
            for one, offset in zip(arrivals, offsets, strict=True)
        ]
        accepted = self._reports.accept_all(
            [Incoming(one.host, one.batch.layouts, told, now) for one, told in zip(arrivals, reports, strict=True)]
        )
        heard = [
            _heard(one, told, now, self._recent, offset if isinstance(found, Accepted) else None)
            for one, told, offset, found in zip(arrivals, reports, offsets, accepted, strict=True)
            # What was not acknowledged since the database is away comes again; but it is true now.
            if isinstance(found, Accepted | Transient)
        ]
        self._listener.hear(Told(heard, _fates(arrivals, accepted)))
        return [self._answer(one, found, now) for one, found in zip(arrivals, accepted, strict=True)]

    def _answer(self, one: Arrival, accepted: _Found, now: datetime) -> Answer | Exception:
        if isinstance(accepted, Exception):
            return accepted
        try:
            desired = self._wishes.desired(one.host) if one.batch.state is not None else None
        except TidegateError as error:
            return error
        return Answer(
            now=now.timestamp(),
            acknowledged=list(accepted.acknowledged),
            need_layouts=list(accepted.need_layouts),
            desired=desired,
        )


def _heard(
    one: Arrival, reports: Sequence[Report], now: datetime, recent: timedelta, offset: timedelta | None
) -> Heard:
    oldest, newest, state = (now - recent).timestamp(), (now + _AHEAD).timestamp(), one.batch.state
    looks = [Look(told.boot_id, _at(told), told.layout, told.values) for told in reports if oldest <= told.at <= newest]
    said = state.model_dump_json().encode() if state is not None else None
    return Heard(one.host, now, looks, said, offset)


def _fates(arrivals: Sequence[Arrival], accepted: Sequence[_Found]) -> Counter[str]:
    fates: Counter[str] = Counter()
    for one, found in zip(arrivals, accepted, strict=True):
        if isinstance(found, Accepted):
            fates.update(stored=found.stored, duplicate=found.duplicates)
            if found.left_out:
                fates["left_out"] += found.left_out
        elif isinstance(found, Transient):
            fates["failed"] += len(one.batch.reports)
    return fates


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
