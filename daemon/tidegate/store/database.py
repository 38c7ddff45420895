"""The connection to Postgres: one engine, short transactions with time limits, errors by what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import Pool, QueuePool

from tidegate.runtime.errors import Busy, Permanent, TidegateError, Transient
from tidegate.store.binary import rows_of

CONNECT_SECONDS = 5
POOL_SECONDS = 10
STATEMENT = timedelta(seconds=30)
LOCK = timedelta(seconds=5)
IDLE = timedelta(seconds=20)
"""How long an open transaction may wait for us: a frozen process must not keep others from its rows for ever."""

_REMEDY = "check `database` (or the file that `database_file` names) in the configuration"
_REFUSED = {
    "password authentication failed": f"the password is wrong; {_REMEDY}",
    "no password supplied": f"it wants a password; {_REMEDY} (database_file keeps it out of the file)",
    "Peer authentication failed": "this system user may not log in; run as the user that owns the database",
    "no pg_hba.conf entry": "its pg_hba.conf does not admit us; add an entry there",
    "does not exist": f"create the role and the database, or {_REMEDY}",
    "permission denied": f"the role may not connect; grant it, or {_REMEDY}",
    "server does not support SSL": f"it offers no TLS; {_REMEDY} (sslmode)",
    "certificate verify failed": f"its certificate is not trusted; {_REMEDY} (sslrootcert)",
}
_UNDEFINED = frozenset({"42P01", "42703", "3F000"})  # table, column, schema: the migration has not been run
_NO_PARTITION = "no partition of relation"  # retention dropped the day that a late report was about to enter
_LOCKED = "55P03"  # lock_not_available: lock_timeout has passed
_WAITING = frozenset({"40", "53", "55", "57", "58", "08", "25"})  # SQLSTATE classes that pass by themselves


Connect = Callable[[], "psycopg.Connection[Any]"]


@dataclass(frozen=True, slots=True)
class Place:
    """Which database, in words that may be logged: never the password."""

    host: str
    database: str
    user: str
    port: str = "5432"

    def __str__(self) -> str:
        return f"{self.host}/{self.database}"


class Database:
    """Short transactions on one Postgres; safe for many threads. `open_database` makes it."""

    def __init__(self, engine: Engine, place: Place, connect: Connect, dsn: str) -> None:
        """`dsn` has the password: for another process of ours alone."""
        self.engine, self.dsn = engine, dsn
        self.place = place
        self._connect = connect

    def apart(self) -> Database:
        """The same database over a connection of its own, for what must not queue behind everything else."""
        return Database(
            _engine(self._connect, {"pool_size": 1, "max_overflow": 1, "pool_timeout": 2}),
            self.place,
            self._connect,
            self.dsn,
        )

    @contextmanager
    def begin(
        self, statement: timedelta = STATEMENT, lock: timedelta = LOCK, *, durable: bool = True
    ) -> Iterator[Connection]:
        """One transaction in UTC under time limits (zero: none), committed at the end, undone on any error.

        A transaction without a limit for its statements has none for its pauses either. Not `durable`: whole like any
        other, but a crash of the server may take it back, for half a second; for what is worked out or said again.
        Raises Transient when the database is away, busy or full; Permanent when waiting cannot help.
        """
        try:
            opening = _opening(statement, lock) + ("" if durable else "; SET LOCAL synchronous_commit = off")
            with self._opened(opening) as connection:
                yield connection
                connection.commit()
        except (DBAPIError, PoolTimeout, psycopg.Error) as error:
            raise explain(error, self.place) from error

    def at_once(self, statements: Sequence[str], values: Mapping[str, str]) -> list[tuple[Any, ...]]:
        """One transaction in one message: the rows of the last of these statements that has any; raises as `begin`.

        They must be such that it does no harm when they are done twice: a connection that the server has closed
        meanwhile is replaced, and they are sent again.
        """
        message = "; ".join((_opening(STATEMENT, LOCK), *statements, "COMMIT"))
        try:
            try:
                return self._sent(message, values)
            except _Closed:
                return self._sent(message, values)
        except (DBAPIError, PoolTimeout, psycopg.Error) as error:
            raise explain(error, self.place) from error

    def _sent(self, message: str, values: Mapping[str, str]) -> list[tuple[Any, ...]]:
        pooled = self.engine.raw_connection()
        driver, lost = pooled.driver_connection, False
        assert isinstance(driver, psycopg.Connection)  # noqa: S101 - `open_database` makes no other
        try:
            return rows_of(driver, message, values)
        except psycopg.OperationalError as error:
            lost = driver.closed
            if not lost:
                raise
            pooled.invalidate(error)
            self.engine.dispose()  # the others in the pool are given up as well
            raise _Closed(str(error)) from error
        finally:
            if not lost:
                pooled.close()

    def _opened(self, opening: str) -> Connection:
        """A connection in its transaction; the first words tell whether the server has closed it meanwhile."""
        connection = self.engine.connect()
        try:
            connection.exec_driver_sql(opening)
        except DBAPIError as error:
            connection.close()
            if not error.connection_invalidated:
                raise
            connection = self.engine.connect()  # the others in the pool are given up as well
            connection.exec_driver_sql(opening)
        return connection

    def ping(self) -> str:
        """The server's version, such as "18.6"; raises as `begin` does."""
        with self.begin() as connection:
            version = connection.exec_driver_sql("SHOW server_version").scalar_one()
        return str(version).split()[0]

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


class _Closed(psycopg.OperationalError):
    """The server has closed the connection."""


def _opening(statement: timedelta, lock: timedelta) -> str:
    """The words that begin a transaction under time limits (zero: none)."""
    idle = IDLE if statement else timedelta()
    # Local settings: a pooler hands the session to the next client as it was.
    return (
        f"BEGIN; SET LOCAL TimeZone = 'UTC'; SET LOCAL statement_timeout = {_milliseconds(statement)}; "
        f"SET LOCAL lock_timeout = {_milliseconds(lock)}; "
        f"SET LOCAL idle_in_transaction_session_timeout = {_milliseconds(idle)}"
    )


def open_database(dsn: str, *, pool: type[Pool] = QueuePool, most: int = 20) -> Database:
    """A database for a libpq DSN (address or keywords); connects only when first used, `most` times at once.

    Raises Permanent when the DSN cannot be read.
    """
    place = place_of(dsn)
    options: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "application_name": "tidegate"}
    options |= {key: value for key, value in conninfo_to_dict(_plain(dsn)).items() if value is not None}

    def connect() -> psycopg.Connection[Any]:
        # A pooler shares no prepared statements. `begin` opens transactions itself, in one message with their settings.
        return psycopg.connect(**options, prepare_threshold=None, autocommit=True)

    limits: dict[str, Any] = (
        {"pool_size": 5, "max_overflow": max(0, most - 5), "pool_timeout": POOL_SECONDS}
        if pool is QueuePool
        else {"poolclass": pool}
    )
    return Database(_engine(connect, limits), place, connect, dsn)


def _engine(connect: Connect, limits: Mapping[str, Any]) -> Engine:
    return create_engine("postgresql+psycopg://", creator=connect, hide_parameters=True, **limits)


def place_of(dsn: str) -> Place:
    """Where a DSN points, without its secrets; raises Permanent when it cannot be read."""
    try:
        parts = conninfo_to_dict(_plain(dsn))
    except psycopg.Error:
        raise Permanent(
            "the database address cannot be read; write postgresql://USER@HOST/DATABASE "
            "(special characters of a password as %XX)"
        ) from None  # libpq's own words may quote the password
    user = str(parts.get("user") or "")
    return Place(
        host=str(parts.get("host") or parts.get("hostaddr") or "localhost"),
        database=str(parts.get("dbname") or user or "?"),
        user=user,
        port=str(parts.get("port") or "5432"),
    )


def _plain(dsn: str) -> str:
    """The DSN as libpq reads it: SQLAlchemy's spelling of the driver is taken off."""
    scheme, mark, rest = dsn.partition("://")
    return f"postgresql://{rest}" if mark and scheme.startswith("postgresql+") else dsn


def _milliseconds(span: timedelta) -> int:
    return int(span / timedelta(milliseconds=1))


def explain(error: Exception, place: Place) -> TidegateError:
    """The driver's error as ours: one line that names the database and the remedy."""
    if isinstance(error, PoolTimeout):
        return Transient(f"database {place}: every connection is busy; the work waits for its next turn")
    cause = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(cause, "sqlstate", None)
    said = _one_line(cause)
    if state in _UNDEFINED:
        return Permanent(f"database {place}: {said}; bring its tables up to date: `tidegate db migrate --config FILE`")
    if state is None and isinstance(cause, psycopg.OperationalError):
        return _connection_error(said, place)
    if state == _LOCKED:
        return Busy(f"database {place}: {said}; it is tried again")
    if (state is not None and state[:2] in _WAITING) or _NO_PARTITION in said:
        return Transient(f"database {place}: {said}; it is tried again")
    return Permanent(f"database {place}: {said}")


def _connection_error(said: str, place: Place) -> TidegateError:
    for sign, remedy in _REFUSED.items():
        if sign in said:
            return Permanent(f"database {place} refuses us ({said}): {remedy}")
    return Transient(
        f"database {place} does not answer ({said}); is it running, is the address right? It is tried again"
    )


def _one_line(cause: BaseException | None) -> str:
    lines = str(cause).strip().splitlines()
    said = next((line for line in lines if "FATAL:" in line), lines[0] if lines else type(cause).__name__)
    return said.rpartition("FATAL:")[2].rpartition("failed: ")[2].strip()
