"""What must not wait for samples: growth out of a plain queue, starts that are nearly there, one failure among many."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fakes.tide import by_objective
from fakes.world import BASE, BURST, NOON, fleet, kinds, policy, pool, replica

from tidegate.decide.backoff import on_trial, pause_after, with_failures
from tidegate.decide.capacity import learned
from tidegate.decide.flow import flow_of
from tidegate.decide.forecast import ahead, observed
from tidegate.decide.plan import plan
from tidegate.decide.supply import supply_of
from tidegate.decide.yardstick import guessed
from tidegate.model.decision import ActionKind
from tidegate.model.fleet import FailureClass, PoolView, ReplicaState, SignalName, Value
from tidegate.model.memory import BackOff, Capacity, Durations, Forecast, Memory, PoolMemory
from tidegate.model.policy import SloPolicy

HOUR = timedelta(hours=1)
SWAMPED = {
    SignalName.RUNNING: Value(96.0),
    SignalName.WAITING: Value(27.0),
    SignalName.KV_CACHE_USAGE: Value(0.4),
    SignalName.PROMPT_TOKENS: Value(4000.0),
    SignalName.GENERATION_TOKENS: Value(1300.0),
    SignalName.REQUEST_RATE: Value(4.4),
    SignalName.TTFT_P95: Value(3.8),
    SignalName.TPOT_P95: Value(0.071),
}
"""One replica in plain overload."""


def test_a_planner_that_knows_nothing_grows_out_of_a_queue_at_once() -> None:
    """It once looked on for six minutes: the fit of the load had not enough samples."""
    made, memory = by_objective(pool(BASE, 1, 4), pool(BURST, 0, 8)), Memory()
    seen = fleet(replica("base-1", signals=SWAMPED))

    first = plan(seen, made, memory, NOON)
    second = plan(seen, made, first.memory, NOON + timedelta(seconds=15))

    assert kinds(first)[:1] == ["start base-2"]
    started = [action for action in second.actions if action.kind is ActionKind.START]
    assert len(started) >= 1  # the backlog against what a replica was seen to run


def test_a_guess_of_the_unit_needs_tokens() -> None:
    slo = SloPolicy(2.0, 0.06)
    assert guessed(Capacity(), slo) is None
    assert guessed(Capacity(sums=(3.0, *(0.0,) * 5, 9.0, 0.0, 0.0)), slo) is None


def test_a_trend_is_as_steep_while_it_is_young_as_later() -> None:
    """A mean that has just begun lags a line by less than its constant."""
    known, now = Forecast(), NOON
    for tick in range(12):
        now = NOON + timedelta(seconds=15 * tick)
        known = observed(known, 2.0 + 0.15 * tick, 240, now)
    assert ahead(known, 2.0 + 0.15 * 12, 240, now + timedelta(seconds=15)).expected > 4.2


def test_a_start_that_is_nearly_there_is_seen_through() -> None:
    made = policy(pool(BASE, 1, 8))
    memory = Memory(NOON - timedelta(days=1), pools={BASE: PoolMemory(9, starts=Durations((240.0,)))})
    young = replica("base-3", ReplicaState.LOADING, requested_at=NOON - timedelta(seconds=30))
    old = replica("base-2", ReplicaState.LOADING, requested_at=NOON - timedelta(seconds=200))

    taken = plan(fleet(replica("base-1", in_flight=1), old, young), made, memory, NOON)

    assert kinds(taken) == ["cancel base-3"]


def test_before_any_start_was_seen_starts_are_taken_for_slow_and_overdue_ones_are_not_waited_for() -> None:
    """The first wave of a slow fleet was once cancelled a minute before it was ready."""
    made = policy(pool(BASE, 1, 8))
    ages = {2: 30, 3: 200, 4: 550, 5: 1000}
    found = [
        replica(f"base-{n}", ReplicaState.LOADING, requested_at=NOON - timedelta(seconds=age), deadline=NOON + HOUR)
        for n, age in ages.items()
    ]

    taken = plan(fleet(replica("base-1", in_flight=1), *found), made, Memory(NOON - timedelta(days=1)), NOON)

    assert kinds(taken) == ["cancel base-2", "cancel base-5"]


def test_one_that_has_not_served_for_as_long_as_it_took_to_start_goes_last() -> None:
    """Sent away at once it would have been started for nothing."""
    memory = Memory(NOON - timedelta(days=1), pools={BASE: PoolMemory(9, starts=Durations((240.0,)))})
    fresh = replica("base-3", in_flight=1, since=NOON - timedelta(seconds=100))
    seen = fleet(replica("base-1", in_flight=15), replica("base-2", in_flight=14), fresh)
    kept = kinds(plan(seen, policy(pool(BASE, 1, 2)), memory, NOON))
    assert kept == ["drain base-2"]
    later = NOON + timedelta(seconds=200)
    assert kinds(plan(replace(seen, at=later), policy(pool(BASE, 1, 2)), memory, later)) == ["drain base-3"]


def test_one_that_gets_ready_after_a_failure_ends_the_pause() -> None:
    """Of several starts under way one fails and another succeeds: that is chance, no trouble of the flavour."""
    held = BackOff(NOON + timedelta(seconds=600), 3, FailureClass.IMAGE, "base-1 failed", NOON)
    ready = replica("base-2", requested_at=NOON - timedelta(seconds=200), since=NOON + timedelta(seconds=30))
    now = NOON + timedelta(seconds=45)
    supply = supply_of(pool(BASE, 1, 8), PoolView(BASE, (ready,)), now)

    after = with_failures(PoolMemory(3, back_offs={"default": held}), supply, now)

    assert after.back_offs == {}


def test_after_a_long_pause_one_start_is_tried_at_a_time() -> None:
    held = BackOff(NOON, 4, FailureClass.IMAGE, "base-1 failed", NOON - timedelta(hours=1))
    assert pause_after(4, FailureClass.IMAGE) > timedelta(minutes=2)
    memory = Memory(NOON - timedelta(days=1), pools={BASE: PoolMemory(5, back_offs={"default": held})})
    made = policy(pool(BASE, 3, 8))

    first = plan(fleet(), made, memory, NOON + timedelta(seconds=15))
    assert kinds(first) == ["start base-5"]

    trial = replica("base-5", ReplicaState.LOADING, requested_at=NOON + timedelta(seconds=15))
    second = plan(fleet(trial), made, first.memory, NOON + timedelta(seconds=30))
    assert kinds(second) == []

    idle = supply_of(pool(BASE, 3, 8), PoolView(BASE, ()), NOON)
    assert on_trial(PoolMemory(5, back_offs={"default": replace(held, failures=1)}), idle, "default", NOON) == 1
    short = replace(held, failures=1, kind=FailureClass.HEALTH)
    assert on_trial(PoolMemory(5, back_offs={"default": short}), idle, "default", NOON) is None


def test_three_of_nine_may_be_silent() -> None:
    speaking = [replica(f"base-{n}", signals=SWAMPED) for n in range(1, 7)]
    mute = [replica(f"base-{n}", signals={}) for n in range(7, 10)]
    assert not flow_of([*speaking, *mute], 0.25, NOON).blind
    assert flow_of([*speaking[:5], *mute, replica("base-10", signals={})], 0.25, NOON).blind


def test_a_large_group_has_its_unit_from_the_first_look() -> None:
    samples = flow_of([replica(f"base-{n}", signals=SWAMPED) for n in range(1, 31)], 0.25, NOON).samples
    assert learned(Capacity(), samples, SloPolicy(2.0, 0.06), 15.0).unit
