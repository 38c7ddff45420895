"""Stories of single replicas: which one starts, fails, goes, comes back, and what is never touched."""

from __future__ import annotations

from dataclasses import replace
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
)

from tidegate.decide.plan import plan
from tidegate.model.decision import Limit
from tidegate.model.fleet import FailureClass, ReplicaState, Want
from tidegate.model.memory import BackOff, Memory, PoolMemory
from tidegate.model.policy import Flavour

SEEN = Memory(started_at=LONG_AGO)


def test_a_start_that_misses_its_deadline_is_undone_and_its_pool_left_alone() -> None:
    """C4, E5, E8: the other pool takes over in the same tick; pauses double to ten minutes."""
    flavour = Flavour(start_deadline=timedelta(seconds=60))
    world = World(policy(pool(BASE, 1, 2, flavours=(flavour,)), pool(BURST, 0, 2)), replica("base-1"), start=1e9)
    world.stuck = True

    assert kinds(world.tick(load=30)) == ["start base-2"]
    world.run(load=30, ticks=3)
    made = world.tick(load=30)
    assert kinds(made) == ["give_up base-2", "start burst-1"]
    assert made.actions[0].reason == "still requested 60 s after it was requested"
    assert Limit.START_FAILED in decision(made, BASE).limits
    assert decision(made, BASE).may_change_at == world.now + timedelta(seconds=30)
    learned = world.memory.pools[BASE]
    assert (learned.next_serial, learned.counted) == (3, ("base-2",))
    assert learned.back_offs == {
        "default": BackOff(
            world.now + timedelta(seconds=30),
            1,
            FailureClass.TIME_OUT,
            "base-2 still requested 60 s after it was requested",
            world.now,
        )
    }

    assert world.tick(load=47).actions[0].replica == "burst-2"  # still paused
    assert kinds(world.tick(load=64)) == ["start base-3"]  # the pause is over
    assert world.memory.pools[BASE].counted == ()


def test_pauses_double_to_ten_minutes_and_a_good_start_ends_them() -> None:
    flavour = Flavour(start_deadline=timedelta(seconds=15))
    world = World(policy(pool(BASE, 1, 1, flavours=(flavour,))), start=1e9)
    pauses: list[float] = []
    while len(pauses) < 7:
        world.tick(load=0)
        held = world.memory.pools[BASE].back_offs.get("default")
        if held is not None and held.failures > len(pauses):
            pauses.append((held.until - world.now).total_seconds())
    assert pauses == [30, 60, 120, 240, 480, 600, 600]

    world.start = timedelta(seconds=1)
    world.run(load=0, ticks=50)
    assert world.memory.pools[BASE].back_offs == {}
    assert world.count(ReplicaState.READY) == 1


def test_replicas_lost_together_are_one_failure_and_each_is_counted_once() -> None:
    failed = [replica(f"base-{number}", ReplicaState.FAILED) for number in (1, 2)]

    first = plan(fleet(*failed), policy(), SEEN, NOON)  # burst serves while base may not start
    later = plan(fleet(*failed), policy(), first.memory, NOON + timedelta(seconds=15))
    third = replica("base-3", ReplicaState.FAILED)
    again = plan(fleet(*failed, third), policy(), later.memory, NOON + timedelta(seconds=20))

    assert kinds(first) == ["give_up base-1", "give_up base-2", "start burst-1"]
    assert first.actions[0].reason == "failed"
    assert first.memory.pools[BASE].back_offs["default"].failures == 1
    assert later.memory.pools[BASE].back_offs == first.memory.pools[BASE].back_offs
    held = again.memory.pools[BASE].back_offs["default"]
    assert (held.failures, held.until) == (1, NOON + timedelta(seconds=50))


def test_what_the_host_said_of_a_failed_start_is_told_until_one_succeeds() -> None:
    """At 03:00 "the last start failed" alone sends somebody to the host to find out why."""
    said = "template 'vllm': cannot run '/no/such': No such file or directory;\nmend its `command`"
    lost = replica("base-1", ReplicaState.FAILED, why=said)

    first = plan(fleet(lost), policy(), SEEN, NOON)
    later = plan(fleet(), policy(), first.memory, NOON + timedelta(seconds=15))

    why = "failed: template 'vllm': cannot run '/no/such': No such file or directory, mend its `command`"
    assert first.actions[0].reason == why
    assert f"the last start failed: base-1 {why}, until 12:02:00 UTC" in decision(later, BASE).reason


def test_a_start_that_missed_its_deadline_says_what_it_was_waiting_for() -> None:
    late = replica("base-1", ReplicaState.REQUESTED, why="waits: base-0 still holds its slot or GPUs")

    made = plan(fleet(late), policy(), SEEN, NOON + timedelta(hours=1))

    assert made.actions[0].reason.endswith("after it was requested: waits: base-0 still holds its slot or GPUs")


def test_a_long_word_of_the_host_is_cut() -> None:
    made = plan(fleet(replica("base-1", ReplicaState.FAILED, why="x" * 5000)), policy(), SEEN, NOON)

    assert len(made.actions[0].reason) < 400


def test_a_replica_told_to_stop_is_not_given_up_twice_nor_counted() -> None:
    told = replica("base-2", ReplicaState.FAILED, want=Want.STOP)

    made = plan(fleet(replica("base-1", in_flight=1), told), policy(), SEEN, NOON)

    assert made.actions == ()
    assert made.memory.pools[BASE].back_offs == {}


def test_returning_demand_takes_back_a_leaving_replica_before_it_starts_one() -> None:
    """D6; the one that was only cordoned comes back before the one that drains."""
    seen = fleet(
        replica("base-1", in_flight=40),
        replica("base-2", ReplicaState.DRAINING, since=NOON - timedelta(seconds=9)),
        replica("base-3", ReplicaState.CORDONED, since=NOON - timedelta(seconds=90)),
    )

    assert kinds(plan(seen, policy(), SEEN, NOON)) == ["resume base-3", "resume base-2"]
    more = plan(fleet(*seen.pools[BASE].replicas, replica("burst-1", ReplicaState.CORDONED)), policy(), SEEN, NOON)
    assert decision(more, BURST).limits == (Limit.BASE_FIRST,)


def test_what_leaving_replicas_still_carry_is_demand_but_they_are_not_supply() -> None:
    seen = fleet(replica("base-1", in_flight=10), replica("base-2", ReplicaState.DRAINING, in_flight=20))

    made = plan(seen, policy(), SEEN, NOON)

    assert (decision(made, BASE).current, decision(made, BASE).leaving) == (1, 1)
    assert kinds(made) == ["resume base-2"]


@pytest.mark.parametrize(
    "gone",
    [
        replica("base-2", ReplicaState.DRAINING, deadline=NOON),  # the agent is about to stop it
        replica("base-2", ReplicaState.LOADING, want=Want.STOP),  # never was ready, was told to go
        replica("base-2", ReplicaState.READY, want=Want.STOP),
        replica("base-2", ReplicaState.DRAINING, managed=False),
    ],
)
def test_what_cannot_return_is_replaced(gone: object) -> None:
    made = plan(fleet(replica("base-1", in_flight=30), gone), policy(), SEEN, NOON)  # type: ignore[arg-type]

    assert kinds(made) == ["start base-3"]


def test_a_command_counts_before_the_host_has_shown_it() -> None:
    """A drain that was ordered is not ordered again of somebody else."""
    told = replica("base-2", in_flight=3, want=Want.DRAIN, deadline=NOON + timedelta(minutes=5))

    made = plan(fleet(replica("base-1", in_flight=3), told), policy(), SEEN, NOON)

    assert made.actions == ()
    assert decision(made, BASE).leaving == 1


def test_falling_demand_cancels_the_newest_start_first_then_drains_the_least_busy() -> None:
    seen = fleet(
        replica("base-1", in_flight=0.5, since=LONG_AGO),
        replica("base-2", in_flight=0.25),
        replica("base-3", ReplicaState.LOADING, since=NOON - timedelta(seconds=60)),
        replica("base-4", ReplicaState.LOADING, since=NOON - timedelta(seconds=20)),
    )

    made = plan(seen, policy(), SEEN, NOON)

    assert kinds(made) == ["cancel base-4", "cancel base-3", "drain base-2"]
    assert made.actions[-1].deadline == NOON + timedelta(minutes=5)


def test_of_equally_busy_replicas_the_youngest_goes_and_numbers_break_the_tie() -> None:
    young = NOON - timedelta(hours=1)
    seen = fleet(
        replica("base-9", in_flight=1, since=young), replica("base-10", in_flight=1, since=young),
        replica("base-11", in_flight=1),
    )  # fmt: skip

    assert kinds(plan(seen, policy(), SEEN, NOON)) == ["drain base-10", "drain base-9"]


def test_engines_of_the_operator_are_supply_and_are_never_stopped() -> None:
    own = [replica("base-1", in_flight=0, managed=False), replica("base-2", in_flight=0, managed=False)]

    made = plan(fleet(*own), policy(), SEEN, NOON)

    assert made.actions == ()
    assert decision(made, BASE).target == 2
    assert Limit.UNMANAGED in decision(made, BASE).limits
    lost = plan(fleet(own[0], replica("h1/x", ReplicaState.FAILED, managed=False, pool=BASE)), policy(), SEEN, NOON)
    assert lost.actions == ()
    assert lost.memory.pools[BASE].back_offs == {}


def test_with_burst_unmanaged_the_base_shrinks() -> None:
    own = replica("burst-1", in_flight=0, managed=False)

    made = plan(fleet(replica("base-1", in_flight=0), replica("base-2", in_flight=0), own), policy(), SEEN, NOON)

    assert kinds(made) == ["drain base-2"]
    assert Limit.UNMANAGED in decision(made, BURST).limits


def test_more_than_max_of_the_operators_own_engines_is_said_and_left() -> None:
    own = [replica(f"base-{number}", in_flight=16, managed=False) for number in (1, 2)]

    made = plan(fleet(*own), policy(pool(BASE, 0, 1)), SEEN, NOON)

    assert made.actions == ()
    assert decision(made, BASE).target == 1
    assert decision(made, BASE).limits == (Limit.UNMANAGED, Limit.MAX)


def test_nothing_that_has_not_been_ready_is_taken_for_idle() -> None:
    """B3, C7: starting replicas give no signal."""
    made = plan(fleet(replica("base-1", ReplicaState.BOOTING, since=NOON)), policy(pool(BASE, 0, 4)), SEEN, NOON)

    assert made.actions == ()
    assert decision(made, BASE).limits == (Limit.MISSING_DATA,)
    assert "no ready replica to read a load from and 1 starting" in decision(made, BASE).reason


def test_serial_numbers_are_never_used_twice() -> None:
    memory = replace(SEEN, pools={BASE: PoolMemory(next_serial=7), BURST: PoolMemory(next_serial=9)})

    remembered = plan(fleet(replica("base-3", in_flight=30)), policy(), memory, NOON)
    found = plan(fleet(replica("base-31", in_flight=30), replica("base-x", in_flight=0)), policy(), memory, NOON)

    assert kinds(remembered) == ["start base-7"]
    assert found.memory.pools[BASE].next_serial == 32
    gone = plan(fleet(), policy(pool(BASE, 0, 1)), memory, NOON)
    assert gone.memory.pools[BURST].next_serial == 9  # a pool that was taken out may come back
