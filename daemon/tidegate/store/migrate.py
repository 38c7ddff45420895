"""Bring the tables to a revision: Alembic, under a lock, in one transaction, from the files that travel with us."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from alembic import command, context
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text

from tidegate.runtime.errors import Permanent
from tidegate.runtime.share import share_path
from tidegate.store import (  # noqa: F401 - add their tables to `metadata`
    schema_bills,
    schema_control,
    schema_costs,
    schema_figures,
    schema_jobs,
    schema_leadership,
    schema_series,
)
from tidegate.store.database import Database, Place
from tidegate.store.locks import lock_migration
from tidegate.store.readers import grant_again
from tidegate.store.schema import metadata

_LOCK_WAIT = timedelta(minutes=5)
"""Another controller may be migrating."""
_UNLIMITED = timedelta()
_TABLES = text("SELECT tablename FROM pg_tables WHERE schemaname = current_schema")
_PARTITIONS = text("SELECT relname FROM pg_class WHERE relispartition")


@dataclass(frozen=True, slots=True)
class Revisions:
    """Where a database stands and where this version of Tidegate wants it."""

    current: str | None
    """None: no tables yet."""
    head: str

    @property
    def up_to_date(self) -> bool:
        """True when there is nothing to do."""
        return self.current == self.head


def revisions(database: Database) -> Revisions:
    """The database's revision, and ours."""
    with database.begin() as connection:
        return Revisions(MigrationContext.configure(connection).get_current_revision(), _head())


def upgrade(database: Database, revision: str = "head") -> Revisions:
    """Go up to a revision; returns where the database stood before. Nothing to do is no harm.

    Raises Permanent when a newer Tidegate made the tables, and as `Database.begin` does.
    """
    with _migrating(database) as (connection, config):
        before = Revisions(MigrationContext.configure(connection).get_current_revision(), _head())
        if not before.up_to_date or revision != "head":
            _known(before.current)
            command.upgrade(config, revision)
            grant_again(connection)
    return before


@contextmanager
def building(database: Database, revision: str) -> Iterator[Connection]:
    """The transaction that makes the tables of a revision in an empty database, to be filled before it is committed.

    Raises Permanent when there is any table of ours, or when a newer Tidegate knows the revision.
    """
    with _migrating(database) as (connection, config):
        if tables_of_ours(connection):
            raise Permanent(f"database {database.place} is not empty: restore into a new one (createdb), or drop it")
        _known(revision)
        command.upgrade(config, revision)
        yield connection


def tables_of_ours(connection: Connection) -> list[str]:
    """The tables of ours that are there, parts left out, in an order in which rows may be added."""
    present = set(connection.execute(_TABLES).scalars())
    return [table.name for table in metadata.sorted_tables if table.name in present]


def require_tables(connection: Connection, place: Place) -> str:
    """The revision of the tables; raises Permanent when there are none."""
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is None:
        raise Permanent(f"database {place} has no tables yet: run `tidegate db migrate --config FILE`")
    _known(revision)
    return revision


def downgrade(database: Database, revision: str) -> None:
    """Go down to a revision ("base": drop every table, and all that was stored)."""
    with _migrating(database) as (_, config):
        command.downgrade(config, revision)


def differences(database: Database) -> list[str]:
    """Where the tables differ from `store/schema.py`; empty when they agree."""
    with database.begin() as connection:
        compared = MigrationContext.configure(
            connection, opts={"include_object": _skip_partitions(connection), "compare_type": True}
        )
        return [repr(difference) for difference in compare_metadata(compared, metadata)]


def require_current(database: Database) -> None:
    """Raise Permanent, with the remedy, unless the tables are those that this version needs."""
    found = revisions(database)
    if not found.up_to_date:
        _known(found.current)
        raise Permanent(
            f"database {database.place} is at revision {found.current or 'none'}, this version needs {found.head}: "
            "run `tidegate db migrate --config FILE`"
        )


def configure(connection: Connection) -> None:
    """Run what Alembic was asked for on the connection; called by `alembic/env.py`."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_object=_skip_partitions(connection),
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


@contextmanager
def _migrating(database: Database) -> Iterator[tuple[Connection, Config]]:
    with database.begin(statement=_UNLIMITED, lock=_LOCK_WAIT) as connection:
        lock_migration(connection)
        config = _config()
        config.attributes["connection"] = connection
        yield connection, config


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(share_path("alembic")).replace("%", "%%"))
    return config


def _head() -> str:
    head = ScriptDirectory.from_config(_config()).get_current_head()
    if head is None:
        raise Permanent("the installation has no migrations; reinstall the tidegate package")
    return head


def _known(revision: str | None) -> None:
    if revision is None:
        return
    try:
        ScriptDirectory.from_config(_config()).get_revision(revision)
    except CommandError as error:
        raise Permanent(
            f"the tables were made by a newer Tidegate (revision {revision}, ours ends at {_head()}): "
            "install that version again"
        ) from error


def _skip_partitions(connection: Connection) -> Any:
    """Leave partitions and their indexes out of every comparison: they are made and dropped at run time."""
    names = {str(name) for name in connection.execute(_PARTITIONS).scalars()}

    def include(item: Any, name: str | None, kind: str, reflected: bool, _: Any) -> bool:  # noqa: FBT001 - Alembic's call
        table = name if kind == "table" else getattr(getattr(item, "table", None), "name", None)
        return not (reflected and (table in names or name in names))

    return include
