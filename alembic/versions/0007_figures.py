"""Rollups of pools, the newest figures of engines and GPUs, and the views over them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import REAL

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

Moment = sa.DateTime(timezone=True)

COUNTED = ("ready", "starting", "leaving", "target", "gpus")
MEASURED = (
    "running",
    "queue_depth",
    "gpu_utilization",
    "kv_cache_usage",
    "kv_cache_hit_rate",
    "prompt_tokens_per_second",
    "generation_tokens_per_second",
    "tokens_per_gpu_per_second",
    "ttft_p95_seconds",
    "tpot_p95_seconds",
    "e2e_p99_seconds",
    "cost_per_million_tokens",
)
POOL_FIGURES = (*COUNTED, *MEASURED)
SUMMED = ("prompt_tokens", "cached_prompt_tokens", "generation_tokens", "cache_queries", "cache_hits")
ENGINE_FIGURES = (
    "running",
    "queue_depth",
    "kv_cache_usage",
    "kv_cache_hit_rate",
    "prompt_tokens_per_second",
    "cached_tokens_per_second",
    "generation_tokens_per_second",
    "tokens_per_gpu_per_second",
    "retry_rate",
    "preemptions",
    "ttft_p50_seconds",
    "ttft_p95_seconds",
    "ttft_p99_seconds",
    "tpot_p50_seconds",
    "tpot_p95_seconds",
    "tpot_p99_seconds",
    "e2e_p95_seconds",
    "e2e_p99_seconds",
    "queue_time_p95_seconds",
)
GPU_FIGURES = (
    "utilization",
    "memory_used_bytes",
    "memory_total_bytes",
    "memory_busy",
    "power_watts",
    "power_limit_watts",
    "temperature_celsius",
    "memory_temperature_celsius",
    "sm_clock_hertz",
    "sm_activity",
    "tensor_activity",
    "dram_activity",
    "processes",
)


def upgrade() -> None:
    rollups()
    recent()
    for resolution, source in ((300, "usage WHERE pool <> ''"), (3600, "usage_rollup WHERE resolution = 300")):
        op.execute(backfill(resolution, source))
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query}")
    op.execute(f"CREATE OR REPLACE VIEW v_usage AS {usage_at(300)}")


def downgrade() -> None:
    op.execute(f"CREATE OR REPLACE VIEW v_usage AS {USAGE_BEFORE}")
    for name in reversed(VIEWS):
        op.execute(f"DROP VIEW {name}")
    for name in ("gpu_figure", "engine_figure", "usage_mark", "usage_rollup", "pool_rollup"):
        op.drop_table(name)


def rollups() -> None:
    op.create_table(
        "pool_rollup",
        sa.Column("resolution", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("at", Moment, nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("ticks", sa.Integer(), nullable=False),
        *(column for figure in POOL_FIGURES for column in summary(figure)),
        sa.PrimaryKeyConstraint("resolution", "at", "pool", name="pool_rollup_pkey"),
    )
    op.create_table(
        "usage_rollup",
        sa.Column("resolution", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("bucket", Moment, nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        *(sa.Column(counter, sa.Double()) for counter in SUMMED),
        sa.Column("partial", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("resolution", "bucket", "pool", name="usage_rollup_pkey"),
    )
    op.create_table(
        "usage_mark",
        sa.Column("bucket", Moment, nullable=False),
        sa.PrimaryKeyConstraint("bucket", name="usage_mark_pkey"),
    )


def summary(figure: str) -> list[sa.Column]:
    return [
        sa.Column(f"{figure}_sum", sa.Double()),
        sa.Column(f"{figure}_count", sa.Integer(), nullable=False),
        sa.Column(f"{figure}_min", REAL()),
        sa.Column(f"{figure}_max", REAL()),
    ]


def recent() -> None:
    """Days are made at run time, never here."""
    op.create_table(
        "engine_figure",
        sa.Column("at", Moment, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("host", "engine", "pool", "service", "state")),
        sa.Column("gpus", sa.SmallInteger(), nullable=False),
        *(sa.Column(figure, REAL()) for figure in ENGINE_FIGURES),
        postgresql_partition_by="RANGE (at)",
    )
    op.create_table(
        "gpu_figure",
        sa.Column("at", Moment, nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("index", sa.SmallInteger(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("engine", "pool", "service")),
        sa.Column("up", sa.Boolean(), nullable=False),
        *(sa.Column(figure, REAL()) for figure in GPU_FIGURES),
        postgresql_partition_by="RANGE (at)",
    )
    for name in ("engine_figure", "gpu_figure"):
        op.create_index(f"{name}_at_host_idx", name, ["at", "host"])


def backfill(resolution: int, source: str) -> str:
    sums = ", ".join(f"sum({counter})" for counter in SUMMED)
    return (
        f"INSERT INTO usage_rollup (resolution, bucket, pool, {', '.join(SUMMED)}, partial) "
        f"SELECT {resolution}, date_bin('{resolution} s', bucket, TIMESTAMPTZ '2000-01-01 00:00+00') AS start, pool, "
        f"{sums}, bool_or(partial) FROM {source} GROUP BY start, pool"
    )


def usage_at(resolution: int) -> str:
    return (
        f"SELECT bucket, pool, {', '.join(SUMMED)}, cache_hits / nullif(cache_queries, 0) AS kv_cache_hit_rate, "
        f"partial FROM usage_rollup WHERE resolution = {resolution}"
    )


def pool_at(shown: int, condition: str) -> str:
    """Rows of the rollup as those of a resolution: means, lowest and highest."""
    columns = ", ".join(
        f"{figure}_sum / nullif({figure}_count, 0) AS {figure}, {figure}_min, {figure}_max" for figure in POOL_FIGURES
    )
    return f"SELECT {shown} AS resolution, at, pool, service, {columns} FROM pool_rollup WHERE {condition}"


def ticks() -> str:
    columns = ", ".join(f"{figure}::float8, {figure}::real, {figure}::real" for figure in POOL_FIGURES)
    return f"SELECT 0, at, pool, service, {columns} FROM pool_figure"


OLDEST_TICK = "(SELECT min(at) FROM pool_figure)"
OLDEST_FINE = "(SELECT min(at) FROM pool_rollup WHERE resolution = 300)"

# A resolution has rows of a coarser one for the time of which nothing finer is kept. Each branch has its resolution
# as a constant, so that the planner leaves out all the others.
POOL_HISTORY = " UNION ALL ".join(
    (
        pool_at(300, "resolution = 300"),
        pool_at(300, f"resolution = 3600 AND at < {OLDEST_FINE}"),
        pool_at(3600, "resolution = 3600"),
        ticks(),
        pool_at(0, f"resolution = 300 AND at < {OLDEST_TICK}"),
        pool_at(0, f"resolution = 3600 AND at < least({OLDEST_FINE}, {OLDEST_TICK})"),
    )
)

USAGE_HISTORY = " UNION ALL ".join(
    f"SELECT {resolution} AS resolution, u.* FROM ({usage_at(resolution)}) u" for resolution in (300, 3600)
)


def series_at(table: str, width: str) -> str:
    return f"""
        SELECT r.start + ((v.place - 1) % r.buckets) * interval '{width}' AS at, s.host, s.scope, s.name AS metric,
               s.owner, s.rank, s.le, e.pool, e.service,
               v.sum / nullif(v.count, 0) AS average, v.minimum, v.maximum, v.count,
               nullif(v.increase, 'NaN') AS increase, nullif(v.last, 'NaN') AS last, r.start AS window_start
        FROM series_block b
        JOIN {table} r ON r.block = b.id
        CROSS JOIN LATERAL unnest(r.sum, r.count, r.minimum, r.maximum, r.increase, r.last)
             WITH ORDINALITY AS v (sum, count, minimum, maximum, increase, last, place)
        JOIN series s ON s.id = r.series[(v.place - 1) / r.buckets + 1]
             AND s.name = b.name AND s.host = b.host AND s.scope = b.scope
        LEFT JOIN engine e ON e.host = s.host AND e.name = s.owner AND s.scope = 'engine'
        WHERE v.count > 0 OR v.increase <> 'NaN' OR (v.count IS NULL AND v.last <> 'NaN')
    """


# From the few actions to their decisions, and not from every decision to its actions as v_decisions goes.
CHANGES = """
    SELECT d.at, d.id, d.pool, d.current, d.ready, d.starting, d.leaving, d.wanted, d.target, d.mode, d.reason,
           array_to_string(d.limits, ', ') AS limits, d.signals, d.may_change_at, done.actions
    FROM (
        SELECT pool, at,
               string_agg(kind || ' ' || replica || coalesce(' (' || outcome || ')', ''), ', ' ORDER BY id) AS actions
        FROM action
        GROUP BY pool, at
    ) done
    JOIN decision d ON d.pool = done.pool AND d.at = done.at
"""

VIEWS = {
    "v_changes": CHANGES,
    "v_pool_history": POOL_HISTORY,
    "v_usage_1h": usage_at(3600),
    "v_usage_history": USAGE_HISTORY,
    "v_engine_figures": "SELECT at, host, engine, pool, service, state, gpus, "
    + ", ".join(ENGINE_FIGURES)
    + " FROM engine_figure",
    "v_gpu_figures": "SELECT at, host, gpu, index, engine, pool, service, up, "
    + ", ".join(GPU_FIGURES)
    + " FROM gpu_figure",
    "v_series_5m": series_at("rollup_5m", "5 minutes"),
    "v_series_1h": series_at("rollup_1h", "1 hour"),
}

USAGE_BEFORE = """
    SELECT bucket, pool,
           sum(prompt_tokens) AS prompt_tokens,
           sum(cached_prompt_tokens) AS cached_prompt_tokens,
           sum(generation_tokens) AS generation_tokens,
           sum(cache_queries) AS cache_queries,
           sum(cache_hits) AS cache_hits,
           sum(cache_hits) / nullif(sum(cache_queries), 0) AS kv_cache_hit_rate,
           bool_or(partial) AS partial
    FROM usage
    WHERE pool <> ''
    GROUP BY bucket, pool
"""
