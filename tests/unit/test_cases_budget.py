"""Case E: budgets that were passed, quotas that were waited for, and one bad place that stopped every other."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from fakes.configuration import complaints
from fakes.controller_world import H1, H2, fleet_policy, host_state
from fakes.observations import JSON
from fakes.planner_story import Story, each_replica
from fakes.world import BASE, BURST, LONG_AGO, NOON, World, applied, decision, fleet, kinds, policy, pool, replica

from tidegate.controller.gather import gather
from tidegate.controller.hostview import Freshness, Sources
from tidegate.decide.plan import plan
from tidegate.model.decision import Limit, Plan
from tidegate.model.fleet import Fleet, PoolView, Replica, ReplicaState, Slot
from tidegate.model.memory import Memory
from tidegate.model.policy import Budget, Flavour
from tidegate.model.reading import HostName
from tidegate.wire import HostRecord

SEEN = Memory(started_at=LONG_AGO)


def held(replicas: list[Replica]) -> int:
    return sum(one.gpus for one in replicas)


def test_e1_after_any_part_of_a_plan_the_fleet_is_within_its_budget() -> None:
    """dynamo#12428: of a rebalance the up leg was done and the down leg failed: over the budget for good."""
    made = policy(pool(BASE, 1, 6), pool(BURST, 0, 6), budget=Budget(gpus=6))
    world = World(made, replica("base-1"), start=60)
    for load in [150.0] * 30 + [10.0] * 60 + [150.0] * 30:
        before = list(world.replicas)
        taken = world.tick(load)
        for steps in range(len(taken.actions) + 1):
            part = applied(before, taken.actions[:steps], world.now) if before else []
            assert held(part) <= 6
    assert any(Limit.BUDGET in decision(taken, name).limits for taken in world.history for name in (BASE, BURST))


def test_e1_a_tenant_is_never_told_to_hold_more_than_its_budget() -> None:
    story = Story()

    def five(seen: JSON) -> None:
        seen["budget"] = {"gpus": 5, "per_hour": 16.0}

    story.mischief = [five]
    story.run(3.0, 10)
    begun = len(story.sizes)
    story.run(25.0, 60)
    assert max(story.sizes[begun:]) <= 5
    base, burst = story.tenant.supply("base"), story.tenant.supply("burst")
    assert 3.0 * base + 5.0 * burst <= 16.0
    assert "budget" in story.limits("base") + story.limits("burst")


def test_e3_what_has_no_price_is_never_started_under_a_money_budget() -> None:
    """dynamo#11220: a change of schema made counts 0, and the budget was silently off. Unknown is not free."""
    unpriced = policy(pool(BASE, 1, 4), budget=Budget(per_hour=Decimal(100)))
    taken = plan(fleet(replica("base-1", in_flight=90)), unpriced, SEEN, NOON)
    assert kinds(taken) == []
    assert Limit.BUDGET in decision(taken, BASE).limits
    priced = policy(
        pool(BASE, 1, 4, flavours=(Flavour(price_per_gpu_hour=Decimal(2)),)), budget=Budget(per_hour=Decimal(100))
    )
    assert kinds(plan(fleet(replica("base-1", in_flight=90)), priced, SEEN, NOON)) != []


def test_e3_and_the_file_says_so_before_anything_runs() -> None:
    text = (
        '[[service]]\nname = "s"\n[[pool]]\nname = "p"\n[[pool.flavour]]\ntemplate = "t"\n'
        '[[host]]\nname = "h"\ngpus = 1\n[budget]\nper_hour = 10\n'
    )
    (told,) = complaints(text)
    assert "budget.per_hour: needs prices, and p has none" in told


def test_e4_a_host_that_is_not_heard_offers_nothing_and_the_decision_says_what_was_done() -> None:
    """llm-d#1298: the inventory could not be read; the log said "unlimited", the code denied all."""
    fresh = Freshness(timedelta(seconds=60), timedelta(seconds=60))
    silent = [HostRecord(name, NOON - timedelta(hours=1), host_state(4), revoked=False) for name in (H1, H2)]
    seen = gather(Sources(silent, {}, []), fleet_policy(), fresh, NOON)
    taken = plan(seen.fleet, fleet_policy(), SEEN, NOON)
    assert taken.actions == ()
    found = decision(taken, BASE)
    assert (found.target, Limit.NO_CAPACITY in found.limits) == (1, True)
    assert "no free place for another replica" in found.reason


def test_e5_a_start_that_times_out_is_undone_and_not_tried_again_at_once() -> None:
    """autoscaler#9132: the node that never came was never taken back, and was ordered again and again."""
    world = World(policy(), replica("base-1"))
    world.stuck = True
    world.run(load=60, ticks=200)
    orders = [action.replica for made in world.history for action in made.actions if action.kind.value == "start"]
    undone = [action.replica for made in world.history for action in made.actions if action.kind.value == "give_up"]
    assert set(undone) <= set(orders)
    assert len(undone) >= 3
    assert len(orders) <= 30
    assert any(Limit.START_FAILED in decision(made, BASE).limits for made in world.history)


TROUBLES = {
    "QuotaExceeded: limit of 8 GPUs": "quota",
    "InsufficientInstanceCapacity": "sold out",
    "401 Unauthorized": "authentication",
    "ImagePullBackOff": "image",
    "health check failed": "health",
}


@pytest.mark.parametrize("why", TROUBLES)
def test_e6_each_kind_of_trouble_is_told_in_its_own_words_and_left_alone_for_a_while(why: str) -> None:
    """autoscaler contrib#1823, cortex#1685: a quota was waited for for ever, and nobody was told."""
    story = Story(high=2, start_s=1e9)
    story.run(3.0, 10)

    def refused(seen: JSON) -> None:
        for found in each_replica(seen):
            if found["state"] == "starting":
                found |= {"state": "failed", "why": why, "signals": None}

    story.mischief = [refused]
    story.run(20.0, 20)
    reasons = [made["pools"]["burst"]["reason"] for made in story.plans]
    assert any(why in reason for reason in reasons)
    assert story.tenant.made <= 60


def test_e8_the_next_flavour_is_taken_in_the_same_tick() -> None:
    """karpenter#2275: retries on the pool that was sold out starved the one that was not."""
    made = policy(pool(BASE, 1, 1), pool(BURST, 0, 4, flavours=(Flavour("spot"), Flavour("hourly"))))
    places = tuple(
        Slot(HostName(name), number, (number,), 8100 + number, name)
        for name in ("spot", "hourly")
        for number in range(4)
    )
    busy = replica("base-1", in_flight=40)
    broken = replica("burst-1", ReplicaState.FAILED, why="sold out", flavour="spot")

    def look(*found: Replica) -> Plan:
        pools = {BASE: PoolView(BASE, (busy,)), BURST: PoolView(BURST, found, places)}
        return plan(Fleet(NOON, pools), made, SEEN, NOON)

    assert flavours(look()) == {"spot"}
    after = look(broken)
    assert flavours(after) == {"hourly"}
    assert Limit.FLAVOUR in decision(after, BURST).limits


def flavours(taken: Plan) -> set[str]:
    """Of what a plan starts."""
    return {action.slot.flavour for action in taken.actions if action.slot}


def test_e10_one_bad_host_stops_nobody_else() -> None:
    """autoscaler#10301: the metadata of one node could not be read, and all scaling stopped."""
    fresh = Freshness(timedelta(seconds=60), timedelta(seconds=60))
    hosts = [
        HostRecord(H1, NOON, None, revoked=False),
        HostRecord(H2, NOON, host_state(4, seen_at=NOON), revoked=False),
    ]
    seen = gather(Sources(hosts, {}, []), fleet_policy(), fresh, NOON)
    assert seen.fleet.pools[BASE].free_slots == ()
    assert len(seen.fleet.pools[BURST].free_slots) == 4


def test_e12_a_minimum_that_no_budget_allows_is_refused_and_what_runs_is_kept() -> None:
    """Dynamo's budget answered (0, 0) to a minimum that did not fit."""
    text = '[[service]]\nname = "s"\n[[pool]]\nname = "p"\nmin = 4\nmax = 4\n[budget]\ngpus = 3\n'
    (told,) = complaints(text)
    assert "budget.gpus: is 3, but the pools' min alone take 4 GPUs" in told
    running = [replica(f"base-{n}", in_flight=5) for n in range(1, 5)]
    taken = plan(fleet(*running), policy(pool(BASE, 4, 4), budget=Budget(gpus=3)), SEEN, NOON)
    assert kinds(taken) == []
