"""The log of decisions with their actions and outcomes, the core's memory, and the tick's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import Connection, RowMapping, bindparam, exists, select, update
from sqlalchemy.dialects.postgresql import insert

from tidegate.model.decision import Action, Decision, Limit, Plan
from tidegate.model.fleet import PoolName
from tidegate.model.memory import Memory
from tidegate.model.memory_json import memory_from, memory_json
from tidegate.model.policy import Mode
from tidegate.model.records import DecisionRecord, Outcome, PoolFigures
from tidegate.store.codec import signal_from, signal_json
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.schema import action, decision, pool_figure
from tidegate.store.schema import memory as kept_memory
from tidegate.store.together import Together
from tidegate.store.upsert import upsert

_log = structlog.get_logger()
_DECISIONS = Together(decision, [field.name for field in fields(Decision)], replace=False)
_FIGURES = Together(pool_figure, [field.name for field in fields(PoolFigures)], replace=True)


class StoredDecisions:
    """Implements the port `Decisions`."""

    def __init__(self, database: Database, fence: Fence) -> None:
        self._database = database
        self._fence = fence
        self._settled: tuple[int | None, Memory] = (None, Memory())
        """The term and the memory that were settled last: in one term nobody else settles any."""

    def record(self, plan: Plan) -> Sequence[int]:
        """Write decisions and actions as one transaction; returns the actions' ids in the plan's order.

        The same plan again adds nothing and answers the same ids. Raises ValueError for actions without a decision.
        """
        if plan.actions and not plan.decisions:
            raise ValueError("a plan with actions and no decision explains nothing")
        if not plan.decisions:
            return []
        with self._database.begin() as connection:
            self._fence.check(connection)
            _DECISIONS.write(connection, [_decision_row(item) for item in plan.decisions])
            at = plan.decisions[0].at
            return [_record_action(connection, at, item) for item in plan.actions]

    def settle(self, outcomes: Sequence[Outcome], memory: Memory, figures: Sequence[PoolFigures]) -> None:
        """Write outcomes, memory and the tick's figures as one transaction."""
        with self._database.begin() as connection:
            self._fence.check(connection)
            if outcomes:
                connection.execute(
                    update(action).where(action.c.id == bindparam("number")).values(outcome=bindparam("said")),
                    [{"number": item.action_id, "said": item.outcome} for item in outcomes],
                )
            connection.execute(upsert(kept_memory, [{"one": True, "memory": memory_json(memory)}]))
            _FIGURES.write(connection, [asdict(item) for item in figures])
        self._settled = (self._fence.epoch(), memory)

    def memory(self) -> Memory:
        """What was settled last; an empty Memory at first, or when another version wrote it."""
        epoch, settled = self._settled
        if epoch is not None and epoch == self._fence.epoch():
            return settled
        with self._database.begin() as connection:
            data = connection.execute(select(kept_memory.c.memory)).scalar_one_or_none()
        if data is None:
            return Memory()
        kept = memory_from(data)
        if kept is None:
            _log.warning("memory of another version is not read: scale-in waits as after a first start")
        return kept or Memory()

    def latest(
        self, limit: int, pool: PoolName | None = None, *, changes_only: bool = False
    ) -> Sequence[DecisionRecord]:
        """The newest decisions first; only those with an action when asked."""
        query = select(decision).order_by(decision.c.id.desc()).limit(limit)
        if pool is not None:
            query = query.where(decision.c.pool == pool)
        if changes_only:
            query = query.where(exists().where(action.c.pool == decision.c.pool, action.c.at == decision.c.at))
        with self._database.begin() as connection:
            rows = connection.execute(query).mappings().all()
        return [DecisionRecord(row["id"], _decision(row)) for row in rows]

    def figures(self, since: datetime, until: datetime) -> Sequence[PoolFigures]:
        """The tick figures with since <= at < until, by time and pool."""
        query = select(pool_figure).where(pool_figure.c.at >= since, pool_figure.c.at < until)
        with self._database.begin() as connection:
            rows = connection.execute(query.order_by(pool_figure.c.at, pool_figure.c.pool)).mappings().all()
        return [PoolFigures(**row) for row in rows]


def _decision_row(item: Decision) -> dict[str, Any]:
    plain = {field.name: getattr(item, field.name) for field in fields(Decision)}
    return plain | {
        "limits": [limit.value for limit in item.limits],
        "signals": [signal_json(used) for used in item.signals],
        "mode": item.mode.value,
    }


def _decision(row: RowMapping) -> Decision:
    plain = {name: value for name, value in row.items() if name != "id"}
    plain |= {
        "limits": tuple(Limit(limit) for limit in row["limits"]),
        "signals": tuple(signal_from(data) for data in row["signals"]),
        "mode": Mode(row["mode"]),
    }
    return Decision(**plain)


def _record_action(connection: Connection, at: datetime, item: Action) -> int:
    new = insert(action).values(
        at=at,
        pool=item.pool,
        kind=item.kind.value,
        replica=item.replica,
        host=item.slot.host if item.slot else None,
        slot=item.slot.slot if item.slot else None,
        deadline=item.deadline,
        reason=item.reason,
    )
    # An update that changes nothing: `do nothing` would not answer the id of the row that is there.
    again = new.on_conflict_do_update(index_elements=["at", "kind", "replica"], set_={"reason": new.excluded.reason})
    return int(connection.execute(again.returning(action.c.id)).scalar_one())
