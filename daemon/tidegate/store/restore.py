"""Restore a dump into an empty database: everything or, when anything is wrong, nothing."""

from __future__ import annotations

import re
from pathlib import Path

from psycopg import sql
from sqlalchemy import Connection, text

from tidegate.runtime.errors import Permanent
from tidegate.store.database import Database
from tidegate.store.dump import Advance, Dumped
from tidegate.store.dump_format import DumpedTable, DumpReader, Manifest, reading
from tidegate.store.migrate import building, tables_of_ours, upgrade
from tidegate.store.partitions import attach

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_BOUND = re.compile(r"FOR VALUES (FROM \('[0-9:+ .-]+'\) TO \('[0-9:+ .-]+'\)|IN \([a-z0-9', ]+\))")
_SEQUENCES = text(
    "SELECT table_name, column_name FROM information_schema.columns "
    "WHERE table_schema = current_schema AND is_identity = 'YES'"
)


def restore(database: Database, path: Path, advance: Advance | None = None) -> Dumped:
    """Make the tables of the dump's revision, fill them, then bring them up to this version's revision.

    Raises Permanent, and changes nothing, when the database has any table, the dump is damaged, or a newer Tidegate
    wrote it.
    """
    with reading(path) as file:
        manifest = file.manifest()
        _check(manifest, path)
        with building(database, manifest.revision) as connection:
            rows = [_table(connection, table, file, advance) for table in manifest.tables]
            file.end(len(rows))
            _count_on(connection)
    upgrade(database)
    return Dumped(len(rows), sum(rows), manifest.revision)


def _check(manifest: Manifest, path: Path) -> None:
    """Names and bounds become DDL, which takes no parameters: only what we write ourselves is let through."""
    for table in manifest.tables:
        names = (table.name, *table.columns, *([table.parent] if table.parent else []))
        if not all(map(_NAME.fullmatch, names)) or (table.bound and not _BOUND.fullmatch(table.bound)):
            raise Permanent(f"{path} is damaged: table {table.name[:63]!r} is none of ours; take another dump")


def _table(connection: Connection, table: DumpedTable, file: DumpReader, advance: Advance | None) -> int:
    if table.parent and not _there(connection, table.name):
        attach(connection, table.parent, table.name, table.bound)
    elif not table.parent and table.name not in tables_of_ours(connection):
        raise Permanent(f"revision has no table {table.name}, and the dump has one: it was not made by this Tidegate")
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(table.name), sql.SQL(", ").join(map(sql.Identifier, table.columns))
    )
    with connection.connection.driver_connection.cursor() as cursor:  # type: ignore[union-attr]
        with cursor.copy(statement) as copy:
            for block in file.data():
                copy.write(block)
                if advance is not None:
                    advance(len(block))
        rows = int(cursor.rowcount)
    told = file.table_ends(table.name)
    if rows != told:
        raise Permanent(f"table {table.name}: {rows} rows were read of {told}; take another dump")
    return rows


def _there(connection: Connection, name: str) -> bool:
    return connection.execute(text("SELECT to_regclass(:name)"), {"name": name}).scalar_one() is not None


def _count_on(connection: Connection) -> None:
    """Numbers that are given out by a sequence go on after the highest that is there."""
    for table, column in connection.execute(_SEQUENCES).all():
        connection.execute(
            text(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), "  # noqa: S608 - names of the catalogue
                f"coalesce((SELECT max({column}) FROM {table}), 0) + 1, false)"
            )
        )
