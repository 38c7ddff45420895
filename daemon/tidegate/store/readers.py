"""The read-only role: it sees the views of docs/schema.md and nothing else, for a bounded time a statement."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, text

from tidegate.runtime.errors import ConfigError, Permanent
from tidegate.runtime.tokens import new_token
from tidegate.store.database import Database
from tidegate.store.locks import lock_migration

ROLE = "tidegate_reader"
STATEMENT = timedelta(seconds=30)
_CONNECTIONS = 20
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_VIEWS = text("SELECT viewname FROM pg_views WHERE schemaname = current_schema() AND viewname LIKE 'v\\_%' ORDER BY 1")
_GRANTED = text(
    "SELECT DISTINCT grantee FROM information_schema.role_table_grants "
    "WHERE table_schema = current_schema() AND table_name = 'v_pool_figures' AND privilege_type = 'SELECT' "
    "AND grantee <> grantor AND grantee <> 'PUBLIC'"
)


@dataclass(frozen=True, slots=True)
class Reader:
    """The role as it stands now."""

    role: str
    password: str | None
    """Set when it was made just now: it is stored nowhere but as a SCRAM verifier."""
    views: tuple[str, ...]


def ensure_reader(database: Database, role: str = ROLE, *, rotate: bool = False) -> Reader:
    """Make the role, or bring it to what this version grants; `rotate` gives it another password.

    Raises Permanent with the remedy when we may not make roles here, ConfigError for a name that is none.
    """
    if not _NAME.fullmatch(role):
        raise ConfigError(f"{role!r} cannot be the reader's name: small letters, digits and _, at most 63")
    with database.begin() as connection:
        lock_migration(connection)
        present = _present(connection, role)
        _allowed(connection, database, role, change=rotate or not present)
        password = new_token("tgr") if rotate or not present else None
        if not present:
            connection.exec_driver_sql(f'CREATE ROLE "{role}" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE')
        if password is not None:
            verifier = _verifier(connection, role, password)
            connection.exec_driver_sql(f"ALTER ROLE \"{role}\" PASSWORD '{verifier}'")
            _bound(connection, role)
        return Reader(role, password, tuple(_grant(connection, role)))


def remove_reader(database: Database, role: str = ROLE) -> bool:
    """Drop the role and what it was granted; False when there was none."""
    if not _NAME.fullmatch(role):
        raise ConfigError(f"{role!r} cannot be the reader's name: small letters, digits and _, at most 63")
    with database.begin() as connection:
        lock_migration(connection)
        if not _present(connection, role):
            return False
        _allowed(connection, database, role, change=True)
        connection.exec_driver_sql(f'DROP OWNED BY "{role}"')
        connection.exec_driver_sql(f'DROP ROLE "{role}"')
    return True


def grant_again(connection: Connection) -> None:
    """After a migration: whoever could read the views before may read new ones too."""
    for role in connection.execute(_GRANTED).scalars().all():
        _grant(connection, str(role))


def _present(connection: Connection, role: str) -> bool:
    return connection.execute(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role}).first() is not None


def _allowed(connection: Connection, database: Database, role: str, *, change: bool) -> None:
    may = connection.exec_driver_sql("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user")
    if change and not may.scalar_one():
        raise Permanent(
            f"database {database.place}: our role may not make roles; as an administrator run "
            f"`CREATE ROLE {role} LOGIN PASSWORD '...'; ALTER ROLE {role} SET statement_timeout = "
            f"'{int(STATEMENT.total_seconds())}s'; ALTER ROLE {role} SET default_transaction_read_only = on;` "
            f"and then this command again, which grants it the views"
        )


def _bound(connection: Connection, role: str) -> None:
    for setting, value in (
        ("statement_timeout", f"{int(STATEMENT.total_seconds())}s"),
        ("idle_in_transaction_session_timeout", "60s"),
        ("lock_timeout", "2s"),
        ("default_transaction_read_only", "on"),
        ("TimeZone", "UTC"),
    ):
        connection.exec_driver_sql(f"ALTER ROLE \"{role}\" SET {setting} = '{value}'")
    connection.exec_driver_sql(f'ALTER ROLE "{role}" CONNECTION LIMIT {_CONNECTIONS}')


def _verifier(connection: Connection, role: str, password: str) -> str:
    """What the server stores, made here: the password itself never reaches it, nor its log."""
    driver: Any = connection.connection.driver_connection
    made: bytes = driver.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    return made.decode()


def _grant(connection: Connection, role: str) -> list[str]:
    views = [str(name) for name in connection.execute(_VIEWS).scalars()]
    schema, database = connection.exec_driver_sql("SELECT current_schema(), current_database()").one()
    quote = connection.dialect.identifier_preparer.quote_identifier
    connection.exec_driver_sql(f"GRANT CONNECT ON DATABASE {quote(database)} TO {quote(role)}")
    connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA {quote(schema)} TO {quote(role)}")
    if views:
        connection.exec_driver_sql(f"GRANT SELECT ON {', '.join(map(quote, views))} TO {quote(role)}")
    return views
