"""The tables of bills: snapshots, their versions, the charges of those that are kept, what is quarantined, prices."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from tidegate.store.schema import metadata

_Moment = DateTime(timezone=True)

bill_snapshot = Table(
    "bill_snapshot",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("source", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("billing_start", _Moment, nullable=False),
    Column("billing_end", _Moment, nullable=False),
    Column("shard", Text, nullable=False),
    Column("closed_at", _Moment),
    Column("closed_by", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    UniqueConstraint("source", "account", "billing_start", "billing_end", "shard", name="bill_snapshot_place_key"),
)

bill_version = Table(
    "bill_version",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("snapshot_id", BigInteger, nullable=False),
    Column("number", Integer, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("charges_kept", Boolean, nullable=False),
    Column("imported_at", _Moment, nullable=False),
    Column("imported_by", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("files", ARRAY(Text), nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("quarantined", BigInteger, nullable=False),
    Column("effective_usable", Boolean, nullable=False),
    Column("sums", JSONB, nullable=False),
    UniqueConstraint("snapshot_id", "number"),
    Index("bill_version_active_idx", "snapshot_id", unique=True, postgresql_where=text("active")),
    Index(None, "content"),
)
"""`content`: the hash of the files and of what was said of them; `sums`: everything that they add up to."""

bill_quarantine = Table(
    "bill_quarantine",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("version_id", BigInteger, nullable=False),
    Column("file", Text, nullable=False),
    Column("row", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("amount", Numeric),
    Column("currency", Text, nullable=False),
    Column("text", Text, nullable=False),
    Index(None, "version_id"),
)

bill_event = Table(
    "bill_event",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("snapshot_id", BigInteger, nullable=False),
    Column("at", _Moment, nullable=False),
    Column("who", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("why", Text, nullable=False),
    Index(None, "snapshot_id"),
)
"""Who imported, closed and reopened, and why."""

charge = Table(
    "charge",
    metadata,
    Column("version_id", BigInteger, nullable=False),
    Column("provider", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("billing_start", _Moment, nullable=False),
    Column("billing_end", _Moment, nullable=False),
    Column("start", _Moment, nullable=False),
    Column("end", _Moment, nullable=False),
    Column("currency", Text, nullable=False),
    Column("billed", Numeric),
    Column("effective", Numeric),
    Column("category", Text, nullable=False),
    Column("correction", Boolean, nullable=False),
    Column("service", Text, nullable=False),
    Column("service_name", Text),
    Column("resource_id", Text),
    Column("resource_name", Text),
    Column("resource_type", Text),
    Column("sku", Text),
    Column("region", Text),
    Column("zone", Text),
    Column("sub_account", Text),
    Column("list_cost", Numeric),
    Column("pricing_quantity", Numeric),
    Column("pricing_unit", Text),
    Column("consumed_quantity", Numeric),
    Column("consumed_unit", Text),
    Column("pricing_category", Text),
    Column("frequency", Text),
    Column("commitment_id", Text),
    Column("commitment_status", Text),
    Column("tags", JSONB(none_as_null=True)),
    Column("hosts", ARRAY(Text)),
    Column("description", Text),
    Column("invoice_id", Text),
    Column("file", Text, nullable=False),
    Column("row", BigInteger, nullable=False),
    Index("charge_version_id_start_idx", "version_id", "start"),
)
"""One accepted row of a bill. An empty text is stored as null: most rows leave most of them empty."""

price = Table(
    "price",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("provider", Text, nullable=False),
    Column("sku", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("currency", Text, nullable=False),
    Column("amount", Numeric, nullable=False),
    Column("gpus", Integer),
    Column("since", _Moment),
    Column("until", _Moment),
    Column("imported_at", _Moment, nullable=False),
    Column("imported_by", Text, nullable=False),
    Index(None, "sku"),
)
"""By contract or list; an import replaces what it has of provider, SKU, region, unit and `since`."""
