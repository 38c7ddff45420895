"""The store's contracts once more: on the oldest Postgres that we support, through a PgBouncer in transaction mode.

With a handful of server connections for all, so that every statement of a session may meet another backend.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fakes.external_postgres import pooled

from tidegate.store.database import Database
from tidegate.store.store import Store


@pytest.fixture(scope="package")
def through_pooler(postgres_15: str) -> Iterator[str]:
    with pooled(postgres_15, connections=6) as dsn:
        yield dsn


@pytest.fixture
def dsn(emptied_postgres_15: str, through_pooler: str) -> str:
    return through_pooler


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)
