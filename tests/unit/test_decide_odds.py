"""Starts that fail by chance: how many are ordered, and when one is tried again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.tide import by_objective
from fakes.world import BASE, BURST, LONG_AGO, NOON, fleet, kinds, policy, pool, replica
from hypothesis import given
from hypothesis import strategies as st

from tidegate.decide.backoff import back_off_of, on_trial, with_failures
from tidegate.decide.odds import odds, to_have, with_tries
from tidegate.decide.plan import plan
from tidegate.decide.supply import Supply, supply_of
from tidegate.model.fleet import FailureClass, PoolView, Replica, ReplicaState, SignalName, Value
from tidegate.model.memory import BackOff, Memory, PoolMemory, Tries

TWELVE = pool(BASE, 1, 12)
LOADING = replica("base-3", ReplicaState.LOADING, requested_at=NOON)


def supply(*found: Replica) -> Supply:
    return supply_of(TWELVE, PoolView(BASE, found), NOON)


def failed(name: str, kind: FailureClass = FailureClass.HEALTH) -> Replica:
    return replica(name, ReplicaState.FAILED, failure=kind)


@given(st.integers(0, 500), st.integers(0, 500), st.floats(0.4, 1.0))
def test_more_needed_is_never_fewer_ordered_and_what_is_there_is_never_ordered(
    needed: int, ready: int, chance: float
) -> None:
    have = to_have(needed, ready, chance)
    assert needed <= have <= to_have(needed + 1, ready, chance)
    assert have == needed or ready < needed
    assert to_have(needed, ready, 1.0) == needed
    assert abs((have - ready) * chance - (needed - ready)) <= 0.5 + 1e-6 or have == needed


def test_three_needed_of_which_three_in_ten_fail_are_four_ordered() -> None:
    assert to_have(10, 7, 0.7) == 11
    assert to_have(10, 7, 0.95) == 10


def test_each_start_is_counted_once_when_it_ends_whichever_way() -> None:
    under_way = PoolMemory(9, starting=dict.fromkeys(("base-1", "base-2", "base-3"), NOON))
    seen = supply(replica("base-1"), failed("base-2"), LOADING, failed("base-8"))
    after = with_tries(under_way, seen)
    assert after.tries == {"default": Tries(0.93, 1.0)}
    assert with_tries(replace(after, starting={}), seen) == replace(after, starting={})


@pytest.mark.parametrize("kind", [FailureClass.QUOTA, FailureClass.SOLD_OUT, FailureClass.AUTHENTICATION])
def test_what_refuses_every_start_says_nothing_of_the_next_one(kind: FailureClass) -> None:
    under_way = PoolMemory(9, starting={"base-2": NOON})  # type: ignore[dict-item]
    assert with_tries(under_way, supply(failed("base-2", kind))).tries == {}


def test_odds_start_high_learn_quickly_and_never_ask_for_the_moon() -> None:
    none, one = [PoolMemory()], [supply()]
    assert odds(one, none) == pytest.approx(0.95)
    assert odds(one, [PoolMemory(tries={"default": Tries(7.0, 3.0)})]) == pytest.approx(0.79, abs=0.01)
    assert odds(one, [PoolMemory(tries={"default": Tries(0.0, 14.0)})]) == 0.4


def test_the_odds_are_those_of_pools_that_can_grow() -> None:
    full = supply_of(pool(BASE, 1, 1), PoolView(BASE, (replica("base-1"),)), NOON)
    burst = supply_of(pool(BURST, 0, 8), PoolView(BURST, ()), NOON)
    good, bad = PoolMemory(tries={"default": Tries(14.0)}), PoolMemory(tries={"default": Tries(0.0, 14.0)})
    assert odds([full, burst], [bad, good]) > 0.95
    assert odds([full], [bad]) == 0.4


def test_a_group_whose_starts_fail_orders_more_of_them() -> None:
    busy = {
        SignalName.RUNNING: Value(40.0),
        SignalName.WAITING: Value(9.0),
        SignalName.KV_CACHE_USAGE: Value(0.4),
        SignalName.PROMPT_TOKENS: Value(6000.0),
        SignalName.GENERATION_TOKENS: Value(1300.0),
        SignalName.REQUEST_RATE: Value(4.4),
        SignalName.TTFT_P95: Value(1.2),
        SignalName.TPOT_P95: Value(0.058),
    }
    made = by_objective(pool(BASE, 1, 60))
    seen = fleet(*(replica(f"base-{n}", signals=busy) for n in range(1, 9)), free={BASE: 60})
    taught = plan(seen, made, Memory(started_at=LONG_AGO), NOON).memory

    def ordered(tries: Tries) -> int:
        pools = {BASE: replace(taught.pools[BASE], tries={"default": tries})}
        return len(plan(seen, made, replace(taught, pools=pools), NOON + timedelta(seconds=15)).actions)

    lucky, unlucky = ordered(Tries(14.0)), ordered(Tries(7.0, 7.0))
    assert 1 <= lucky < unlucky <= 2 * lucky


def test_where_others_serve_the_first_failures_are_replaced_at_once() -> None:
    """Two of three starts once failed at the worst moment, and their successors were held back as well."""
    memory, at = PoolMemory(9), NOON
    for number in (2, 3):
        memory = with_failures(memory, supply(replica("base-1"), failed(f"base-{number}")), at)
        assert back_off_of(memory, "default", at) is None
        assert on_trial(memory, supply(replica("base-1")), "default", at) is None
        at += timedelta(seconds=15)
    memory = with_failures(memory, supply(replica("base-1"), failed("base-4")), at)
    held = back_off_of(memory, "default", at)
    assert held is not None
    assert (held.failures, held.until - at) == (3, timedelta(seconds=30))
    assert on_trial(memory, supply(replica("base-1")), "default", held.until) is None


@pytest.mark.parametrize("kind", [FailureClass.QUOTA, FailureClass.TIME_OUT, FailureClass.AUTHENTICATION])
def test_what_does_not_pass_by_itself_is_left_alone_from_the_first(kind: FailureClass) -> None:
    memory = with_failures(PoolMemory(9), supply(replica("base-1"), failed("base-2", kind)), NOON)
    assert back_off_of(memory, "default", NOON) is not None


def test_what_is_replaced_at_once_is_told_all_the_same() -> None:
    seen = fleet(replica("base-1", in_flight=1), failed("base-2"))
    made = plan(seen, policy(pool(BASE, 2, 4)), Memory(started_at=LONG_AGO), NOON)
    assert kinds(made) == ["give_up base-2", "start base-3"]
    assert "the last start failed: base-2 failed" in made.decisions[0].reason
    assert made.decisions[0].may_change_at is None


def test_a_flavour_of_which_nothing_serves_is_left_alone_from_the_first_failure() -> None:
    made = plan(fleet(failed("base-1")), policy(), Memory(started_at=LONG_AGO), NOON)
    assert kinds(made) == ["give_up base-1", "start burst-1"]
    assert made.memory.pools[BASE].back_offs["default"].until == NOON + timedelta(seconds=30)


def test_a_pause_of_a_memory_that_does_not_tell_when_it_began_is_taken_as_given() -> None:
    old = PoolMemory(5, back_offs={"default": BackOff(NOON, 4, FailureClass.IMAGE)})
    assert on_trial(old, supply(), "default", NOON) == 1
