"""Real Postgres for tests: one embedded server a session, a fresh copy of the migrated database for each test."""

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
    """The server, its database migrated: the template of every copy."""
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
def dsn(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The address of a copy of its own."""
    yield from _copy(postgres, DATABASE)


@pytest.fixture
def empty_dsn(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The address of a database without tables."""
    yield from _copy(postgres, "template0")


@pytest.fixture
def database(dsn: str) -> Iterator[Database]:
    """A copy of the migrated database."""
    opened = open_database(dsn)
    yield opened
    opened.close()


@pytest.fixture(params=["fake", "real"])
def store(request: pytest.FixtureRequest) -> FakeStore | Store:
    """The store of the contract: in memory, and in Postgres."""
    return FakeStore() if request.param == "fake" else Store(request.getfixturevalue("database"))


def _copy(server: EmbeddedPostgres, template: str) -> Iterator[str]:
    name = f"copy_{next(_numbers)}"
    with psycopg.connect(_in(server, "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield _in(server, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _in(server: EmbeddedPostgres, name: str) -> str:
    return server.dsn.replace(f"@/{DATABASE}?", f"@/{name}?")
