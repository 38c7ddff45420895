"""The first tables: reports, usage, hosts, replicas, decisions, alerts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    samples()
    fleet()
    decisions()
    alerts()


def downgrade() -> None:
    for name in reversed(TABLES):
        op.drop_table(name)


def samples() -> None:
    op.create_table(
        "layout",
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("series", JSONB, nullable=False),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("used_at", Moment, nullable=False),
        sa.PrimaryKeyConstraint("host", "id", name="layout_pkey"),
    )
    # Daily partitions are made when a report needs one, never here.
    op.create_table(
        "report",
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("boot_id", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("at", Moment, nullable=False),
        sa.Column("received_at", Moment, nullable=False),
        sa.Column("stamped", sa.Boolean, nullable=False),
        sa.Column("layout_id", sa.Text, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("host", "boot_id", "sequence", "at", name="report_host_boot_id_sequence_at_key"),
        postgresql_partition_by="RANGE (at)",
    )
    op.create_index("report_at_idx", "report", ["at"])
    op.create_index("report_host_at_idx", "report", ["host", "at"])
    op.create_table(
        "dirty_bucket",
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("bucket", Moment, nullable=False),
        sa.Column("not_before", Moment),
        sa.PrimaryKeyConstraint("host", "bucket", name="dirty_bucket_pkey"),
    )
    op.create_table(
        "horizon",
        sa.Column("one", sa.Boolean, nullable=False),
        sa.Column("reports_from", Moment, nullable=False),
        sa.PrimaryKeyConstraint("one", name="horizon_pkey"),
    )
    op.create_table(
        "usage",
        sa.Column("bucket", Moment, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("engine", sa.Text, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("prompt_tokens", sa.Double),
        sa.Column("cached_prompt_tokens", sa.Double),
        sa.Column("generation_tokens", sa.Double),
        sa.Column("cache_queries", sa.Double),
        sa.Column("cache_hits", sa.Double),
        sa.Column("partial", sa.Boolean, nullable=False),
        sa.Column("tail", JSONB),
        sa.PrimaryKeyConstraint("bucket", "host", "engine", name="usage_pkey"),
    )
    op.create_index("usage_host_engine_bucket_idx", "usage", ["host", "engine", "bucket"])


def fleet() -> None:
    op.create_table(
        "host",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("token_hash", sa.Text, nullable=False),
        sa.Column("enrolled_at", Moment, nullable=False),
        sa.Column("revoked_at", Moment),
        sa.Column("last_seen", Moment),
        sa.Column("state", JSONB),
        sa.PrimaryKeyConstraint("name", name="host_pkey"),
        sa.UniqueConstraint("token_hash", name="host_token_hash_key"),
    )
    op.create_table(
        "engine",
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("replica", sa.Text, nullable=False),
        sa.Column("first_seen", Moment, nullable=False),
        sa.Column("last_seen", Moment, nullable=False),
        sa.PrimaryKeyConstraint("host", "name", name="engine_pkey"),
    )
    op.create_table(
        "account",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("token_hash", sa.Text, nullable=False),
        sa.Column("added_at", Moment, nullable=False),
        sa.PrimaryKeyConstraint("name", name="account_pkey"),
        sa.UniqueConstraint("token_hash", name="account_token_hash_key"),
    )
    op.create_table(
        "term",
        sa.Column("epoch", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("began_at", Moment, nullable=False),
        sa.PrimaryKeyConstraint("epoch", name="term_pkey"),
    )
    op.create_table(
        "host_revision",
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("host", name="host_revision_pkey"),
    )
    op.create_table(
        "replica",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("serial", sa.BigInteger, nullable=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("template", sa.Text, nullable=False),
        sa.Column("slot", sa.Integer),
        sa.Column("gpus", ARRAY(sa.Integer), nullable=False),
        sa.Column("gpu_count", sa.Integer, nullable=False),
        sa.Column("port", sa.Integer, nullable=False),
        sa.Column("want", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("since", Moment, nullable=False),
        sa.Column("requested_at", Moment, nullable=False),
        sa.Column("ready_at", Moment),
        sa.Column("stopped_at", Moment),
        sa.Column("deadline", Moment),
        sa.Column("managed", sa.Boolean, nullable=False),
        sa.Column("cut_requests", sa.BigInteger, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="replica_pkey"),
    )
    op.create_index("replica_pool_serial_idx", "replica", ["pool", "serial"])
    op.create_index("replica_state_idx", "replica", ["state"])


def decisions() -> None:
    op.create_table(
        "decision",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("at", Moment, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("current", sa.Integer, nullable=False),
        sa.Column("ready", sa.Integer, nullable=False),
        sa.Column("starting", sa.Integer, nullable=False),
        sa.Column("leaving", sa.Integer, nullable=False),
        sa.Column("wanted", sa.Integer, nullable=False),
        sa.Column("target", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("limits", ARRAY(sa.Text), nullable=False),
        sa.Column("signals", JSONB, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("may_change_at", Moment),
        sa.PrimaryKeyConstraint("id", name="decision_pkey"),
        sa.UniqueConstraint("at", "pool", name="decision_at_pool_key"),
    )
    op.create_index("decision_pool_id_idx", "decision", ["pool", "id"])
    op.create_table(
        "action",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("at", Moment, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("replica", sa.Text, nullable=False),
        sa.Column("host", sa.Text),
        sa.Column("slot", sa.Integer),
        sa.Column("deadline", Moment),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.PrimaryKeyConstraint("id", name="action_pkey"),
        sa.UniqueConstraint("at", "kind", "replica", name="action_at_kind_replica_key"),
    )
    op.create_index("action_pool_at_idx", "action", ["pool", "at"])
    op.create_table(
        "memory",
        sa.Column("one", sa.Boolean, nullable=False),
        sa.Column("memory", JSONB, nullable=False),
        sa.PrimaryKeyConstraint("one", name="memory_pkey"),
    )
    op.create_table(
        "pool_figure",
        sa.Column("at", Moment, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("ready", sa.Integer, nullable=False),
        sa.Column("starting", sa.Integer, nullable=False),
        sa.Column("leaving", sa.Integer, nullable=False),
        sa.Column("target", sa.Integer, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("running", sa.Double),
        sa.Column("queue_depth", sa.Double),
        sa.Column("gpu_utilization", sa.Double),
        sa.Column("kv_cache_usage", sa.Double),
        sa.Column("kv_cache_hit_rate", sa.Double),
        sa.Column("prompt_tokens_per_second", sa.Double),
        sa.Column("generation_tokens_per_second", sa.Double),
        sa.Column("tokens_per_gpu_per_second", sa.Double),
        sa.Column("ttft_p95_seconds", sa.Double),
        sa.Column("tpot_p95_seconds", sa.Double),
        sa.Column("e2e_p99_seconds", sa.Double),
        sa.Column("cost_per_million_tokens", sa.Double),
        sa.PrimaryKeyConstraint("at", "pool", name="pool_figure_pkey"),
    )


def alerts() -> None:
    op.create_table(
        "alert",
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("labels", JSONB, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("since", Moment, nullable=False),
        sa.Column("starts_at", Moment),
        sa.Column("ends_at", Moment),
        sa.Column("value", sa.Double),
        sa.Column("baseline", sa.Double),
        sa.Column("annotations", JSONB, nullable=False),
        sa.Column("excluded", JSONB, nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", name="alert_pkey"),
    )
    op.create_table(
        "notice",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("alert", JSONB, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_at", Moment),
        sa.Column("delivered_at", Moment),
        sa.Column("given_up", sa.Boolean, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="notice_pkey"),
    )
    op.create_index("notice_next_at_idx", "notice", ["next_at"])


TABLES = (
    "layout",
    "report",
    "dirty_bucket",
    "horizon",
    "usage",
    "host",
    "engine",
    "account",
    "term",
    "host_revision",
    "replica",
    "decision",
    "action",
    "memory",
    "pool_figure",
    "alert",
    "notice",
)
