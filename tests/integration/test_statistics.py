"""Postgres looks at what rows are chosen by, and not at thousands of figures in arrays."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from sqlalchemy import text

from tidegate.store.database import Database, open_database
from tidegate.store.dump import dump
from tidegate.store.partitions import WIDTHS, Partitions
from tidegate.store.restore import restore

_TARGETS = text(
    "SELECT table_name, column_name, data_type, a.attstattarget = 0 AS left_out "
    "FROM information_schema.columns JOIN pg_attribute a ON a.attname = column_name "
    "AND a.attrelid = to_regclass(quote_ident(table_name)) "
    "WHERE table_schema = current_schema AND table_name NOT LIKE 'v\\_%' AND table_name <> 'alembic_version'"
)
FIGURES = {"ARRAY", "bytea", "jsonb", "real", "double precision"}
KEYS = {"text", "timestamp with time zone", "bigint", "integer", "boolean", "date"}


def looked_at(database: Database) -> dict[bool, set[str]]:
    """The types of columns that statistics are kept of, and those of the others."""
    with database.begin() as connection:
        rows = connection.execute(_TARGETS).all()
    assert {row.table_name.rpartition("_")[0] for row in rows} >= set(WIDTHS), "the parts are among them"
    return {yes: {row.data_type for row in rows if bool(row.left_out) is not yes} for yes in (True, False)}


def test_no_table_and_no_part_has_statistics_of_figures(database: Database, now: datetime) -> None:
    for parent in WIDTHS:
        Partitions(database).ensure(parent, [now])
    kinds = looked_at(database)
    assert kinds[False] == FIGURES
    assert not kinds[True] & FIGURES
    assert kinds[True] >= KEYS


def test_a_restored_part_is_like_one_that_was_made(
    database: Database, empty_dsn: str, now: datetime, tmp_path: Path
) -> None:
    empty = open_database(empty_dsn)
    for parent in WIDTHS:
        Partitions(database).ensure(parent, [now])
    dump(database, tmp_path / "all.dump", now)
    restore(empty, tmp_path / "all.dump")
    assert looked_at(empty)[False] == FIGURES
    options = text("SELECT relname, reloptions FROM pg_class WHERE relname ~ '^report_2' AND relkind = 'r'")
    with database.begin() as made, empty.begin() as restored:
        wanted = made.execute(options).all()
        assert restored.execute(options).all() == wanted
    assert wanted[0].reloptions
    empty.close()
