"""What only the store in Postgres can show: many at once, many pages, partitions, retention, views."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from fakes.store_batches import HOST, batch, claim, engine, reading
from sqlalchemy import text

from tidegate.model.alert import AlertPhase, AlertState, Notice
from tidegate.model.decision import Action, ActionKind, Decision, Plan
from tidegate.model.fleet import PoolName, ReplicaId, ReplicaState, ServiceName, Slot
from tidegate.model.memory import Memory
from tidegate.model.policy import Flavour, FleetPolicy, Mode, PoolPolicy
from tidegate.model.reading import HostName, HostReading
from tidegate.model.records import PoolFigures, Pruned
from tidegate.model.series import layout_id
from tidegate.runtime.errors import Transient
from tidegate.store import partitions
from tidegate.store.admission import read_layout
from tidegate.store.database import Database
from tidegate.store.layouts import Layouts
from tidegate.store.store import Store

STEP = timedelta(seconds=15)
DAY = timedelta(days=1)
YEAR = timedelta(days=365)
BASE = PoolName("base")
POLICY = FleetPolicy({}, {BASE: PoolPolicy(BASE, ServiceName("chat"), flavours=(Flavour(template="vllm"),))})


@pytest.fixture
def pg(database: Database) -> Store:
    return Store(database)


def looks(start: datetime, count: int, step: timedelta = STEP) -> list[HostReading]:
    moments = [start + step * number for number in range(count)]
    return [reading(at, engine(at, generation_tokens=100.0 * number)) for number, at in enumerate(moments)]


def rows(database: Database, query: str) -> list[dict[str, object]]:
    with database.begin() as connection:
        return [dict(row) for row in connection.execute(text(query)).mappings()]


def names(database: Database) -> list[str]:
    with database.begin() as connection:
        return [part.name for part in partitions.parts(connection, ["report"])]


def test_the_same_batch_from_eight_threads_is_stored_once(pg: Store, now: datetime) -> None:
    """An impatient agent, two controllers: whoever comes second finds everything there."""
    layouts, reports = batch(*looks(now, 40))
    with ThreadPoolExecutor(8) as threads:
        accepted = list(threads.map(lambda _: pg.reports.accept(HOST, layouts, reports, now), range(8)))
    assert sorted(each.stored for each in accepted) == [0] * 7 + [40]
    assert {each.acknowledged for each in accepted} == {accepted[0].acknowledged}
    assert pg.reports.count(HOST) == 40


def test_overlapping_batches_of_many_hosts_at_once(pg: Store, now: datetime) -> None:
    """Around midnight, so that the partitions too are wanted by all at once."""
    midnight = now.replace(hour=0)
    layouts, reports = batch(*looks(midnight - STEP * 10, 20))
    jobs = [(HostName(f"gpu-{number % 4}"), reports[number // 4 :]) for number in range(16)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda job: pg.reports.accept(job[0], layouts, job[1], now), jobs))
    assert [pg.reports.count(HostName(f"gpu-{number}")) for number in range(4)] == [20, 20, 20, 20]
    assert names(pg.database) == ["report_2026112422", "report_2026112500"]


def test_intake_and_roll_up_at_once_lose_nothing(pg: Store, now: datetime) -> None:
    found = looks(now, 200)
    layouts, reports = batch(*found)
    claim(pg.hosts, now, "vllm-0")

    def feed(cut: int) -> None:
        pg.reports.accept(HOST, layouts, reports[cut : cut + 5], found[-1].at)

    with ThreadPoolExecutor(4) as threads:
        fed = [threads.submit(feed, cut) for cut in range(0, 200, 5)]
        rolled = [threads.submit(pg.usage.roll_up, found[-1].at) for _ in range(10)]
        for job in (*fed, *rolled):
            job.result()
    while pg.usage.roll_up(found[-1].at):
        pass
    usages = pg.usage.between(now, found[-1].at + DAY)
    assert sum(usage.generation_tokens for usage in usages) == 100.0 * 199
    assert not any(usage.partial for usage in usages)


def test_more_readings_than_a_page_come_whole_and_in_order(pg: Store, now: datetime) -> None:
    for host in ("gpu-1", "gpu-2"):
        layouts, reports = batch(*looks(now - STEP * 700, 700))
        for cut in range(0, 700, 350):
            pg.reports.accept(HostName(host), layouts, reports[cut : cut + 350], now)
    found = [(look.host, look.at) for look in pg.reports.readings(now - DAY, now)]
    assert found == sorted(found)
    assert len(set(found)) == 1400


def test_a_vector_is_stored_in_less_than_half(pg: Store, now: datetime) -> None:
    """The point of packing, on counters that move as counters do."""
    totals = {"prompt_tokens": 1.5e6, "generation_tokens": 3.25e5}
    look = reading(now, *(engine(now, f"vllm-{n}", **{k: v + n for k, v in totals.items()}) for n in range(100)))
    pg.reports.accept(HOST, *batch(look), now)
    (row,) = rows(
        pg.database, "SELECT octet_length(vector) AS packed, length FROM report JOIN layout ON id = layout_id"
    )
    assert int(str(row["packed"])) < 8 * int(str(row["length"])) / 2


# Partitions and retention


def test_a_partition_can_be_made_and_read_while_a_reader_holds_the_table(pg: Store, dsn: str, now: datetime) -> None:
    pg.reports.accept(HOST, *batch(*looks(now, 1)), now)
    with psycopg.connect(dsn) as reader:
        reader.execute("SELECT count(*) FROM report")
        pg.reports.accept(HOST, *batch(*looks(now + DAY, 1), first=2), now + DAY)
        assert pg.reports.count(HOST) == 2


def test_old_days_are_dropped_whole_and_usage_stays(pg: Store, now: datetime) -> None:
    claim(pg.hosts, now, "vllm-0")
    for day in range(5):
        pg.reports.accept(HOST, *batch(*looks(now + DAY * day, 3), first=1 + 3 * day), now + DAY * day)
    later = now + DAY * 4 + STEP * 3
    pg.usage.roll_up(later)
    before = pg.usage.between(now, later)
    pg.decisions.settle([], Memory(), [PoolFigures(now, PoolName("base"), "chat", 1, 0, 0, 1)])
    assert pg.retention.prune(later, DAY * 2, YEAR) == Pruned(("report_2026112512", "report_2026112612"), 4)
    assert pg.retention.prune(later, DAY * 2, YEAR) == Pruned()
    assert names(pg.database) == ["report_2026112712", "report_2026112812", "report_2026112912"]
    assert pg.usage.between(now, later) == before
    assert pg.decisions.figures(now, later) == []


def test_a_report_that_comes_after_its_day_was_dropped_does_not_unmake_usage(pg: Store, now: datetime) -> None:
    """The bucket's other reports are gone: worked out of the late one alone it would be nearly empty."""
    claim(pg.hosts, now, "vllm-0")
    found = looks(now, 6)
    layouts, reports = batch(*found)
    pg.reports.accept(HOST, layouts, reports[:5], now)
    later = now + DAY * 4
    pg.usage.roll_up(later)
    (before,) = pg.usage.between(now, later)
    pg.retention.prune(later, DAY * 2, YEAR)
    assert pg.reports.accept(HOST, layouts, reports[5:], later).stored == 1
    pg.usage.roll_up(later)
    assert pg.usage.between(now, later) == [before]


def test_a_reader_in_the_way_of_retention_only_delays_it(
    pg: Store, dsn: str, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "_LOCK_WAIT", timedelta(milliseconds=20))
    pg.reports.accept(HOST, *batch(*looks(now, 1)), now)
    with psycopg.connect(dsn) as reader:
        reader.execute("SELECT count(*) FROM report")
        with pytest.raises(Transient, match=r"lock timeout.*tried again"):
            pg.retention.prune(now + DAY * 9, DAY, YEAR)
    assert pg.retention.prune(now + DAY * 9, DAY, YEAR) == Pruned(("report_2026112512",), 2)


def test_a_reader_that_soon_leaves_does_not_fail_retention(
    pg: Store, dsn: str, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine every query takes a while: that is no failure yet, and the others' parts need not wait."""
    real, rounds = partitions._drop_free, []
    monkeypatch.setattr(partitions, "_LOCK_WAIT", timedelta(milliseconds=20))
    pg.reports.accept(HOST, *batch(*looks(now, 2, DAY)), now + DAY)
    with psycopg.connect(dsn) as reader:
        reader.execute("SELECT count(*) FROM report_2026112512")

        def once(*given: Any) -> Any:
            dropped, busy = real(*given)
            rounds.append(dropped)
            reader.rollback()
            return dropped, busy

        monkeypatch.setattr(partitions, "_drop_free", once)
        pruned = pg.retention.prune(now + DAY * 9, DAY, YEAR)
    assert rounds == [["report_2026112612"], ["report_2026112512"]]
    assert pruned.days == ("report_2026112612", "report_2026112512")


def test_a_day_dropped_under_our_feet_is_made_again(pg: Store, now: datetime) -> None:
    """Somebody restored or emptied the database while the controller ran."""
    layouts, reports = batch(*looks(now, 2))
    pg.reports.accept(HOST, layouts, reports[:1], now)
    with pg.database.begin() as connection:
        made = partitions.parts(connection, ["report"])
    partitions.drop(pg.database, made)
    with pytest.raises(Transient, match="no partition"):
        pg.reports.accept(HOST, layouts, reports, now)
    assert pg.reports.accept(HOST, layouts, reports, now).stored == 2


def test_a_layout_in_use_is_kept_and_an_unused_one_is_forgotten(pg: Store, now: datetime) -> None:
    used, reports = batch(*looks(now, 2, DAY * 6))
    unused, _ = batch(reading(now, engine(now, "vllm-9")))
    pg.reports.accept(HOST, used + unused, reports[:1], now)
    pg.reports.accept(HOST, [], reports[1:], now + DAY * 6)
    pg.retention.prune(now + DAY * 6, DAY, YEAR)
    assert [row["id"] for row in rows(pg.database, "SELECT id FROM layout")] == [used[0].id]
    assert len(list(pg.reports.readings(now, now + DAY * 9))) == 1


def test_layouts_that_were_just_written_are_known_and_the_first_are_forgotten_first(
    database: Database, now: datetime
) -> None:
    """A layout that is one too many costs one other, not the reading of all."""
    keys = [read_layout(HOST, batch(reading(now, engine(now, name)))[0][0]) for name in ("a", "b", "c")]
    ids = [layout_id(one) for one in keys]
    layouts = Layouts(database, most=2 * max(map(len, keys)))
    with database.begin() as connection:
        for name, one in zip(ids, keys, strict=True):
            layouts.write(connection, HOST, {name: one}, now)
        pairs = [(HOST, name) for name in ids]
        assert layouts.known(pairs) == dict(zip(pairs[1:], keys[1:], strict=True))
        assert layouts.load(connection, pairs) == dict(zip(pairs, keys, strict=True))
    assert pairs[0] in layouts.known(pairs)


def test_history_is_forgotten_at_last_but_for_what_is_still_needed(pg: Store, now: datetime) -> None:
    """Changes, usage, stopped replicas and told notices go; what is owed and a pool's last number stay."""
    old, later = now, now + YEAR
    claim(pg.hosts, old, "vllm-0")
    pg.reports.accept(HOST, *batch(*looks(old, 3)), old)
    pg.usage.roll_up(old + DAY)
    for serial, at in enumerate((old, old + STEP, later - DAY), start=1):
        start = Action(
            ActionKind.START, ReplicaId(f"base-{serial}"), BASE, Slot(HOST, serial, (serial,), 8100 + serial)
        )
        made = Decision(BASE, at, 0, 0, 0, 0, 1, 1, "because", (), (), Mode.ACT, None)
        pg.decisions.record(Plan((made,), (start,), Memory()))
        pg.replicas.apply([start], POLICY, at)
    stopped = [replace(one, state=ReplicaState.STOPPED, stopped_at=one.requested_at) for one in pg.replicas.load()]
    pg.replicas.observe(stopped)
    quiet = AlertState("f", "rule", {}, AlertPhase.FIRING, old)
    pg.alerts.save([quiet], [Notice("told", "ops", quiet, old), Notice("owed", "other", quiet, old)])
    pg.alerts.delivered("told", old)

    pruned = pg.retention.prune(later, DAY * 15, YEAR - DAY)

    assert pruned.days == ("report_2026112512",)
    left = {table: rows(pg.database, f"SELECT * FROM {table}") for table in ("usage", "engine", "action", "decision")}
    assert (left["usage"], left["engine"]) == ([], [])
    assert [row["replica"] for row in left["action"]] == ["base-3"]
    assert [row["at"] for row in left["decision"]] == [later - DAY]
    assert [row["id"] for row in rows(pg.database, "SELECT id FROM replica")] == ["base-3"]
    assert [row["id"] for row in rows(pg.database, "SELECT id FROM notice")] == ["owed"]
    assert pg.replicas.next_serials() == {BASE: 4}
    assert pg.retention.prune(later, DAY * 15, YEAR - DAY) == Pruned()

    pg.replicas.observe([replace(one, stopped_at=old) for one in stopped if one.id == "base-3"])
    pg.retention.prune(later, DAY * 15, YEAR - DAY)
    assert pg.replicas.next_serials() == {BASE: 4}, "a number is never given again"


# Views


def test_the_usage_view_has_ratios_of_sums(pg: Store, now: datetime) -> None:
    claim(pg.hosts, now, "vllm-0", "vllm-1")
    for at, scale in ((now, 0.0), (now + STEP, 1.0)):
        busy = engine(at, "vllm-0", cache_queries=1000 * scale, cache_hits=900 * scale, started=1.0)
        idle = engine(at, "vllm-1", cache_queries=10 * scale, cache_hits=0.0, started=1.0)
        pg.reports.accept(HOST, *batch(reading(at, busy, idle), first=1 + int(scale)), now + STEP)
    pg.usage.roll_up(now + STEP)
    pg.figures.roll_up(now + STEP)
    (row,) = rows(pg.database, "SELECT * FROM v_usage")
    assert row["bucket"] == now
    assert row["kv_cache_hit_rate"] == pytest.approx(900 / 1010)
    assert row["generation_tokens"] is None, "what no engine exports is missing, not zero"


@pytest.mark.parametrize(
    ("view", "columns"),
    [
        (
            "v_pool_figures",
            (
                "at pool service ready starting leaving target gpus running queue_depth gpu_utilization kv_cache_usage "
                "kv_cache_hit_rate prompt_tokens_per_second generation_tokens_per_second tokens_per_gpu_per_second "
                "ttft_p95_seconds tpot_p95_seconds e2e_p99_seconds cost_per_million_tokens"
            ),
        ),
        (
            "v_usage",
            (
                "bucket pool prompt_tokens cached_prompt_tokens generation_tokens cache_queries cache_hits "
                "kv_cache_hit_rate partial"
            ),
        ),
        (
            "v_decisions",
            (
                "at id pool current ready starting leaving wanted target mode reason limits signals "
                "may_change_at acted actions"
            ),
        ),
        (
            "v_replicas",
            (
                "id pool service host gpus gpu_count port want state since requested_at ready_at stopped_at deadline "
                "start_seconds managed cut_requests why"
            ),
        ),
        (
            "v_alerts",
            "since rule labels phase starts_at ends_at value baseline summary summary_zh",
        ),
    ],
)
def test_the_views_keep_their_columns(database: Database, view: str, columns: str) -> None:
    """A promise to boards and to people's own queries (docs/schema.md)."""
    with database.begin() as connection:
        assert " ".join(connection.execute(text(f"SELECT * FROM {view}")).keys()) == columns


def test_a_reader_role_needs_no_more_than_the_views(database: Database, dsn: str) -> None:
    """The grants of docs/schema.md: Grafana reads, and sees neither tables nor tokens."""
    with database.begin() as connection:
        connection.execute(text("CREATE ROLE only_views"))
        connection.execute(text("GRANT SELECT ON v_pool_figures, v_usage, v_decisions TO only_views"))
        connection.execute(text("SET LOCAL ROLE only_views"))
        connection.execute(text("SELECT * FROM v_decisions"))
        with pytest.raises(Exception, match="permission denied"):
            connection.execute(text("SELECT * FROM host"))
        connection.rollback()
