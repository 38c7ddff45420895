"""Open the configured database for one command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.store.database import Database, open_database
from tidegate.store.embedded import EmbeddedPostgres


@contextmanager
def visited(dsn: str | None, state_dir: Path) -> Iterator[Database]:
    """The database of the DSN; without one the embedded one, started if it does not run and then stopped afterwards.

    Raises Transient when waiting may help, Permanent with the remedy.
    """
    if dsn is not None:
        with _open(dsn) as database:
            yield database
        return
    server = EmbeddedPostgres(state_dir, owner=False)
    try:
        server.start()
        with _open(server.dsn) as database:
            yield database
    finally:
        server.stop()


@contextmanager
def _open(dsn: str) -> Iterator[Database]:
    database = open_database(dsn)
    try:
        yield database
    finally:
        database.close()
