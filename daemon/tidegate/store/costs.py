"""Days of allocated cost: each replaced as a whole, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import date, datetime
from decimal import Decimal

from sqlalchemy import Connection, RowMapping, delete, insert, select

from tidegate.model.allocation import Allocation, DayStatus, Line, LineKind, Place, PoolTokens, Reconciled, StoredDay
from tidegate.model.money import CostState
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.schema_costs import cost_day, cost_line, cost_reconciled, cost_tokens
from tidegate.store.together import Together

_PLACE = Place._fields
_LINES, _RECONCILED, _TOKENS = (
    Together(table, table.c.keys(), replace=False) for table in (cost_line, cost_reconciled, cost_tokens)
)


class StoredCosts:
    """Implements the port `CostDays`."""

    def __init__(self, database: Database, fence: Fence) -> None:
        self._database, self._fence = database, fence

    def days(self, since: date, until: date) -> Sequence[StoredDay]:
        """The days that are kept, from `since` (inclusive) to `until` (exclusive)."""
        query = select(cost_day).where(cost_day.c.day >= since, cost_day.c.day < until).order_by(cost_day.c.day)
        with self._database.begin() as connection:
            return [_day(row) for row in connection.execute(query).mappings()]

    def put(self, day: StoredDay, made: Allocation) -> None:
        """Put a day in the place of what is kept of it."""
        with self._database.begin() as connection:
            self._fence.check(connection)
            _forget(connection, day.status.day)
            connection.execute(insert(cost_day).values(**_day_row(day)))
            _LINES.write(connection, [_line_row(line) for line in made.lines])
            _RECONCILED.write(connection, [asdict(each) for each in made.reconciled])
            _TOKENS.write(connection, [asdict(each) for each in made.tokens])

    def drop(self, days: Iterable[date]) -> None:
        """Forget days that no bill speaks of any more."""
        with self._database.begin() as connection:
            self._fence.check(connection)
            for day in days:
                _forget(connection, day)

    def lines(self, since: date, until: date, *, by_billing: bool = False) -> Sequence[Line]:
        """The lines of days in [since, until), or of billing periods that start in it."""
        column = cost_line.c.billing if by_billing else cost_line.c.day
        query = select(cost_line).where(column >= since, column < until)
        with self._database.begin() as connection:
            return [_line(row) for row in connection.execute(query).mappings()]

    def tokens(self, since: date, until: date) -> Sequence[PoolTokens]:
        """What was delivered on the days that are kept."""
        query = select(cost_tokens).where(cost_tokens.c.day >= since, cost_tokens.c.day < until)
        query = query.order_by(cost_tokens.c.day, cost_tokens.c.pool)
        with self._database.begin() as connection:
            return [PoolTokens(**row) for row in connection.execute(query).mappings()]

    def reconciled(self, since: date) -> Sequence[Reconciled]:
        """What was learned since a day."""
        query = select(cost_reconciled).where(cost_reconciled.c.day >= since)
        query = query.order_by(cost_reconciled.c.day, cost_reconciled.c.host, cost_reconciled.c.sku)
        with self._database.begin() as connection:
            return [Reconciled(**row) for row in connection.execute(query).mappings()]

    def newest(self) -> date | None:
        """The last day that a bill speaks of."""
        query = select(cost_day.c.day).order_by(cost_day.c.day.desc()).limit(1)
        with self._database.begin() as connection:
            return connection.execute(query).scalar_one_or_none()


def _forget(connection: Connection, day: date) -> None:
    for table in (cost_day, cost_line, cost_reconciled, cost_tokens):
        connection.execute(delete(table).where(table.c.day == day))


def _day_row(day: StoredDay) -> dict[str, object]:
    row = asdict(day.status) | {"signature": day.signature, "computed_at": day.computed_at}
    return row | {name: list(row[name]) for name in ("versions", "unbilled", "notes")}


def _day(row: RowMapping) -> StoredDay:
    status = DayStatus(
        row["day"],
        CostState(row["state"]),
        tuple(row["versions"]),
        row["coverage"],
        row["observed"],
        tuple(row["unbilled"]),
        tuple(row["notes"]),
    )
    computed: datetime = row["computed_at"]
    return StoredDay(status, row["signature"], computed)


def _line_row(line: Line) -> dict[str, object]:
    row = line.place._asdict() | {"kind": line.place.kind.value}
    return row | {"billed": line.billed, "effective": line.effective, "gpu_seconds": line.gpu_seconds}


def _line(row: RowMapping) -> Line:
    values = {name: row[name] for name in _PLACE}
    place = Place(**values | {"kind": LineKind(row["kind"])})
    seconds: Decimal = row["gpu_seconds"]
    return Line(place, row["billed"], row["effective"], seconds)
