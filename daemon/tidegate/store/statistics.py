"""Which columns Postgres keeps statistics of: those that a query may choose rows by.

Of the others it would sort up to 30,000 values each time a tenth of a table is new, arrays element by element: a
minute of a core for the rollups of 2,000 hosts, in pieces that nobody's report gets in between.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

_FIGURES = text(
    "SELECT a.attname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = to_regclass(:table) "
    "AND a.attnum > 0 AND NOT a.attisdropped AND (t.typcategory = 'A' "
    "OR t.oid = ANY ('{real, double precision, bytea, jsonb}'::regtype[])) ORDER BY a.attnum"
)


def leave_out_figures(connection: Connection, table: str) -> None:
    """Keep no statistics of what nobody chooses rows of this table by; its name is one of ours."""
    names = connection.execute(_FIGURES, {"table": table}).scalars().all()
    if names:
        changes = ", ".join(f'ALTER COLUMN "{name}" SET STATISTICS 0' for name in names)
        connection.exec_driver_sql(f"ALTER TABLE {table} {changes}")
