"""Forget what is old: reports by whole days, and row by row what grows with every tick, bucket, change and notice."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Table, delete, exists, func, select
from sqlalchemy.dialects.postgresql import insert

from tidegate.model.fleet import ReplicaState
from tidegate.model.records import LEVELS, Levels, Pruned
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.levels import old_parts
from tidegate.store.partitions import drop, parts
from tidegate.store.schema import action, decision, engine, horizon, layout, notice, pool_figure, replica, usage
from tidegate.store.schema_control import control
from tidegate.store.schema_series import WINDOW, series, series_window

_ROWS = 5_000
"""Rows deleted in one transaction."""
_SPARE = timedelta(days=2)
"""Layouts and engines outlive the last report that speaks of them: the note of their use is this coarse."""


class StoredRetention:
    """Implements the port `Retention`; may be stopped anywhere and run again."""

    def __init__(self, database: Database, fence: Fence) -> None:
        self._database = database
        self._fence = fence

    def prune(self, now: datetime, retention: timedelta, history: timedelta, levels: Levels = LEVELS) -> Pruned:
        """Drop what every tick and report adds beyond `retention`, and what remains of it beyond `history`.

        The first are samples of days that have ended, tick figures and decisions that changed nothing; the others
        usage, the rollup by the hour, decisions with their actions, stopped replicas and notices that are not owed any
        more. `levels` is for what lies beside the samples. A pool's newest replica stays: its number must not be given
        again. Raises Transient when a reader stands in the way.
        """
        self._forget_samples(now - retention)
        with self._database.begin() as connection:
            self._fence.check(connection)
            old = old_parts(connection, now, retention, history, levels)
        days = drop(self._database, old)
        rows = self._forget_history(now - history)
        idle = ~exists().where(action.c.pool == decision.c.pool, action.c.at == decision.c.at)
        rows += self._delete(decision, (decision.c.at < now - retention) & idle)
        rows += self._delete(pool_figure, pool_figure.c.at < now - retention)
        rows += self._delete(
            layout, layout.c.used_at < self._oldest_report(now - min(retention, levels.reports)) - _SPARE
        )
        rows += self._delete(series_window, series_window.c.start < now - retention - WINDOW)
        rows += self._delete(series, series.c.last_seen < now - max(history, levels.rollups, retention) - _SPARE)
        rows += self._delete(engine, engine.c.last_seen < now - retention - _SPARE)
        return Pruned(tuple(days), rows)

    def _oldest_report(self, usually: datetime) -> datetime:
        """Where the oldest part of the reports begins: those that wait for their compaction are kept for longer."""
        with self._database.begin() as connection:
            return min([usually, *(part.start for part in parts(connection, ["report"]))])

    def _forget_history(self, before: datetime) -> int:
        # Actions before decisions: one that has lost its actions is idle, and goes with those that never had any.
        rows = self._delete(action, action.c.at < before)
        rows += self._delete(usage, usage.c.bucket < before)
        rows += self._delete(control, (control.c.ended_at < before) | (control.c.until < before))
        later = replica.alias("later")
        numbered = exists().where(later.c.pool == replica.c.pool, later.c.serial > replica.c.serial)
        ended = (replica.c.state == ReplicaState.STOPPED) & (replica.c.stopped_at < before)
        rows += self._delete(replica, ended & numbered)
        return rows + self._delete(notice, notice.c.next_at.is_(None) & (notice.c.created_at < before))

    def _forget_samples(self, before: datetime) -> None:
        """Say first that they are gone: figures made of them must not be made again of what is left."""
        midnight = before.replace(hour=0, minute=0, second=0, microsecond=0)
        new = insert(horizon).values(one=True, reports_from=midnight)
        later = func.greatest(horizon.c.reports_from, new.excluded.reports_from)
        with self._database.begin() as connection:
            self._fence.check(connection)
            connection.execute(new.on_conflict_do_update(index_elements=["one"], set_={"reports_from": later}))

    def _delete(self, table: Table, condition: ColumnElement[bool]) -> int:
        keys = list(table.primary_key.columns)
        total = 0
        while True:
            some = select(*keys).where(condition).limit(_ROWS).subquery()
            matching = [key == some.c[key.name] for key in keys]
            with self._database.begin() as connection:
                self._fence.check(connection)
                count = connection.execute(delete(table).where(*matching)).rowcount
            total += count
            if count < _ROWS:
                return total
