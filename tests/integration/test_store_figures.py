"""Rollups of pools and the newest figures against real Postgres, and the views that boards read them through."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select, text

from tidegate.model.fleet import PoolName
from tidegate.model.memory import Memory
from tidegate.model.reading import HostName
from tidegate.model.recent import EngineFigures, GpuFigures
from tidegate.model.records import PoolFigures
from tidegate.store.database import Database
from tidegate.store.figures import FINE_KEPT, KEPT, mark_usage
from tidegate.store.schema import pool_figure, usage
from tidegate.store.schema_figures import ENGINE_FIGURES, GPU_FIGURES, POOL_FIGURES, pool_rollup
from tidegate.store.store import Store

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
BASE = PoolName("base")


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


def tick(store: Store, at: datetime, queue: float | None, pool: PoolName = BASE) -> None:
    figures = PoolFigures(at, pool, "chat", ready=2, starting=0, leaving=0, target=2, gpus=2, queue_depth=queue)
    store.decisions.settle((), Memory(), [figures])


def used(database: Database, bucket: datetime, host: str, pool: str, queries: float, *, partial: bool = False) -> None:
    row = {"bucket": bucket, "host": host, "engine": "e", "pool": pool, "cache_queries": queries, "partial": partial}
    with database.begin() as connection:
        connection.execute(insert(usage).values(row | {"cache_hits": queries / 2}))
        mark_usage(connection, {bucket})


def rows(database: Database, query: str, **given: Any) -> list[Any]:
    with database.begin() as connection:
        return [tuple(row) for row in connection.execute(text(query), given)]


HISTORY = "SELECT at, queue_depth, queue_depth_max FROM v_pool_history WHERE resolution = :resolution ORDER BY at"


def test_every_figure_of_a_tick_is_rolled_up() -> None:
    """A figure that is added to `pool_figure` wants a place in the rollup and in the views."""
    plain = {"at", "pool", "service"}

    assert {column.name for column in pool_figure.columns} - plain == set(POOL_FIGURES)


def test_ticks_become_buckets_whose_missing_figures_count_for_nothing(store: Store, database: Database) -> None:
    for minute, queue in ((0, 4.0), (1, None), (2, 8.0), (6, None), (66, 1.0)):
        tick(store, NOON + timedelta(minutes=minute), queue)

    store.figures.roll_up(NOON + timedelta(hours=2))

    five, hour = timedelta(minutes=5), timedelta(hours=1)
    assert rows(database, HISTORY, resolution=300) == [
        (NOON, 6.0, 8.0),
        (NOON + five, None, None),
        (NOON + hour + five, 1.0, 1.0),
    ]
    assert rows(database, HISTORY, resolution=3600) == [(NOON, 6.0, 8.0), (NOON + hour, 1.0, 1.0)]
    assert len(rows(database, HISTORY, resolution=0)) == 5


def test_the_running_bucket_grows_and_nothing_is_counted_twice(store: Store, database: Database) -> None:
    tick(store, NOON, 2.0)
    store.figures.roll_up(NOON)
    tick(store, NOON + timedelta(minutes=1), 4.0)
    store.figures.roll_up(NOON)
    store.figures.roll_up(NOON)

    assert rows(database, "SELECT resolution, ticks, queue_depth_sum FROM pool_rollup ORDER BY resolution") == [
        (300, 2, 6.0),
        (3600, 2, 6.0),
    ]


def test_days_without_a_tick_are_passed_over(store: Store, database: Database) -> None:
    tick(store, NOON - timedelta(days=9), 1.0)
    store.figures.roll_up(NOON)
    tick(store, NOON, 3.0)

    store.figures.roll_up(NOON)

    assert [value for _, value, _ in rows(database, HISTORY, resolution=3600)] == [1.0, 3.0]


def test_where_finer_figures_are_gone_coarser_ones_stand_in(store: Store, database: Database) -> None:
    old, new = NOON - timedelta(days=20), NOON
    tick(store, old, 5.0)
    tick(store, new, 7.0)
    store.figures.roll_up(NOON)
    with database.begin() as connection:
        connection.execute(pool_figure.delete().where(pool_figure.c.at < new))

    assert [(at, value) for at, value, _ in rows(database, HISTORY, resolution=0)] == [(old, 5.0), (new, 7.0)]
    with database.begin() as connection:
        connection.execute(pool_rollup.delete().where(pool_rollup.c.resolution == 300, pool_rollup.c.at < new))

    for resolution in (0, 300):
        assert [value for _, value, _ in rows(database, HISTORY, resolution=resolution)] == [5.0, 7.0]


def test_a_plan_reads_one_resolution_only(database: Database) -> None:
    plan = "\n".join(line for (line,) in rows(database, f"EXPLAIN {HISTORY.replace(':resolution', '3600')}"))

    assert "pool_figure" not in plan
    assert plan.count("Scan using pool_rollup") + plan.count("Scan on pool_rollup") == 1


def test_usage_of_a_pool_is_the_sum_of_its_engines_late_ones_too(store: Store, database: Database) -> None:
    used(database, NOON, "a", "base", 10.0)
    used(database, NOON, "b", "base", 6.0)
    used(database, NOON + timedelta(minutes=55), "a", "base", 1.0)
    used(database, NOON, "c", "", 99.0)
    store.figures.roll_up(NOON)
    used(database, NOON, "late", "base", 4.0, partial=True)
    store.figures.roll_up(NOON)

    view = "SELECT bucket, pool, cache_queries, kv_cache_hit_rate, partial FROM {} ORDER BY bucket"
    assert rows(database, view.format("v_usage")) == [
        (NOON, "base", 20.0, 0.5, True),
        (NOON + timedelta(minutes=55), "base", 1.0, 0.5, False),
    ]
    assert rows(database, view.format("v_usage_1h")) == [(NOON, "base", 21.0, 0.5, True)]


def test_an_engine_that_changed_its_pool_leaves_the_old_one(store: Store, database: Database) -> None:
    used(database, NOON, "a", "base", 10.0)
    store.figures.roll_up(NOON)
    with database.begin() as connection:
        connection.execute(usage.update().values(pool="burst"))
        mark_usage(connection, {NOON})
    store.figures.roll_up(NOON)

    for view in ("v_usage", "v_usage_1h"):
        assert rows(database, f"SELECT pool, cache_queries FROM {view}") == [("burst", 10.0)]


def test_a_new_controller_works_out_the_last_hours_anew(store: Store, database: Database) -> None:
    """Its predecessor may be of a version that marked nothing."""
    with database.begin() as connection:
        row = {"bucket": NOON, "host": "a", "engine": "e", "pool": "base", "cache_queries": 3.0, "partial": False}
        connection.execute(insert(usage).values(row))

    store.figures.roll_up(NOON + timedelta(hours=1))

    assert rows(database, "SELECT pool, cache_queries FROM v_usage") == [("base", 3.0)]


def test_newest_figures_stand_side_by_side_and_go_by_days(store: Store, database: Database) -> None:
    h1 = HostName("h1")
    engine = EngineFigures(NOON, h1, "vllm", "base", "chat", "ready", 2, {"queue_depth": 3.0, "kv_cache_usage": None})
    gpu = GpuFigures(NOON, h1, "GPU-1", 0, "vllm", "base", "chat", up=True, figures={"utilization": 0.5})
    store.figures.record([engine, replace(engine, engine="other", at=NOON - KEPT - timedelta(days=1))], [gpu])

    assert rows(database, "SELECT at, queue_depth, kv_cache_usage FROM v_engine_figures WHERE engine = 'vllm'") == [
        (NOON, 3.0, None)
    ]
    assert rows(database, "SELECT gpu, up, utilization, power_watts FROM v_gpu_figures") == [("GPU-1", True, 0.5, None)]
    assert store.figures.prune(NOON, timedelta(days=400)) == ["engine_figure_20261121"]
    assert rows(database, "SELECT engine FROM v_engine_figures") == [("vllm",)]


def test_rollups_are_forgotten_by_their_width(store: Store, database: Database) -> None:
    for age in (timedelta(), FINE_KEPT + timedelta(days=1), timedelta(days=500)):
        tick(store, NOON - age, 1.0)
    store.figures.roll_up(NOON)

    store.figures.prune(NOON, timedelta(days=400))

    with database.begin() as connection:
        left = connection.execute(select(pool_rollup.c.resolution, pool_rollup.c.at).order_by(pool_rollup.c.at)).all()
    assert sorted({(row.resolution, (NOON - row.at).days) for row in left}) == [(300, 0), (3600, 0), (3600, 101)]


def test_the_wide_tables_have_the_columns_that_their_views_show(database: Database) -> None:
    for view, figures in (("v_engine_figures", ENGINE_FIGURES), ("v_gpu_figures", GPU_FIGURES)):
        assert rows(database, f"SELECT {', '.join(figures)} FROM {view}") == []
