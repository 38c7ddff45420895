"""Stories of load at the controller, told tick by tick (after Knative's autoscaler_test.go): how much is wanted."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fakes.world import (
    BASE,
    BURST,
    LONG_AGO,
    NOON,
    World,
    decision,
    fleet,
    kinds,
    policy,
    pool,
    replica,
    threshold,
)

from tidegate.decide.plan import plan
from tidegate.model.decision import Limit
from tidegate.model.fleet import ReplicaState, SignalName, Value
from tidegate.model.memory import Memory
from tidegate.model.reading import Gap, Missing

SEEN = Memory(started_at=LONG_AGO)


def test_a_peak_fills_base_then_burst_and_ebbs_burst_first() -> None:
    world = World(policy(), replica("base-1"), start=60)

    first = world.tick(load=90)  # 90 / 16 -> 6: base takes 3 more, burst the last 2
    assert kinds(first) == ["start base-2", "start base-3", "start base-4", "start burst-1", "start burst-2"]
    assert decision(first, BASE).target == 4
    assert decision(first, BURST).target == 2
    assert decision(first, BASE).reason == (
        "chat has 90 requests in flight on 1 ready replica and needs 6 at 16 each; base grows from 1 to 4."
    )

    assert world.run(load=90, ticks=20).actions == ()  # while they start and after
    calm = world.tick(load=10)
    assert calm.actions == ()
    assert Limit.SCALE_IN_WINDOW in decision(calm, BURST).limits
    assert decision(calm, BURST).may_change_at == world.now - timedelta(seconds=15) + timedelta(seconds=300)

    ebb = [world.tick(load=10) for _ in range(20)]
    moved = [kinds(made) for made in ebb if made.actions]
    assert moved == [["drain burst-2", "drain burst-1", "drain base-4", "drain base-3", "drain base-2"]]
    world.run(load=10, ticks=10)
    assert [one.id for one in world.replicas] == ["base-1"]


def test_starting_replicas_are_the_answer_that_was_already_given() -> None:
    """C1, C2: however long a start takes, a standing need is answered once."""
    for start in (30, 240, 420):
        world = World(policy(), replica("base-1"), start=start)

        world.run(load=64, ticks=60)

        assert max(world.sizes) == 4
        assert sum(len(made.actions) for made in world.history) == 3


@pytest.mark.parametrize("start", [30, 240, 420])
def test_the_threshold_policy_never_orders_more_than_the_load_needs(start: int) -> None:
    """Work for 2.5 GPUs at 75 % is 4 replicas: one more a cooldown, and no fifth while they start."""
    world = World(policy(pool(BASE, 1, 8), service=threshold()), replica("base-1"), start=start)

    world.run(load=2.5, ticks=200)

    assert max(world.sizes) == 4
    assert world.sizes == sorted(world.sizes)
    assert world.history[-1].actions == ()


def test_the_threshold_policy_adds_one_a_cooldown_and_says_why() -> None:
    world = World(policy(pool(BASE, 1, 8), service=threshold()), replica("base-1"), start=30)

    first = world.tick(load=5)
    assert kinds(first) == ["start base-2"]
    assert decision(first, BASE).reason.startswith(
        "mean GPU utilisation of chat is 100% on 1 ready replica, above 75%: 2 needed; base grows from 1 to 2"
    )
    waiting = world.run(load=5, ticks=5)
    assert waiting.actions == ()
    assert decision(waiting, BASE).limits == (Limit.COOLDOWN,)
    assert decision(waiting, BASE).may_change_at == NOON + timedelta(seconds=15 + 120)
    assert kinds(world.run(load=5, ticks=3)) == ["start base-3"]


def test_the_threshold_policy_says_that_starting_replicas_will_do() -> None:
    world = World(policy(pool(BASE, 1, 8), service=threshold()), replica("base-1"), start=600)

    world.tick(load=0.9)

    assert "above 75%, and 45% once all 2 are ready" in decision(world.tick(load=0.9), BASE).reason


def test_a_shrink_that_would_have_to_be_undone_is_refused() -> None:
    """B1: 0.45 on two replicas is 0.9 on one, so a lower threshold of 0.5 may not take the second away."""
    world = World(
        policy(pool(BASE, 1, 8), service=threshold(scale_in_below=0.5, scale_out_above=0.6)),
        replica("base-1"),
        replica("base-2"),
    )

    made = world.run(load=0.9, ticks=40)

    assert all(not past.actions for past in world.history)
    assert "90% on one replica less would be above 60%" in decision(made, BASE).reason


def test_the_threshold_policy_shrinks_one_a_cooldown_and_keeps_the_last() -> None:
    world = World(policy(pool(BASE, 0, 8), service=threshold()), *(replica(f"base-{number}") for number in (1, 2, 3)))

    assert kinds(world.tick(load=0.1)) == ["drain base-3"]
    assert decision(world.tick(load=0.1), BASE).limits == (Limit.COOLDOWN,)
    last = world.run(load=0.0, ticks=60)

    assert world.count(ReplicaState.READY) == 1
    assert "and the last replica stays" in decision(last, BASE).reason


def test_silence_never_scales_in_and_says_so() -> None:
    """A1, A3, A4, A7: what is unknown is not zero."""
    world = World(policy(), *(replica(f"base-{number}") for number in (1, 2, 3, 4)))
    world.silent = frozenset({"base-1", "base-2"})

    made = world.run(load=0, ticks=60)

    assert all(not past.actions for past in world.history)
    assert decision(made, BASE).limits == (Limit.MISSING_DATA,)
    assert "4 ready replicas (2 silent: unreachable; taken as at target)" in decision(made, BASE).reason
    assert "missing data never scales in" in decision(made, BASE).reason
    assert decision(made, BASE).may_change_at is None


def test_one_of_160_silent_does_not_block() -> None:
    """A8: one dead exporter cost another system half its money for eight hours."""
    many = policy(pool(BASE, 1, 200))
    world = World(many, *(replica(f"base-{number}") for number in range(160)))
    world.silent = frozenset({"base-7"})

    world.run(load=160, ticks=30)

    assert "base-7" not in {one.id for one in world.replicas}  # without it all is known
    assert world.count(ReplicaState.READY) == 11  # within the tolerance of 10


def test_one_of_two_may_be_silent_but_not_the_only_one() -> None:
    world = World(policy(), replica("base-1"), replica("base-2"))
    world.silent = frozenset({"base-1", "base-2"})
    world.run(load=0, ticks=30)
    assert world.count(ReplicaState.READY) == 2

    world.silent = frozenset({"base-1"})
    world.run(load=0, ticks=30)
    assert [one.id for one in world.replicas] == ["base-2"]


def test_any_good_signal_may_scale_out() -> None:
    """Three of four are silent; what the fourth says is enough to grow on."""
    seen = fleet(replica("base-1", in_flight=48), replica("base-2"), replica("base-3"), replica("base-4"))

    made = plan(seen, policy(), SEEN, NOON)

    assert decision(made, BURST).target == 2  # 48 + 3 * 16 = 96 -> 6


def test_a_replica_that_says_half_of_it_counts_for_what_it_says() -> None:
    half = replica("base-1", signals={SignalName.RUNNING: Value(40.0), SignalName.WAITING: Missing(Gap.STALE)})

    assert decision(plan(fleet(half), policy(), SEEN, NOON), BASE).target == 3


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), -9.2e15])
def test_numbers_that_cannot_be_are_missing(bad: float) -> None:
    """A3: a NaN once became -9.2e15 replicas."""
    odd = replica("base-1", signals={SignalName.RUNNING: Value(bad), SignalName.WAITING: Value(0.0)})

    made = plan(fleet(odd, replica("base-2", in_flight=1)), policy(pool(BASE, 0, 4)), SEEN, NOON)

    used = {(one.source, one.name): one.signal for one in decision(made, BASE).signals}
    assert isinstance(used["base-1", "running"], Missing)
    assert used["base-1", "queue_depth"] == Value(0.0)


def test_idle_keeps_the_last_replica_because_nothing_could_call_it_back() -> None:
    world = World(policy(pool(BASE, 0, 4)), replica("base-1"), replica("base-2"))

    made = world.run(load=0, ticks=40)

    assert world.count(ReplicaState.READY) == 1
    assert "has 0 requests in flight on 1 ready replica and keeps its last one" in decision(made, BASE).reason
