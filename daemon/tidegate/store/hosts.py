"""Who may report, what each host said last, and which engine belongs to which pool; and who may command."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Row, literal_column, select, text, update
from sqlalchemy.dialects.postgresql import insert

from tidegate.model.reading import HostName
from tidegate.store.binary import number_array, text_array
from tidegate.store.database import Database
from tidegate.store.schema import account, host
from tidegate.wire import EngineStatus, HostRecord, HostState

_IS_NEW: ColumnElement[bool] = literal_column("xmax = 0", Boolean).label("is_new")
"""True for a row that an upsert inserted, false for one that it found: xmax marks a row version that was locked."""
_GOOD = text("SELECT token_hash, name FROM host WHERE token_hash = ANY(CAST(:tokens AS text[])) AND revoked_at IS NULL")
_SEEN_AT_ONCE = 32
_SEEN = text(
    "UPDATE host h SET last_seen = s.at, state = CAST(s.state AS jsonb) FROM unnest(CAST(:names AS text[]), "
    "CAST(:moments AS timestamptz[]), CAST(:states AS text[])) AS s (name, at, state) "
    "WHERE h.name = s.name AND (h.last_seen IS NULL OR h.last_seen <= s.at) RETURNING h.name"
)

_ENGINES = text(
    "INSERT INTO engine AS e (host, name, pool, service, model, kind, url, gpus, replica, first_seen, last_seen) "
    "SELECT host, name, pool, service, model, kind, url, gpus, replica, at, at FROM unnest(CAST(:host AS text[]), "
    "CAST(:name AS text[]), CAST(:pool AS text[]), CAST(:service AS text[]), CAST(:model AS text[]), "
    "CAST(:kind AS text[]), CAST(:url AS text[]), CAST(:gpus AS int[]), CAST(:replica_id AS text[]), "
    "CAST(:at AS timestamptz[])) AS n (host, name, pool, service, model, kind, url, gpus, replica, at) "
    "ON CONFLICT (host, name) DO UPDATE SET pool = excluded.pool, service = excluded.service, model = excluded.model, "
    "kind = excluded.kind, url = excluded.url, gpus = excluded.gpus, replica = excluded.replica, "
    "last_seen = excluded.last_seen WHERE (e.pool, e.service, e.model, e.kind, e.url, e.gpus, e.replica) IS DISTINCT "
    "FROM (excluded.pool, excluded.service, excluded.model, excluded.kind, excluded.url, excluded.gpus, "
    "excluded.replica) OR e.last_seen < excluded.last_seen - interval '1 hour'"
)
"""One that says what it said before is not written again, but for a note each hour that it is still there."""


class StoredHosts:
    """Implements the port `HostBook`."""

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

    def good_tokens(self, token_hashes: Collection[str]) -> Mapping[str, HostName]:
        """Whose these tokens are; those that are nobody's or revoked are left out."""
        if not token_hashes:
            return {}
        with self._database.begin() as connection:
            found = connection.execute(_GOOD, {"tokens": text_array(sorted(token_hashes))})
            return {token: HostName(name) for token, name in found}

    def seen(self, name: HostName, state: HostState, at: datetime) -> None:
        """Remember the last live state, and the engines in it; an older one than what is known changes nothing."""
        self.seen_many([HostRecord(name, at, state, revoked=False)])

    def seen_many(self, news: Sequence[HostRecord]) -> None:
        """The same for many hosts, a few in a transaction: what is large keeps reports waiting."""
        told = sorted((one for one in news if one.state is not None), key=lambda one: one.name)
        for first in range(0, len(told), _SEEN_AT_ONCE):
            self._seen(told[first : first + _SEEN_AT_ONCE])

    def _seen(self, told: Sequence[HostRecord]) -> None:
        columns = {
            "names": text_array([one.name for one in told]),
            "moments": [one.last_seen for one in told],
            "states": text_array([one.state.model_dump_json() for one in told if one.state is not None]),
        }
        with self._database.begin(durable=False) as connection:
            taken = set(connection.execute(_SEEN, columns).scalars())
            engines = [row for one in told if one.name in taken for row in _engines(one)]
            if engines:
                connection.execute(_ENGINES, _columns(engines))

    def listing(self) -> Sequence[HostRecord]:
        """Every host by name, without its state."""
        query = select(host.c.name, host.c.last_seen, host.c.revoked_at).order_by(host.c.name)
        with self._database.begin() as connection:
            rows = connection.execute(query).all()
        return [HostRecord(HostName(row.name), row.last_seen, None, row.revoked_at is not None) for row in rows]

    def states(self, names: Collection[HostName]) -> Mapping[HostName, HostRecord]:
        """What these hosts said last."""
        query = select(host).where(host.c.name.in_(names))
        with self._database.begin() as connection:
            rows = connection.execute(query).all() if names else []
        return {HostName(row.name): _record(row) for row in rows}

    def all(self) -> Sequence[HostRecord]:
        """Every host, by name."""
        with self._database.begin() as connection:
            return [_record(row) for row in connection.execute(select(host).order_by(host.c.name))]


def _record(row: Row[Any]) -> HostRecord:
    state = None if row.state is None else HostState.model_validate(row.state)
    return HostRecord(HostName(row.name), row.last_seen, state, row.revoked_at is not None)


def _engines(told: HostRecord) -> Iterator[tuple[HostName, EngineStatus, datetime | None]]:
    """An engine keeps the pool that it last named: one that is starting again may not know it yet."""
    named = {item.name: item for item in (told.state.engines if told.state else ()) if item.pool}
    return ((told.name, named[key], told.last_seen) for key in sorted(named))


def _columns(rows: Sequence[tuple[HostName, EngineStatus, datetime | None]]) -> dict[str, Any]:
    words = {
        name: text_array([getattr(item, name) for _, item, _ in rows])
        for name in ("name", "pool", "service", "model", "kind", "url", "replica_id")
    }
    return {
        **words,
        "host": text_array([host for host, _, _ in rows]),
        "gpus": number_array(item.gpus for _, item, _ in rows),
        "at": [at for _, _, at in rows],
    }


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
