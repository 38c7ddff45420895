"""Remember what hosts said, for the next tick: the recent past, each host's state, and what is odd about a host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

import structlog

from tidegate.controller.head import Head
from tidegate.controller.heard import Heard, Look, Told
from tidegate.controller.ports import Hosts, Reports
from tidegate.controller.state import State
from tidegate.model.reading import HostName
from tidegate.model.unflatten import Reader
from tidegate.model.vector import decode
from tidegate.runtime.errors import Transient
from tidegate.runtime.niceness import give_way
from tidegate.wire import HostState

_log = structlog.get_logger()

Missed = Callable[[datetime], None]
Prepare = Callable[[HostName, datetime], None]


def _leave(_host: HostName, _now: datetime) -> None:
    """Leave everything to the tick."""


def _forget(_since: datetime) -> None:
    """Nobody reads it again."""


class Hearing:
    """Implements `Listener`."""

    def __init__(self, reports: Reports, hosts: Hosts, head: Head, state: State, prepare: Prepare = _leave) -> None:
        """`prepare` is told of each host that was heard, for what can be worked out before the next tick."""
        self._reports, self._hosts, self._head, self._state = reports, hosts, head, state
        self._prepare = prepare
        self.missed: Missed = _forget
        """Is told since when something was not taken in, to be read from the store."""
        self.heard: dict[HostName, datetime] = {}
        """When each host last spoke to this controller."""

    def hear(self, told: Told) -> None:
        """Remember all of it."""
        for fate, number in told.fates.items():
            self._state.counts.reports(fate, number)
        self._feed([(one.host, look, one.at) for one in told.heard for look in one.looks])
        for one in told.heard:
            give_way()
            self._prepare(one.host, one.at)
            self._note_offset(one.host, one.offset)
            if one.state is not None:
                self._note_state(one, HostState.model_validate_json(one.state))

    def _note_state(self, one: Heard, state: HostState) -> None:
        self._hosts.seen(one.host, state, one.at)
        self.heard[one.host] = one.at
        for look in one.looks[:1]:
            self._state.twins.heard(one.host, look.boot_id, one.at)

    def _note_offset(self, host: HostName, offset: timedelta | None) -> None:
        if offset is None:
            return
        if offset and host not in self._state.offsets:
            _log.warning("host clock is off, its reports are stamped anew", host=host, seconds=offset.total_seconds())
        if offset:
            self._state.offsets[host] = offset.total_seconds()
        else:
            self._state.offsets.pop(host, None)

    def _feed(self, looks: Sequence[tuple[HostName, Look, datetime]]) -> None:
        recent = [(host, look) for host, look, now in looks if self._head.covers(look.at, now)]
        readers = self._readers({(host, look.layout) for host, look in recent}, recent)
        readings = []
        for host, look in recent:
            if (host, look.layout) in readers:
                readings.append(readers[host, look.layout].read(host, look.at, decode(look.values)))
                give_way()
        if looks:
            self._head.add(readings, looks[-1][2])

    def _readers(
        self, wanted: Collection[tuple[HostName, str]], recent: Sequence[tuple[HostName, Look]]
    ) -> Mapping[tuple[HostName, str], Reader]:
        try:
            return self._reports.readers(wanted)
        except Transient:  # the database is away: those that are known, and the others later
            self.missed(min(look.at for _, look in recent))
            return self._reports.readers(wanted, remembered=True)
