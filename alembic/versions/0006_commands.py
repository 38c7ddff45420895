"""Operators' commands, the wishes of other programs, and which flavour a replica is of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # With a default, so that a controller of the version before may go on writing replicas.
    op.add_column("replica", sa.Column("flavour", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "control",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text()),
        sa.Column("minimum", sa.Integer()),
        sa.Column("maximum", sa.Integer()),
        sa.Column("mode", sa.Text()),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("ended_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="control_pkey"),
    )
    op.create_index("control_at_idx", "control", ["at"])
    op.create_index("control_standing_idx", "control", ["id"], postgresql_where=sa.text("ended_at IS NULL"))
    op.create_table(
        "external_wish",
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("replicas", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True)),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("service", name="external_wish_pkey"),
    )


def downgrade() -> None:
    op.drop_table("external_wish")
    op.drop_table("control")
    op.drop_column("replica", "flavour")
