"""Open the configured database for one command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.store.database import Database, open_database
from tidegate.store.embedded import EmbeddedPostgres

EMBEDDED = "embedded"


@contextmanager
def visited(setting: str, state_dir: Path) -> Iterator[Database]:
    """`setting` is "embedded" or a DSN; an embedded server that does not run is started, and stopped afterwards.

    Raises Transient when waiting may help, Permanent with the remedy.
    """
    if setting != EMBEDDED:
        with _open(setting) as database:
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
