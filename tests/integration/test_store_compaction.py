"""Reports become chunks and rollups: nothing is lost or doubled, whatever comes late, twice, or is interrupted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import pytest
from fakes.store_batches import HOST, claim, layout_of
from sqlalchemy import text

from tidegate.model.fleet import PoolName
from tidegate.model.reading import Gap, HostName, Missing, Number
from tidegate.model.records import Compacted, Levels
from tidegate.model.series import SeriesKey
from tidegate.model.vector import encode
from tidegate.store import chunks, partitions
from tidegate.store.database import Database
from tidegate.store.matrix import read_chunks
from tidegate.store.schema_series import COLD, WINDOW
from tidegate.store.series import LAYOUTS_IN_A_DAY, MOST_IN_A_DAY
from tidegate.store.store import Store
from tidegate.wire import Layout, Report

STEP = timedelta(seconds=60)
ROUNDS = WINDOW // STEP
KEYS = (
    SeriesKey("engine", "vllm-0", "generation_tokens", "0"),
    SeriesKey("engine", "vllm-0", "running", "0"),
    SeriesKey("engine", "vllm-0", "started"),
    SeriesKey("gpu", "GPU-1", "power_watts"),
)
LAYOUT = layout_of(KEYS)
REASONS = (Missing(Gap.UNREACHABLE), Missing(Gap.NOT_SUPPORTED), Missing(Gap.STALE))


@pytest.fixture
def pg(database: Database) -> Store:
    return Store(database)


def reports(start: datetime, count: int, first: int = 0, layout: Layout = LAYOUT) -> list[Report]:
    """A counter that is reset now and then, a gauge that is missing now and then, a moment, and a fraction."""
    made = []
    for number in range(first, first + count):
        values: list[Number] = [float(number % 150 * 10), float(number % 7), 1.7e9, 300 + number / 7]
        if number % 5 == 3:
            values[1] = REASONS[number % 3]
        at = (start + STEP * (number - first)).timestamp()
        vector = encode(values[: len(layout.series)])
        made.append(Report(boot_id="boot", sequence=number + 1, at=at, layout=layout.id, values=vector))
    return made


def feed(store: Store, made: Sequence[Report], late: datetime | None = None, host: HostName = HOST) -> int:
    """Give reports to the store, when the last of each hundred was made or `late`."""
    parts = [made[cut : cut + 100] for cut in range(0, len(made), 100)]
    return sum(
        store.reports.accept(host, [LAYOUT], part, late or datetime.fromtimestamp(part[-1].at, UTC)).stored
        for part in parts
    )


def compacted(store: Store, now: datetime) -> Compacted:
    total = Compacted()
    while (done := store.compaction.compact(now)).windows or done.merged:
        total += done
    return total


Cells = dict[tuple[int, int], int]


def cells(store: Store, since: datetime, until: datetime, *, cold: bool = False, host: HostName = HOST) -> Cells:
    """What the chunks hold: the bits of each sample by moment and position in KEYS."""
    with store.database.begin() as connection:
        found = read_chunks(connection, host, since, until, cold=cold)
        rows = connection.execute(text("SELECT id, scope, owner, name, rank, le FROM series")).all()
    places = {row.id: KEYS.index(SeriesKey(*row[1:])) for row in rows if SeriesKey(*row[1:]) in KEYS}
    bits = np.ascontiguousarray(found.values).view(np.uint64)
    return {
        (moment, places[int(one)]): int(bits[line, column])
        for line, one in enumerate(found.ids)
        for column, moment in enumerate(found.moments.tolist())
    }


def everything(store: Store, around: datetime) -> Cells:
    """What the chunks of both layers hold; nothing is in both."""
    span = (around - COLD * 2, around + COLD * 2)
    hot, cold = cells(store, *span), cells(store, *span, cold=True)
    assert not hot.keys() & cold.keys()
    return hot | cold


def told(made: Sequence[Report]) -> Cells:
    """What the reports said."""
    return {
        (round(report.at * 1_000_000), place): int(bits)
        for report in made
        for place, bits in enumerate(np.frombuffer(report.values, "<u8"))
    }


def rollup(store: Store, table: str) -> list[tuple[object, ...]]:
    query = f"SELECT block, start, buckets, sum, count, minimum, maximum, increase, last FROM {table} ORDER BY 1, 2"
    with store.database.begin() as connection:
        return [tuple(map(repr, row)) for row in connection.execute(text(query))]


def test_chunks_hold_what_was_reported_to_the_last_bit(pg: Store, now: datetime) -> None:
    made = reports(now, ROUNDS)
    feed(pg, made)
    done = compacted(pg, now + WINDOW * 2)
    assert (done.windows, done.samples) == (1, ROUNDS * len(KEYS))
    assert cells(pg, now, now + WINDOW) == told(made)
    assert compacted(pg, now + WINDOW * 2) == Compacted()


def test_an_open_window_is_left_alone(pg: Store, now: datetime) -> None:
    feed(pg, reports(now, ROUNDS))
    assert compacted(pg, now + WINDOW + timedelta(minutes=4)) == Compacted()


def test_a_layout_that_changes_within_the_window(pg: Store, now: datetime) -> None:
    """A series that was not in a report is told from one that was missing in it."""
    few = layout_of(KEYS[:2])
    before, after = reports(now, 10, layout=few), reports(now + STEP * 10, 10, first=10)
    pg.reports.accept(HOST, [few], before, now + STEP * 10)
    feed(pg, after)
    compacted(pg, now + WINDOW * 2)
    found = cells(pg, now, now + WINDOW)
    wanted = told(before) | told(after)
    assert {place: bits for place, bits in found.items() if place in wanted} == wanted
    assert len(found) - len(wanted) == 20, "ten reports without two of the series"


@pytest.mark.parametrize("seed", range(3))
def test_what_comes_late_ends_up_as_if_it_had_come_in_time(pg: Store, now: datetime, seed: int) -> None:
    """Three windows in any order and in pieces, with compactions in between: the same chunks and rollups."""
    made = reports(now, ROUNDS * 3)
    end = now + WINDOW * 3
    mixed = random.Random(seed).sample(made, len(made))
    for cut in range(0, len(mixed), 60):
        received = end + timedelta(hours=cut / 60)
        feed(pg, mixed[cut : cut + 60], received)
        if cut % 120:
            compacted(pg, received + timedelta(minutes=20))
    compacted(pg, end + timedelta(days=2))
    in_time = HostName("gpu-2")
    feed(pg, made, host=in_time)
    compacted(pg, end + timedelta(days=2))
    for cold in (False, True):
        span = (now - COLD, end)
        assert cells(pg, *span, cold=cold) == cells(pg, *span, cold=cold, host=in_time)
    for table in ("rollup_5m", "rollup_1h"):
        rows = rollup(pg, table)
        half = len(rows) // 2
        assert half
        assert [row[1:] for row in rows[:half]] == [row[1:] for row in rows[half:]]


def test_what_comes_again_after_its_reports_are_gone_is_not_doubled(pg: Store, now: datetime) -> None:
    """The acknowledgement was lost, the reports were dropped, and an agent's spool keeps them for three days."""
    made = reports(now, ROUNDS)
    feed(pg, made[:-3])
    compacted(pg, now + WINDOW * 2)
    drop_reports(pg)
    later = now + timedelta(days=3)
    feed(pg, made[-20:], later)
    compacted(pg, later + timedelta(hours=1))
    assert everything(pg, now) == told(made)


def drop_reports(store: Store) -> None:
    with store.database.begin() as connection:
        found = partitions.parts(connection, ["report"])
    partitions.drop(store.database, found)
    store.reports._partitions.forget()


def test_windows_that_have_cooled_become_one_row(pg: Store, now: datetime) -> None:
    start = now.replace(hour=8)
    made = reports(start, ROUNDS * 4)
    feed(pg, made)
    end = start + COLD
    compacted(pg, end + timedelta(hours=1))
    hot = rollup(pg, "rollup_5m_hot")
    assert compacted(pg, end + timedelta(hours=8)).merged == 1
    assert cells(pg, start, end, cold=False) == {}
    assert cells(pg, start, end, cold=True) == told(made)
    (gauge, *_) = [row for row in rollup(pg, "rollup_5m_cold") if row[3] != "None"]
    assert gauge[2] == "96"
    assert len(hot) == 4 * len(rollup(pg, "rollup_5m_cold"))


def test_what_comes_late_for_a_cold_row_is_put_into_it(pg: Store, now: datetime) -> None:
    start = now.replace(hour=8)
    made = reports(start, ROUNDS * 4)
    missing = [*made[30:40], *made[200:220]]
    feed(pg, [report for report in made if report not in missing])
    end = start + COLD
    compacted(pg, end + timedelta(hours=8))
    feed(pg, missing, end + timedelta(hours=9))
    compacted(pg, end + timedelta(hours=10))
    assert cells(pg, start, end, cold=True) == told(made)
    assert cells(pg, start, end, cold=False) == {}


def test_a_window_that_comes_whole_after_its_neighbours_have_cooled(pg: Store, now: datetime) -> None:
    start = now.replace(hour=8)
    made = reports(start, ROUNDS * 4)
    feed(pg, made[: ROUNDS * 3])
    end = start + COLD
    compacted(pg, end + timedelta(hours=8))
    feed(pg, made[ROUNDS * 3 :], end + timedelta(hours=9))
    compacted(pg, end + timedelta(hours=10))
    assert cells(pg, start, end, cold=True) == told(made)


def test_a_compaction_that_dies_changes_nothing_and_is_done_again(
    pg: Store, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = reports(now, ROUNDS)
    feed(pg, made)

    def dies(*_: object) -> None:
        raise ConnectionAbortedError

    with monkeypatch.context() as patched:
        patched.setattr(chunks, "_copy", dies)
        with pytest.raises(ConnectionAbortedError):
            pg.compaction.compact(now + WINDOW * 2)
    assert cells(pg, now, now + WINDOW) == {}
    assert compacted(pg, now + WINDOW * 2).windows == 1
    assert cells(pg, now, now + WINDOW) == told(made)


def test_intake_and_compaction_at_once_lose_nothing(pg: Store, now: datetime) -> None:
    """Late reports come from four threads while two compact."""
    made = reports(now, ROUNDS * 2)
    later = now + timedelta(hours=9)
    with ThreadPoolExecutor(6) as threads:
        fed = [threads.submit(feed, pg, made[cut : cut + 10], later) for cut in range(0, len(made), 10)]
        done = [threads.submit(pg.compaction.compact, later + timedelta(minutes=20)) for _ in range(12)]
        for job in (*fed, *done):
            job.result()
    compacted(pg, later + timedelta(hours=1))
    assert everything(pg, now) == told(made)


def test_named_series_are_rolled_up_by_the_minute_too(pg: Store, now: datetime) -> None:
    feed(pg, reports(now, ROUNDS))
    while pg.compaction.compact(now + WINDOW * 2, frozenset({"running"})).windows:
        pass
    (row,) = rollup(pg, "rollup_1m")
    assert row[2] == str(ROUNDS)


def test_a_label_with_a_new_value_in_every_scrape_is_bounded(pg: Store, now: datetime) -> None:
    """What was known before goes on; how much is left out is said."""
    wide = 60
    for number in range(50):
        fresh = tuple(SeriesKey("engine", "vllm-0", "retries", f"{number}-{n}") for n in range(wide))
        layout = layout_of((*KEYS, *fresh))
        vector = encode([float(number), 1.0, 1.7e9, 2.0, *[1.0] * wide])
        at = (now + STEP * number).timestamp()
        report = Report(boot_id="boot", sequence=number + 1, at=at, layout=layout.id, values=vector)
        pg.reports.accept(HOST, [layout], [report], now + STEP * number)
    done = compacted(pg, now + WINDOW * 2)
    with pg.database.begin() as connection:
        kept = connection.execute(text("SELECT count(*) FROM series")).scalar_one()
    assert kept == MOST_IN_A_DAY
    assert LAYOUTS_IN_A_DAY * (wide + len(KEYS)) < MOST_IN_A_DAY
    assert done.left_out == {HOST: wide}
    with pg.database.begin() as connection:
        found = read_chunks(connection, HOST, now, now + WINDOW, cold=False)
    known = {int(one): line for line, one in enumerate(found.ids)}
    with pg.database.begin() as connection:
        tokens = connection.execute(text("SELECT id FROM series WHERE name = 'generation_tokens'")).scalar_one()
    assert found.values[known[tokens]].tolist() == [float(number) for number in range(50)]


def test_usage_is_mended_by_what_comes_after_the_reports_were_dropped(pg: Store, now: datetime) -> None:
    """A spool of three days: the rest of the bucket lies in chunks by then, hot or cold."""
    claim(pg.hosts, now, "vllm-0")
    made = reports(now, ROUNDS)
    missing = made[31:34]
    feed(pg, [report for report in made if report not in missing])
    pg.usage.roll_up(now + WINDOW * 2)
    compacted(pg, now + WINDOW * 2)
    drop_reports(pg)
    for later in (timedelta(hours=5), timedelta(days=2)):
        fresh = missing[:1] if later < timedelta(days=1) else missing[1:]
        feed(pg, fresh, now + later)
        pg.usage.roll_up(now + later)
        compacted(pg, now + later + timedelta(hours=1))
        drop_reports(pg)
    usages = list(pg.usage.between(now, now + WINDOW))
    feed(pg, made, host=HostName("gpu-2"))
    claim(pg.hosts, now, "vllm-0", pool="other", host=HostName("gpu-2"))
    pg.usage.roll_up(now + timedelta(days=3))
    wanted = [
        replace(usage, pool=PoolName("base")) for usage in pg.usage.between(now, now + WINDOW) if usage.pool == "other"
    ]
    assert usages == wanted
    assert sum(usage.generation_tokens for usage in usages) > 0


def test_reports_are_dropped_when_their_samples_are_safe_and_not_before(pg: Store, now: datetime) -> None:
    """Six hours later, when they are in chunks; one that slipped past the compaction keeps its part until it is too."""
    made = reports(now, ROUNDS)
    feed(pg, made[:-1])
    later = now + timedelta(hours=9)
    prune = partial(pg.retention.prune, retention=timedelta(days=15), history=timedelta(days=400))
    assert prune(later).days == ()
    pg.usage.roll_up(later)
    compacted(pg, now + WINDOW * 2)
    feed(pg, made[-1:])
    with pg.database.begin() as connection:  # as if it had been committed only after the window was read
        connection.execute(text("UPDATE series_window SET version = done"))
        connection.execute(text("DELETE FROM dirty_bucket"))
    assert prune(later).days == ()
    compacted(pg, later)
    assert prune(later).days == ("report_2026112512",)
    assert everything(pg, now) == told(made)


def test_each_level_is_forgotten_in_its_own_time(pg: Store, now: datetime) -> None:
    start = now.replace(hour=8)
    feed(pg, reports(start, ROUNDS * 4))
    compacted(pg, start + COLD + timedelta(hours=8))
    pg.usage.roll_up(start + timedelta(days=1))
    levels = Levels(timedelta(hours=6), timedelta(days=3), timedelta(days=40))

    def left(days: int) -> set[str]:
        pg.retention.prune(start + timedelta(days=days), timedelta(days=15), timedelta(days=100), levels)
        with pg.database.begin() as connection:
            return {part.parent for part in partitions.parts(connection)} - {"engine_figure", "gpu_figure"}

    rollups = {"rollup_5m_cold", "rollup_1h_cold"}
    assert left(2) == {"chunk_cold", "chunk_clock_cold", *rollups} | ({"rollup_1m_hot"} & left(2))
    assert left(20) == rollups
    assert left(60) == {"rollup_1h_cold"}
    assert left(160) == set()
    with pg.database.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM series")).scalar_one() == 0
