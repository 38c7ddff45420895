"""How the controller's jobs last did, for whoever looks into the database without a controller (docs/schema.md)."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, DateTime, Double, Table, Text

from tidegate.store.schema import metadata

_Moment = DateTime(timezone=True)

job_run = Table(
    "job_run",
    metadata,
    Column("name", Text, primary_key=True),
    Column("controller", Text, nullable=False),
    Column("noted_at", _Moment, nullable=False),
    Column("last_success", _Moment),
    Column("runs", BigInteger, nullable=False),
    Column("failures", BigInteger, nullable=False),
    Column("consecutive_failures", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("error", Text, nullable=False),
)
"""`runs` and `failures` since that controller started; `seconds`: how long the last run took."""
