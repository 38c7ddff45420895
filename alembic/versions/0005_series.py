"""Series, their samples in chunks, and rollups; reports keep one index less and are not compressed twice."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, REAL

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    dictionary()
    chunks()
    for name in ROLLUPS:
        rollup(name)
    for name in SPLIT:
        split(name)
    # What was reported before is compacted too; nobody waits for it.
    op.execute(
        "INSERT INTO series_window (host, start, version, done, not_before, samples, cold) "
        "SELECT host, date_bin('2 hours', at, TIMESTAMPTZ '2000-01-01 00:00+00'), 1, 0, now(), 0, false "
        "FROM report GROUP BY 1, 2"
    )
    op.add_column("dirty_bucket", sa.Column("version", sa.BigInteger, nullable=False, server_default="0"))
    op.drop_index("report_at_idx", "report")
    # Packed already: Postgres need not try. The partitions that exist keep their way until they are dropped.
    op.execute("ALTER TABLE report ALTER COLUMN vector SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.create_index("report_at_idx", "report", ["at"])
    op.execute("ALTER TABLE report ALTER COLUMN vector SET STORAGE EXTENDED")
    op.drop_column("dirty_bucket", "version")
    for name in (*SPLIT, "series_window", "series", "series_block"):
        op.drop_table(name)


ROLLUPS = ("rollup_1m", "rollup_5m", "rollup_1h")
SPLIT = ("chunk", "chunk_clock", *ROLLUPS)


def dictionary() -> None:
    op.create_table(
        "series_block",
        sa.Column("id", sa.Integer, sa.Identity(always=True), nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="series_block_pkey"),
        sa.UniqueConstraint("host", "scope", "name", "number", name="series_block_host_scope_name_number_key"),
    )
    op.create_table(
        "series",
        sa.Column("id", sa.Integer, sa.Identity(always=True), nullable=False),
        sa.Column("block", sa.Integer, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("rank", sa.Text, nullable=False),
        sa.Column("le", sa.Text, nullable=False),
        sa.Column("first_seen", Moment, nullable=False),
        sa.Column("last_seen", Moment, nullable=False),
        sa.PrimaryKeyConstraint("id", name="series_pkey"),
        sa.UniqueConstraint(
            "name", "host", "scope", "owner", "rank", "le", name="series_name_host_scope_owner_rank_le_key"
        ),
    )
    op.create_index("series_host_idx", "series", ["host"])
    op.create_index("series_block_idx", "series", ["block"])
    op.create_table(
        "series_window",
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("start", Moment, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("done", sa.BigInteger, nullable=False),
        sa.Column("not_before", Moment, nullable=False),
        sa.Column("samples", sa.Integer, nullable=False),
        sa.Column("cold", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("host", "start", name="series_window_pkey"),
    )
    due, warm = sa.text("done < version"), sa.text("NOT cold")
    op.create_index("series_window_due_idx", "series_window", ["not_before"], postgresql_where=due)
    op.create_index("series_window_warm_idx", "series_window", ["start"], postgresql_where=warm)


def chunks() -> None:
    op.create_table(
        "chunk",
        sa.Column("cold", sa.Boolean, nullable=False),
        sa.Column("block", sa.Integer, nullable=False),
        sa.Column("start", Moment, nullable=False),
        sa.Column("series", ARRAY(sa.Integer), nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("cold", "block", "start", name="chunk_pkey"),
        postgresql_partition_by="LIST (cold)",
    )
    op.create_table(
        "chunk_clock",
        sa.Column("cold", sa.Boolean, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("start", Moment, nullable=False),
        sa.Column("samples", sa.Integer, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("cold", "host", "start", name="chunk_clock_pkey"),
        postgresql_partition_by="LIST (cold)",
    )
    for name in ("chunk", "chunk_clock"):
        op.execute(f"ALTER TABLE {name} ALTER COLUMN payload SET STORAGE EXTERNAL")


def rollup(name: str) -> None:
    op.create_table(
        name,
        sa.Column("cold", sa.Boolean, nullable=False),
        sa.Column("block", sa.Integer, nullable=False),
        sa.Column("start", Moment, nullable=False),
        sa.Column("buckets", sa.SmallInteger, nullable=False),
        sa.Column("series", ARRAY(sa.Integer), nullable=False),
        sa.Column("sum", ARRAY(REAL)),
        sa.Column("count", ARRAY(sa.SmallInteger)),
        sa.Column("minimum", ARRAY(REAL)),
        sa.Column("maximum", ARRAY(REAL)),
        sa.Column("increase", ARRAY(REAL)),
        sa.Column("last", ARRAY(sa.Double)),
        sa.PrimaryKeyConstraint("cold", "block", "start", name=f"{name}_pkey"),
        postgresql_partition_by="LIST (cold)",
    )


def split(name: str) -> None:
    """Two parts that are split by time in turn; parts of a day or a month are made at run time, never here."""
    for part, cold in (("hot", "false"), ("cold", "true")):
        op.execute(f"CREATE TABLE {name}_{part} PARTITION OF {name} FOR VALUES IN ({cold}) PARTITION BY RANGE (start)")
