"""Open the store that the configuration names: start the embedded Postgres, or reach one of the operator's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from tidegate.store import migrate
from tidegate.store.database import Database, open_database
from tidegate.store.embedded import EmbeddedPostgres
from tidegate.store.store import Store

EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Opened:
    """An open store, and what keeps its server alive."""

    store: Store
    revive: Callable[[], bool]
    """Start the embedded server again when it died (True when it had to); of an operator's own it does nothing."""


@contextmanager
def opened(setting: str, state_dir: Path, stopping: Event | None = None) -> Iterator[Opened]:
    """The store of a controller: `setting` is "embedded" or a DSN; closed, and the embedded server stopped, at the end.

    The embedded database is migrated here; of an operator's own the tables must be current. Raises Transient when
    waiting may help, Permanent with the remedy.
    """
    if setting != EMBEDDED:
        with _open(setting) as database:
            database.ping()
            migrate.require_current(database)
            yield Opened(Store(database), lambda: False)
        return
    with _embedded(EmbeddedPostgres(state_dir, stopping=stopping)) as server, _open(server.dsn) as database:
        migrate.upgrade(database)
        yield Opened(Store(database), server.revive)


@contextmanager
def visited(setting: str, state_dir: Path) -> Iterator[Database]:
    """The database for one command: an embedded server that does not run is started, and stopped afterwards."""
    if setting != EMBEDDED:
        with _open(setting) as database:
            yield database
        return
    with _embedded(EmbeddedPostgres(state_dir, owner=False)) as server, _open(server.dsn) as database:
        yield database


@contextmanager
def _embedded(server: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def _open(dsn: str) -> Iterator[Database]:
    database = open_database(dsn)
    try:
        yield database
    finally:
        database.close()
