"""The fleet overview: what the fleet carries, what it costs, and why it has the size that it has."""

from __future__ import annotations

from panels import DATASOURCE, Json, Panel, Threshold, place

GREEN, AMBER, RED = "green", "orange", "red"

# `= ANY(ARRAY[...])` and not IN: it stays valid SQL when no pool is chosen.
POOLS = "pool = ANY(ARRAY[$pool]::text[])"
IN_RANGE = f"$__timeFilter(at) AND {POOLS}"
# Ticks for less than a day, then five minutes, and hours from about two weeks on: see docs/schema.md.
RESOLUTION = "resolution = CASE WHEN $__interval_ms < 60000 THEN 0 WHEN $__interval_ms < 1200000 THEN 300 ELSE 3600 END"
USED = f"resolution = CASE WHEN $__interval_ms < 1200000 THEN 300 ELSE 3600 END AND $__timeFilter(bucket) AND {POOLS}"
FIGURES = f"FROM v_pool_history WHERE {RESOLUTION} AND {IN_RANGE}"


def _latest(column: str, aggregate: str) -> str:
    """One number a tick over the chosen pools, as a series for the sparkline."""
    return f'SELECT at AS "time", {aggregate} AS "{column}" {FIGURES} GROUP BY at ORDER BY at'


def _by_pool(column: str) -> str:
    """One series a pool, averaged per interval."""
    return (
        f"SELECT $__timeGroupAlias(at, $__interval), pool AS metric, avg({column}) AS value "
        f"{FIGURES} GROUP BY 1, 2 ORDER BY 1"
    )


TILES = (
    Panel(
        "stat",
        "Replicas ready",
        "Replicas whose engine answers, over the chosen pools (v_pool_history.ready).",
        _latest("ready", "sum(ready)"),
        width=4,
        height=4,
    ),
    Panel(
        "stat",
        "Queue depth",
        "Requests that wait in the engines (v_pool_history.queue_depth); no data while no replica says.",
        _latest("queue", "sum(queue_depth)"),
        width=4,
        height=4,
        thresholds=(Threshold(None, GREEN), Threshold(16, AMBER), Threshold(64, RED)),
    ),
    Panel(
        "stat",
        "KV cache hit rate",
        "Share of looked-up prompt tokens found in the KV cache: a sum over a sum, "
        "from v_usage_history (five minutes or an hour).",
        'SELECT bucket AS "time", sum(cache_hits) / NULLIF(sum(cache_queries), 0) AS "hit rate" '
        f"FROM v_usage_history WHERE {USED} GROUP BY bucket ORDER BY bucket",
        unit="percentunit",
        decimals=1,
        maximum=1,
        width=4,
        height=4,
        no_value="no traffic",
    ),
    Panel(
        "stat",
        "Tokens per GPU per second",
        "Prompt and generated tokens a second over the GPUs of ready replicas (v_pool_history).",
        _latest(
            "tokens/GPU/s",
            "sum(prompt_tokens_per_second + generation_tokens_per_second) / NULLIF(sum(gpus), 0)",
        ),
        decimals=0,
        width=4,
        height=4,
    ),
    Panel(
        "stat",
        "Cost per million tokens (estimated)",
        "Price per GPU hour times GPU hours held, over tokens, trailing hour, dearest pool "
        "(v_pool_history.cost_per_million_tokens). An estimate: what bills say is on the board of billed cost.",
        _latest("cost", "max(cost_per_million_tokens)"),
        decimals=2,
        width=4,
        height=4,
    ),
    Panel(
        "stat",
        "TTFT p95, slowest pool",
        "95th percentile of the time to first token over the tick's window (v_pool_history.ttft_p95_seconds).",
        _latest("ttft", "max(ttft_p95_seconds)"),
        unit="s",
        decimals=2,
        width=4,
        height=4,
        no_value="no traffic",
    ),
)

SERIES = (
    Panel(
        "timeseries",
        "Replicas by pool: ready and target",
        "What each pool has and what it should have (v_pool_history.ready, .target).",
        "SELECT $__timeGroupAlias(at, $__interval), pool || ' ' || kind AS metric, max(value) AS value "
        f"FROM (SELECT at, pool, ready_max, target_max {FIGURES}) AS figures, "
        "LATERAL (VALUES ('ready', ready_max), ('target', target_max)) AS both_kinds (kind, value) "
        "GROUP BY 1, 2 ORDER BY 1",
    ),
    Panel(
        "timeseries",
        "Queue depth by pool",
        "Requests that wait in the engines (v_pool_history.queue_depth).",
        _by_pool("queue_depth"),
    ),
    Panel(
        "timeseries",
        "KV cache hit rate by pool",
        "Sum of hits over sum of looked-up tokens per five minutes or hour (v_usage_history).",
        'SELECT bucket AS "time", pool AS metric, sum(cache_hits) / NULLIF(sum(cache_queries), 0) AS value '
        f"FROM v_usage_history WHERE {USED} GROUP BY bucket, pool ORDER BY bucket",
        unit="percentunit",
        maximum=1,
        no_value="no traffic",
    ),
    Panel(
        "timeseries",
        "Tokens per GPU per second by pool",
        "Prompt and generated tokens a second over the GPUs of ready replicas (v_pool_history).",
        _by_pool("tokens_per_gpu_per_second"),
    ),
    Panel(
        "timeseries",
        "TTFT p95 by pool",
        "95th percentile of the time to first token over the tick's window (v_pool_history.ttft_p95_seconds).",
        _by_pool("ttft_p95_seconds"),
        unit="s",
        no_value="no traffic",
    ),
    Panel(
        "timeseries",
        "GPU utilisation by pool",
        "Mean over the GPUs of ready replicas. It says that a kernel ran, not how much work was done "
        "(v_pool_history.gpu_utilization).",
        _by_pool("gpu_utilization"),
        unit="percentunit",
        maximum=1,
    ),
    Panel(
        "timeseries",
        "Cost per million tokens by pool (estimated)",
        "Trailing hour, in the configured currency; an estimate from the price per GPU hour "
        "(v_pool_history.cost_per_million_tokens).",
        _by_pool("cost_per_million_tokens"),
    ),
    Panel(
        "table",
        "Decisions that changed something",
        "The newest first, with the reason and the limits that bound it (v_changes).",
        "SELECT at, pool, current, wanted, target, reason, limits, mode FROM v_changes "
        f"WHERE {IN_RANGE} ORDER BY at DESC LIMIT 100",
        no_value="no change in this time",
    ),
)


def board() -> Json:
    """The dashboard as classic JSON."""
    return {
        "uid": "tidegate-fleet",
        "title": "Tidegate: fleet overview",
        "description": "What the fleet carries, what it costs, and why it has the size that it has.",
        "tags": ["tidegate"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "",
        "templating": {"list": [datasource_variable(), pool_variable()]},
        "annotations": {"list": [_scale_events()]},
        "links": links(),
        "panels": place([*TILES, *SERIES]),
    }


def links() -> list[Json]:
    """To the other boards, with the same time and pools."""
    return [
        {
            "type": "dashboards",
            "title": "Tidegate",
            "tags": ["tidegate"],
            "asDropdown": True,
            "includeVars": True,
            "keepTime": True,
        }
    ]


def datasource_variable() -> Json:
    """Which Postgres."""
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "grafana-postgresql-datasource",
        "refresh": 1,
        "current": {},
    }


def pool_variable() -> Json:
    """Which pools; all by default."""
    return {
        "name": "pool",
        "label": "Pool",
        "type": "query",
        "datasource": DATASOURCE,
        "query": "SELECT DISTINCT pool FROM v_pool_history WHERE resolution = 3600 ORDER BY pool",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _scale_events() -> Json:
    return {
        "name": "Scale events",
        "enable": True,
        "iconColor": "blue",
        "datasource": DATASOURCE,
        "target": {
            "refId": "Anno",
            "format": "table",
            "rawQuery": True,
            "rawSql": 'SELECT at AS "time", reason AS text, pool AS tags FROM v_changes '
            f"WHERE {IN_RANGE} ORDER BY at LIMIT 1000",
        },
    }
