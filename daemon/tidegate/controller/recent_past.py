"""Keep the head complete: read from the store when a term begins, then what hosts report to other controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from threading import Lock

import structlog

from tidegate.controller.head import AHEAD, Head
from tidegate.controller.ports import Reports
from tidegate.model.reading import HostName
from tidegate.wire import HostRecord

_log = structlog.get_logger()

_OVERLAP = timedelta(minutes=1)
"""Read again, since reports do not always come in order."""
_ONE_BY_ONE = 50
"""Beyond so many hosts one reading of all is cheaper."""


class RecentPast:
    """Follows the store. What our own intake takes in goes to the head at once and is not read again."""

    def __init__(
        self, head: Head, reports: Reports, heard: Mapping[HostName, datetime], began_at: Callable[[], datetime]
    ) -> None:
        """`heard`: when each host last reported to this controller."""
        self._head, self._reports, self._heard, self._began_at = head, reports, heard, began_at
        self._filled_for: datetime | None = None
        self._read: dict[HostName, datetime] = {}
        """Up to when each host's reports were read from the store."""
        self._lock = Lock()
        self._missed_since: datetime | None = None

    def missed(self, since: datetime) -> None:
        """What our own intake took from then on was not all handed to the head; for any thread."""
        with self._lock:
            before = self._missed_since
            self._missed_since = since if before is None else min(before, since)

    def __call__(self, hosts: Sequence[HostRecord], now: datetime) -> None:
        """Bring the head up to date; raises Transient when the store is away."""
        began_at = self._began_at()
        if self._filled_for != began_at:
            kept = self._head.add(self._reports.readings(now - self._head.span, now + AHEAD), now)
            self._filled_for = began_at
            self._read = {host.name: host.last_seen for host in hosts if host.last_seen is not None}
            _log.info("recent past read", readings=kept)
            return
        with self._lock:
            since, self._missed_since = self._missed_since, None
        if since is not None:
            self._again(since, now)
        self._follow({host.name: host.last_seen for host in hosts if self._told_another(host)}, now)

    def _again(self, since: datetime, now: datetime) -> None:
        """Read what all hosts reported since then; what the head has of it already it does not take twice."""
        try:
            self._head.add(self._reports.readings(max(now - self._head.span, since - _OVERLAP), now + AHEAD), now)
        except Exception:
            self.missed(since)
            raise

    def _told_another(self, host: HostRecord) -> bool:
        known = max(filter(None, (self._heard.get(host.name), self._read.get(host.name))), default=None)
        return host.last_seen is not None and (known is None or host.last_seen > known)

    def _follow(self, elsewhere: Mapping[HostName, datetime | None], now: datetime) -> None:
        oldest = now - self._head.span
        since = {name: max(oldest, self._read.get(name, oldest) - _OVERLAP) for name in elsewhere}
        if len(elsewhere) > _ONE_BY_ONE:
            self._head.add(self._reports.readings(min(since.values()), now + AHEAD), now)
        else:
            for name, moment in since.items():
                self._head.add(self._reports.readings(moment, now + AHEAD, name), now)
        self._read |= {name: seen for name, seen in elsewhere.items() if seen is not None}
