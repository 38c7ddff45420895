"""Daily and weekly rises: learned by time of day, followed where proved right, harmless where wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from fakes.tide import Tide, by_objective
from fakes.world import BASE, CHAT, pool, replica
from hypothesis import given
from hypothesis import strategies as st

from tidegate.decide.forecast import ahead, observed
from tidegate.decide.plan import plan
from tidegate.decide.profile import A_DAY, BUCKET_S, Profile, with_load
from tidegate.decide.season import due, foretold, with_tick
from tidegate.model.memory import Forecast, Memory, ServiceMemory
from tidegate.model.memory_json import memory_from, memory_json
from tidegate.model.season import NO_SEASON, Day, Rise, Season

MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
HORIZON = 260.0
QUIET, BUSY = 0.4, 5.0
Load = Callable[[datetime], float]


def office(at: datetime) -> float:
    """Steps up at nine and down at six, at weekends not at all."""
    return BUSY if at.weekday() < 5 and 9 <= at.hour < 18 else QUIET


def daily(at: datetime) -> float:
    """Steps up at nine on every day."""
    return BUSY if 9 <= at.hour < 18 else QUIET


class Diary:
    """Time passes under a load, and what is due is written down by moment.

    Days are looked at from seven to eleven, unless they are to be whole: what is not known must not matter.
    """

    def __init__(self, load: Load, step: float = 150.0, *, whole: bool = False) -> None:
        self.load, self.now, self.step, self.whole = load, MONDAY, timedelta(seconds=step), whole
        self.forecast, self.season = Forecast(), NO_SEASON
        self.due: dict[datetime, Rise] = {}

    def until(self, end: datetime) -> Diary:
        while self.now < end:
            if self.whole or 7 <= self.now.hour < 11:
                self.look()
            self.now += self.step
        return self

    def look(self) -> None:
        load, (rise, _) = self.load(self.now), due(self.season, self.now)
        if rise is not None and foretold(rise, load) > ahead(self.forecast, load, HORIZON, self.now).peak(0.95):
            self.due[self.now] = rise
        self.forecast = observed(self.forecast, load, HORIZON, self.now)
        self.season = with_tick(self.season, load, self.forecast, HORIZON, self.now)

    def led(self, day: int) -> tuple[float, float] | None:
        """From when to when, in hours, a rise was due on a day."""
        found = [at for at in self.due if at.date() == (MONDAY + timedelta(days=day)).date()]
        hours = [at.hour + at.minute / 60 for at in found]
        return (min(hours), max(hours)) if hours else None


def test_three_days_of_a_step_at_nine_and_the_fourth_is_met_in_time() -> None:
    diary = Diary(office, step=60.0).until(MONDAY + timedelta(days=4))
    assert [diary.led(day) for day in (0, 1, 2)] == [None] * 3
    first, last = diary.led(3) or (0.0, 0.0)
    assert 9.0 - (HORIZON + 2 * BUCKET_S + 75) / 3600 <= first <= 9.0 - HORIZON / 3600
    assert last < 9.4
    at = min(diary.due)
    assert BUSY <= diary.due[at].to <= 1.2 * BUSY
    assert diary.due[at].days == 3


def test_a_weekend_teaches_that_it_is_one_and_monday_is_met_again() -> None:
    diary = Diary(office).until(MONDAY + timedelta(days=22))
    third = {day: diary.led(day) is not None for day in range(14, 21)}
    assert third == {14: True, 15: True, 16: True, 17: True, 18: True, 19: False, 20: False}
    assert diary.led(7) is not None  # the first Monday after it
    assert {rise.like for at, rise in diary.due.items() if at > MONDAY + timedelta(days=9)} <= {"workdays", "weeks"}
    assert [diary.led(day) is not None for day in (12, 13)] == [False, False]


def test_what_comes_on_every_day_is_met_at_weekends_too() -> None:
    diary = Diary(daily).until(MONDAY + timedelta(days=14))
    assert all(diary.led(day) for day in range(3, 14))
    assert {rise.like for rise in diary.due.values()} <= {"days", "workdays", "weekend days"}


def test_a_day_that_does_not_come_costs_the_lead_alone_and_one_is_forgiven() -> None:
    holiday = MONDAY + timedelta(days=8)
    diary = Diary(lambda at: QUIET if at.date() == holiday.date() else daily(at)).until(MONDAY + timedelta(days=10))
    first, last = diary.led(8) or (0.0, 0.0)
    assert 0 < last - first < 0.6  # hours, of nine that a schedule would have cost
    assert diary.led(9) is not None


def test_what_stops_coming_is_not_expected_for_long() -> None:
    diary = Diary(lambda at: daily(at) if at < MONDAY + timedelta(days=8) else QUIET)
    diary.until(MONDAY + timedelta(days=13))
    assert [diary.led(day) is not None for day in (10, 11, 12)] == [False] * 3


def test_a_busier_day_rises_higher() -> None:
    def busier(at: datetime) -> float:
        return office(at) * (1.4 if at >= MONDAY + timedelta(days=3) else 1.0) + 4.0

    diary = Diary(busier, whole=True).until(MONDAY + timedelta(days=3, hours=9))
    assert diary.due[max(diary.due)].to > BUSY + 4.0


def test_a_load_that_jumps_at_random_is_not_given_a_season() -> None:
    """Of a week of bursts without a pattern, a rise is said to be due in next to no time."""
    random = Random(2)
    levels = [random.choice((0.5, 1.0, 2.0, 4.0)) for _ in range(7 * 24 * 6)]
    diary = Diary(lambda at: levels[int((at - MONDAY).total_seconds() // 600)], whole=True)
    diary.until(MONDAY + timedelta(days=7))
    assert len(diary.due) < 0.03 * 7 * 24 * 24


def test_a_constant_load_has_no_season() -> None:
    diary = Diary(lambda _: 3.0, whole=True).until(MONDAY + timedelta(days=5))
    assert not diary.due
    assert not diary.season.trials


def test_an_outage_is_no_quiet_morning() -> None:
    """On the third day nothing is known from eight to noon: neither a lull nor a rise is learned from that."""
    diary = Diary(daily).until(MONDAY + timedelta(days=4, hours=8))
    diary.now += timedelta(hours=4)
    diary.until(MONDAY + timedelta(days=6))
    profile, nine = Profile(diary.season.days), int(MONDAY.timestamp() / BUCKET_S) + 4 * A_DAY + 9 * 12
    assert [profile.at(nine + more) for more in range(-11, 35)] == [None] * 46
    assert profile.at(nine - 14) == pytest.approx(QUIET, rel=0.01)
    assert not any(at.hour >= 12 for at in diary.due)
    assert diary.led(5) is not None


def test_a_bucket_that_was_hardly_seen_is_not_known() -> None:
    diary = Diary(daily, whole=True).until(MONDAY + timedelta(minutes=7))
    diary.now += timedelta(minutes=20)
    diary.until(diary.now + timedelta(minutes=6))
    bucket = int(MONDAY.timestamp() / BUCKET_S)
    assert Profile(diary.season.days).at(bucket) is not None
    assert Profile(diary.season.days).at(bucket + 1) is None


@pytest.mark.parametrize("jump", [timedelta(hours=-1), timedelta(days=-2), timedelta(days=3000)])
def test_a_clock_that_steps_and_comes_back_leaves_the_season_as_it_was(jump: timedelta) -> None:
    diary = Diary(daily).until(MONDAY + timedelta(days=5, hours=8))
    diary.now += jump
    diary.until(diary.now + timedelta(minutes=10))
    diary.now -= jump
    diary.until(MONDAY + timedelta(days=8))
    assert diary.led(7) is not None
    assert all(rise.to <= 1.2 * BUSY for rise in diary.due.values())


def test_what_is_due_is_not_due_for_ever() -> None:
    diary = Diary(daily).until(MONDAY + timedelta(days=4, hours=8, minutes=57))
    assert due(diary.season, diary.now)[0] is not None
    assert due(diary.season, diary.now + timedelta(minutes=12)) == (None, None)
    assert due(diary.season, diary.now - timedelta(minutes=12)) == (None, None)


def test_a_restart_between_any_two_looks_changes_nothing() -> None:
    one, other = (Diary(daily).until(MONDAY + timedelta(days=4, hours=8)) for _ in range(2))
    for _ in range(90):
        memory = Memory(services={CHAT: ServiceMemory(forecast=other.forecast, season=other.season)})
        text = json.dumps(memory_json(memory))
        assert len(text) < 40_000
        kept = memory_from(json.loads(text))
        assert kept is not None
        other.season = kept.services[CHAT].season
        one.until(one.now + timedelta(minutes=1))
        other.until(other.now + timedelta(minutes=1))
        assert one.season == other.season
    assert one.due == other.due != {}


def test_a_memory_without_a_season_is_read_as_one_that_knows_none() -> None:
    old = memory_json(Memory(services={CHAT: ServiceMemory()}))
    del old["services"][CHAT]["season"]
    assert memory_from(old) == Memory(services={CHAT: ServiceMemory()})


looks = st.tuples(st.floats(-4e5, 4e5) | st.floats(0, 600), st.floats(0, 1e6), st.floats(0, 7200))


@given(st.lists(looks, max_size=40), st.integers(0, 2**32))
def test_the_memory_is_bounded_whatever_the_clock_and_the_load_do(
    steps: list[tuple[float, float, float]], seed: int
) -> None:
    random, season, now = Random(seed), NO_SEASON, MONDAY
    for seconds, load, horizon in steps:
        now += timedelta(seconds=seconds)
        level = random.random() * load
        season = with_tick(season, load, Forecast(at=now, fast=level, slow=level, mean=level), horizon, now)
        assert season.at == now
        assert len(season.days) <= 15
        assert len(season.claims) <= 40
        assert len(season.trials) <= 64
        assert {len(day.loads) for day in season.days} <= {2 * A_DAY}
        assert [day.number for day in season.days] == sorted({day.number for day in season.days})


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 50), st.floats(0, 150))
def test_more_load_never_foretells_less_and_never_less_than_there_is(a: float, b: float, by: float, to: float) -> None:
    rise, (low, high) = Rise(by, to, 3, "days"), sorted((a, b))
    assert low <= foretold(rise, low) <= foretold(rise, high) <= max(high, to)


@given(st.dictionaries(st.integers(0, 20 * A_DAY), st.floats(0, 1e4), max_size=30))
def test_a_profile_keeps_what_it_was_given(loads: dict[int, float]) -> None:
    days: tuple[Day, ...] = ()
    for bucket, load in sorted(loads.items()):
        days = with_load(days, bucket, load)
    profile, last = Profile(days), max(loads, default=0) // A_DAY
    assert len(days) <= 15
    for bucket, load in loads.items():
        kept = profile.at(bucket)
        if bucket // A_DAY > last - 15:
            assert kept == pytest.approx(load, rel=0.003, abs=2e-4)
    assert profile.at(20 * A_DAY + 1) is None
    assert list(profile.known(range(-3, 0))) == []


def test_many_trials_and_long_horizons_are_forgotten_from_the_oldest() -> None:
    """A load that alternates by the hour, opposite from day to day, tries the season every hour for a week."""

    def contrary(at: datetime) -> float:
        return BUSY if (at.hour + at.toordinal() // 3) % 2 else QUIET

    diary = Diary(contrary, whole=True).until(MONDAY + timedelta(days=10))
    assert len(diary.season.trials) == 64
    assert diary.season.trials[0].bucket > int(MONDAY.timestamp() / BUCKET_S) + 3 * A_DAY


HEIGHT = 6.9
"""Replicas' worth that this load is found to be."""


def week_of(days: int) -> Tide:
    """A fleet of one to twelve after so many days of the office's load, at three in the morning."""
    world = Tide(by_objective(pool(BASE, 1, 12)), replica("base-1"), start=240, free=20)
    world.now = MONDAY
    lived(world, MONDAY + timedelta(days=days, hours=3))
    return world


def lived(world: Tide, end: datetime) -> None:
    """From seven to ten in the morning, tick by tick around nine; at other hours nobody looks."""
    while world.now < end:
        hour = world.now.hour + world.now.minute / 60
        if 7 <= hour < 10:
            world.tick(office(world.now), seconds=15 if 8.6 <= hour < 9.5 else 150)
        else:
            world.now += timedelta(minutes=10)


@pytest.fixture(scope="module")
def fifth() -> Tide:
    """The fifth day's night; of the first morning little is known, for nothing had taught what a replica carries."""
    return week_of(4)


def copied(world: Tide) -> Tide:
    other = Tide(world.policy, *world.replicas, start=240, free=20)
    other.now, other.memory, other.queue = world.now, world.memory, world.queue
    return other


def ready(world: Tide) -> int:
    return sum(one.state.value == "ready" for one in world.replicas)


def test_after_three_known_days_the_fleet_is_ready_before_the_step(fifth: Tide) -> None:
    world = copied(fifth)
    lived(world, MONDAY + timedelta(days=4, hours=8, minutes=40))
    asleep = ready(world)
    lived(world, MONDAY + timedelta(days=4, hours=9))
    assert asleep <= 2
    assert ready(world) >= HEIGHT
    reasons = [one.decisions[0].reason for one in world.history if one.actions]
    assert any("; the last 3 workdays rose to " in reason and "; base grows from" in reason for reason in reasons)
    lived(world, MONDAY + timedelta(days=4, hours=10))
    assert world.queue == 0


def test_without_the_days_before_the_same_step_finds_a_queue() -> None:
    world = week_of(2)
    lived(world, MONDAY + timedelta(days=2, hours=9))
    assert ready(world) <= 2
    lived(world, MONDAY + timedelta(days=2, hours=9, minutes=3))
    assert world.queue > 100


def test_a_morning_that_does_not_come_costs_less_than_an_hour_of_the_lead(fifth: Tide) -> None:
    world = copied(fifth)
    lived(world, MONDAY + timedelta(days=4, hours=8))
    seconds = 0.0
    while world.now < MONDAY + timedelta(days=4, hours=11):
        world.tick(QUIET)
        seconds += 15.0 * max(0, len(world.replicas) - 2)
    assert 0 < seconds < 3600.0 * HEIGHT
    assert ready(world) <= 2


def test_a_rise_is_no_reason_to_grow_without_data_or_without_a_request(fifth: Tide) -> None:
    world = copied(fifth)
    lived(world, MONDAY + timedelta(days=4, hours=8, minutes=54))
    memory, now = world.memory, world.now + timedelta(seconds=15)
    assert due(memory.services[CHAT].season, now)[0] is not None
    plain = [replica(f"base-{number}") for number in range(1, len(world.replicas) + 1)]
    other = copied(world)
    other.replicas = plain
    other.silent = frozenset(one.id for one in plain)
    blind = plan(other.fleet(QUIET), world.policy, memory, now).decisions[0]
    other.silent = frozenset()
    idle = plan(other.fleet(0.0), world.policy, memory, now).decisions[0]
    assert blind.target == blind.current
    assert idle.target <= idle.current


def test_nothing_goes_shortly_before_a_known_rise(fifth: Tide) -> None:
    """Someone started two by hand at half past eight: they stay, for they are needed at nine."""
    world = copied(fifth)
    lived(world, MONDAY + timedelta(days=4, hours=8, minutes=40))
    season = world.memory.services[CHAT].season
    assert season.coming is None
    assert season.later is not None
    world.replicas += [replica("base-91"), replica("base-92")]
    have = len(world.replicas)
    made = world.tick(QUIET)
    assert made.actions == ()
    assert len(world.replicas) == have
    assert made.decisions[0].wanted == have
    assert "rose to" in made.decisions[0].reason


def test_a_season_that_knows_nothing_says_nothing() -> None:
    assert due(Season(), MONDAY) == (None, None)
