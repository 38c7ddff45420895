"""Open the configured database: for one command, or for as long as a daemon lives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import structlog

from tidegate.runtime.clock import SystemClock
from tidegate.runtime.errors import Permanent, Transient
from tidegate.runtime.lifecycle import Lifecycle
from tidegate.runtime.loop import Loop
from tidegate.runtime.retry import patiently
from tidegate.store import migrate
from tidegate.store.database import Database, open_database
from tidegate.store.embedded import EmbeddedPostgres

_log = structlog.get_logger()

_WATCH_EVERY = timedelta(seconds=5)
"""How often the embedded database is looked after; real time, whatever clock is played."""


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
def kept_open(dsn: str | None, state_dir: Path, lifecycle: Lifecycle) -> Iterator[Database]:
    """The database of the DSN, waited for until it is there and somebody has migrated it.

    Without a DSN the embedded one: ours alone, migrated by us, watched and brought up again while the block lasts.
    Raises Stopped when a stop is asked for meanwhile, Permanent when waiting cannot help.
    """
    with ExitStack() as stack:
        if dsn is None:
            database = stack.enter_context(_embedded(state_dir, lifecycle))
        else:
            database = stack.enter_context(_open(dsn))
            patiently(lambda: _check_revision(database), lifecycle)
        _log.info("database ready", place=str(database.place), version=database.ping())
        yield database


@contextmanager
def _open(dsn: str) -> Iterator[Database]:
    database = open_database(dsn)
    try:
        yield database
    finally:
        database.close()


def _check_revision(database: Database) -> None:
    """Wait for a person to migrate: then we go on by ourselves, and nothing has to be started again."""
    database.ping()
    try:
        migrate.require_current(database)
    except Permanent as error:
        raise Transient(str(error)) from error


@contextmanager
def _embedded(state_dir: Path, lifecycle: Lifecycle) -> Iterator[Database]:
    server = EmbeddedPostgres(state_dir, stopping=lifecycle.stopping)
    watch = Loop(SystemClock())
    try:
        patiently(server.start, lifecycle)
        with _open(server.dsn) as database:
            patiently(lambda: migrate.upgrade(database), lifecycle)
            dsn = server.dsn
            watch.every("database", _WATCH_EVERY, lambda: _look_after(server, dsn, lifecycle), first_after=_WATCH_EVERY)
            watch.start()
            try:
                yield database
            finally:
                watch.stop()
    finally:
        server.stop()


def _look_after(server: EmbeddedPostgres, dsn: str, lifecycle: Lifecycle) -> None:
    """Bring a server that died up again; end the daemon, to be started anew, when it answers at another place now."""
    if server.alive() or lifecycle.stopping.is_set():
        return
    _log.error("the embedded database is gone, starting it again")
    server.start()
    if server.dsn != dsn:  # its socket had to move: every connection would go to the old place
        _log.error("the embedded database has moved, stopping to be started anew")
        lifecycle.stop()
