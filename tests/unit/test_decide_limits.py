"""Stories of what bounds a decision: places, min and max, modes, restarts, clocks."""

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
)

from tidegate.decide.plan import plan
from tidegate.model.decision import ActionKind, Limit
from tidegate.model.fleet import Fleet, PoolView, ReplicaState
from tidegate.model.memory import BackOff, Memory, PoolMemory, ServiceMemory
from tidegate.model.policy import Mode

SEEN = Memory(started_at=LONG_AGO)


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


def test_a_clock_set_back_cannot_pin_a_cooldown_or_a_pause() -> None:
    """F4: times in the future are taken as now."""
    future = NOON + timedelta(days=30)
    chat = ServiceMemory(wishes=((future, 9),), last_out=future, last_in=future)
    memory = Memory(future, None, {CHAT: chat}, {BASE: PoolMemory(1, back_offs={"default": BackOff(future, 1)})})
    world = World(policy(), replica("base-1"), replica("base-2"))
    world.memory = memory

    world.tick(load=1)
    assert world.memory.started_at == world.now
    assert world.memory.pools[BASE].back_offs["default"].until == world.now + timedelta(seconds=30)
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
