"""Dump everything that is ours in a database, as it was at one moment, without the programs of Postgres."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from psycopg import sql
from sqlalchemy import Connection, text

from tidegate import __version__
from tidegate.store.database import Database
from tidegate.store.dump_format import DumpedTable, DumpWriter, Manifest, writing
from tidegate.store.migrate import require_tables, tables_of_ours
from tidegate.store.schema_leadership import lease

UNLIMITED = timedelta()
Advance = Callable[[int], None]

_LEAVES = text(
    "SELECT c.relname AS name, '' AS parent, '' AS bound FROM pg_class c "
    "WHERE c.oid = CAST(:name AS regclass) AND c.relkind = 'r' "
    "UNION ALL SELECT c.relname, t.parentrelid::regclass::text, pg_get_expr(c.relpartbound, c.oid) "
    "FROM pg_partition_tree(CAST(:name AS regclass)) t JOIN pg_class c ON c.oid = t.relid "
    "WHERE t.isleaf AND t.parentrelid IS NOT NULL ORDER BY 1"
)
"""A table that is not split, by itself; else every part at the end of its tree."""
_COLUMNS = text(
    "SELECT attname FROM pg_attribute WHERE attrelid = CAST(:name AS regclass) AND attnum > 0 AND NOT attisdropped "
    "AND attgenerated = '' ORDER BY attnum"
)


@dataclass(frozen=True, slots=True)
class Dumped:
    """What was written or read."""

    tables: int
    rows: int
    revision: str


def dump(database: Database, path: Path, now: datetime, advance: Advance | None = None) -> Dumped:
    """Write a dump of one snapshot; nobody has to stop for it. `advance` is told of uncompressed bytes.

    Raises Permanent when there are no tables or the file cannot be written, and as `Database.begin` does.
    """
    with database.begin(statement=UNLIMITED) as connection:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.exec_driver_sql("SET LOCAL DateStyle = 'ISO'")  # the bounds of parts are text: one spelling
        manifest = _manifest(connection, require_tables(connection, database.place), now)
        with writing(path) as file:
            file.manifest(manifest)
            rows = [_table(connection, table, file, advance) for table in manifest.tables]
            file.end(len(rows))
    return Dumped(len(rows), sum(rows), manifest.revision)


def size_of(database: Database) -> int:
    """About how many bytes a dump reads, for a progress bar."""
    with database.begin() as connection:
        return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())


def _manifest(connection: Connection, revision: str, now: datetime) -> Manifest:
    return Manifest(
        version=__version__,
        revision=revision,
        server_version=str(connection.exec_driver_sql("SHOW server_version").scalar_one()),
        at=now.isoformat(),
        size_bytes=int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()),
        tables=tuple(_tables(connection)),
    )


def _tables(connection: Connection) -> Sequence[DumpedTable]:
    """Ours, each part of a split one by itself; who leads is nobody's business after a restore."""
    found = []
    for name in tables_of_ours(connection):
        if name == lease.name:
            continue
        for leaf in connection.execute(_LEAVES, {"name": name}).all():
            columns = tuple(connection.execute(_COLUMNS, {"name": leaf.name}).scalars())
            found.append(DumpedTable(leaf.name, columns, leaf.parent, leaf.bound))
    return found


def _table(connection: Connection, table: DumpedTable, file: DumpWriter, advance: Advance | None) -> int:
    statement = sql.SQL("COPY {} ({}) TO STDOUT (FORMAT BINARY)").format(
        sql.Identifier(table.name), sql.SQL(", ").join(map(sql.Identifier, table.columns))
    )
    with connection.connection.driver_connection.cursor() as cursor:  # type: ignore[union-attr]
        with cursor.copy(statement) as copy:
            for block in copy:
                file.data(block)
                if advance is not None:
                    advance(len(block))
        rows = int(cursor.rowcount)
    file.table_ends(table.name, rows)
    return rows
