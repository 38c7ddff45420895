"""The book of bills: snapshots and their versions, charges, quarantined rows, events, prices."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bill_event",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="bill_event_pkey"),
    )
    op.create_index("bill_event_snapshot_id_idx", "bill_event", ["snapshot_id"], unique=False)
    op.create_table(
        "bill_quarantine",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("row", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("amount", sa.Numeric(), nullable=True),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="bill_quarantine_pkey"),
    )
    op.create_index("bill_quarantine_version_id_idx", "bill_quarantine", ["version_id"], unique=False)
    op.create_table(
        "bill_snapshot",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("billing_start", sa.DateTime(timezone=True), nullable=False),
        sa.Column("billing_end", sa.DateTime(timezone=True), nullable=False),
        sa.Column("shard", sa.Text(), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("closed_by", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="bill_snapshot_pkey"),
        sa.UniqueConstraint(
            "source", "account", "billing_start", "billing_end", "shard", name="bill_snapshot_place_key"
        ),
    )
    op.create_table(
        "bill_version",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("charges_kept", sa.Boolean(), nullable=False),
        sa.Column("imported_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("imported_by", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("files", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("quarantined", sa.BigInteger(), nullable=False),
        sa.Column("effective_usable", sa.Boolean(), nullable=False),
        sa.Column("sums", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("id", name="bill_version_pkey"),
        sa.UniqueConstraint("snapshot_id", "number", name="bill_version_snapshot_id_number_key"),
    )
    op.create_index(
        "bill_version_active_idx", "bill_version", ["snapshot_id"], unique=True, postgresql_where=sa.text("active")
    )
    op.create_index("bill_version_content_idx", "bill_version", ["content"], unique=False)
    op.create_table(
        "charge",
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("billing_start", sa.DateTime(timezone=True), nullable=False),
        sa.Column("billing_end", sa.DateTime(timezone=True), nullable=False),
        sa.Column("start", sa.DateTime(timezone=True), nullable=False),
        sa.Column("end", sa.DateTime(timezone=True), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("billed", sa.Numeric(), nullable=True),
        sa.Column("effective", sa.Numeric(), nullable=True),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("correction", sa.Boolean(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("service_name", sa.Text(), nullable=True),
        sa.Column("resource_id", sa.Text(), nullable=True),
        sa.Column("resource_name", sa.Text(), nullable=True),
        sa.Column("resource_type", sa.Text(), nullable=True),
        sa.Column("sku", sa.Text(), nullable=True),
        sa.Column("region", sa.Text(), nullable=True),
        sa.Column("zone", sa.Text(), nullable=True),
        sa.Column("sub_account", sa.Text(), nullable=True),
        sa.Column("list_cost", sa.Numeric(), nullable=True),
        sa.Column("pricing_quantity", sa.Numeric(), nullable=True),
        sa.Column("pricing_unit", sa.Text(), nullable=True),
        sa.Column("consumed_quantity", sa.Numeric(), nullable=True),
        sa.Column("consumed_unit", sa.Text(), nullable=True),
        sa.Column("pricing_category", sa.Text(), nullable=True),
        sa.Column("frequency", sa.Text(), nullable=True),
        sa.Column("commitment_id", sa.Text(), nullable=True),
        sa.Column("commitment_status", sa.Text(), nullable=True),
        sa.Column("tags", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("hosts", postgresql.ARRAY(sa.Text()), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("invoice_id", sa.Text(), nullable=True),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("row", sa.BigInteger(), nullable=False),
    )
    op.create_index("charge_version_id_start_idx", "charge", ["version_id", "start"], unique=False)
    op.create_table(
        "price",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("amount", sa.Numeric(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=True),
        sa.Column("since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("imported_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("imported_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="price_pkey"),
    )
    op.create_index("price_sku_idx", "price", ["sku"], unique=False)


def downgrade() -> None:
    op.drop_table("price")
    op.drop_table("charge")
    op.drop_table("bill_version")
    op.drop_table("bill_snapshot")
    op.drop_table("bill_quarantine")
    op.drop_table("bill_event")
