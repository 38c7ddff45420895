"""Case B: sizes that swing, overshoot or never come down, and what is done about them here, in virtual time.

Each test bears the number of its complaint and the public threads that it comes from.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from fakes.tide import Tide, by_objective
from fakes.world import BASE, BURST, NOON, World, decision, fleet, kinds, policy, pool, replica

from tidegate.decide.plan import plan
from tidegate.model.decision import Limit
from tidegate.model.fleet import ReplicaState, SignalName, Value
from tidegate.model.memory import Memory
from tidegate.model.policy import FlapBudget, Steps

LONG_SEEN = Memory(started_at=NOON - timedelta(days=1))


def tide(*, start: float = 240, ready: int = 2, **service: object) -> Tide:
    """A base of 2..4 and a burst of 0..8 under the objective."""
    found = [replica(f"base-{number}") for number in range(1, min(4, ready) + 1)]
    found += [replica(f"burst-{number}") for number in range(1, ready - 3)]
    return Tide(by_objective(pool(BASE, 2, 4), pool(BURST, 0, 8), **service), *found, start=start)


@pytest.mark.parametrize("load", [0.4, 1.4, 2.2, 3.6, 5.0])
def test_b1_a_constant_load_once_learned_changes_nothing_more(load: float) -> None:
    """dynamo#9294: a rule let 2 go to 1, the survivor missed the objective, and so on for ever."""
    world = tide(ready=8).warmed(load, minutes=75)
    world.run(load, ticks=240)
    assert sum(bool(made.actions) for made in world.history) <= 1


def test_b2_a_start_on_its_way_is_not_taken_back_and_ordered_again() -> None:
    """ray#18925, #19869: scale-in looked at what was ready and not at what was ordered: N, 1, N."""
    world = tide(ready=2).warmed(1.2)
    world.run(2.4, ticks=12)
    assert world.count(ReplicaState.REQUESTED) >= 1
    assert world.turns == 0


def test_b3_no_traffic_while_starting_grows_nothing() -> None:
    """ray#61731: a factor was applied to nothing, and three ticks without traffic went to the maximum."""
    world = Tide(by_objective(pool(BASE, 0, 4)), replica("base-1", ReplicaState.BOOTING, since=NOON), start=600)
    world.run(0.0, ticks=30)
    assert world.sizes == [1] * 30


def test_b5_a_need_is_remembered_for_longer_than_its_metrics_look_back() -> None:
    """ray#26455: the delay was shorter than the look-back, so the same past was acted upon twice."""
    world = tide(start=30, ready=6).warmed(3.4)
    before = world.sizes[-1] if world.sizes else len(world.replicas)
    world.run(0.5, ticks=6)
    assert world.sizes[-1] == before
    assert Limit.SCALE_IN_WINDOW in decision(world.history[-1], BURST).limits


def test_b6_a_smaller_surplus_never_gives_a_larger_step() -> None:
    """ray#46148: rounding took one away whatever the surplus was."""
    steps = []
    for load in (40.0, 30.0, 20.0, 10.0):
        ready = [replica(f"base-{number}", in_flight=load / 4) for number in range(1, 5)]
        made = plan(fleet(*ready), policy(pool(BASE, 1, 4)), LONG_SEEN, NOON)
        steps.append(4 - decision(made, BASE).target)
    assert steps == sorted(steps)


def test_b8_after_a_burst_the_way_down_obeys_the_step_limit() -> None:
    """knative#9121, #3153: leaving panic dropped most replicas at once."""
    world = tide(ready=9, steps=Steps(inward=1, period=timedelta(seconds=60))).warmed(5.5)
    world.run(0.5, ticks=400)
    drops = [a - b for a, b in pairwise(world.sizes)]
    assert max(drops) == 1
    assert world.sizes[-1] < world.sizes[0]


def test_b9_a_quiet_moment_does_not_hide_a_busy_quarter() -> None:
    """knative#9121: the fast average was below the slow one and won."""
    world = tide(ready=6).warmed(3.4)
    before = world.count(ReplicaState.READY)
    for _ in range(10):
        world.run(3.4, ticks=4)
        world.run(2.6, ticks=1)
    assert min(world.sizes) >= before - 1


@pytest.mark.parametrize("start", [30, 240])
def test_b11_what_is_not_needed_any_more_is_gone_after_its_window(start: float) -> None:
    """aibrix#1159, #593: stacked windows took half an hour."""
    world = tide(ready=6, start=start).warmed(3.0, minutes=180)
    world.run(0.0, ticks=4 * 12)
    assert world.sizes[-1] <= 3
    world.run(0.0, ticks=4 * 8)
    assert world.count(ReplicaState.READY) == world.sizes[-1]


def test_b13_no_load_never_scales_out() -> None:
    """llm-d#380: it scaled out every 30 s without any load."""
    world = tide(ready=2)
    world.run(0.0, ticks=200)
    assert max(world.sizes) == 2


def test_b15_an_objective_that_single_requests_miss_is_said_and_not_paid_for() -> None:
    """dynamo#11624: a prompt that takes too long by itself held replicas that could not help it."""
    world = tide(ready=4)
    world.broken = {SignalName.TTFT_P95: Value(9.0)}
    world.run(1.0, ticks=240)
    assert max(world.sizes) == 4
    assert Limit.SLO_INFEASIBLE in decision(world.history[-1], BASE).limits
    assert "would not mend it" in decision(world.history[-1], BASE).reason


def test_b15_a_queue_that_nothing_works_at_is_said_and_not_paid_for() -> None:
    world = tide(ready=2).warmed(0.8)
    stuck = dict.fromkeys(SignalName, Value(0.0))
    world.broken = {**stuck, SignalName.WAITING: Value(40.0)}
    world.gateway = False
    world.run(0.0, ticks=40)
    assert max(world.sizes) == world.sizes[0]
    assert Limit.STUCK_QUEUE in decision(world.history[-1], BASE).limits


def test_b16_minimum_and_maximum_are_the_last_word() -> None:
    """kubernetes#49028, #51111: nothing was wanted, so it went below the minimum and back, for ever."""
    world = Tide(by_objective(pool(BASE, 3, 4)), *(replica(f"base-{number}") for number in (1, 2, 3)))
    world.run(0.0, ticks=120)
    assert set(world.sizes) == {3}
    assert all(not made.actions for made in world.history)


def test_b_a_flap_budget_that_is_spent_holds_and_says_until_when() -> None:
    """A square wave at the worst period may turn the size so often a day and no more."""
    world = tide(ready=4, start=30, flaps=FlapBudget(scale_ins=4)).warmed(1.0)
    for _ in range(12):
        world.run(4.5, ticks=24)
        world.run(0.5, ticks=60)
    turned_in = sum(b < a for a, b in pairwise(world.sizes))
    assert world.turns <= 2 * 4 + 2
    assert turned_in
    held = [decision(made, BURST) for made in world.history if Limit.FLAP in decision(made, BURST).limits]
    assert held
    assert held[-1].may_change_at is not None


def test_b_growth_obeys_the_step_limit_and_says_when_it_goes_on() -> None:
    world = World(policy(pool(BASE, 1, 8)), replica("base-1"))
    chat = next(iter(world.policy.services.values()))
    steps = Steps(out=2, period=timedelta(seconds=60))
    world.policy = by_objective(pool(BASE, 1, 8), policy=chat.policy, target=chat.target, steps=steps)
    assert len(world.tick(load=100).actions) == 2
    held = world.tick(load=100)
    assert kinds(held) == []
    assert Limit.STEP in decision(held, BASE).limits
    assert decision(held, BASE).may_change_at == world.now + timedelta(seconds=45)
