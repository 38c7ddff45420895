"""What boards read: pools rolled up in five minutes and an hour, and the newest figures of every engine and GPU.

    pool_rollup    a pool in a bucket, made of the ticks' figures: of each its sum, count, minimum and maximum
    usage_rollup   a pool in a bucket, made of its engines' usage
    engine_figure  an engine at a moment, once a minute: the normalized figures side by side; kept for some days
    gpu_figure     a GPU likewise

`resolution` is the width of a bucket in seconds: 300 or 3600.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Boolean, Column, DateTime, Double, Index, Integer, SmallInteger, Table, Text
from sqlalchemy.dialects.postgresql import REAL

from tidegate.store.schema import metadata

_Moment = DateTime(timezone=True)

COUNTED = ("ready", "starting", "leaving", "target", "gpus")
"""Columns of `pool_figure` that every tick has."""
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
"""Those that may be missing."""
POOL_FIGURES = (*COUNTED, *MEASURED)
SUMMED = ("prompt_tokens", "cached_prompt_tokens", "generation_tokens", "cache_queries", "cache_hits")
"""The counters of `usage`."""
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

FINE, COARSE = timedelta(minutes=5), timedelta(hours=1)


def _summary(figure: str) -> list[Column[float] | Column[int]]:
    return [
        Column(f"{figure}_sum", Double),
        Column(f"{figure}_count", Integer, nullable=False),
        Column(f"{figure}_min", REAL),
        Column(f"{figure}_max", REAL),
    ]


pool_rollup = Table(
    "pool_rollup",
    metadata,
    Column("resolution", SmallInteger, primary_key=True, autoincrement=False),
    Column("at", _Moment, primary_key=True),
    Column("pool", Text, primary_key=True),
    Column("service", Text, nullable=False),
    Column("ticks", Integer, nullable=False),
    *(column for figure in POOL_FIGURES for column in _summary(figure)),
)

usage_rollup = Table(
    "usage_rollup",
    metadata,
    Column("resolution", SmallInteger, primary_key=True, autoincrement=False),
    Column("bucket", _Moment, primary_key=True),
    Column("pool", Text, primary_key=True),
    *(Column(counter, Double) for counter in SUMMED),
    Column("partial", Boolean, nullable=False),
)

usage_mark = Table("usage_mark", metadata, Column("bucket", _Moment, primary_key=True))
"""Buckets of `usage` that changed since `usage_rollup` was worked out; written with them (store/figures.py)."""

engine_figure = Table(
    "engine_figure",
    metadata,
    Column("at", _Moment, nullable=False),
    Column("host", Text, nullable=False),
    Column("engine", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("service", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("gpus", SmallInteger, nullable=False),
    *(Column(figure, REAL) for figure in ENGINE_FIGURES),
    Index(None, "at", "host"),
    postgresql_partition_by="RANGE (at)",
)

gpu_figure = Table(
    "gpu_figure",
    metadata,
    Column("at", _Moment, nullable=False),
    Column("host", Text, nullable=False),
    Column("gpu", Text, nullable=False),
    Column("index", SmallInteger, nullable=False),
    Column("engine", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("service", Text, nullable=False),
    Column("up", Boolean, nullable=False),
    *(Column(figure, REAL) for figure in GPU_FIGURES),
    Index(None, "at", "host"),
    postgresql_partition_by="RANGE (at)",
)

RECENT = (engine_figure, gpu_figure)
"""In daily partitions."""
