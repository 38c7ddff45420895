"""What bills were shared out to: a day's lines with the names as they were then, its status, what prices learned.

A day is replaced as a whole. Nothing here refers to a host, pool or model of the present: deleting or renaming one
changes no figure of the past.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Date, DateTime, Index, Numeric, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY

from tidegate.store.schema import metadata

cost_day = Table(
    "cost_day",
    metadata,
    Column("day", Date, primary_key=True),
    Column("state", Text, nullable=False),
    Column("versions", ARRAY(BigInteger), nullable=False),
    Column("coverage", Numeric),
    Column("observed", Numeric),
    Column("unbilled", ARRAY(Text), nullable=False),
    Column("notes", ARRAY(Text), nullable=False),
    Column("signature", Text, nullable=False),
    Column("computed_at", DateTime(timezone=True), nullable=False),
)
"""`signature`: of everything that the day was made from; the same one makes the same rows."""

cost_line = Table(
    "cost_line",
    metadata,
    Column("day", Date, nullable=False),
    Column("kind", Text, nullable=False),
    Column("estimated", Boolean, nullable=False),
    Column("currency", Text, nullable=False),
    Column("billing", Date),
    Column("account", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("service", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("side", Text, nullable=False),
    Column("charge", Text, nullable=False),
    Column("category", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("traffic", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("billed", Numeric),
    Column("effective", Numeric),
    Column("gpu_seconds", Numeric, nullable=False),
    Index("cost_line_day_idx", "day"),
    Index("cost_line_billing_idx", "billing"),
)
"""Amounts in `currency`; lines with GPU time have none."""

cost_reconciled = Table(
    "cost_reconciled",
    metadata,
    Column("day", Date, nullable=False),
    Column("provider", Text, nullable=False),
    Column("sku", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("pricing", Text, nullable=False),
    Column("currency", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("gpu_hours", Numeric, nullable=False),
    Column("effective", Numeric, nullable=False),
    Column("listed", Numeric),
    Index("cost_reconciled_day_idx", "day"),
)
"""A host's bill of a day beside what prices alone would have said."""

cost_tokens = Table(
    "cost_tokens",
    metadata,
    Column("day", Date, nullable=False),
    Column("pool", Text, nullable=False),
    Column("service", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("side", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("prompt", Numeric, nullable=False),
    Column("cached", Numeric, nullable=False),
    Column("output", Numeric, nullable=False),
    Column("partial", Boolean, nullable=False),
    Column("attainment", Numeric),
    Column("prefill_seconds", Numeric),
    Column("decode_seconds", Numeric),
    Index("cost_tokens_day_idx", "day"),
)
"""What was delivered; `prompt` includes `cached`."""
