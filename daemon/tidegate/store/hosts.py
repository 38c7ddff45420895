"""Who may report, what each host said last, and which engine belongs to which pool; and who may command."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Boolean, ColumnElement, Connection, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert

from tidegate.model.reading import HostName
from tidegate.store.database import Database
from tidegate.store.schema import account, engine, host
from tidegate.store.upsert import upsert
from tidegate.wire import EngineStatus, HostRecord, HostState

_IS_NEW: ColumnElement[bool] = literal_column("xmax = 0", Boolean).label("is_new")
"""True for a row that an upsert inserted, false for one that it found: xmax marks a row version that was locked."""


class StoredHosts:
    """Implements the port `Hosts`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def enroll(self, name: HostName, token_hash: str, now: datetime) -> bool:
        """Add a host, or give it another token and admit it again; False when it existed."""
        new = insert(host).values(name=name, token_hash=token_hash, enrolled_at=now)
        statement = new.on_conflict_do_update(
            index_elements=["name"], set_={"token_hash": token_hash, "enrolled_at": now, "revoked_at": None}
        )
        with self._database.begin() as connection:
            return bool(connection.execute(statement.returning(_IS_NEW)).scalar_one())

    def revoke(self, name: HostName, now: datetime) -> bool:
        """Refuse the host from now on; False when there is none."""
        with self._database.begin() as connection:
            found = connection.execute(update(host).where(host.c.name == name).values(revoked_at=now))
            return found.rowcount > 0

    def authenticate(self, token_hash: str) -> HostName | None:
        """Whose token this is; None when nobody's or revoked."""
        query = select(host.c.name).where(host.c.token_hash == token_hash, host.c.revoked_at.is_(None))
        with self._database.begin() as connection:
            name = connection.execute(query).scalar_one_or_none()
        return None if name is None else HostName(name)

    def seen(self, name: HostName, state: HostState, at: datetime) -> None:
        """Remember the last live state, and the engines in it; an older one than what is known changes nothing."""
        newer = host.c.last_seen.is_(None) | (host.c.last_seen <= at)
        statement = (
            update(host).where(host.c.name == name, newer).values(last_seen=at, state=state.model_dump(mode="json"))
        )
        with self._database.begin() as connection:
            if connection.execute(statement).rowcount:
                _keep_engines(connection, name, state.engines, at)

    def all(self) -> Sequence[HostRecord]:
        """Every host, by name."""
        query = select(host).order_by(host.c.name)
        with self._database.begin() as connection:
            rows = connection.execute(query).all()
        return [
            HostRecord(
                name=HostName(row.name),
                last_seen=row.last_seen,
                state=None if row.state is None else HostState.model_validate(row.state),
                revoked=row.revoked_at is not None,
            )
            for row in rows
        ]


def _keep_engines(connection: Connection, name: HostName, engines: Sequence[EngineStatus], at: datetime) -> None:
    """An engine keeps the pool that it last named: one that is starting again may not know it yet."""
    rows = {
        item.name: {
            "host": name,
            "name": item.name,
            "pool": item.pool,
            "service": item.service,
            "model": item.model,
            "kind": item.kind,
            "url": item.url,
            "gpus": item.gpus,
            "replica": item.replica_id,
            "first_seen": at,
            "last_seen": at,
        }
        for item in engines
        if item.pool
    }
    if rows:
        connection.execute(upsert(engine, [rows[key] for key in sorted(rows)], keep=["first_seen"]))


class StoredUsers:
    """Implements the port `Users`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, role: str, token_hash: str, now: datetime) -> bool:
        """Add a user, or give him another role and token; False when he existed."""
        new = insert(account).values(name=name, role=role, token_hash=token_hash, added_at=now)
        statement = new.on_conflict_do_update(
            index_elements=["name"], set_={"role": role, "token_hash": token_hash, "added_at": now}
        )
        with self._database.begin() as connection:
            return bool(connection.execute(statement.returning(_IS_NEW)).scalar_one())

    def authenticate(self, token_hash: str) -> tuple[str, str] | None:
        """The (name, role) of the token; None when nobody's."""
        query = select(account.c.name, account.c.role).where(account.c.token_hash == token_hash)
        with self._database.begin() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else (row.name, row.role)
