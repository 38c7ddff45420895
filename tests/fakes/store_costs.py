"""Days of costs and bills in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from tidegate.model.allocation import Allocation, Line, PoolTokens, Reconciled, StoredDay
from tidegate.model.bill import SnapshotVersion
from tidegate.model.charge import Charge
from tidegate.model.price import Price


@dataclass
class FakeCostDays:
    """Implements `CostDays`."""

    kept: dict[date, tuple[StoredDay, Allocation]] = field(default_factory=dict)

    def days(self, since: date, until: date) -> Sequence[StoredDay]:
        return [day for at, (day, _) in sorted(self.kept.items()) if since <= at < until]

    def put(self, day: StoredDay, made: Allocation) -> None:
        self.kept[day.status.day] = (day, made)

    def drop(self, days: Iterable[date]) -> None:
        for day in list(days):
            self.kept.pop(day, None)

    def lines(self, since: date, until: date, *, by_billing: bool = False) -> Sequence[Line]:
        found = [line for _, (_, made) in sorted(self.kept.items()) for line in made.lines]
        if by_billing:
            return [line for line in found if line.place.billing and since <= line.place.billing < until]
        return [line for line in found if since <= line.place.day < until]

    def tokens(self, since: date, until: date) -> Sequence[PoolTokens]:
        return [each for at, (_, made) in sorted(self.kept.items()) if since <= at < until for each in made.tokens]

    def reconciled(self, since: date) -> Sequence[Reconciled]:
        return [each for at, (_, made) in sorted(self.kept.items()) if since <= at for each in made.reconciled]

    def newest(self) -> date | None:
        return max(self.kept, default=None)


@dataclass
class FakeBills:
    """Implements `BilledCharges`: versions with their charges."""

    active: dict[int, tuple[SnapshotVersion, list[Charge]]] = field(default_factory=dict)
    listed: list[Price] = field(default_factory=list)

    def versions(
        self, since: datetime | None = None, until: datetime | None = None, *, active_only: bool = True
    ) -> Sequence[SnapshotVersion]:
        return [version for version, _ in self.active.values()]

    def charges(self, since: datetime, until: datetime, *, by_billing: bool = False) -> Iterator[tuple[int, Charge]]:
        for number, (_, charges) in self.active.items():
            for each in charges:
                lasting = each.start < until and each.end > since
                if lasting or (each.start == each.end and since <= each.start < until):
                    yield number, each

    def prices(self) -> Sequence[Price]:
        return self.listed
