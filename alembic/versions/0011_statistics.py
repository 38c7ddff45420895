"""Columns that no query chooses rows by have no statistics: Postgres would sort thousands of arrays for nothing."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_OURS = (
    "SELECT c.relname AS name, a.attname AS col FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
    "WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace "
    "AND a.attnum > 0 AND NOT a.attisdropped"
)
_FIGURES = (
    "AND (a.atttypid = ANY ('{real, double precision, bytea, jsonb}'::regtype[]) "
    "OR EXISTS (SELECT FROM pg_type t WHERE t.oid = a.atttypid AND t.typcategory = 'A'))"
)


def _set(which: str, target: int) -> None:
    op.execute(
        f"""
        DO $$
        DECLARE one record;
        BEGIN
            FOR one IN {_OURS} {which} LOOP
                EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STATISTICS {target}', one.name, one.col);
            END LOOP;
        END $$
        """
    )


def upgrade() -> None:
    _set(_FIGURES, 0)
    _set("AND c.relname = 'series' AND a.atttypid <> ALL ('{real, double precision}'::regtype[])", 10)


def downgrade() -> None:
    _set(_FIGURES, -1)
    _set("AND c.relname = 'series'", -1)
