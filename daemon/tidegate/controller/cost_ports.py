"""What the book of costs needs of the world."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import Protocol

from tidegate.model.allocation import Allocation, Line, PoolTokens, Reconciled, StoredDay
from tidegate.model.bill import SnapshotVersion
from tidegate.model.charge import Charge
from tidegate.model.price import Price


class CostDays(Protocol):
    """Days of allocated cost, each replaced as a whole."""

    def days(self, since: date, until: date) -> Sequence[StoredDay]:
        """The days that are kept, from `since` (inclusive) to `until` (exclusive)."""
        ...

    def put(self, day: StoredDay, made: Allocation) -> None:
        """Put a day in the place of what is kept of it, one transaction."""
        ...

    def drop(self, days: Iterable[date]) -> None:
        """Forget days."""
        ...

    def lines(self, since: date, until: date, *, by_billing: bool = False) -> Sequence[Line]:
        """The lines of days in [since, until), or of billing periods that start in it."""
        ...

    def tokens(self, since: date, until: date) -> Sequence[PoolTokens]:
        """What was delivered on the days that are kept."""
        ...

    def reconciled(self, since: date) -> Sequence[Reconciled]:
        """What was learned since a day."""
        ...

    def newest(self) -> date | None:
        """The last day that a bill speaks of."""
        ...


class BilledCharges(Protocol):
    """The bills, as far as their allocation cares."""

    def versions(
        self, since: datetime | None = None, until: datetime | None = None, *, active_only: bool = True
    ) -> Sequence[SnapshotVersion]:
        """Versions whose billing period touches the span."""
        ...

    def charges(self, since: datetime, until: datetime, *, by_billing: bool = False) -> Iterator[tuple[int, Charge]]:
        """(version id, charge) of the active versions that touch the span."""
        ...

    def prices(self) -> Sequence[Price]:
        """Every price."""
        ...
