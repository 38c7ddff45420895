"""Random lives of a host against an oracle of raw samples: the same increases at every level, in whatever order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from fakes.store import FakeStore
from fakes.store_batches import HOST, claim, down, engine, pack, reading

from tidegate.model.history import METRICS, Aggregate, Label, Question
from tidegate.model.reading import Counter, HostReading, Rank
from tidegate.store.database import Database
from tidegate.store.store import Store
from tidegate.wire import Layout, Report

STEP = timedelta(seconds=60)
ROUNDS = 15 * 60
NAMES = ("vllm-0", "vllm-1")
WIDTHS = (timedelta(minutes=5), timedelta(hours=1), timedelta(minutes=2))
RETENTION, HISTORY = timedelta(days=15), timedelta(days=400)


@pytest.fixture
def pg(database: Database) -> Store:
    return Store(database)


def life(start: datetime, dice: random.Random) -> list[HostReading]:
    """Engines that come, go, fall silent and start again; minutes and hours without a sample; moments off the beat."""
    totals, states = dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, "up")
    looks, quiet = [], 0
    for number in range(ROUNDS):
        for name in NAMES:
            if dice.random() < 0.01:
                states[name] = dice.choice(["up", "up", "down", "gone"])
            if dice.random() < 0.008:
                totals[name] = 0.0
            totals[name] += dice.choice([0, 0, 1, 7, 1_000_003])
        quiet = quiet - 1 if quiet else (dice.random() < 0.008) * dice.choice([3, 30, 150])
        if not quiet:
            at = start + STEP * number + timedelta(microseconds=dice.randrange(30_000_000))
            up = [engine(at, name, generation_tokens=totals[name]) for name in NAMES if states[name] == "up"]
            looks.append(reading(at, *up, *(down(at, name) for name in NAMES if states[name] == "down")))
    return looks


def delivered(
    looks: Sequence[HostReading], dice: random.Random
) -> Iterator[tuple[datetime, list[Layout], list[Report]]]:
    """Batches with when they come: some in time, the others late by up to days; shuffled, and some of it twice."""
    numbered = list(enumerate(looks, 1))
    pieces = [numbered[cut : cut + 40] for cut in range(0, len(numbered), 40)]
    late = [piece for piece in pieces if dice.random() < 0.3]
    dice.shuffle(late)
    at = looks[0].at
    for piece in [piece for piece in pieces if piece not in late] + late:
        at = max(piece[-1][1].at, at + (piece in late) * timedelta(minutes=dice.choice([1, 30, 400])))
        mixed = dice.sample(piece, len(piece)) + dice.sample(piece, 3)
        packed = [pack(look, number, f"boot-{number // 300}") for number, look in mixed]
        yield at, list({layout.id: layout for layout, _ in packed}.values()), [report for _, report in packed]


def oracle(looks: Sequence[HostReading], name: str, width: timedelta) -> Mapping[float, float]:
    """What each total adds to the last one before it, by bucket; a fall is a start at zero."""
    found: dict[float, float] = {}
    last: float | None = None
    for look in looks:
        for one in look.engines:
            total = one.counters.get((Counter.GENERATION_TOKENS, Rank("0")))
            if one.engine == name and total is not None:
                if last is not None:
                    bucket = look.at.timestamp() // width.total_seconds() * width.total_seconds()
                    found[bucket] = found.get(bucket, 0.0) + (total - last if total >= last else total)
                last = total
    return found


def check(store: Store, looks: Sequence[HostReading], start: datetime) -> None:
    for width in WIDTHS:
        span = (start, start + STEP * ROUNDS)
        answer = store.histories.query(Question(METRICS["generation_tokens"], *span, width, Aggregate.INCREASE))
        for name in NAMES:
            lines = [line for line in answer.lines if line.labels[Label.ENGINE] == name]
            told = {at: value for line in lines for at, value in zip(line.at, line.values, strict=True)
                    if value is not None}  # fmt: skip
            assert told == pytest.approx(oracle(looks, name, width), rel=1e-6)


SERIES = "SELECT at, owner, increase FROM {view} WHERE metric = 'generation_tokens' AND increase IS NOT NULL"
USAGE = "SELECT bucket, generation_tokens FROM {view} WHERE pool = 'base' {narrowed}"


def check_views(store: Store, looks: Sequence[HostReading]) -> None:
    """What boards read of it, by engine and by pool."""
    for width, minutes in zip(WIDTHS[:2], ("5m", "1h"), strict=True):
        wanted = {name: oracle(looks, name, width) for name in NAMES}
        series = rows(store, SERIES.format(view=f"v_series_{minutes}"))
        for name in NAMES:
            told = {at.timestamp(): increase for at, owner, increase in series if owner == name and increase}
            assert told == pytest.approx({at: value for at, value in wanted[name].items() if value}, rel=1e-6)
        pool = {at: sum(one.get(at, 0.0) for one in wanted.values()) for one in wanted.values() for at in one}
        resolution = f"AND resolution = {int(width.total_seconds())}"
        for view, narrowed in ("v_usage" if minutes == "5m" else "v_usage_1h", ""), ("v_usage_history", resolution):
            used = rows(store, USAGE.format(view=view, narrowed=narrowed))
            told = {at.timestamp(): tokens for at, tokens in used if tokens}
            assert told == pytest.approx({at: value for at, value in pool.items() if value}, rel=1e-9)


def rows(store: Store, query: str) -> list[Any]:
    with store.database.begin() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


def compacted(store: Store, now: datetime) -> None:
    while (done := store.compaction.compact(now)).windows or done.merged:
        pass


@pytest.mark.parametrize("seed", [5, 7])
def test_every_level_says_what_the_samples_say(pg: Store, now: datetime, seed: int) -> None:
    dice, start, fake = random.Random(seed), now.replace(hour=0), FakeStore()
    looks = life(start, dice)
    for store in (pg, fake):
        claim(store.hosts, start, *NAMES)
    for at, layouts, reports in delivered(looks, dice):
        for store in (pg, fake):
            store.reports.accept(HOST, layouts, reports, at)
        if dice.random() < 0.4:
            pg.usage.roll_up(at)
        if dice.random() < 0.4:
            pg.compaction.compact(at)
        if dice.random() < 0.15:
            pg.retention.prune(at, RETENTION, HISTORY)
    later = at + timedelta(hours=1)
    pg.compaction.compact(at)
    check(pg, looks, start)
    for until in (later, later + timedelta(days=1)):
        compacted(pg, until)
        check(pg, looks, start)
    pg.usage.roll_up(later)
    fake.usage.roll_up(later)
    assert pg.usage.between(start, later) == fake.usage.between(start, later)
    pg.figures.roll_up(later)
    check_views(pg, looks)
