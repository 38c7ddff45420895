"""Forget what is old: reports by whole days, decisions that changed nothing, tick figures, unused layouts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Table, delete, exists, func, select
from sqlalchemy.dialects.postgresql import insert

from tidegate.store import partitions
from tidegate.store.database import Database
from tidegate.store.schema import action, decision, horizon, layout, pool_figure

_ROWS = 5_000
"""Rows deleted in one transaction."""
_SPARE = timedelta(days=2)
"""Layouts outlive the last report that used them: the note of their use is this coarse."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was forgotten in one go."""

    partitions: tuple[str, ...]
    rows: int

    def __str__(self) -> str:
        return f"{len(self.partitions)} days of reports ({', '.join(self.partitions) or 'none'}), {self.rows} rows"


class Retention:
    """Keeps the store from growing without end; may be stopped anywhere and run again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def prune(self, now: datetime, retention: timedelta) -> Pruned | None:
        """Drop reports of days that ended more than `retention` ago, and rows as old of what grows with every tick.

        Decisions with an action, usage and replicas stay: they are the history that is asked for later.
        None when nothing was so old. Raises Transient when a reader stands in the way.
        """
        before = now - retention
        self._note(before)
        dropped = partitions.drop_before(self._database, before)
        idle = ~exists().where(action.c.pool == decision.c.pool, action.c.at == decision.c.at)
        rows = self._delete(decision, (decision.c.at < before) & idle)
        rows += self._delete(pool_figure, pool_figure.c.at < before)
        rows += self._delete(layout, layout.c.used_at < before - _SPARE)
        return Pruned(tuple(dropped), rows) if dropped or rows else None

    def _note(self, before: datetime) -> None:
        """Say first that the days are gone: figures made of them must not be made again of what is left."""
        midnight = before.replace(hour=0, minute=0, second=0, microsecond=0)
        new = insert(horizon).values(one=True, reports_from=midnight)
        later = func.greatest(horizon.c.reports_from, new.excluded.reports_from)
        with self._database.begin() as connection:
            connection.execute(new.on_conflict_do_update(index_elements=["one"], set_={"reports_from": later}))

    def _delete(self, table: Table, condition: ColumnElement[bool]) -> int:
        keys = list(table.primary_key.columns)
        total = 0
        while True:
            some = select(*keys).where(condition).limit(_ROWS).subquery()
            matching = [key == some.c[key.name] for key in keys]
            with self._database.begin() as connection:
                count = connection.execute(delete(table).where(*matching)).rowcount
            total += count
            if count < _ROWS:
                return total
