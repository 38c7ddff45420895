"""Operators' commands with who gave and who ended them, and the wishes of other programs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, select, update
from sqlalchemy.dialects.postgresql import insert

from tidegate.model.command import Command, CommandKind, ExternalWish, Order
from tidegate.model.fleet import PoolName, ServiceName
from tidegate.model.policy import Mode
from tidegate.store.database import Database
from tidegate.store.locks import lock_commands
from tidegate.store.schema_control import control, external_wish
from tidegate.store.upsert import upsert


class StoredCommands:
    """Implements the port `Commands`. Any controller takes commands, whoever leads: the leader reads them each tick."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def standing(self, now: datetime) -> Sequence[Command]:
        """The commands in force, in the order in which they were given."""
        stands = control.c.ended_at.is_(None) & (control.c.until.is_(None) | (control.c.until > now))
        return self._read(select(control).where(stands).order_by(control.c.id))

    def latest(self, limit: int) -> Sequence[Command]:
        """The newest commands first, ended ones too: the audit log."""
        return self._read(select(control).order_by(control.c.id.desc()).limit(limit))

    def give(self, orders: Sequence[Order], now: datetime) -> Sequence[Command]:
        """Put commands in force, each in place of the standing one of its kind for its pool."""
        with self._database.begin() as connection:
            lock_commands(connection)
            for order in orders:
                _end(connection, {order.kind}, _same_pool(order.pool), order.by, now)
            rows = connection.execute(
                insert(control).returning(control, sort_by_parameter_order=True), [_row(order, now) for order in orders]
            )
            return [_command(row) for row in rows.mappings().all()]

    def end(self, kinds: Collection[CommandKind], pool: PoolName | None, by: str, now: datetime) -> int:
        """End the standing commands of these kinds for a pool (those for every pool, for None); how many there were."""
        with self._database.begin() as connection:
            lock_commands(connection)
            return _end(connection, kinds, _same_pool(pool), by, now)

    def ask(self, wanted: ExternalWish) -> None:
        """Take a program's wish in place of its last."""
        row = {
            "service": wanted.service,
            "replicas": wanted.replicas,
            "at": wanted.at,
            "until": wanted.until,
            "set_by": wanted.by,
        }
        with self._database.begin() as connection:
            connection.execute(upsert(external_wish, [row]))

    def asked(self) -> Sequence[ExternalWish]:
        """The last wish for each service, whether it still counts or not."""
        with self._database.begin() as connection:
            rows = connection.execute(select(external_wish).order_by(external_wish.c.service)).all()
        return [ExternalWish(ServiceName(row.service), row.replicas, row.at, row.set_by, row.until) for row in rows]

    def _read(self, query: Select[Any]) -> Sequence[Command]:
        with self._database.begin() as connection:
            rows = connection.execute(query).mappings().all()
        return [_command(row) for row in rows]


def _same_pool(pool: PoolName | None) -> ColumnElement[bool]:
    return control.c.pool.is_(None) if pool is None else control.c.pool == pool


def _end(
    connection: Connection, kinds: Collection[CommandKind], which: ColumnElement[bool], by: str, now: datetime
) -> int:
    """What has run out by itself ended then, not now."""
    stands = control.c.ended_at.is_(None) & (control.c.until.is_(None) | (control.c.until > now))
    found = connection.execute(
        update(control).where(control.c.kind.in_(sorted(kinds)), which, stands).values(ended_at=now, ended_by=by)
    )
    return found.rowcount


def _row(order: Order, now: datetime) -> dict[str, Any]:
    return {
        "kind": order.kind,
        "pool": order.pool,
        "minimum": order.minimum,
        "maximum": order.maximum,
        "mode": order.mode,
        "at": now,
        "set_by": order.by,
        "until": order.until,
        "ended_by": "",
    }


def _command(row: RowMapping) -> Command:
    order = Order(
        kind=CommandKind(row["kind"]),
        by=row["set_by"],
        pool=None if row["pool"] is None else PoolName(row["pool"]),
        minimum=row["minimum"],
        maximum=row["maximum"],
        mode=None if row["mode"] is None else Mode(row["mode"]),
        until=row["until"],
    )
    return Command(row["id"], order, row["at"], row["ended_at"], row["ended_by"])
