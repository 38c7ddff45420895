"""Real Postgres for tests: one embedded server a session, its database emptied for each test."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from fakes.store import FakeStore

from tidegate.store import migrate
from tidegate.store.database import Database, open_database
from tidegate.store.embedded import DATABASE, EmbeddedPostgres
from tidegate.store.schema import metadata
from tidegate.store.store import Store

_numbers = count()


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A short-named folder that the database's own user can enter, as pytest's own are not when we are root."""
    folder = open_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def open_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tg-"))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """The server, its database migrated."""
    folder = open_folder()
    server = EmbeddedPostgres(folder, durable=False)
    try:
        server.start()
        database = open_database(server.dsn)
        migrate.upgrade(database)
        database.close()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def dsn(postgres: EmbeddedPostgres) -> str:
    """The address of the migrated database, emptied: twenty times as fast as a copy of it."""
    empty(postgres.dsn)
    return postgres.dsn


def empty(dsn: str) -> None:
    """Drop the partitions and empty every table, whoever holds what."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        for (name,) in connection.execute("SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'"):
            connection.execute(f"DROP TABLE {name}")
        connection.execute(f"TRUNCATE {', '.join(metadata.tables)} RESTART IDENTITY")


@pytest.fixture
def empty_dsn(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The address of a database of its own without tables."""
    name = f"empty_{next(_numbers)}"
    with psycopg.connect(_in(postgres, "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        yield _in(postgres, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def module_dsn(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The address of a migrated database of a test module's own, which its tests share."""
    name = f"module_{next(_numbers)}"
    with psycopg.connect(_in(postgres, "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        database = open_database(_in(postgres, name))
        migrate.upgrade(database)
        database.close()
        yield _in(postgres, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database(dsn: str) -> Iterator[Database]:
    """The migrated database, emptied."""
    opened = open_database(dsn)
    yield opened
    opened.close()


@pytest.fixture(params=["fake", "real"])
def store(request: pytest.FixtureRequest) -> FakeStore | Store:
    """The store of the contract: in memory, and in Postgres."""
    return FakeStore() if request.param == "fake" else Store(request.getfixturevalue("database"))


def _in(server: EmbeddedPostgres, name: str) -> str:
    return server.dsn.replace(f"@/{DATABASE}?", f"@/{name}?")
