"""What a pool's past has taught, as people are shown it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fakes.planner_story import Story
from fakes.world import BASE, BURST, CHAT, NOON, policy

from tidegate.controller.learned import learned_of
from tidegate.link.planner.observation import read_observation
from tidegate.link.planner.world import bare_policy
from tidegate.model.fleet import FailureClass, PoolName, ReplicaId
from tidegate.model.memory import BackOff, Durations, Memory, Pending, PoolMemory
from tidegate.model.overview import Learned

from fakes.observations import line  # isort: skip


def test_nothing_was_learned_at_first() -> None:
    assert learned_of(Memory(), policy(), NOON) == {BASE: Learned(), BURST: Learned()}


def test_times_are_the_middle_of_those_seen_and_back_offs_end() -> None:
    over, left = (BackOff(NOON + timedelta(minutes=minutes), 2, FailureClass.QUOTA, "quota") for minutes in (0, 5))
    order = Pending(ReplicaId("burst-3"), "start", NOON, NOON + timedelta(minutes=10))
    pool = PoolMemory(
        starts=Durations((200.0, 260.0, 900.0)),
        drains=Durations((30.0, 50.0)),
        back_offs={"spot": over, "hourly": left},
        pending=(order,),
    )
    found = learned_of(Memory(pools={BURST: pool}), policy(), NOON)[BURST]
    assert found == Learned(260.0, 3, 40.0, None, {"hourly": left}, (order,))
    assert CHAT is not None


def test_what_a_replica_carries_is_near_what_the_tenants_replicas_do() -> None:
    """The tenant's replicas meet 60 ms a token up to about four requests per second each."""
    story = Story()
    story.run(3.0, 20)
    story.run(14.0, 40)
    seen = bare_policy(read_observation(line(story.tenant.observe(14.0)), bare=True))
    found = learned_of(story.memory, seen, NOON)[PoolName("base")]
    assert found.start_seconds == pytest.approx(60.0, abs=20)
    assert found.requests_per_second is not None
    assert 2.5 < found.requests_per_second < 5.0
