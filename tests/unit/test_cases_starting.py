"""Case C: replicas that are on their way, or never arrive, and starts from nothing, in virtual time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fakes.tide import Tide, by_objective
from fakes.world import BASE, BURST, NOON, World, decision, kinds, policy, pool, replica

from tidegate.model.decision import ActionKind, Limit
from tidegate.model.fleet import PoolKind, PoolName, ReplicaState
from tidegate.model.policy import Flavour


def tide(*, start: float, ready: int = 2, low: int = 2) -> Tide:
    """A base of 2..4 and a burst of 0..8 under the objective."""
    found = [replica(f"base-{number}") for number in range(1, ready + 1)]
    return Tide(by_objective(pool(BASE, low, 4), pool(BURST, 0, 8)), *found, start=start)


def starts(world: World) -> int:
    """How many were ordered."""
    return sum(action.kind is ActionKind.START for made in world.history for action in made.actions)


@pytest.mark.parametrize("start", [30, 240, 420])
def test_c1_what_is_starting_is_the_answer_that_was_already_given(start: float) -> None:
    """aibrix#2670, #2671: 4, 8, 16 while they were pending."""
    world = tide(start=start).warmed(0.9)
    world.run(2.6, ticks=80)
    assert world.sizes[-1] in range(4, 9)
    assert max(world.sizes) <= 2 * world.sizes[-1]


@pytest.mark.parametrize("start", [30, 240, 420])
def test_c2_a_minute_of_load_is_not_answered_once_a_tick(start: float) -> None:
    """inference-sim#1109: 60 s of load and ticks of 15 s gave four replicas too many."""
    world = tide(start=start).warmed(0.9)
    world.run(1.9, ticks=4)
    world.run(0.9, ticks=60)
    assert starts(world) <= 3


def test_c3_two_pools_do_not_both_answer_one_need() -> None:
    """llm-d#549, #413: a guard per variant let the second variant scale for the same deficit."""
    second = PoolName("burst-two")
    made = by_objective(pool(BASE, 2, 4), pool(BURST, 0, 4), pool(second, 0, 4, kind=PoolKind.BURST))
    world = Tide(made, replica("base-1"), replica("base-2"), start=240).warmed(0.9)
    world.run(2.6, ticks=80)
    assert max(world.sizes) <= 2 * world.sizes[-1]


def test_c4_a_start_that_hangs_is_undone_and_does_not_stop_the_way_down() -> None:
    """dynamo#14251, #14671: a replica that could not start froze every decision for an hour."""
    flavour = Flavour(start_deadline=timedelta(seconds=300))
    made = by_objective(pool(BASE, 1, 4, flavours=(flavour,)))
    world = Tide(made, replica("base-1"), start=1e9).warmed(0.4)
    world.stuck = True
    world.run(1.8, ticks=4)
    assert world.count(ReplicaState.REQUESTED) >= 1
    world.run(0.4, ticks=40)
    assert world.count(ReplicaState.REQUESTED) == 0
    kinds_seen = {action.kind for one in world.history for action in one.actions}
    assert kinds_seen & {ActionKind.CANCEL, ActionKind.GIVE_UP}


def test_c7_what_has_not_been_ready_yet_is_not_scaled_to_nothing() -> None:
    """kserve#1247: gone after two minutes, while it was still starting."""
    world = tide(start=600, ready=0, low=0)
    world.queue = 3.0
    world.tick(0.0)
    world.queue = 0.0
    world.run(0.0, ticks=20)
    assert world.sizes[-1] == 1


def test_c8_from_nothing_there_is_no_dead_zone() -> None:
    """knative#2103: sixty seconds of silence after the last one had gone."""
    world = tide(start=30, ready=1, low=0).warmed(0.1, minutes=30)
    world.run(0.0, ticks=4 * 60 * 3)
    assert world.sizes[-1] == 0
    world.run(0.0, ticks=8)
    made = world.tick(0.2)
    assert [action.kind for action in made.actions] == [ActionKind.START]
    assert "waiting at its gateway" in decision(made, BASE).reason


def test_c8_one_that_is_still_draining_comes_back_before_another_starts() -> None:
    world = tide(start=240, ready=4).warmed(1.9)
    while not any(action.kind is ActionKind.DRAIN for made in world.history for action in made.actions):
        world.tick(0.5)
    made = world.tick(2.2)
    assert {action.kind for action in made.actions} <= {ActionKind.RESUME, ActionKind.START}
    assert made.actions == () or made.actions[0].kind is ActionKind.RESUME


@pytest.mark.parametrize("state", [ReplicaState.REQUESTED, ReplicaState.BOOTING, ReplicaState.LOADING])
def test_c10_requested_booting_and_loading_are_three_states_and_none_of_them_serves(state: ReplicaState) -> None:
    """cortexlabs#1085, kubernetes#54959: a node was up and its device not yet there, so another was bought."""
    waiting = [replica(f"base-{number}", state, since=NOON - timedelta(seconds=60)) for number in (2, 3, 4)]
    world = World(policy(pool(BASE, 1, 8)), replica("base-1", in_flight=60), *waiting, start=1e9)
    made = world.tick(load=60)
    assert kinds(made) == []
    assert (decision(made, BASE).ready, decision(made, BASE).starting) == (1, 3)


def test_c_how_long_a_start_takes_is_learned_from_the_first_one() -> None:
    world = tide(start=90).warmed(0.9)
    world.run(2.2, ticks=20)
    learned = [seconds for one in world.memory.pools.values() for seconds in one.starts.seconds]
    assert learned
    assert all(90 <= seconds <= 120 for seconds in learned)


def test_c_a_minimum_hold_and_a_paid_hour_keep_what_is_paid() -> None:
    hourly = Flavour(billing_increment=timedelta(hours=1), minimum_hold=timedelta(minutes=30))
    made = by_objective(pool(BASE, 2, 4), pool(BURST, 0, 8, flavours=(hourly,)))
    world = Tide(made, *(replica(f"base-{number}") for number in range(1, 5)), start=30).warmed(1.6)
    world.run(4.2, ticks=20)
    ordered = world.now
    bought = world.count(ReplicaState.READY) - 4
    assert bought >= 1
    world.history.clear()
    for _ in range(4 * 80):
        world.tick(0.5)
        if any(action.kind is ActionKind.DRAIN and action.pool == BURST for action in world.history[-1].actions):
            break
    assert timedelta(minutes=50) <= world.now - ordered <= timedelta(minutes=65)
    assert any(Limit.HOLD in decision(one, BURST).limits for one in world.history)
