"""An engine that must not be asked too often rests between two scrapes, and shows its last reading meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.agent_parts import NOON, FakeEngines, FakeGpus, ManualClock, reading

from tidegate.agent.collect import Collector, Pace
from tidegate.model.reading import EngineName, HostName
from tidegate.model.target import EngineTarget

INTERVAL = timedelta(seconds=15)
TARGET = EngineTarget(EngineName("llama"), "http://127.0.0.1:8080/metrics")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engines() -> FakeEngines:
    return FakeEngines(lambda target, now: reading(target.name, now, tokens=(now - NOON).total_seconds()))


@pytest.fixture
def collector(clock: ManualClock, engines: FakeEngines) -> Iterator[Collector]:
    made = Collector(HostName("here"), FakeGpus(), engines, clock, Pace(interval=INTERVAL))
    yield made
    made.close()


def asked(collector: Collector, clock: ManualClock, engines: FakeEngines, floor: float) -> list[int]:
    """In which of eight collections the engine was asked."""
    target = replace(TARGET, min_interval=timedelta(seconds=floor))
    found = []
    for number in range(8):
        before = len(engines.reads)
        collector.collect([target], ())
        found += [number] * (len(engines.reads) - before)
        clock.pass_by(INTERVAL)
    return found


@pytest.mark.parametrize(
    ("floor", "expected"),
    [(0, [0, 1, 2, 3, 4, 5, 6, 7]), (15, [0, 1, 2, 3, 4, 5, 6, 7]), (30, [0, 2, 4, 6]), (40, [0, 3, 6])],
)
def test_the_floor_is_kept(
    collector: Collector, clock: ManualClock, engines: FakeEngines, floor: float, expected: list[int]
) -> None:
    assert asked(collector, clock, engines, floor) == expected


def test_the_last_reading_stands_with_its_time_and_is_no_second_sample(
    collector: Collector, clock: ManualClock, engines: FakeEngines
) -> None:
    target = replace(TARGET, min_interval=timedelta(seconds=30))
    collector.collect([target], ())
    clock.pass_by(INTERVAL)
    look = collector.collect([target], ())
    (shown,) = look.reading.engines
    assert (look.reading.at, shown.at) == (NOON + INTERVAL, NOON)
    assert len(look.histories[target.name]) == 1
    clock.pass_by(INTERVAL)
    assert len(collector.collect([target], ()).histories[target.name]) == 2


def test_an_engine_that_comes_back_under_its_name_is_asked_at_once(
    collector: Collector, clock: ManualClock, engines: FakeEngines
) -> None:
    target = replace(TARGET, min_interval=timedelta(seconds=300))
    collector.collect([target], ())
    collector.collect([], ())
    collector.collect([target], ())
    assert len(engines.reads) == 2
