"""What becomes of reported samples when a Prometheus is their source: taken, counted, not kept."""

# ruff: noqa: ARG002 - the port's arguments, of which nothing is looked at

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from tidegate.model.reading import HostName, HostReading
from tidegate.model.unflatten import Reader
from tidegate.runtime.errors import TidegateError
from tidegate.wire import Accepted, Incoming, Layout, Range, Report


class LeftOut:
    """Implements the port `Reports` and stores nothing.

    Every report is acknowledged, so that no agent's spool grows and any agent's version will do: the live state that
    rides with them is what they are sent for.
    """

    def accept(
        self,
        host: HostName,
        layouts: Sequence[Layout],
        reports: Sequence[Report],
        received_at: datetime,
    ) -> Accepted:
        """Acknowledge all of it."""
        ranges = (Range(boot_id=one.boot_id, first=one.sequence, last=one.sequence) for one in reports)
        return Accepted(tuple(ranges), (), 0, 0, left_out=len(reports))

    def accept_all(self, incoming: Sequence[Incoming]) -> Sequence[Accepted | TidegateError | ValueError]:
        """Acknowledge all of it."""
        return [self.accept(one.host, one.layouts, one.reports, one.received_at) for one in incoming]

    def readers(
        self, wanted: Collection[tuple[HostName, str]], *, remembered: bool = False
    ) -> Mapping[tuple[HostName, str], Reader]:
        """None is known."""
        return {}

    def readings(
        self,
        since: datetime,
        until: datetime,
        host: HostName | None = None,
    ) -> Iterable[HostReading]:
        """None is stored."""
        return ()

    def count(self, host: HostName) -> int:
        """None."""
        return 0
