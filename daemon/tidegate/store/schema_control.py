"""What people and other programs ask of the decision beside the configuration (docs/schema.md)."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, DateTime, Identity, Index, Integer, Table, Text, text

from tidegate.store.schema import metadata

_Moment = DateTime(timezone=True)

control = Table(
    "control",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("pool", Text),
    Column("minimum", Integer),
    Column("maximum", Integer),
    Column("mode", Text),
    Column("at", _Moment, nullable=False),
    Column("set_by", Text, nullable=False),
    Column("until", _Moment),
    Column("ended_at", _Moment),
    Column("ended_by", Text, nullable=False),
    Index(None, "at"),
    Index("control_standing_idx", "id", postgresql_where=text("ended_at IS NULL")),
)
"""One row a command, in force from `at` until `until` (open when NULL) or `ended_at`. None is changed but to end it."""

external_wish = Table(
    "external_wish",
    metadata,
    Column("service", Text, primary_key=True),
    Column("replicas", Integer, nullable=False),
    Column("at", _Moment, nullable=False),
    Column("until", _Moment),
    Column("set_by", Text, nullable=False),
)
"""One row a service: the replicas that another program asked for last."""
