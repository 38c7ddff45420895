"""The views that boards and people read."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# Their names and columns are a promise (docs/schema.md): boards and people's own queries rest on them.
VIEWS = {
    "v_pool_figures": """
        SELECT at, pool, service, ready, starting, leaving, target, gpus, running, queue_depth, gpu_utilization,
               kv_cache_usage, kv_cache_hit_rate, prompt_tokens_per_second, generation_tokens_per_second,
               tokens_per_gpu_per_second, ttft_p95_seconds, tpot_p95_seconds, e2e_p99_seconds,
               cost_per_million_tokens
        FROM pool_figure
    """,
    "v_usage": """
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
    """,
    "v_decisions": """
        SELECT d.at, d.id, d.pool, d.current, d.ready, d.starting, d.leaving, d.wanted, d.target, d.mode,
               d.reason, array_to_string(d.limits, ', ') AS limits, d.signals, d.may_change_at,
               done.actions IS NOT NULL AS acted, done.actions
        FROM decision d
        LEFT JOIN LATERAL (
            SELECT string_agg(a.kind || ' ' || a.replica || coalesce(' (' || a.outcome || ')', ''), ', ' ORDER BY a.id)
                   AS actions
            FROM action a
            WHERE a.pool = d.pool AND a.at = d.at
        ) done ON true
    """,
    "v_replicas": """
        SELECT id, pool, service, host, gpus, gpu_count, port, want, state, since, requested_at, ready_at, stopped_at,
               deadline, extract(epoch FROM ready_at - requested_at)::double precision AS start_seconds, managed,
               cut_requests, why
        FROM replica
    """,
    "v_alerts": """
        SELECT since, rule, labels, phase, starts_at, ends_at, value, baseline,
               annotations ->> 'summary' AS summary, annotations ->> 'summary_zh' AS summary_zh
        FROM alert
    """,
}


def upgrade() -> None:
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query}")


def downgrade() -> None:
    for name in VIEWS:
        op.execute(f"DROP VIEW {name}")
