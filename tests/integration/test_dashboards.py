"""The Grafana boards: current, well-formed by Grafana's own model, and every query answered by a real Postgres."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fakes.grafana import expand
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tidegate.model.decision import Action, ActionKind, Decision, Limit, Plan, UsedSignal
from tidegate.model.fleet import PoolName, ReplicaId, Value
from tidegate.model.memory import Memory
from tidegate.model.policy import Mode
from tidegate.model.records import PoolFigures
from tidegate.store.database import open_database
from tidegate.store.decisions import StoredDecisions
from tidegate.store.fence import NoFence
from tidegate.store.store import Store

ROOT = Path(__file__).resolve().parents[2]
BOARDS = sorted((ROOT / "dashboards" / "boards").glob("*.json"))
POOL_SHAPES = [["base"], ["base", "burst"], ["it's"], []]
INTERVALS = [timedelta(seconds=15), timedelta(minutes=5), timedelta(hours=1)]
"""One for each resolution."""
UNITS = {"none", "s", "percentunit"}


def boards() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in BOARDS:
        yield path.stem, json.loads(path.read_text())


def panels() -> list[Any]:
    return [
        pytest.param(panel, id=f"{name}: {panel['title']}") for name, board in boards() for panel in board["panels"]
    ]


def decision(pool: str, at: datetime, target: int) -> Decision:
    signal = UsedSignal("burst-1", "queue_depth", Value(7.0, timedelta(seconds=4)))
    return Decision(
        PoolName(pool), at, 1, 1, 0, 0, 2, target, "17 requests over 1 replica", (Limit.MAX,), (signal,), Mode.ACT, None
    )


NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def seeded(module_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Six hours of two pools: figures each quarter of an hour, usage each five, one scale-out."""
    now, dsn = NOW, module_dsn
    database = open_database(dsn)
    store = StoredDecisions(database, NoFence())
    for minute in range(0, 360, 15):
        at = now - timedelta(minutes=minute)
        figures = PoolFigures(
            at,
            PoolName("base"),
            "chat",
            ready=2,
            starting=0,
            leaving=0,
            target=2,
            gpus=2,
            running=9.0,
            queue_depth=float(minute % 7),
            gpu_utilization=0.7,
            kv_cache_usage=0.4,
            kv_cache_hit_rate=0.6,
            prompt_tokens_per_second=4000.0,
            generation_tokens_per_second=900.0,
            tokens_per_gpu_per_second=2450.0,
            ttft_p95_seconds=0.8,
            tpot_p95_seconds=0.04,
            e2e_p99_seconds=9.0,
            cost_per_million_tokens=0.31,
        )
        silent = PoolFigures(at, PoolName("burst"), "chat", ready=0, starting=0, leaving=0, target=0)
        plan = Plan((decision("base", at, 2), decision("burst", at, 1)), (), Memory())
        if minute == 30:
            start = Action(ActionKind.START, ReplicaId("burst-1"), PoolName("burst"))
            plan = replace(plan, actions=(start,))
        store.record(plan)
        store.settle((), Memory(), [figures, silent])
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "INSERT INTO usage (bucket, host, engine, pool, prompt_tokens, cached_prompt_tokens, generation_tokens, "
            "cache_queries, cache_hits, partial) "
            "SELECT date_trunc('hour', %s::timestamptz) - n * interval '5 minutes', 'h', 'e', 'base', "
            "1000, 600, 200, 1000, 600, false FROM generate_series(0, 60) AS n",
            [now],
        )
        seed_bill(connection)
        connection.execute("INSERT INTO usage_mark SELECT DISTINCT bucket FROM usage")
        connection.commit()
        Store(database).figures.roll_up(now)
        connection.autocommit = True
        yield connection
    database.close()


def seed_bill(connection: psycopg.Connection[Any]) -> None:
    """A day that a bill speaks of: two pools, idle, a tax and a credit, in two currencies; time alone has none."""
    day = NOW.date()
    connection.execute(
        "INSERT INTO cost_day VALUES (%s, 'partial', '{1}', 0.9, 0.95, '{gpu-9}', '{a note}', 's', %s)", [day, NOW]
    )
    for kind, currency, pool, amount in (
        ("busy", "USD", "base", 60),
        ("busy", "USD", "burst", 20),
        ("resident_idle", "EUR", "base", 5),
        ("empty", "USD", "", 12),
        ("tax", "USD", "", 8),
        ("credit", "USD", "", -3),
        ("busy", "", "base", None),
    ):
        connection.execute(
            "INSERT INTO cost_line VALUES (%s, %s, false, %s, %s, 'acme', 'gpu-1', %s, 'chat', 'm', 'base', 'compute', "
            "'usage', '', 'resource', '', '', %s, %s, 3600)",
            [day, kind, currency, day.replace(day=1), pool, amount, amount],
        )
    connection.execute(
        "INSERT INTO cost_tokens VALUES (%s, 'base', 'chat', 'm', 'base', 'mixed', 1500000, 0, 500000, false)", [day]
    )


def test_the_checked_in_boards_are_what_the_generator_writes() -> None:
    run = subprocess.run(
        [sys.executable, ROOT / "dashboards" / "build.py", "--check"], capture_output=True, text=True, cwd=ROOT
    )

    assert (run.returncode, run.stdout) == (0, "")


@pytest.mark.parametrize("interval", INTERVALS, ids=str)
@pytest.mark.parametrize("panel", panels())
def test_a_panel_s_query_answers_with_a_figure_in_its_unit_s_range(
    panel: dict[str, Any], interval: timedelta, seeded: psycopg.Connection[Any]
) -> None:
    (target,) = panel["targets"]
    sql = expand(target["rawSql"], NOW - timedelta(hours=6), NOW, ["base", "burst"], interval)
    cursor = seeded.execute(sql.encode())
    columns = [column.name for column in cursor.description or ()]
    rows = cursor.fetchall()

    assert rows
    if panel["type"] == "table":
        return
    assert columns[0] == "time"
    times = [row[0] for row in rows]
    assert None not in times
    assert times == sorted(times)
    numbers = [float(row[-1]) for row in rows if row[-1] is not None]
    assert numbers
    defaults = panel["fieldConfig"]["defaults"]
    top = 1.0 if defaults["unit"] == "percentunit" else float("inf")
    assert all(defaults.get("min", float("-inf")) <= number <= top for number in numbers)


@pytest.mark.parametrize("pools", POOL_SHAPES, ids=str)
@pytest.mark.parametrize("panel", panels())
def test_a_panel_s_query_stays_valid_for_every_choice_of_pools(
    panel: dict[str, Any], pools: list[str], seeded: psycopg.Connection[Any]
) -> None:
    (target,) = panel["targets"]

    seeded.execute(expand(target["rawSql"], NOW - timedelta(hours=6), NOW, pools, timedelta(minutes=1)).encode())


def test_billed_cost_is_by_currency_and_over_the_chosen_pools_tokens(seeded: psycopg.Connection[Any]) -> None:
    board = dict(boards())["billed-cost"]
    by_title = {panel["title"]: panel["targets"][0]["rawSql"] for panel in board["panels"]}

    def values(title: str, pools: list[str]) -> dict[str, float | None]:
        sql = expand(by_title[title], NOW - timedelta(days=30), NOW, pools, timedelta(hours=1))
        return {row[1]: None if row[2] is None else float(row[2]) for row in seeded.execute(sql.encode()).fetchall()}

    assert values("Cost in this time", []) == {"USD": 97, "EUR": 5}
    assert values("Cost per million tokens", ["base"]) == {"USD": 30, "EUR": 2.5}
    assert values("Cost per million tokens by pool", ["base", "burst"]) == {
        "base USD": 30,
        "base EUR": 2.5,
        "burst USD": None,
    }
    assert values("GPU cost that worked", [])["USD"] == pytest.approx(80 / 92)
    assert values("How much is known", []) == {"in a bill": 0.9, "observed": 0.95}


def test_variables_and_annotations_are_answered_too(seeded: psycopg.Connection[Any]) -> None:
    for _, board in boards():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                assert seeded.execute(variable["query"].encode()).fetchall() == [("base",), ("burst",)]
        for annotation in board["annotations"]["list"]:
            sql = expand(annotation["target"]["rawSql"], NOW - timedelta(hours=6), NOW, ["burst"], timedelta(minutes=1))
            (row,) = seeded.execute(sql.encode()).fetchall()
            assert row[1] == "17 requests over 1 replica"


@pytest.mark.parametrize(("name", "board"), list(boards()), ids=lambda value: value if isinstance(value, str) else "")
def test_grafana_s_own_model_keeps_every_key(name: str, board: dict[str, Any]) -> None:
    """A key that its encoder drops is one that Grafana would not know."""
    register_default_plugins()
    again = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(board)))

    assert _lost(board, again) == []


def test_a_misspelt_key_would_be_caught() -> None:
    register_default_plugins()
    _, board = next(iter(boards()))
    board["panels"][0]["fieldConfig"]["defaults"]["unitt"] = "s"
    again = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(board)))

    assert _lost(board, again) == ["panels.0.fieldConfig.defaults.unitt"]


@pytest.mark.parametrize(("name", "board"), list(boards()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_board_follows_the_rules_of_the_house(name: str, board: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in board["panels"]]
    text = json.dumps(board)

    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", board["uid"])
    assert len(set(ids)) == len(ids)
    assert min(ids) >= 1
    assert "__inputs" not in text
    assert "${DS_" not in text
    assert '"value": 80' not in text
    for panel in board["panels"]:
        assert panel["title"]
        assert "v_" in panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for division in re.findall(r" / (\S+)", panel["targets"][0]["rawSql"]):
            assert division.startswith("NULLIF("), "every ratio guards its denominator"
    for one, other in combinations([panel["gridPos"] for panel in board["panels"]], 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def _lost(before: Any, after: Any, path: str = "") -> list[str]:
    """Paths of the keys that are in `before` and not in `after`."""
    if isinstance(before, dict):
        if not isinstance(after, dict):
            return [path]
        return [
            lost
            for key, value in before.items()
            for lost in ([f"{path}{key}"] if key not in after else _lost(value, after[key], f"{path}{key}."))
        ]
    if isinstance(before, list):
        pairs = zip(before, after, strict=True)
        return [lost for number, (a, b) in enumerate(pairs) for lost in _lost(a, b, f"{path}{number}.")]
    return []
