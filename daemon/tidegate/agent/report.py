"""The reporting loop: the newest report first with what the host is now, then the backlog at a bounded rate.

Delivery is at least once: what is not acknowledged is sent again; the controller knows it by (host, boot, sequence).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import structlog

from tidegate.agent.ports import ControllerLink
from tidegate.agent.spool import Spool
from tidegate.model.snapshot import LinkState
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import Permanent, Transient
from tidegate.wire import Answer, Batch, Desired, HostState, Range, Report

_log = structlog.get_logger()

BACKLOG_BATCH = 100
"""Reports of the backlog in one round: an hour's outage of a 15 s interval is made up for in under a minute."""


@dataclass(slots=True)
class _Route:
    """A controller, and which layouts it is known to know."""

    link: ControllerLink
    layouts: set[str] = field(default_factory=set)
    silent: bool = False
    """It did not answer last time, and that was said."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who hears what a controller answers."""

    desired: Callable[[Desired], object]
    clock_offset: Callable[[timedelta], None]


class Reporter:
    """Delivers the spool. `round` is for one thread; `state` for any."""

    def __init__(
        self, host: str, links: Sequence[ControllerLink], spool: Spool, listeners: Listeners, clock: Clock
    ) -> None:
        self._host, self._spool, self._listeners, self._clock = host, spool, listeners, clock
        self._links: Sequence[ControllerLink] = ()
        self._routes: list[_Route] = []
        self._at = 0
        self._batch = BACKLOG_BATCH
        self._suspect = ("", 0)
        self._state = LinkState()
        self.use(links)

    def use(self, links: Sequence[ControllerLink]) -> None:
        """Deliver to these controllers from the next round on."""
        self._links = links
        self._state = replace(self._state, configured=bool(links))

    def state(self) -> LinkState:
        """How the delivery does."""
        return self._state

    def round(self, host_state: HostState | None) -> None:
        """Deliver the newest report with `host_state`, then some backlog.

        Raises Transient when no controller answers, Permanent when one refuses; either is counted, nothing is lost.
        """
        links, live = self._links, self._spool.newest(1)
        if [route.link for route in self._routes] != list(links):
            self._routes, self._at = [_Route(link) for link in links], 0
        if not links or not (live or host_state):
            return
        try:
            self._deliver(live, host_state)
            self._backlog(live)
        except (Transient, Permanent) as error:
            self._state = replace(self._state, failures=self._state.failures + 1, error=str(error))
            raise
        self._state = replace(self._state, last_success=self._clock.now(), error="")

    def _backlog(self, live: Sequence[Report]) -> None:
        """One batch of what waits. The newest report was taken, so a batch that is refused holds a bad report."""
        waiting = self._spool.backlog(self._batch, {(report.boot_id, report.sequence) for report in live})
        if not waiting:
            return
        try:
            self._deliver(waiting, None)
        except Permanent as error:
            self._narrow(waiting, str(error))
            return
        self._batch = min(BACKLOG_BATCH, 2 * self._batch)

    def _narrow(self, waiting: Sequence[Report], error: str) -> None:
        """Halve what is refused until one report is left; given up when it is refused a second time, alone."""
        first = (waiting[0].boot_id, waiting[0].sequence)
        if len(waiting) > 1:
            self._batch = len(waiting) // 2
        elif first != self._suspect:
            self._suspect = first
        else:
            self._spool.give_up(waiting)
            _log.error("report refused, given up", at=_moment(waiting[0]), error=error)

    def _deliver(self, reports: Sequence[Report], host_state: HostState | None) -> None:
        """To the controller that answered last, else to the next; raises the last one's Transient, any Permanent."""
        for _ in range(len(self._routes) - 1):
            try:
                return self._exchange(self._routes[self._at], reports, host_state)
            except Transient as error:
                if not self._routes[self._at].silent:
                    _log.warning("controller does not answer, trying the next", error=str(error))
                self._routes[self._at].silent = True
                self._at = (self._at + 1) % len(self._routes)
        try:
            return self._exchange(self._routes[self._at], reports, host_state)
        except Transient:
            self._at = (self._at + 1) % len(self._routes)
            raise

    def _exchange(self, route: _Route, reports: Sequence[Report], host_state: HostState | None) -> None:
        answer = self._send(route, reports, host_state)
        if answer.need_layouts:
            # It forgot, or another controller's word was not its own: once more, with them.
            route.layouts -= set(answer.need_layouts)
            again = [report for report in reports if report.layout in answer.need_layouts]
            if again:
                self._send(route, again, None)

    def _send(self, route: _Route, reports: Sequence[Report], host_state: HostState | None) -> Answer:
        named = {report.layout for report in reports}
        layouts = self._spool.layouts(named - route.layouts)
        sent = self._clock.now()
        batch = Batch(
            host=self._host, sent_at=sent.timestamp(), layouts=layouts, reports=list(reports), state=host_state
        )
        answer = route.link.report(batch)
        route.silent = False
        received = self._clock.now()
        taken = clipped(answer.acknowledged, reports)
        self._spool.acknowledge(taken)
        route.layouts |= named - set(answer.need_layouts)
        offset = least_offset(sent, datetime.fromtimestamp(answer.now, UTC), received)
        self._state = replace(self._state, clock_offset_seconds=offset.total_seconds())
        self._listeners.clock_offset(offset)
        if answer.desired is not None:
            self._listeners.desired(answer.desired)
        return answer


def least_offset(sent: datetime, told: datetime, received: datetime) -> timedelta:
    """The smallest offset of the controller's clock that explains the time it told between the two of ours."""
    return told - min(max(told, sent), received)


def clipped(ranges: Sequence[Range], reports: Sequence[Report]) -> list[Range]:
    """The acknowledged ones among the reports that were sent: no answer makes us forget what was never delivered."""
    return [
        Range(boot_id=report.boot_id, first=report.sequence, last=report.sequence)
        for report in reports
        if any(one.boot_id == report.boot_id and one.first <= report.sequence <= one.last for one in ranges)
    ]


def _moment(report: Report) -> str:
    return datetime.fromtimestamp(report.at, UTC).isoformat()


class DesiredPoll:
    """The long poll beside it, so that a command does not wait for a report. `turn` is for one thread."""

    def __init__(self, links: Sequence[ControllerLink], listener: Callable[[Desired], object]) -> None:
        self._links, self._listener = links, listener
        self._at = 0

    def use(self, links: Sequence[ControllerLink]) -> None:
        """Ask these controllers from the next turn on."""
        self._links, self._at = links, 0

    def turn(self, after: tuple[int, int], wait: timedelta) -> None:
        """Ask one controller once; raises Transient or Permanent, and the next turn asks the next."""
        links = self._links
        if not links:
            return
        link = links[self._at % len(links)]
        try:
            desired = link.desired(after[0], after[1], wait)
        except (Transient, Permanent):
            self._at += 1
            raise
        if desired is not None:
            self._listener(desired)
