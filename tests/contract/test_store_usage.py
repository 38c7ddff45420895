"""Token usage in buckets: it adds up to the counters, whatever came late; held by both stores."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from fakes.store import FakeStore
from fakes.store_batches import HOST, batch, claim, down, engine, pack, reading

from tidegate.model.fleet import PoolName
from tidegate.model.reading import EngineReading, EngineState, HostName, HostReading
from tidegate.model.usage import BUCKET, TokenUsage
from tidegate.store.store import Store

AnyStore = FakeStore | Store
STEP = timedelta(seconds=15)
PER_STEP = 100.0
POOL = PoolName("base")
STEPS_IN_BUCKET = BUCKET // STEP


@pytest.fixture
def store(store: AnyStore, now: datetime) -> AnyStore:
    """Of two hosts with two engines in one pool."""
    for host in (HOST, HostName("gpu-2")):
        claim(store.hosts, now - timedelta(days=1), "vllm-0", "vllm-1", pool=POOL, host=host)
    return store


def busy(at: datetime, total: float, name: str = "vllm-0", started: float = 1.0) -> EngineReading:
    """An engine that has generated `total` tokens, looked up ten times as many and found half of those."""
    return engine(
        at,
        name,
        generation_tokens=total,
        prompt_tokens=10 * total,
        cached_prompt_tokens=5 * total,
        cache_queries=10 * total,
        cache_hits=5 * total,
        started=started,
    )


def steady(start: datetime, count: int) -> list[HostReading]:
    """One engine that does the same amount of work in every step."""
    moments = [start + STEP * step for step in range(count)]
    return [reading(at, busy(at, 1000.0 + PER_STEP * step)) for step, at in enumerate(moments)]


def take(store: AnyStore, looks: Sequence[HostReading], received_at: datetime, first: int = 1) -> None:
    host = looks[0].host if looks else HOST
    store.reports.accept(host, *batch(*looks, first=first), received_at)


def rolled(store: AnyStore, now: datetime) -> list[TokenUsage]:
    while store.usage.roll_up(now):
        pass
    return list(store.usage.between(now - timedelta(days=2), now + timedelta(days=2)))


def generated(usages: Sequence[TokenUsage]) -> list[float]:
    return [usage.generation_tokens for usage in usages]


def test_the_increase_between_two_samples_is_the_later_ones_bucket(store: AnyStore, now: datetime) -> None:
    """Noon is a border: the step that ends at noon belongs to the bucket that begins there."""
    looks = steady(now - STEP * 2, 4)
    take(store, looks, now + STEP)
    (before, after) = rolled(store, now + STEP)
    assert (before.bucket, before.generation_tokens) == (now - BUCKET, PER_STEP)
    assert after == TokenUsage(
        pool=POOL,
        bucket=now,
        prompt_tokens=20 * PER_STEP,
        cached_prompt_tokens=10 * PER_STEP,
        generation_tokens=2 * PER_STEP,
        cache_queries=20 * PER_STEP,
        cache_hits=10 * PER_STEP,
        partial=False,
    )


def test_buckets_add_up_to_the_counters(store: AnyStore, now: datetime) -> None:
    looks = steady(now, STEPS_IN_BUCKET * 3)
    take(store, looks, looks[-1].at)
    usages = rolled(store, looks[-1].at)
    assert sum(generated(usages)) == PER_STEP * (len(looks) - 1)
    assert [usage.partial for usage in usages] == [False] * 3


def test_hosts_add_up_to_their_pool(store: AnyStore, now: datetime) -> None:
    """What cost is shared out by: the same increases, host by host."""
    take(store, steady(now - STEP * 5, 5), now)
    take(store, [replace(each, host=HostName("gpu-2")) for each in steady(now - STEP * 5, 4)], now)
    whole = rolled(store, now + STEP)
    rows = store.usage.by_host(now - timedelta(days=2), now + timedelta(days=2))
    assert {row.host for row in rows} == {HOST, "gpu-2"}
    assert [(row.bucket, row.host) for row in rows] == sorted((row.bucket, row.host) for row in rows)
    for name in ("prompt_tokens", "cached_prompt_tokens", "generation_tokens"):
        assert sum(getattr(row, name) for row in rows) == sum(getattr(each, name) for each in whole)


def test_nothing_new_is_nothing_to_do(store: AnyStore, now: datetime) -> None:
    take(store, steady(now, 3), now + STEP * 3)
    assert store.usage.roll_up(now + STEP * 3) == 1
    assert store.usage.roll_up(now + STEP * 3) == 0


def test_rolling_up_piece_by_piece_is_the_same_as_at_once(store: AnyStore, now: datetime) -> None:
    """As it happens live: every report by itself, with a roll-up now and then."""
    looks = steady(now - STEP, STEPS_IN_BUCKET * 2 + 3)
    for number, look in enumerate(looks, start=1):
        take(store, [look], look.at, first=number)
        if number % 7 == 0:
            store.usage.roll_up(look.at)
    usages = rolled(store, looks[-1].at)
    assert generated(usages) == [0.0, PER_STEP * 20, PER_STEP * 20, PER_STEP * 2]


@pytest.mark.parametrize("seed", range(4))
def test_late_reports_mend_their_buckets(store: AnyStore, now: datetime, seed: int) -> None:
    """Delivered in any order, with roll-ups in between, the figures end up as if all had come in time."""
    looks = steady(now, STEPS_IN_BUCKET * 4)
    numbered = list(enumerate(looks, start=1))
    random.Random(seed).shuffle(numbered)
    for cut in range(0, len(numbered), 16):
        layouts, reports = zip(*(pack(look, number) for number, look in numbered[cut : cut + 16]), strict=True)
        store.reports.accept(HOST, [layouts[0]], reports, looks[-1].at)
        store.usage.roll_up(looks[-1].at)
    usages = rolled(store, looks[-1].at)
    assert generated(usages) == [PER_STEP * 19, PER_STEP * 20, PER_STEP * 20, PER_STEP * 20]
    assert [usage.partial for usage in usages] == [False] * 4


def test_a_hole_in_the_samples_makes_both_its_buckets_partial(store: AnyStore, now: datetime) -> None:
    """What was done in the hole is not lost, but it may stand in the wrong bucket."""
    looks = steady(now, STEPS_IN_BUCKET * 3)
    holed = [look for look in looks if not now + BUCKET - 5 * STEP <= look.at < now + BUCKET + 5 * STEP]
    take(store, holed, looks[-1].at)
    usages = rolled(store, looks[-1].at)
    assert [usage.partial for usage in usages] == [True, True, False]
    assert sum(generated(usages)) == PER_STEP * (len(looks) - 1)
    missing = [look for look in looks if look not in holed]
    take(store, missing, looks[-1].at, first=100)
    usages = rolled(store, looks[-1].at)
    assert [usage.partial for usage in usages] == [False] * 3
    assert generated(usages) == [PER_STEP * 19, PER_STEP * 20, PER_STEP * 20]


def test_a_host_that_falls_silent_leaves_a_partial_bucket(store: AnyStore, now: datetime) -> None:
    """Known only when the time has passed: while the bucket is open its end is not missing."""
    looks = steady(now, 8)
    take(store, looks, looks[-1].at)
    (usage,) = rolled(store, looks[-1].at)
    assert not usage.partial
    (usage,) = rolled(store, now + BUCKET * 2)
    assert usage.partial
    assert usage.generation_tokens == PER_STEP * 7


def test_a_hole_of_an_hour_loses_nothing(store: AnyStore, now: datetime) -> None:
    looks = steady(now, STEPS_IN_BUCKET * 12)
    take(store, [looks[0], *looks[-3:]], looks[-1].at)
    usages = rolled(store, looks[-1].at)
    assert sum(generated(usages)) == PER_STEP * (len(looks) - 1)
    assert all(usage.partial for usage in usages)


def test_a_restart_counts_from_zero_and_makes_the_bucket_partial(store: AnyStore, now: datetime) -> None:
    moments = [now + STEP * step for step in range(4)]
    totals = [(1000.0, 1.0), (1100.0, 1.0), (40.0, 2e9), (90.0, 2e9)]
    looks = [reading(at, busy(at, total, started=born)) for at, (total, born) in zip(moments, totals, strict=True)]
    take(store, looks, moments[-1])
    (usage,) = rolled(store, moments[-1])
    assert (usage.generation_tokens, usage.partial) == (190.0, True)


def test_a_restart_at_a_border_is_seen_across_it(store: AnyStore, now: datetime) -> None:
    looks = [
        reading(now - STEP, busy(now - STEP, 5000.0)),
        reading(now, busy(now, 30.0, started=2e9)),
        reading(now + STEP, busy(now + STEP, 70.0, started=2e9)),
    ]
    take(store, looks, now + STEP)
    usages = {usage.bucket: usage for usage in rolled(store, now + STEP)}
    assert (usages[now].generation_tokens, usages[now].partial) == (70.0, True)


def test_an_engine_that_is_born_under_our_eyes_counts_from_zero(store: AnyStore, now: datetime) -> None:
    """Its process began after the sample before its first: all that it did is this bucket's."""
    born = (now + STEP).timestamp() + 3.0
    looks = [
        reading(now),
        reading(now + STEP, down(now + STEP, state=EngineState.STARTING)),
        reading(now + STEP * 2, busy(now + STEP * 2, 60.0, started=born)),
        reading(now + STEP * 3, busy(now + STEP * 3, 100.0, started=born)),
    ]
    take(store, looks, now + STEP * 3)
    (usage,) = rolled(store, now + STEP * 3)
    assert (usage.generation_tokens, usage.partial) == (100.0, False)


def test_an_engine_older_than_our_watch_brings_no_past(store: AnyStore, now: datetime) -> None:
    looks = [reading(now, busy(now, 9e9)), reading(now + STEP, busy(now + STEP, 9e9 + 5))]
    take(store, looks, now + STEP)
    (usage,) = rolled(store, now + STEP)
    assert (usage.generation_tokens, usage.partial) == (5.0, False)


def test_an_engine_that_cannot_be_read_makes_its_bucket_partial(store: AnyStore, now: datetime) -> None:
    looks = steady(now, 4)
    looks[2] = reading(looks[2].at, down(looks[2].at))
    take(store, looks, looks[-1].at)
    (usage,) = rolled(store, looks[-1].at)
    assert (usage.generation_tokens, usage.partial) == (PER_STEP * 3, True)


def test_a_replica_that_ends_in_order_leaves_its_bucket_whole(store: AnyStore, now: datetime) -> None:
    """It is in the host's samples no more, and the host's samples go on."""
    looks = [*steady(now, 3), *(reading(now + STEP * step) for step in range(3, STEPS_IN_BUCKET + 2))]
    take(store, looks, looks[-1].at)
    (usage,) = rolled(store, looks[-1].at)
    assert (usage.generation_tokens, usage.partial) == (PER_STEP * 2, False)


def test_engines_and_hosts_of_a_pool_are_added_up(store: AnyStore, now: datetime) -> None:
    for host in (HOST, HostName("gpu-2")):
        looks = [
            reading(at, busy(at, 100.0 * step), busy(at, 10.0 * step, "vllm-1"), host=host)
            for step, at in enumerate(now + STEP * step for step in range(3))
        ]
        take(store, looks, now + STEP * 3)
    (usage,) = rolled(store, now + STEP * 3)
    assert usage.generation_tokens == 2 * (200.0 + 20.0)


def test_whose_an_engine_is(store: AnyStore, now: datetime) -> None:
    """What its host said of it last; else it is nobody's, and in no pool's figures."""
    claim(store.hosts, now, "vllm-0", pool="said")
    looks = [
        reading(at, busy(at, total), busy(at, 2 * total, "vllm-9")) for at, total in ((now, 0.0), (now + STEP, 1.0))
    ]
    take(store, looks, now + STEP)
    store.usage.roll_up(now + STEP)
    usages = store.usage.between(now, now + BUCKET)
    assert {usage.pool: usage.generation_tokens for usage in usages} == {"said": 1.0}


def test_between_takes_the_start_and_leaves_the_end(store: AnyStore, now: datetime) -> None:
    looks = steady(now, STEPS_IN_BUCKET * 3)
    take(store, looks, looks[-1].at)
    rolled(store, looks[-1].at)
    assert [usage.bucket for usage in store.usage.between(now + BUCKET, now + BUCKET * 2)] == [now + BUCKET]
