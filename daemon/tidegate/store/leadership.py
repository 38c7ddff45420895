"""The lease row: taken, renewed, given back; a new term each time that it changes hands."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_leave

from tidegate.model.leadership import Candidate, Lease
from tidegate.store.database import Database
from tidegate.store.schema import term
from tidegate.store.schema_leadership import lease

_STATEMENT = timedelta(seconds=5)
_LOCK = timedelta(seconds=2)
"""A takeover waits for the last leader's open transactions; not for long, it is tried again at once."""
_DB_NOW = func.clock_timestamp()
"""The database's clock: the one that all controllers share."""
_LEFT = func.extract("epoch", lease.c.until - _DB_NOW).label("left")


class StoredLeadership:
    """Implements the port `Leaderships`. It has connections of its own: a renewal waits behind nothing else."""

    def __init__(self, database: Database) -> None:
        self._database = database.apart()

    def claim(self, candidate: Candidate, epoch: int | None, span: timedelta, now: datetime) -> Lease:
        """Renew the term for `span` real seconds, or begin one where nobody leads; else say who does.

        `epoch` is the candidate's running term; None at its start, when the lease of its own earlier life is no
        obstacle. Raises Transient when the database is away or an open transaction of the last leader is waited for.
        """
        with self._database.begin(_STATEMENT, _LOCK) as connection:
            if epoch is not None and (renewed := _renew(connection, candidate, epoch, span)):
                return _lease(renewed, candidate)
            found = connection.execute(_row()).one_or_none()
            if found is None or _is_free(found, candidate, epoch):
                found = _begin(connection, candidate, epoch, span, now)
            return _lease(found, candidate)

    def resign(self, candidate: Candidate, epoch: int) -> None:
        """Give the lease back, so that another need not wait for its end."""
        ours = (lease.c.epoch == epoch) & (lease.c.holder == candidate.holder)
        with self._database.begin(_STATEMENT, _LOCK) as connection:
            connection.execute(update(lease).where(ours).values(until=_DB_NOW))

    def close(self) -> None:
        """Close the connections."""
        self._database.close()


def _row() -> Select[Any]:
    return select(lease, _LEFT)


def _is_free(found: Row[Any], candidate: Candidate, epoch: int | None) -> bool:
    return found.left <= 0 or (epoch is None and found.holder == candidate.holder)


def _renew(connection: Connection, candidate: Candidate, epoch: int, span: timedelta) -> Row[Any] | None:
    """One that ran out and that nobody took is ours still."""
    ours = (lease.c.epoch == epoch) & (lease.c.holder == candidate.holder)
    return connection.execute(update(lease).where(ours).values(until=_DB_NOW + span).returning(lease, _LEFT)).first()


def _begin(connection: Connection, candidate: Candidate, epoch: int | None, span: timedelta, now: datetime) -> Row[Any]:
    first = {"one": True, "epoch": 0, "holder": "", "name": "", "since": now, "until": _DB_NOW}
    connection.execute(insert_or_leave(lease).values(first).on_conflict_do_nothing())
    found = connection.execute(_row().with_for_update()).one()  # waits for what the last leader has under way
    if not _is_free(found, candidate, epoch):
        return found
    number = connection.execute(insert(term).values(began_at=now).returning(term.c.epoch)).scalar_one()
    taken = {"epoch": number, "holder": candidate.holder, "name": candidate.name, "since": now}
    return connection.execute(update(lease).values(**taken, until=_DB_NOW + span).returning(lease, _LEFT)).one()


def _lease(row: Row[Any], candidate: Candidate) -> Lease:
    left = float(row.left)
    return Lease(row.epoch, row.name, row.since, mine=row.holder == candidate.holder and left > 0, seconds_left=left)
