"""What bills were shared out to, day by day, and the views over it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TEXTS = ("account", "host", "pool", "service", "model", "side", "charge", "category", "resource", "method", "traffic",
         "tenant")  # fmt: skip


def upgrade() -> None:
    op.create_table(
        "cost_day",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("versions", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("coverage", sa.Numeric(), nullable=True),
        sa.Column("observed", sa.Numeric(), nullable=True),
        sa.Column("unbilled", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("notes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("computed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("day", name="cost_day_pkey"),
    )
    op.create_table(
        "cost_line",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("estimated", sa.Boolean(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("billing", sa.Date(), nullable=True),
        *(sa.Column(name, sa.Text(), nullable=False) for name in TEXTS),
        sa.Column("billed", sa.Numeric(), nullable=True),
        sa.Column("effective", sa.Numeric(), nullable=True),
        sa.Column("gpu_seconds", sa.Numeric(), nullable=False),
    )
    op.create_index("cost_line_day_idx", "cost_line", ["day"], unique=False)
    op.create_index("cost_line_billing_idx", "cost_line", ["billing"], unique=False)
    op.create_table(
        "cost_reconciled",
        sa.Column("day", sa.Date(), nullable=False),
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in ("provider", "sku", "region", "pricing", "currency", "host")
        ),
        sa.Column("gpu_hours", sa.Numeric(), nullable=False),
        sa.Column("effective", sa.Numeric(), nullable=False),
        sa.Column("listed", sa.Numeric(), nullable=True),
    )
    op.create_index("cost_reconciled_day_idx", "cost_reconciled", ["day"], unique=False)
    op.create_table(
        "cost_tokens",
        sa.Column("day", sa.Date(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("pool", "service", "model", "side", "role")),
        *(sa.Column(name, sa.Numeric(), nullable=False) for name in ("prompt", "cached", "output")),
        sa.Column("partial", sa.Boolean(), nullable=False),
        *(sa.Column(name, sa.Numeric(), nullable=True) for name in ("attainment", "prefill_seconds", "decode_seconds")),
    )
    op.create_index("cost_tokens_day_idx", "cost_tokens", ["day"], unique=False)
    op.execute(
        """
        CREATE VIEW v_cost_day AS
        SELECT day, state, coverage, observed, unbilled, notes, versions, computed_at FROM cost_day
        """
    )
    op.execute(
        """
        CREATE VIEW v_cost_line AS
        SELECT l.day, d.state, l.kind, l.estimated, l.currency, l.billing, l.account, l.host, l.pool, l.service,
               l.model, l.side, l.charge, l.category, l.resource, l.method, l.billed, l.effective,
               l.gpu_seconds / 3600 AS gpu_hours
        FROM cost_line l JOIN cost_day d ON d.day = l.day
        """
    )
    op.execute(
        """
        CREATE VIEW v_cost_tokens AS
        SELECT day, pool, service, model, side, prompt AS prompt_tokens, cached AS cached_prompt_tokens,
               output AS generation_tokens, partial, attainment FROM cost_tokens
        """
    )


def downgrade() -> None:
    op.execute("DROP VIEW v_cost_tokens")
    op.execute("DROP VIEW v_cost_line")
    op.execute("DROP VIEW v_cost_day")
    op.drop_table("cost_tokens")
    op.drop_table("cost_reconciled")
    op.drop_table("cost_line")
    op.drop_table("cost_day")
