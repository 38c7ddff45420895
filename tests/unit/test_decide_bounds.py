"""Bounds by the clock and by hand: half-open windows, clock changes both ways, overlaps, commands that end."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from fakes.world import BASE, BURST, LONG_AGO, NOON, World, decision, fleet, kinds, policy, pool, replica
from hypothesis import given
from hypothesis import strategies as st

from tidegate.decide.bounds import bounds_of_pool, effective, pauses
from tidegate.decide.plan import plan
from tidegate.model.decision import Limit
from tidegate.model.fleet import ReplicaState
from tidegate.model.memory import Memory
from tidegate.model.policy import Control, ControlKind, PoolPolicy, Schedule

BERLIN, SHANGHAI = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Shanghai")
ALL_DAYS = frozenset(range(7))
HOUR = timedelta(hours=1)
YEAR = datetime.fromisoformat("2026-01-01")


def window(start: str, end: str, zone: tzinfo = UTC, **changes: object) -> Schedule:
    made = {"days": ALL_DAYS, "minimum": 2, **changes}
    return Schedule(time.fromisoformat(start), time.fromisoformat(end), zone, **made)  # type: ignore[arg-type]


def low(schedules: Schedule | tuple[Schedule, ...], at: datetime) -> int:
    found = schedules if isinstance(schedules, tuple) else (schedules,)
    return bounds_of_pool(pool(BASE, 0, 8, schedules=found), (), at).low.count


def berlin(text: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).astimezone(UTC)


@pytest.mark.parametrize(
    ("at", "count"), [("07:59:59", 0), ("08:00:00", 2), ("19:59:59", 2), ("20:00:00", 0), ("00:00:00", 0)]
)
def test_a_window_holds_from_its_start_up_to_its_end(at: str, count: int) -> None:
    """F5, keda#2031: half-open, so that two windows side by side neither overlap nor leave a gap."""
    assert low(window("08:00", "20:00"), datetime.fromisoformat(f"2026-11-25T{at}+00:00")) == count


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    """F5, keda#4677: Friday's night shift ends on Saturday morning; Saturday has none."""
    friday = window("22:00", "06:00", days=frozenset({4}))
    night = datetime(2026, 11, 27, 22, tzinfo=UTC)  # a Friday
    assert [low(friday, night + hours * HOUR) for hours in (-1, 0, 3, 7, 8, 24)] == [0, 2, 2, 2, 0, 0]
    midnight = window("18:00", "00:00", days=frozenset({4}))
    assert [low(midnight, night + hours * HOUR) for hours in (-5, -4, 1, 2)] == [0, 2, 2, 0]


def test_a_zone_has_its_own_days() -> None:
    """Monday 08:00 in Shanghai is Monday 00:00 UTC, and Monday 01:00 there is still Sunday in UTC."""
    monday = window("00:30", "08:00", SHANGHAI, days=frozenset({0}))
    sunday_utc = datetime(2026, 11, 22, 17, tzinfo=UTC)
    assert low(monday, sunday_utc) == 2
    assert low(monday, sunday_utc + 7 * HOUR) == 0


def test_in_spring_a_window_that_begins_in_the_missing_hour_begins_at_its_end() -> None:
    """29 March 2026, 02:00 becomes 03:00 in Berlin."""
    found = window("02:30", "05:00", BERLIN)
    assert low(found, berlin("2026-03-29T01:59")) == 0
    assert low(found, berlin("2026-03-29T03:00")) == 2
    assert low(found, berlin("2026-03-29T05:00")) == 0
    lost = window("02:10", "02:50", BERLIN)
    assert {low(lost, berlin("2026-03-29T01:00") + minutes * timedelta(minutes=1)) for minutes in range(180)} == {0}
    across = window("01:00", "02:30", BERLIN)
    assert [low(across, berlin(f"2026-03-29T{at}")) for at in ("01:00", "01:59", "03:00")] == [2, 2, 0]


def test_in_autumn_a_window_is_not_split_by_the_hour_that_comes_twice() -> None:
    """25 October 2026, 03:00 becomes 02:00 in Berlin: from the first 01:30 to the second 02:30 without a dip."""
    found = window("01:30", "02:30", BERLIN)
    start = berlin("2026-10-25T01:30")
    held = [low(found, start + quarter * timedelta(minutes=15)) for quarter in range(-1, 9)]
    assert held == [0] + [2] * 8 + [0]
    assert low(window("02:30", "04:00", BERLIN), berlin("2026-10-25T02:30", fold=0)) == 2
    assert low(window("02:30", "04:00", BERLIN), berlin("2026-10-25T02:15", fold=1)) == 2


@given(
    st.datetimes(YEAR, YEAR + 365 * 24 * HOUR),
    st.times(),
    st.times(),
    st.sampled_from([BERLIN, SHANGHAI, ZoneInfo("Australia/Lord_Howe"), ZoneInfo("America/St_Johns"), UTC]),
)
def test_the_end_that_is_told_is_when_the_window_ends(at: datetime, start: time, end: time, zone: tzinfo) -> None:
    """Wherever and whenever: a minute before the end it holds, at the end it does not (or the next one begins)."""
    now = at.replace(tzinfo=UTC, second=0, microsecond=0)
    start, end = start.replace(second=0, microsecond=0), end.replace(second=0, microsecond=0)
    if start == end:
        return
    found = pool(BASE, 0, 8, schedules=(Schedule(start, end, zone, minimum=2),))
    bound = bounds_of_pool(found, (), now).low
    if bound.until is None:
        assert (bound.count, bound.limit) == (0, Limit.MIN)
        return
    assert now < bound.until <= now + timedelta(hours=26)
    assert bounds_of_pool(found, (), bound.until - timedelta(seconds=1)).low.count == 2
    after = bounds_of_pool(found, (), bound.until).low
    assert after.until is None or after.until > bound.until


def test_where_windows_overlap_the_narrower_bounds_hold() -> None:
    """F5, keda#1941: the higher minimum, the lower maximum, and no dip where one ends in the other."""
    both = (window("08:00", "12:00", minimum=2, maximum=6), window("10:00", "16:00", minimum=3, maximum=7))
    held = [bounds_of_pool(pool(BASE, 0, 8, schedules=both), (), NOON + hours * HOUR) for hours in (-4, -2, 0, 4)]
    assert [(found.low.count, found.high.count) for found in held] == [(2, 6), (3, 6), (3, 7), (0, 8)]


def test_a_schedule_never_passes_the_pools_own_bounds() -> None:
    wide = (window("00:00", "23:59", minimum=0, maximum=20),)
    found = bounds_of_pool(pool(BASE, 1, 4, schedules=wide), (), NOON)
    assert (found.low.count, found.high.count, found.low.limit, found.high.limit) == (1, 4, Limit.MIN, Limit.MAX)
    apart = (
        window("00:00", "23:00", minimum=4, maximum=None),
        window("00:00", "23:00", SHANGHAI, minimum=None, maximum=2),
    )
    torn = bounds_of_pool(pool(BASE, 0, 8, schedules=apart), (), NOON)
    assert (torn.low.count, torn.high.count) == (2, 2)


def bound(low: int | None = None, high: int | None = None, **changes: object) -> Control:
    return Control(ControlKind.BOUNDS, minimum=low, maximum=high, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("controls", "expected"),
    [
        ((bound(low=3),), (3, 4)),
        ((bound(high=0),), (0, 0)),
        ((bound(low=9),), (9, 9)),
        ((bound(low=6, high=7),), (6, 7)),
        ((bound(high=3), bound(high=2)), (1, 2)),
        ((bound(low=3, pool=BURST),), (1, 4)),
        ((bound(low=3, until=NOON),), (1, 4)),
        ((bound(low=3, until=NOON + HOUR),), (3, 4)),
        ((Control(ControlKind.PAUSE_IN),), (1, 4)),
    ],
)
def test_an_operators_bounds_win_for_their_pool_and_their_time(
    controls: tuple[Control, ...], expected: tuple[int, int]
) -> None:
    found = bounds_of_pool(pool(BASE, 1, 4), controls, NOON)
    assert (found.low.count, found.high.count) == expected


def test_pauses_are_by_direction_and_pool_and_end() -> None:
    made = policy(
        controls=(
            Control(ControlKind.PAUSE_OUT, BASE),
            Control(ControlKind.PAUSE_IN, until=NOON + HOUR),
            Control(ControlKind.PAUSE_OUT, BURST, until=NOON),
        )
    )
    assert (pauses(made, NOON).out, pauses(made, NOON).inward) == ({BASE}, {BASE, BURST})
    assert pauses(made, NOON + HOUR).inward == frozenset()


def test_only_the_bounds_of_the_policy_change() -> None:
    made = policy(pool(BASE, 1, 4, schedules=(window("08:00", "20:00"),)))
    changed, found = effective(made, NOON)
    assert changed.pools[BASE].min == found.bounds[BASE].low.count == 2
    assert found.bounds[BASE].low.until == datetime(2026, 11, 25, 20, tzinfo=UTC)
    assert isinstance(changed.pools[BASE], PoolPolicy)
    assert changed.services == made.services


# In the plan


SEEN = Memory(started_at=LONG_AGO)


def test_a_schedule_starts_what_it_asks_for_and_says_so() -> None:
    made = policy(pool(BASE, 1, 4, schedules=(window("08:00", "20:00", minimum=3),)))
    taken = plan(fleet(replica("base-1", in_flight=1)), made, SEEN, NOON)
    assert kinds(taken) == ["start base-2", "start base-3"]
    assert Limit.SCHEDULE in decision(taken, BASE).limits
    assert "the schedule's bounds, until 20:00:00 UTC" in decision(taken, BASE).reason


def test_an_operators_maximum_is_told_with_its_end() -> None:
    made = policy(controls=(bound(high=0, pool=BURST, until=NOON + HOUR),))
    taken = plan(fleet(*(replica(f"base-{n}", in_flight=99) for n in range(1, 5))), made, SEEN, NOON)
    assert kinds(taken) == []
    assert Limit.MANUAL in decision(taken, BURST).limits
    assert decision(taken, BURST).may_change_at == NOON + HOUR


def test_a_paused_pool_neither_grows_nor_shrinks_and_is_still_decided() -> None:
    """F6: pausing freezes actuation; evaluation and reporting go on."""
    crowd = [replica(f"base-{n}", in_flight=40) for n in range(1, 5)]
    frozen = policy(controls=(Control(ControlKind.PAUSE_OUT, BURST),))
    taken = plan(fleet(*crowd), frozen, SEEN, NOON)
    assert kinds(taken) == []
    found = decision(taken, BURST)
    assert (found.wanted, found.target, Limit.PAUSED in found.limits) == (6, 0, True)

    grows = plan(fleet(*crowd), policy(controls=(Control(ControlKind.PAUSE_IN),)), SEEN, NOON)
    assert kinds(grows) == [
        "start burst-1",
        "start burst-2",
        "start burst-3",
        "start burst-4",
        "start burst-5",
        "start burst-6",
    ]

    world = World(policy(controls=(Control(ControlKind.PAUSE_IN),)), *(replica(f"base-{n}") for n in range(1, 5)))
    world.run(load=1, ticks=60)
    assert world.sizes[-1] == 4
    world.policy = policy()
    world.run(load=1, ticks=60)
    assert world.sizes[-1] == 1


def test_under_a_pause_below_the_minimum_nothing_is_asked_for_either() -> None:
    made = policy(pool(BASE, 2, 4), controls=(Control(ControlKind.PAUSE_OUT),))
    taken = plan(fleet(replica("base-1", in_flight=1)), made, SEEN, NOON)
    assert kinds(taken) == []
    assert decision(taken, BASE).target == 1


def test_a_pause_also_leaves_a_failed_replica_alone() -> None:
    broken = replica("base-2", ReplicaState.FAILED)
    both = (Control(ControlKind.PAUSE_OUT), Control(ControlKind.PAUSE_IN))
    assert kinds(plan(fleet(replica("base-1", in_flight=1), broken), policy(controls=both), SEEN, NOON)) == []
    assert kinds(plan(fleet(replica("base-1", in_flight=1), broken), policy(), SEEN, NOON)) == ["give_up base-2"]
