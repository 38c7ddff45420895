"""What the store answers at every level is what the raw samples say, whatever came late, was missing or went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from fakes.store_batches import HOST, batch, claim, engine, layout_of, reading
from sqlalchemy import text

from tidegate.model.history import METRICS, Aggregate, History, Question
from tidegate.model.reading import HostName, HostReading
from tidegate.model.records import Levels
from tidegate.model.series import SeriesKey
from tidegate.model.vector import encode
from tidegate.store.database import Database
from tidegate.store.schema_series import WINDOW
from tidegate.store.series import MOST_IN_A_DAY
from tidegate.store.store import Store
from tidegate.wire import Report

STEP = timedelta(seconds=60)
KEPT = timedelta(days=400)


@pytest.fixture
def pg(database: Database) -> Store:
    return Store(database)


def compacted(store: Store, now: datetime) -> None:
    while (done := store.compaction.compact(now)).windows or done.merged:
        pass


def feed(store: Store, looks: Sequence[HostReading], first: int, received: datetime | None = None) -> None:
    host = looks[0].host
    for cut in range(0, len(looks), 100):
        part = looks[cut : cut + 100]
        store.reports.accept(host, *batch(*part, first=first + cut), received or part[-1].at)


def tokens(at: datetime, total: float) -> HostReading:
    return reading(at, engine(at, generation_tokens=total))


def increases(store: Store, table: str = "rollup_5m") -> float:
    query = f"SELECT coalesce(sum(one), 0) FROM {table}, unnest(increase) AS u (one) WHERE one <> 'NaN'"
    with store.database.begin() as connection:
        return float(connection.execute(text(query)).scalar_one())


def total(answer: History) -> float:
    return sum(value or 0.0 for line in answer.lines for value in line.values)


def test_a_late_total_is_taken_off_where_its_series_comes_back(pg: Store, now: datetime) -> None:
    """An engine that is gone for a window in between: its next increase begins at the total that came late."""
    looks = [tokens(now + STEP * n, 10.0 * n) for n in range(120)]
    empty = [reading(now + WINDOW + STEP * n) for n in range(120)]
    again = [tokens(now + WINDOW * 2 + STEP * n, 1_190.0 + 10 * n) for n in range(120)]
    feed(pg, looks[:100], 1)
    feed(pg, empty, 121)
    feed(pg, again, 241)
    compacted(pg, now + WINDOW * 4)
    feed(pg, looks[100:], 101, now + WINDOW * 4)
    compacted(pg, now + WINDOW * 4 + timedelta(hours=1))
    assert increases(pg) == 1_190 + 1_190
    assert increases(pg, "rollup_1h") == 1_190 + 1_190


def test_what_comes_after_the_samples_of_its_window_were_forgotten(pg: Store, now: datetime) -> None:
    """Rollups are kept longer than samples: one late report must neither replace nor double them, nor stop anything."""
    start = now.replace(hour=8)
    looks = [tokens(start + STEP * n, 10.0 * n) for n in range(480)]
    feed(pg, looks[:100] + looks[101:], 1)
    compacted(pg, start + timedelta(hours=20))
    later = start + timedelta(days=5)
    pg.usage.roll_up(later)
    pg.retention.prune(later, timedelta(days=2), KEPT, Levels(rollups=KEPT))
    before = increases(pg)
    feed(pg, looks[100:101], 900, later)
    feed(pg, [tokens(later + STEP * n, 10.0 * n) for n in range(480)], 1_000)
    compacted(pg, later + timedelta(hours=30))
    pg.retention.prune(later + timedelta(hours=31), timedelta(days=2), KEPT, Levels(rollups=KEPT))
    compacted(pg, later + timedelta(hours=32))
    assert increases(pg) == before + 4_790


def test_layouts_outlive_the_reports_that_wait_for_their_compaction(pg: Store, now: datetime) -> None:
    """A controller that was away for days finds reports that nobody compacted, of hosts that are gone."""
    claim(pg.hosts, now, "vllm-0")
    feed(pg, [tokens(now + STEP * n, 10.0 * n) for n in range(120)], 1)
    later = now + timedelta(days=4)
    pg.retention.prune(later, timedelta(days=15), KEPT)
    assert pg.usage.roll_up(later) > 0
    compacted(Store(pg.database), later)
    assert increases(pg) == 1_190


def test_a_damaged_report_costs_its_own_sample_alone(pg: Store, now: datetime) -> None:
    feed(pg, [tokens(now + STEP * n, 10.0 * n) for n in range(120)], 1)
    with pg.database.begin() as connection:
        connection.execute(text("UPDATE report SET vector = 'x' WHERE sequence = 7"))
    pg.compaction.compact(now)  # numbers the series
    claim(pg.hosts, now, "vllm-0")
    later = now + WINDOW * 2
    assert len(list(pg.reports.readings(now, later))) == 119
    pg.usage.roll_up(later)
    (tokens_of_it,) = {sum(one.generation_tokens for one in pg.usage.between(now, later))}
    assert tokens_of_it == 1_190
    question = Question(METRICS["generation_tokens"], now, now + WINDOW, timedelta(minutes=1), Aggregate.INCREASE)
    assert total(pg.histories.query(question)) == 1_190
    compacted(pg, later)
    assert increases(pg) == 1_190
    assert total(pg.histories.query(question)) == 1_190


def test_usage_of_a_host_whose_chunks_are_damaged_holds_up_none_of_those_with_it(pg: Store, now: datetime) -> None:
    """Several hosts are worked out together: when one of them cannot be, each of the others is all the same."""
    hosts = [HostName(f"gpu-{number}") for number in range(3)]
    for host in hosts:
        claim(pg.hosts, now, "vllm-0", host=host)
        looks = [replace(tokens(now + STEP * n, 10.0 * n), host=host) for n in range(120)]
        feed(pg, looks[:50] + looks[51:], 1)
    later = now + WINDOW * 2
    assert pg.usage.roll_up(later) > 0
    compacted(pg, later)
    with pg.database.begin() as connection:
        connection.execute(text("DELETE FROM report"))
        connection.execute(text("UPDATE chunk_clock SET payload = 'x' WHERE host = 'gpu-1'"))
    for host in hosts:
        feed(pg, [replace(tokens(now + STEP * 50, 10.0 * 50), host=host)], 900, later)
    assert pg.usage.roll_up(later) > 0
    with pg.database.begin() as connection:
        waiting = set(connection.execute(text("SELECT DISTINCT host FROM dirty_bucket")).scalars())
        by_host = connection.execute(text("SELECT host, sum(generation_tokens) FROM usage GROUP BY host ORDER BY host"))
        assert [tuple(row) for row in by_host] == [(host, 1_190) for host in hosts]
    assert waiting == {"gpu-1"}, "it is tried again"


def test_one_host_whose_chunks_are_damaged_holds_up_no_other(pg: Store, now: datetime) -> None:
    start, other = now.replace(hour=8), HostName("gpu-9")
    feed(pg, [tokens(start + STEP * n, 10.0 * n) for n in range(480)], 1)
    compacted(pg, start + timedelta(hours=9))
    with pg.database.begin() as connection:
        connection.execute(text("UPDATE chunk SET payload = 'x'"))
        connection.execute(text("UPDATE series_window SET version = version + 1 WHERE start = :now"), {"now": now})
    at = [start + STEP * n for n in range(480)]
    feed(pg, [reading(one, engine(one, generation_tokens=10.0 * n), host=other) for n, one in enumerate(at)], 1)
    before = increases(pg)
    for hours in (9, 20, 22):
        compacted(pg, start + timedelta(hours=hours))
    assert increases(pg) == before + 4_790
    with pg.database.begin() as connection:
        cold = text("SELECT host, count(*) FROM series_window WHERE cold GROUP BY 1")
        assert connection.execute(cold).all() == [(other, 4)]


def test_a_series_that_was_too_many_is_kept_when_there_is_room_again(pg: Store, now: datetime) -> None:
    """One day's explosion must not cost an engine that came that day its history for ever."""
    wide = MOST_IN_A_DAY
    keys = [SeriesKey("engine", "vllm-0", "retries", str(n)) for n in range(wide + 1)]
    for number, part in enumerate((keys[:wide], keys[wide:], keys[wide:])):
        at, layout = now + timedelta(hours=30) * (number // 2) + STEP * number, layout_of(part)
        vector = encode([float(number)] * len(part))
        one = Report(boot_id="boot", sequence=number + 1, at=at.timestamp(), layout=layout.id, values=vector)
        pg.reports.accept(HOST, [layout], [one], at)
        compacted(pg, at + WINDOW * 2)
    with pg.database.begin() as connection:
        query = text("SELECT count(*) FROM series WHERE rank = :rank")
        assert connection.execute(query, {"rank": str(wide)}).scalar_one() == 1
