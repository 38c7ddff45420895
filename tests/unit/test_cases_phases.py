"""Case G: prefill and decode are one decision: a ratio that is kept, both or neither at zero, one budget."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.world import CHAT, NOON, decision, kinds, policy, pool, replica, slots

from tidegate.decide.plan import plan
from tidegate.model.decision import Limit, Plan
from tidegate.model.fleet import Fleet, PoolName, PoolRole, PoolView, Replica, ReplicaState
from tidegate.model.memory import Memory, ServiceMemory
from tidegate.model.policy import Budget, FleetPolicy, PolicyName, Ratio, ServicePolicy, TargetPolicy

PREFILL, DECODE = PoolName("prefill"), PoolName("decode")
SEEN = Memory(started_at=NOON - timedelta(days=1))


def phases(ratio: Ratio, low: int = 0, **changes: object) -> FleetPolicy:
    """A prefill and a decode pool of up to eight, 16 requests a replica."""
    chat = ServicePolicy(CHAT, policy=PolicyName.TARGET, target=TargetPolicy(in_flight_per_replica=16), ratio=ratio)
    pools = (pool(PREFILL, low, 8, role=PoolRole.PREFILL), pool(DECODE, low, 8, role=PoolRole.DECODE))
    return policy(*pools, service=chat, **changes)


def planned(made: FleetPolicy, *found: Replica, memory: Memory = SEEN, now: object = NOON) -> Plan:
    """One plan over these replicas, with ten free places a pool."""
    views = {
        name: PoolView(name, tuple(one for one in found if one.pool == name), slots(name, 10))
        for name in (PREFILL, DECODE)
    }
    return plan(Fleet(NOON, views), made, memory, NOON)


def targets(made: Plan) -> tuple[int, int]:
    """Of prefill and of decode."""
    return decision(made, PREFILL).target, decision(made, DECODE).target


def test_g1_the_ratio_is_kept_by_raising_the_smaller_side() -> None:
    """kthena#905, #917, #1213: two scalers that did not know each other drifted apart."""
    busy = [replica(f"decode-{number}", in_flight=32) for number in (1, 2)]  # wants 4
    made = planned(phases(Ratio(0.5, 1.0)), replica("prefill-1", in_flight=4), *busy)
    assert targets(made) == (2, 4)
    assert Limit.RATIO in decision(made, PREFILL).limits
    assert "the ratio of prefill to decode" in decision(made, PREFILL).reason


def test_g1_too_much_prefill_raises_decode() -> None:
    made = planned(phases(Ratio(0.25, 1.0)), replica("prefill-1", in_flight=60), replica("decode-1", in_flight=4))
    assert targets(made) == (4, 4)
    assert Limit.RATIO in decision(made, DECODE).limits


def test_g2_never_one_phase_without_the_other() -> None:
    """kthena#1258, kserve: one side at zero skipped the ratio, and the other served nobody."""
    made = planned(phases(Ratio()), replica("decode-1", in_flight=20))
    assert targets(made) == (1, 2)
    assert kinds(made) == ["start prefill-1", "start decode-2"]
    quiet = planned(phases(Ratio()))
    assert targets(quiet) == (0, 0)


def test_g3_the_bounds_of_a_pool_are_wider_than_no_ratio() -> None:
    tight = phases(Ratio(2.0, 4.0))
    tight = replace(tight, pools={**tight.pools, PREFILL: replace(tight.pools[PREFILL], max=3)})
    made = planned(tight, replica("prefill-1", in_flight=4), *(replica(f"decode-{n}", in_flight=16) for n in (1, 2, 3)))
    assert targets(made) == (3, 3)


@pytest.mark.parametrize(("gpus", "both"), [(None, (4, 6)), (8, (3, 5)), (6, (2, 4)), (4, (2, 2))])
def test_g5_one_budget_is_shared_by_both_growths_and_never_passed(gpus: int | None, both: tuple[int, int]) -> None:
    """dynamo, llm-d: one leg of a rebalance was done and the other refused."""
    found = [replica("prefill-1", in_flight=32), replica("prefill-2", in_flight=32)]
    found += [replica("decode-1", in_flight=48), replica("decode-2", in_flight=48)]
    made = planned(phases(Ratio(), budget=Budget(gpus=gpus)), *found)
    assert targets(made) == both
    held = len(found) + len(made.actions)
    assert gpus is None or held <= gpus
    assert (Limit.BUDGET in decision(made, DECODE).limits) == (gpus is not None)


def test_g5_a_phase_whose_partner_the_budget_does_not_hold_does_not_grow() -> None:
    made = planned(phases(Ratio(), budget=Budget(gpus=1)), replica("decode-1", in_flight=40))
    assert targets(made) == (0, 1)
    assert made.actions == ()


def test_g_a_phase_that_shrinks_takes_nothing_from_the_other() -> None:
    calm = [replica(f"prefill-{number}", in_flight=4) for number in (1, 2)]
    busy = [replica("decode-1", in_flight=30)]
    memory = replace(SEEN, services={"chat (prefill)": ServiceMemory()})
    made = planned(phases(Ratio(), budget=Budget(gpus=3)), *calm, *busy, memory=memory)
    assert targets(made) == (1, 1)  # what leaves is not spent before it was seen to have left
    assert kinds(made) == ["drain prefill-2"]
    assert Limit.BUDGET in decision(made, DECODE).limits


def test_g_a_phase_without_a_partner_is_sized_alone() -> None:
    alone = phases(Ratio(0.5, 1.0))
    alone = replace(alone, pools={PREFILL: alone.pools[PREFILL]})
    views = {PREFILL: PoolView(PREFILL, (replica("prefill-1", in_flight=30),), slots(PREFILL, 4))}
    made = plan(Fleet(NOON, views), alone, SEEN, NOON)
    assert decision(made, PREFILL).target == 2


def test_g_a_starting_partner_is_a_partner() -> None:
    made = planned(
        phases(Ratio()), replica("decode-1", in_flight=10), replica("prefill-1", ReplicaState.LOADING, since=NOON)
    )
    assert made.actions == ()
