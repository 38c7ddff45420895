"""The lease: which controller leads (docs/schema.md)."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Table, Text

from tidegate.store.schema import metadata

_Moment = DateTime(timezone=True)

lease = Table(
    "lease",
    metadata,
    Column("one", Boolean, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("since", _Moment, nullable=False),
    Column("until", _Moment, nullable=False),
)
"""One row. `until` is by the database's own clock, whatever the controllers' clocks say; `since` by the leader's."""
