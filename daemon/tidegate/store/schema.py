"""Every table, once: what the repositories query and what the migrations must have made (docs/schema.md)."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    }
)

_Moment = DateTime(timezone=True)

layout = Table(
    "layout",
    metadata,
    Column("host", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("series", JSONB, nullable=False),
    Column("length", Integer, nullable=False),
    Column("used_at", _Moment, nullable=False),
)

report = Table(
    "report",
    metadata,
    Column("host", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("at", _Moment, nullable=False),
    Column("received_at", _Moment, nullable=False),
    Column("stamped", Boolean, nullable=False),
    Column("layout_id", Text, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    UniqueConstraint("host", "boot_id", "sequence", "at"),
    Index(None, "host", "at"),
    postgresql_partition_by="RANGE (at)",
)
"""One row a report, in parts of two hours (store/partitions.py)."""

dirty_bucket = Table(
    "dirty_bucket",
    metadata,
    Column("host", Text, primary_key=True),
    Column("bucket", _Moment, primary_key=True),
    Column("not_before", _Moment),
    Column("version", BigInteger, nullable=False, server_default="0"),
)
"""Five-minute buckets whose usage has to be worked out again: now, or (to close them) at `not_before`.

`version` grows with every mark, so that one set while the bucket was being worked out is not taken away.
"""

horizon = Table(
    "horizon",
    metadata,
    Column("one", Boolean, primary_key=True),
    Column("reports_from", _Moment, nullable=False),
)
"""One row: reports before this moment have been dropped, so figures made of them are not made again."""

usage = Table(
    "usage",
    metadata,
    Column("bucket", _Moment, primary_key=True),
    Column("host", Text, primary_key=True),
    Column("engine", Text, primary_key=True),
    Column("pool", Text, nullable=False),
    Column("prompt_tokens", Double),
    Column("cached_prompt_tokens", Double),
    Column("generation_tokens", Double),
    Column("cache_queries", Double),
    Column("cache_hits", Double),
    Column("partial", Boolean, nullable=False),
    Column("tail", JSONB(none_as_null=True)),
    Index(None, "host", "engine", "bucket"),
)
"""`tail`: the engine's last counters in the bucket, where the next increase begins. `pool` is empty when nobody's."""

host = Table(
    "host",
    metadata,
    Column("name", Text, primary_key=True),
    Column("token_hash", Text, nullable=False, unique=True),
    Column("enrolled_at", _Moment, nullable=False),
    Column("revoked_at", _Moment),
    Column("last_seen", _Moment),
    Column("state", JSONB),
)

engine = Table(
    "engine",
    metadata,
    Column("host", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("pool", Text, nullable=False),
    Column("service", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("replica", Text, nullable=False),
    Column("first_seen", _Moment, nullable=False),
    Column("last_seen", _Moment, nullable=False),
)

account = Table(
    "account",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("token_hash", Text, nullable=False, unique=True),
    Column("added_at", _Moment, nullable=False),
)

term = Table(
    "term",
    metadata,
    Column("epoch", BigInteger, Identity(always=True), primary_key=True),
    Column("began_at", _Moment, nullable=False),
)

host_revision = Table(
    "host_revision",
    metadata,
    Column("host", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
)

replica = Table(
    "replica",
    metadata,
    Column("id", Text, primary_key=True),
    Column("pool", Text, nullable=False),
    Column("serial", BigInteger, nullable=False),
    Column("service", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("template", Text, nullable=False),
    Column("slot", Integer),
    Column("gpus", ARRAY(Integer), nullable=False),
    Column("gpu_count", Integer, nullable=False),
    Column("port", Integer, nullable=False),
    Column("want", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("since", _Moment, nullable=False),
    Column("requested_at", _Moment, nullable=False),
    Column("ready_at", _Moment),
    Column("stopped_at", _Moment),
    Column("deadline", _Moment),
    Column("managed", Boolean, nullable=False),
    Column("cut_requests", BigInteger, nullable=False),
    Column("why", Text, nullable=False),
    Column("flavour", Text, nullable=False, server_default=""),
    Index(None, "host", postgresql_where=text("state <> 'stopped'")),
    Index(None, "pool", "serial"),
)

decision = Table(
    "decision",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", _Moment, nullable=False),
    Column("pool", Text, nullable=False),
    Column("current", Integer, nullable=False),
    Column("ready", Integer, nullable=False),
    Column("starting", Integer, nullable=False),
    Column("leaving", Integer, nullable=False),
    Column("wanted", Integer, nullable=False),
    Column("target", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("limits", ARRAY(Text), nullable=False),
    Column("signals", JSONB, nullable=False),
    Column("mode", Text, nullable=False),
    Column("may_change_at", _Moment),
    UniqueConstraint("at", "pool"),
    Index(None, "pool", "id"),
)

action = Table(
    "action",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", _Moment, nullable=False),
    Column("pool", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("replica", Text, nullable=False),
    Column("host", Text),
    Column("slot", Integer),
    Column("deadline", _Moment),
    Column("reason", Text, nullable=False),
    Column("outcome", Text),
    UniqueConstraint("at", "kind", "replica"),
    Index(None, "pool", "at"),
)
"""An action belongs to the decision of its pool and moment."""

memory = Table(
    "memory",
    metadata,
    Column("one", Boolean, primary_key=True),
    Column("memory", JSONB, nullable=False),
)
"""One row: what the decision core remembers."""

pool_figure = Table(
    "pool_figure",
    metadata,
    Column("at", _Moment, primary_key=True),
    Column("pool", Text, primary_key=True),
    Column("service", Text, nullable=False),
    Column("ready", Integer, nullable=False),
    Column("starting", Integer, nullable=False),
    Column("leaving", Integer, nullable=False),
    Column("target", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("running", Double),
    Column("queue_depth", Double),
    Column("gpu_utilization", Double),
    Column("kv_cache_usage", Double),
    Column("kv_cache_hit_rate", Double),
    Column("prompt_tokens_per_second", Double),
    Column("generation_tokens_per_second", Double),
    Column("tokens_per_gpu_per_second", Double),
    Column("ttft_p95_seconds", Double),
    Column("tpot_p95_seconds", Double),
    Column("e2e_p99_seconds", Double),
    Column("cost_per_million_tokens", Double),
)

alert = Table(
    "alert",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("rule", Text, nullable=False),
    Column("labels", JSONB, nullable=False),
    Column("phase", Text, nullable=False),
    Column("since", _Moment, nullable=False),
    Column("starts_at", _Moment),
    Column("ends_at", _Moment),
    Column("value", Double),
    Column("baseline", Double),
    Column("annotations", JSONB, nullable=False),
    Column("excluded", JSONB, nullable=False),
)

notice = Table(
    "notice",
    metadata,
    Column("id", Text, primary_key=True),
    Column("channel", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("alert", JSONB, nullable=False),
    Column("created_at", _Moment, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", _Moment),
    Column("delivered_at", _Moment),
    Column("given_up", Boolean, nullable=False),
    Column("error", Text, nullable=False),
    Index(None, "next_at"),
)
"""`next_at` is null when nothing more is owed: delivered, or given up."""
