"""Housekeeping in a process beside: the same results as the store's own, under the caller's term, and none after it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from fakes.store_batches import HOST, batch, claim, engine, reading

from tidegate.model.leadership import Candidate
from tidegate.runtime.errors import Transient
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.housekeeping import Housekeeping
from tidegate.store.leadership import StoredLeadership
from tidegate.store.store import Store

SECOND = timedelta(seconds=1)


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database, Fence())


@pytest.fixture
def house(store: Store, database: Database) -> Iterator[Housekeeping]:
    made = Housekeeping(store, database.dsn)
    yield made
    made.close()


@pytest.fixture
def epoch(database: Database, now: datetime) -> Iterator[int]:
    """A term of ours."""
    leaderships = StoredLeadership(database)
    yield leaderships.claim(Candidate("c-1", "here"), None, timedelta(minutes=5), now).epoch
    leaderships.close()


def reported(store: Store, now: datetime) -> None:
    claim(store.hosts, now, "vllm-0")
    looks = [now + 15 * SECOND * step for step in range(5)]
    layouts, reports = batch(*(reading(at, engine(at, generation_tokens=10.0 * step)) for step, at in enumerate(looks)))
    store.reports.accept(HOST, layouts, reports, looks[-1])


def test_it_does_what_the_store_does(store: Store, house: Housekeeping, epoch: int, now: datetime) -> None:
    reported(store, now)
    later = now + timedelta(hours=3)
    with store.fence.under(epoch):
        assert house.usage.roll_up(later) >= 1
        assert house.figures.roll_up(later) >= 1
        assert house.compaction.compact(later).windows == 1
        assert house.retention.prune(later, timedelta(days=3), timedelta(days=400)).rows == 0
        assert house.figures.prune(later, timedelta(days=400)) == []
    (bucket,) = [each for each in house.usage.between(now - timedelta(hours=1), later) if each.generation_tokens]
    assert bucket.generation_tokens == 40.0
    assert [each.pool for each in house.usage.by_host(bucket.bucket, later)] == [bucket.pool]


def test_nothing_is_done_for_nobody_and_for_a_term_that_is_over(
    store: Store, house: Housekeeping, epoch: int, now: datetime
) -> None:
    reported(store, now)
    with pytest.raises(Transient, match="does not lead"):
        house.usage.roll_up(now + timedelta(hours=1))
    with store.fence.under(epoch - 1), pytest.raises(Transient, match=f"term {epoch - 1} .* is over"):
        house.usage.roll_up(now + timedelta(hours=1))
    assert not store.usage.between(now - timedelta(hours=1), now + timedelta(hours=1))
