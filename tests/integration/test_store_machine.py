"""The store in Postgres against the one in memory, through any order of deliveries, repeats and roll-ups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from fakes.store import FakeStore
from fakes.store_batches import HOST, claim, engine, pack, reading
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tidegate.store.database import Database
from tidegate.store.schema import metadata
from tidegate.store.store import Store

START = datetime(2026, 11, 24, 23, 56, tzinfo=UTC)
STEP = timedelta(seconds=15)
LAST = 40
LATER = START + STEP * LAST


def numbered(number: int) -> tuple[object, object]:
    at = START + STEP * number
    extra = {"cache_hits": 3.0 * number} if number % 9 == 0 else {}  # a layout of its own
    return pack(reading(at, engine(at, generation_tokens=10.0 * number, **extra)), number + 1)


class Deliveries(RuleBasedStateMachine):
    """Batches of reports, with or without their layouts, in any order; both stores must always agree."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        with self.database.begin() as connection:
            connection.exec_driver_sql(f"TRUNCATE {', '.join(metadata.tables)} RESTART IDENTITY")
        self.real = Store(self.database)  # one that remembers nothing of what was there
        self.fake = FakeStore()
        for store in (self.fake, self.real):
            claim(store.hosts, START, "vllm-0")

    @rule(numbers=st.lists(st.integers(0, LAST), max_size=12), with_layouts=st.booleans())
    def deliver(self, numbers: list[int], with_layouts: bool) -> None:
        packed = [numbered(number) for number in numbers]
        layouts = [layout for layout, _ in packed] if with_layouts else []
        reports = [report for _, report in packed]
        answers = [store.reports.accept(HOST, layouts, reports, LATER) for store in (self.fake, self.real)]  # type: ignore[arg-type]
        assert answers[0] == answers[1]

    @rule(minutes=st.sampled_from([0, 1, 30]))
    def roll_up(self, minutes: int) -> None:
        now = LATER + timedelta(minutes=minutes)
        for store in (self.fake, self.real):
            store.usage.roll_up(now)
            store.usage.roll_up(LATER + timedelta(minutes=30))
        spans = [store.usage.between(START - STEP * 99, LATER) for store in (self.fake, self.real)]
        assert spans[0] == spans[1]

    @invariant()
    def both_hold_the_same(self) -> None:
        assert self.fake.reports.count(HOST) == self.real.reports.count(HOST)

    def teardown(self) -> None:
        found = [list(store.reports.readings(START, LATER + STEP)) for store in (self.fake, self.real)]
        assert found[0] == found[1]


@pytest.mark.timeout(120)
def test_both_stores_agree_whatever_is_delivered(database: Database) -> None:
    Deliveries.database = database
    run_state_machine_as_test(
        Deliveries,
        settings=settings(
            max_examples=12, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
