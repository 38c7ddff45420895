"""In a large fleet a bucket that is still running rests between two roll-ups, and is whole all the same."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from fakes.store_batches import HOST, batch, claim, engine, reading

from tidegate.store import usage
from tidegate.store.buckets import closing
from tidegate.store.database import Database
from tidegate.store.store import Store
from tidegate.store.usage import again, rest_of

SECOND = timedelta(seconds=1)


def test_the_rest_grows_with_the_fleet_up_to_a_bound() -> None:
    assert [rest_of(hosts) / SECOND for hosts in (0, 200, 300, 2_000, 100_000)] == [0, 0, 20, 300, 300]


def test_a_running_bucket_is_looked_at_after_its_rest_or_its_end(now: datetime) -> None:
    assert again(now, now, 0 * SECOND) == closing(now)
    assert again(now, now + SECOND, 5 * SECOND) == now + 6 * SECOND
    assert again(now, closing(now) - SECOND, 5 * SECOND) == closing(now)


def generated(store: Store, now: datetime) -> float:
    return sum(each.generation_tokens for each in store.usage.between(now, now + timedelta(hours=1)))


def test_what_comes_in_while_a_bucket_rests_counts_when_it_is_over(
    database: Database, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "_FREE_HOSTS", -200)  # this one host is a large fleet: 40.2 s
    store = Store(database)
    claim(store.hosts, now, "vllm-0")
    looks = [now + 15 * SECOND * step for step in range(5)]
    layouts, reports = batch(*(reading(at, engine(at, generation_tokens=10.0 * step)) for step, at in enumerate(looks)))
    store.reports.accept(HOST, layouts, reports[:3], looks[2])
    assert store.usage.roll_up(looks[2]) == 1
    store.reports.accept(HOST, [], reports[3:], looks[4])
    assert store.usage.roll_up(looks[4]) == 0, "it rests"
    assert generated(store, now) == 20.0
    assert store.usage.roll_up(looks[2] + 41 * SECOND) == 1
    assert generated(store, now) == 40.0
    monkeypatch.setattr(usage, "_FREE_HOSTS", 200)
    store.usage.roll_up(closing(now))
    late = batch(reading(now + 90 * SECOND, engine(now + 90 * SECOND, generation_tokens=55.0)))[1]
    store.reports.accept(HOST, [], [late[0].model_copy(update={"boot_id": "late"})], closing(now))
    assert store.usage.roll_up(closing(now)) == 1, "one that comes late waits for nothing"
    assert generated(store, now) == 55.0
