"""A scale-in that had to be taken back makes the next ones wait longer, for a while and within bounds."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from fakes.tide import Tide, by_objective
from fakes.world import BASE, BURST, CHAT, NOON, pool, replica
from hypothesis import given
from hypothesis import strategies as st

from tidegate.decide.guard import Bounds, patience, regretted
from tidegate.decide.remember import with_change
from tidegate.model.memory import ServiceMemory
from tidegate.model.policy import FlapBudget, Steps

WINDOW = timedelta(seconds=200)
BOUNDS = Bounds(1, 12, timedelta(), WINDOW, growth_waits=False, steps=Steps(), flaps=FlapBudget())


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def changed(*changes: tuple[float, int]) -> ServiceMemory:
    """What is remembered of changes: seconds after noon, and replicas more or less."""
    memory = ServiceMemory()
    for seconds, size in changes:
        memory = with_change(memory, max(0, size), max(0, -size), BOUNDS, after(seconds))
    return memory


def test_growth_soon_after_a_scale_in_takes_it_back_and_the_next_waits_longer() -> None:
    memory = changed((0, -1), (500, 1))
    assert memory.regrets == (after(500),)
    assert patience(memory, after(500)) == 1.5
    assert patience(changed((0, -1), (500, 1), (900, -1), (1000, 1)), after(1000)) == 2.25


def test_growth_after_growth_or_long_after_a_scale_in_is_no_regret() -> None:
    assert changed((0, -1), (800, 1)).regrets == ()
    assert changed((0, 1), (100, 1)).regrets == ()
    twice = changed((0, -1), (500, 1), (520, 2))
    assert twice.regrets == (after(500),), "one scale-in is taken back once"
    assert not regretted(ServiceMemory(), WINDOW, NOON)


def test_a_regret_is_forgotten_after_forty_minutes() -> None:
    memory = changed((0, -1), (500, 1))
    assert patience(memory, after(500 + 2399)) == 1.5
    assert patience(memory, after(500 + 2400)) == 1.0
    assert changed((0, -1), (500, 1), (2900, -1)).regrets == ()


def test_a_clock_that_was_set_back_cannot_make_a_regret_last() -> None:
    ahead = replace(ServiceMemory(), regrets=(after(86400),))
    kept = with_change(ahead, 0, 1, BOUNDS, NOON)
    assert kept.regrets == (NOON,)
    assert patience(kept, after(2400)) == 1.0


@given(st.lists(st.floats(0, 5000), max_size=40))
def test_patience_is_bounded_whatever_is_remembered(moments: list[float]) -> None:
    memory = replace(ServiceMemory(), regrets=tuple(after(at) for at in sorted(moments)))
    assert 1.0 <= patience(memory, after(5000)) <= 6.0


def dips(regrets: tuple[datetime, ...]) -> int:
    """The smallest supply while the load is low for five minutes, with these regrets in memory."""
    found = [replica(f"base-{number}") for number in range(1, 5)]
    world = Tide(by_objective(pool(BASE, 1, 4), pool(BURST, 0, 8)), *found, start=240).warmed(3.0)
    chat = world.memory.services[CHAT]
    began = world.now
    chat = replace(chat, regrets=tuple(began + (at - NOON) for at in regrets))
    world.memory = replace(world.memory, services={CHAT: chat})
    before = len(world.sizes)
    world.run(1.2, ticks=28)
    return min(world.sizes[before:])


def test_the_same_dip_is_sat_out_after_scale_ins_that_were_taken_back() -> None:
    assert dips(()) < dips((NOON, NOON, NOON))
