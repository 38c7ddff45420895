"""The lease: one holds it, others wait for its end; held by the one in memory and by the one in Postgres."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta

import pytest
from fakes.store import FakeStore
from fakes.store_leadership import FakeLeaderships
from sqlalchemy import text

from tidegate.model.leadership import Candidate, Lease
from tidegate.model.memory import Memory
from tidegate.model.reading import HostName
from tidegate.runtime.errors import Transient
from tidegate.store.database import Database, open_database
from tidegate.store.fence import Fence
from tidegate.store.leadership import StoredLeadership
from tidegate.store.store import Store

A, B = Candidate("one/1", "one:9092"), Candidate("two/2", "two:9092")
LONG, OVER = timedelta(minutes=5), timedelta()
LATER = timedelta(minutes=1)
Leaderships = FakeLeaderships | StoredLeadership


@pytest.fixture(params=["fake", "real"])
def leaderships(request: pytest.FixtureRequest) -> Iterator[Leaderships]:
    if request.param == "fake":
        yield FakeStore().leaderships
        return
    found = StoredLeadership(request.getfixturevalue("database"))
    yield found
    found.close()


def test_the_first_leads_and_renews_and_the_other_stands_by(leaderships: Leaderships, now: datetime) -> None:
    first = leaderships.claim(A, None, LONG, now)
    assert (first.mine, first.epoch, first.name, first.since) == (True, 1, "one:9092", now)
    assert first.seconds_left > 60

    other = leaderships.claim(B, None, LONG, now + LATER)
    assert (other.mine, other.epoch, other.name, other.since) == (False, 1, "one:9092", now)

    again = leaderships.claim(A, 1, LONG, now + LATER)
    assert (again.mine, again.epoch, again.since) == (True, 1, now), "a renewal begins no term"


def test_a_lease_that_is_over_is_taken_and_the_late_one_does_not_get_it_back(
    leaderships: Leaderships, now: datetime
) -> None:
    leaderships.claim(A, None, OVER, now)
    taken = leaderships.claim(B, 0, LONG, now)
    assert (taken.mine, taken.epoch, taken.name) == (True, 2, "two:9092")
    late = leaderships.claim(A, 1, LONG, now)
    assert (late.mine, late.epoch, late.name) == (False, 2, "two:9092")


def test_a_lease_that_is_over_and_that_nobody_took_is_renewed(leaderships: Leaderships, now: datetime) -> None:
    leaderships.claim(A, None, OVER, now)
    assert leaderships.claim(A, 1, LONG, now).epoch == 1


def test_a_controller_that_returns_does_not_wait_for_itself(leaderships: Leaderships, now: datetime) -> None:
    """Only at its start: one that lost its term waits like everybody else."""
    leaderships.claim(A, None, LONG, now)
    returned = leaderships.claim(A, None, LONG, now + LATER)
    assert (returned.mine, returned.epoch, returned.since) == (True, 2, now + LATER)


def test_one_that_resigns_leaves_the_lease_to_the_next(leaderships: Leaderships, now: datetime) -> None:
    leaderships.claim(A, None, LONG, now)
    leaderships.resign(B, 1)
    assert not leaderships.claim(B, 0, LONG, now).mine, "nobody resigns for another"
    leaderships.resign(A, 1)
    assert leaderships.claim(B, 0, LONG, now).mine


def test_of_many_that_ask_at_once_one_leads(database: Database, now: datetime) -> None:
    found = [StoredLeadership(database) for _ in range(6)]
    leases = []

    def ask(number: int) -> None:
        leases.append(found[number].claim(Candidate(f"c/{number}", f"c{number}:1"), None, LONG, now))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in found:
        one.close()
    assert sorted(lease.mine for lease in leases) == [False] * 5 + [True]
    assert {lease.epoch for lease in leases} == {1}


# The fence


@pytest.fixture
def led(database: Database, now: datetime) -> Iterator[tuple[Store, StoredLeadership]]:
    """A store of a controller, A, whose first term runs."""
    leaderships = StoredLeadership(database)
    leaderships.claim(A, None, LONG, now)
    yield Store(database, Fence()), leaderships
    leaderships.close()


def settle(store: Store, epoch: int) -> None:
    with store.fence.under(epoch):
        store.decisions.settle([], Memory(), [])


def test_a_leader_writes_and_nobody_else_does(led: tuple[Store, StoredLeadership], now: datetime) -> None:
    store, _ = led
    settle(store, 1)
    with pytest.raises(Transient, match="does not lead"):
        store.decisions.settle([], Memory(), [])
    with pytest.raises(Transient, match="term 2 of this controller is over"):
        settle(store, 2)
    store.reports.accept(HostName("gpu-1"), [], [], now)  # reports are anybody's


def test_a_leader_whose_term_is_over_changes_nothing_any_more(
    led: tuple[Store, StoredLeadership], now: datetime
) -> None:
    store, leaderships = led
    leaderships.resign(A, 1)
    settle(store, 1)  # over, but nobody took it: nobody can have decided otherwise
    leaderships.claim(B, None, LONG, now)
    for write in (
        lambda: store.replicas.apply([], None, now),  # type: ignore[arg-type]
        lambda: store.alerts.save([], []),
        lambda: store.alerts.claim("n", now, now),
        lambda: store.alerts.retry("n", now, ""),
        lambda: store.retention.prune(now, LATER, LATER),
    ):
        with pytest.raises(Transient, match="term 1 of this controller is over"), store.fence.under(1):
            write()
    store.alerts.delivered("n", now)  # what was sent was sent


def test_a_takeover_waits_for_what_the_last_leader_has_under_way_and_a_renewal_does_not(
    led: tuple[Store, StoredLeadership], now: datetime
) -> None:
    """So nothing of an old term is committed after a new one began, and a long job costs nobody his lease."""
    store, leaderships = led
    with store.database.begin() as connection, store.fence.under(1):
        store.fence.check(connection)
        assert leaderships.claim(A, 1, OVER, now).epoch == 1
        with pytest.raises(Transient, match="lock timeout"):
            leaderships.claim(B, None, LONG, now)
    assert leaderships.claim(B, None, LONG, now).mine


def test_a_leader_that_is_frozen_in_a_transaction_does_not_hold_up_its_successor(
    led: tuple[Store, StoredLeadership], dsn: str, now: datetime
) -> None:
    """The database ends what idles in a transaction; the limit is shortened here, the test has no time."""
    store, leaderships = led
    leaderships.resign(A, 1)
    with pytest.raises(Transient, match="idle-in-transaction"):
        freeze(store, leaderships, now)


def freeze(store: Store, leaderships: StoredLeadership, now: datetime) -> None:
    with store.database.begin() as connection, store.fence.under(1):
        assert connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one() == "20s"
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 50"))
        store.fence.check(connection)
        assert insist(leaderships, now).mine
        connection.execute(text("SELECT 1"))


def insist(leaderships: StoredLeadership, now: datetime) -> Lease:
    """Ask again and again, as a controller does."""
    for _ in range(10):
        with suppress(Transient):
            return leaderships.claim(B, None, LONG, now)
    raise AssertionError("nobody could take over")


def test_a_second_pool_to_the_same_database_is_its_own(dsn: str) -> None:
    """All of the first one's connections may be busy: the lease is renewed nevertheless."""
    first = open_database(dsn)
    second = first.apart()
    assert second.engine is not first.engine
    assert second.ping() == first.ping()
    second.close()
    first.close()
