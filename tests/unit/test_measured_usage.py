"""Which buckets are worked out when: catching up, the open one, holes, what comes late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import pytest

from tidegate.controller.measured_usage import AGAIN, FIRST_LOOK, MeasuredUsage
from tidegate.model.gpu import GpuSurvey
from tidegate.model.reading import HostName, HostReading
from tidegate.model.scrape import Found, SampleSeries, Scraped
from tidegate.model.usage import BUCKET, TokenUsage, bucket_of
from tidegate.runtime.errors import Transient

HOST = HostName("gpu-1")
MINUTE = timedelta(minutes=1)


class World:
    """A Prometheus with samples in some buckets, and the store of what was worked out."""

    def __init__(self, *buckets: datetime) -> None:
        self.have = set(buckets)
        self.put_at: list[datetime] = []
        self.asked: Counter[datetime] = Counter()
        self.stored: datetime | None = None
        self.away = False

    def raw(self, selector: str, at: datetime, span: timedelta) -> Found:
        if self.away:
            raise Transient("away")
        bucket = bucket_of(at - BUCKET)
        self.asked[bucket] += 1
        return Found([SampleSeries({}, [(bucket.timestamp(), 1.0)])] if bucket in self.have else [])

    def instant(self, expression: str, at: datetime) -> Found:
        earliest = min(self.have, default=None)
        return Found([] if earliest is None else [SampleSeries({}, [(at.timestamp(), earliest.timestamp())])])

    def usage(self) -> str:
        return "usage"

    def earliest(self, span: str) -> str:
        return "earliest"

    def read(self, found: Sequence[SampleSeries]) -> Scraped:
        looks = [HostReading(HOST, at, GpuSurvey(up=True, why="", at=at)) for at in sorted(self.have)[:1]]
        return Scraped({HOST: looks} if found else {})

    def newest(self) -> datetime | None:
        return self.stored

    def put(self, bucket: datetime, readings: Mapping[HostName, object], now: datetime) -> int:
        self.put_at.append(bucket)
        self.stored = max(self.stored or bucket, bucket)
        return 1

    def roll_up(self, now: datetime) -> int:
        raise AssertionError("the stored roll-up has nothing to do with a Prometheus")

    def between(self, since: datetime, until: datetime) -> Sequence[TokenUsage]:
        return ()

    def made(self) -> MeasuredUsage:
        return MeasuredUsage(self, self, self, self)  # type: ignore[arg-type]


def test_it_begins_with_the_first_sample_that_there_is(now: datetime) -> None:
    world = World(*(now - place * BUCKET for place in range(10)))
    world.made().roll_up(now + MINUTE)
    assert min(world.put_at) == now - 9 * BUCKET
    assert {now - place * BUCKET for place in range(10)} == set(world.put_at)


def test_a_prometheus_with_years_is_read_for_a_week_and_in_bounded_pieces(now: datetime) -> None:
    world = World(*(now - place * BUCKET for place in range(FIRST_LOOK // BUCKET + 500)))
    usage = world.made()
    assert usage.roll_up(now) <= 26
    for _ in range(100):
        usage.roll_up(now)
    assert min(world.put_at) >= bucket_of(now - FIRST_LOOK)
    assert now in world.put_at


def test_after_a_restart_it_goes_on_where_the_store_ends(now: datetime) -> None:
    world = World(*(now - place * BUCKET for place in range(30)))
    world.stored = now - 3 * BUCKET
    world.made().roll_up(now)
    assert min(set(world.put_at) - _swept(world, now)) >= now - 4 * BUCKET


def _swept(world: World, now: datetime) -> set[datetime]:
    return {bucket for bucket in world.put_at if bucket < now - 5 * BUCKET}


def test_the_open_bucket_is_taken_again_until_it_is_over(now: datetime) -> None:
    world = World(now)
    usage = world.made()
    for minute in range(8):
        usage.roll_up(now + minute * MINUTE)
    assert world.asked[now] >= 6


def test_a_hole_of_a_day_is_passed_over(now: datetime) -> None:
    """Prometheus has nothing of it: the roll-up must not wait there for ever."""
    world = World(now - timedelta(days=1), now)
    usage = world.made()
    for _ in range(30):
        usage.roll_up(now)
    assert now in world.put_at


def test_what_comes_late_is_worked_out_again(now: datetime) -> None:
    world = World(now)
    usage = world.made()
    usage.roll_up(now)
    late = now - AGAIN / 2
    world.have.add(bucket_of(late))
    for minute in range(60):
        usage.roll_up(now + minute * MINUTE)
    assert bucket_of(late) in world.put_at


def test_while_prometheus_is_away_nothing_is_passed_over(now: datetime) -> None:
    world = World(*(now - place * BUCKET for place in range(10)))
    usage = world.made()
    world.away = True
    with pytest.raises(Transient):
        usage.roll_up(now)
    assert not world.put_at
    world.away = False
    usage.roll_up(now)
    assert {now - place * BUCKET for place in range(10)} <= set(world.put_at)
