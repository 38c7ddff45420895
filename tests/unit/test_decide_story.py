"""Stories of whole days at the controller, told tick by tick (after Knative's autoscaler_test.go)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.world import (
    BASE,
    BURST,
    CHAT,
    LONG_AGO,
    NOON,
    World,
    decision,
    fleet,
    kinds,
    policy,
    pool,
    replica,
    slots,
    threshold,
)

from tidegate.decide.plan import plan
from tidegate.model.decision import ActionKind, Limit
from tidegate.model.fleet import Fleet, PoolView, ReplicaState, SignalName, Value, Want
from tidegate.model.memory import Memory, PoolMemory, ServiceMemory
from tidegate.model.policy import Flavour, Mode
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

    assert world.count(ReplicaState.READY) == 11  # 159 requests and 16 for the silent one
    assert "base-7" in {one.id for one in world.replicas}  # nobody knows what it is doing: it goes last


def test_one_of_two_may_be_silent_but_not_the_only_one() -> None:
    world = World(policy(), replica("base-1"), replica("base-2"))
    world.silent = frozenset({"base-1", "base-2"})
    world.run(load=0, ticks=30)
    assert world.count(ReplicaState.READY) == 2

    world.silent = frozenset({"base-1"})
    world.run(load=0, ticks=30)
    assert [one.id for one in world.replicas] == ["base-1"]


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


def test_after_a_restart_of_the_controller_nothing_scales_in_for_the_grace() -> None:
    """F1: a restart once took 7 replicas to 1 and back."""
    world = World(policy(), *(replica(f"base-{number}") for number in (1, 2, 3)))
    world.memory = Memory()

    made = world.tick(load=1)
    assert world.memory.started_at == world.now
    assert Limit.RESTART_GRACE in decision(made, BASE).limits
    assert decision(made, BASE).may_change_at == world.now + timedelta(seconds=300)
    assert kinds(world.run(load=90, ticks=1))  # growing needs no grace
    world.run(load=1, ticks=60)
    assert len(world.replicas) == 1


def test_a_start_that_misses_its_deadline_is_undone_and_its_pool_left_alone() -> None:
    """C4, E5, E8: the other pool takes over in the same tick; pauses double to ten minutes."""
    flavour = Flavour(start_deadline=timedelta(seconds=60))
    world = World(policy(pool(BASE, 1, 2, flavour=flavour), pool(BURST, 0, 2)), replica("base-1"), start=1e9)
    world.stuck = True

    assert kinds(world.tick(load=30)) == ["start base-2"]
    world.run(load=30, ticks=3)
    made = world.tick(load=30)
    assert kinds(made) == ["give_up base-2", "start burst-1"]
    assert made.actions[0].reason == "still requested 60 s after it was requested"
    assert Limit.START_FAILED in decision(made, BASE).limits
    assert decision(made, BASE).may_change_at == world.now + timedelta(seconds=30)
    assert world.memory.pools[BASE] == PoolMemory(3, world.now + timedelta(seconds=30), 1, ("base-2",))

    assert world.tick(load=47).actions[0].replica == "burst-2"  # still paused
    assert kinds(world.tick(load=64)) == ["start base-3"]  # the pause is over
    assert world.memory.pools[BASE].counted == ()


def test_pauses_double_to_ten_minutes_and_a_good_start_ends_them() -> None:
    flavour = Flavour(start_deadline=timedelta(seconds=15))
    world = World(policy(pool(BASE, 1, 1, flavour=flavour)), start=1e9)
    pauses: list[float] = []
    while len(pauses) < 7:
        world.tick(load=0)
        memory = world.memory.pools[BASE]
        if memory.failures > len(pauses):
            assert memory.failed_until is not None
            pauses.append((memory.failed_until - world.now).total_seconds())
    assert pauses == [30, 60, 120, 240, 480, 600, 600]

    world.start = timedelta(seconds=1)
    world.run(load=0, ticks=50)
    assert world.memory.pools[BASE] == replace(world.memory.pools[BASE], failures=0, failed_until=None)
    assert world.count(ReplicaState.READY) == 1


def test_replicas_lost_together_are_one_failure_and_each_is_counted_once() -> None:
    failed = [replica(f"base-{number}", ReplicaState.FAILED) for number in (1, 2)]

    first = plan(fleet(*failed), policy(), SEEN, NOON)  # burst serves while base may not start
    later = plan(fleet(*failed), policy(), first.memory, NOON + timedelta(seconds=15))
    third = replica("base-3", ReplicaState.FAILED)
    again = plan(fleet(*failed, third), policy(), later.memory, NOON + timedelta(seconds=20))

    assert kinds(first) == ["give_up base-1", "give_up base-2", "start burst-1"]
    assert first.actions[0].reason == "failed"
    assert first.memory.pools[BASE].failures == 1
    assert later.memory.pools[BASE] == first.memory.pools[BASE]
    assert again.memory.pools[BASE].failures == 1
    assert again.memory.pools[BASE].failed_until == NOON + timedelta(seconds=50)


def test_a_replica_told_to_stop_is_not_given_up_twice_nor_counted() -> None:
    told = replica("base-2", ReplicaState.FAILED, want=Want.STOP)

    made = plan(fleet(replica("base-1", in_flight=1), told), policy(), SEEN, NOON)

    assert made.actions == ()
    assert made.memory.pools[BASE].failures == 0


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
    assert lost.memory.pools[BASE].failures == 0


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


def test_without_a_free_place_in_base_the_burst_pool_takes_it() -> None:
    made = plan(fleet(replica("base-1", in_flight=40), free={BASE: 1}), policy(), SEEN, NOON)

    assert kinds(made) == ["start base-2", "start burst-1"]
    assert decision(made, BASE).limits == (Limit.NO_CAPACITY,)


def test_no_place_anywhere_is_said_and_nothing_is_remembered_as_done() -> None:
    made = plan(fleet(replica("base-1", in_flight=40), free={BASE: 0, BURST: 0}), policy(), SEEN, NOON)

    assert made.actions == ()
    assert decision(made, BURST).limits == (Limit.NO_CAPACITY,)
    assert decision(made, BASE).wanted == 3
    assert made.memory.services[CHAT].last_out is None


def test_pools_that_offer_the_same_gpus_never_get_them_twice() -> None:
    shared = slots(BASE, 2)
    views = {
        BASE: PoolView(BASE, (replica("base-1", in_flight=90),), shared),
        BURST: PoolView(BURST, (), (shared[0], replace(shared[1], slot=7, port=9000), *slots(BURST, 1))),
    }

    made = plan(Fleet(NOON, views), policy(), SEEN, NOON)

    starts = [action.slot for action in made.actions if action.kind is ActionKind.START]
    assert starts == [*shared, *slots(BURST, 1)]


def test_min_holds_without_any_signal_and_max_cuts_last() -> None:
    """B16: an empty service is brought to its min; an absurd load to its max."""
    empty = plan(fleet(), policy(pool(BASE, 2, 4), pool(BURST, 0, 8)), SEEN, NOON)
    assert kinds(empty) == ["start base-1", "start base-2"]
    assert decision(empty, BASE).limits == (Limit.MIN,)
    assert empty.actions[0].deadline == NOON + timedelta(minutes=10)

    flood = plan(fleet(replica("base-1", in_flight=1e308), replica("base-2", in_flight=1e308)), policy(), SEEN, NOON)
    assert [decision(flood, name).target for name in (BASE, BURST)] == [4, 8]
    assert decision(flood, BURST).limits == (Limit.MAX,)
    assert decision(flood, BURST).wanted == 1_000_000 - 4


def test_a_service_with_min_zero_and_nothing_there_stays_empty() -> None:
    made = plan(fleet(), policy(pool(BASE, 0, 4)), SEEN, NOON)

    assert made.actions == ()
    assert decision(made, BASE).reason == "chat has no replica and so no load to read; base stays at 0."


def test_nothing_that_has_not_been_ready_is_taken_for_idle() -> None:
    """B3, C7: starting replicas give no signal."""
    made = plan(fleet(replica("base-1", ReplicaState.BOOTING, since=NOON)), policy(pool(BASE, 0, 4)), SEEN, NOON)

    assert made.actions == ()
    assert decision(made, BASE).limits == (Limit.MISSING_DATA,)
    assert "no ready replica to read a load from and 1 starting" in decision(made, BASE).reason


def test_idle_keeps_the_last_replica_because_nothing_could_call_it_back() -> None:
    world = World(policy(pool(BASE, 0, 4)), replica("base-1"), replica("base-2"))

    made = world.run(load=0, ticks=40)

    assert world.count(ReplicaState.READY) == 1
    assert "has 0 requests in flight on 1 ready replica and keeps its last one" in decision(made, BASE).reason


def test_a_lower_max_is_obeyed_at_once() -> None:
    made = plan(
        fleet(*(replica(f"base-{number}", in_flight=16) for number in (1, 2, 3))),
        policy(pool(BASE, 1, 2), pool(BURST, 0, 0)),
        replace(SEEN, services={CHAT: ServiceMemory(last_in=NOON)}),
        NOON,
    )

    assert kinds(made) == ["drain base-3"]


def test_a_base_below_its_min_grows_while_the_burst_pool_keeps_what_it_has() -> None:
    seen = fleet(*(replica(f"burst-{number}", in_flight=16) for number in (1, 2)))

    made = plan(seen, policy(pool(BASE, 1, 2), pool(BURST, 0, 8)), SEEN, NOON)

    assert kinds(made) == ["start base-1"]
    assert decision(made, BURST).target == 2


@pytest.mark.parametrize("mode", [Mode.ADVISE, Mode.PAUSED])
def test_other_modes_decide_the_same_and_do_nothing(mode: Mode) -> None:
    seen = fleet(replica("base-1", in_flight=40))
    acting, other = (plan(seen, policy(mode=one), SEEN, NOON) for one in (Mode.ACT, mode))

    assert other.actions == ()
    assert decision(other, BASE).target == decision(acting, BASE).target == 3
    assert decision(other, BASE).limits == (Limit.MODE,)
    assert decision(other, BASE).mode is mode
    assert other.memory.services[CHAT].last_out is None
    assert other.memory.pools[BASE].next_serial == 2
    assert acting.memory.pools[BASE].next_serial == 4


def test_serial_numbers_are_never_used_twice() -> None:
    memory = replace(SEEN, pools={BASE: PoolMemory(next_serial=7), BURST: PoolMemory(next_serial=9)})

    remembered = plan(fleet(replica("base-3", in_flight=30)), policy(), memory, NOON)
    found = plan(fleet(replica("base-31", in_flight=30), replica("base-x", in_flight=0)), policy(), memory, NOON)

    assert kinds(remembered) == ["start base-7"]
    assert found.memory.pools[BASE].next_serial == 32
    gone = plan(fleet(), policy(pool(BASE, 0, 1)), memory, NOON)
    assert gone.memory.pools[BURST].next_serial == 9  # a pool that was taken out may come back


def test_a_clock_set_back_cannot_pin_a_cooldown_or_a_pause() -> None:
    """F4: times in the future are taken as now."""
    future = NOON + timedelta(days=30)
    chat = ServiceMemory(wishes=((future, 9),), last_out=future, last_in=future)
    memory = Memory(future, {CHAT: chat}, {BASE: PoolMemory(1, future, failures=1)})
    world = World(policy(), replica("base-1"), replica("base-2"))
    world.memory = memory

    world.tick(load=1)
    assert world.memory.started_at == world.now
    assert world.memory.pools[BASE].failed_until == world.now + timedelta(seconds=30)
    world.run(load=1, ticks=21)

    assert world.count(ReplicaState.READY) == 1


def test_prefill_and_decode_of_one_service_are_sized_apart() -> None:
    """Their loads are not of one kind, so neither answers for the other."""
    from tidegate.model.fleet import PoolName, PoolRole

    prefill, decode = PoolName("prefill"), PoolName("decode")
    pd = policy(pool(prefill, 1, 4, role=PoolRole.PREFILL), pool(decode, 1, 4, role=PoolRole.DECODE), pool(BASE, 0, 4))
    seen = Fleet(
        NOON,
        {
            prefill: PoolView(prefill, (replica("prefill-1", in_flight=40),), slots(prefill, 4)),
            decode: PoolView(decode, (replica("decode-1", in_flight=4),), slots(decode, 4)),
        },
    )

    made = plan(seen, pd, SEEN, NOON)

    assert kinds(made) == ["start prefill-2", "start prefill-3"]
    assert [one.pool for one in made.decisions] == [prefill, decode, BASE]
    assert "chat (prefill) has 40 requests" in decision(made, prefill).reason
    assert set(made.memory.services) == {"chat", "chat (prefill)", "chat (decode)"}
