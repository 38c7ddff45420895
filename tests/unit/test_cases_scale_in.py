"""Case D: requests that a scale-in lost, the wrong victims, and capacity that was started while it was leaving."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from fakes.configuration import complaints
from fakes.planner_story import Story
from fakes.world import BASE, BURST, CHAT, LONG_AGO, NOON, World, carrying, fleet, kinds, policy, pool, replica

from tidegate.decide.plan import plan
from tidegate.model.decision import ActionKind
from tidegate.model.fleet import ReplicaState
from tidegate.model.memory import Memory
from tidegate.model.policy import Flavour, Steps

SEEN = Memory(started_at=LONG_AGO)


def test_d1_a_replica_that_leaves_has_the_whole_drain_deadline_to_finish() -> None:
    """dynamo#13559: requests were aborted five seconds after SIGTERM."""
    slow = policy(pool(BASE, 1, 4, flavours=(Flavour(drain_deadline=timedelta(minutes=20)),)))
    world = World(slow, *(replica(f"base-{n}") for n in range(1, 5)))
    world.run(load=1, ticks=40)
    drains = [action for made in world.history for action in made.actions if action.kind is ActionKind.DRAIN]
    assert drains
    assert all(drain.deadline is not None for drain in drains)
    (first,) = [made for made in world.history if drains[0] in made.actions]
    assert drains[0].deadline == first.decisions[0].at + timedelta(minutes=20)


def test_d2_only_what_was_never_ready_is_stopped_at_once() -> None:
    """kthena#1589, aibrix#553: cordon first, stop at none in flight or at the deadline."""
    world = World(policy(), replica("base-1"), start=600)
    world.tick(load=90)
    world.run(load=1, ticks=60)
    for made in world.history:
        for action in made.actions:
            if action.kind is ActionKind.CANCEL:
                assert action.replica != "base-1"
    assert world.count(ReplicaState.READY) == 1


def test_d2_a_busy_replica_is_told_to_drain_never_to_stop() -> None:
    crowd = [replica(f"base-{n}", in_flight=9) for n in range(1, 7)]
    taken = plan(fleet(*crowd), policy(pool(BASE, 1, 4)), SEEN, NOON)
    assert kinds(taken) == ["drain base-6", "drain base-5"]


def test_d3_a_step_limit_lets_so_many_go_in_a_period() -> None:
    """bifrost#1923: streams were cut at each step of the HPA. One a minute, where the operator says so."""
    made = policy()
    stepped = replace(made.services[CHAT], steps=Steps(inward=1, period=timedelta(seconds=60)))
    crowd = [*(replica(f"base-{n}") for n in range(1, 5)), *(replica(f"burst-{n}") for n in range(1, 5))]
    world = World(replace(made, services={CHAT: stepped}), *crowd)
    world.run(load=1, ticks=120)
    left = [
        taken.decisions[0].at for taken in world.history for action in taken.actions if action.kind is ActionKind.DRAIN
    ]
    assert len(left) == 7
    assert all(later - earlier >= timedelta(seconds=60) for earlier, later in pairwise(left))


def test_d4_burst_goes_before_base_starting_before_ready_and_the_least_busy_first() -> None:
    """llm-d#1152, knative#3886, keda#3680: the warm or the busy one was taken."""
    found = [
        replica("base-1", in_flight=0),
        replica("base-2", in_flight=9),
        replica("burst-1", in_flight=5),
        replica("burst-2", in_flight=2),
        replica("burst-3", ReplicaState.LOADING, since=NOON - timedelta(seconds=50)),
        replica("burst-4", ReplicaState.LOADING, since=NOON - timedelta(seconds=20)),
    ]
    memory, now = SEEN, NOON
    order: list[str] = []
    for _ in range(200):
        now += timedelta(seconds=15)
        made = plan(fleet(*found, now=now), policy(), memory, now)
        memory = made.memory
        order += [action.replica for action in made.actions]
        found = [one for one in found if one.id not in {action.replica for action in made.actions}]
    assert order[:4] == ["burst-4", "burst-3", "burst-2", "burst-1"]
    assert order[4:] in ([], ["base-1"])


def test_d4_what_does_not_say_what_it_is_doing_goes_first_unless_it_has_just_come() -> None:
    """It carries about what its siblings do, and without it more is known of the rest."""
    busy = [replica("base-1", in_flight=1), replica("burst-1", in_flight=3), replica("burst-3", in_flight=1)]
    one_of_burst = policy(pool(BASE, 1, 4), pool(BURST, 0, 1))
    quiet = replica("burst-2")
    taken = plan(fleet(*busy, quiet), one_of_burst, SEEN, NOON)
    assert kinds(taken) == ["drain burst-2", "drain burst-3"]
    fresh = replica("burst-2", since=NOON - timedelta(seconds=30))
    taken = plan(fleet(*busy, fresh), one_of_burst, SEEN, NOON)
    assert kinds(taken) == ["drain burst-3", "drain burst-1"]


def test_d6_a_replica_that_is_leaving_is_taken_back_before_another_is_started() -> None:
    """dynamo#11173: demand came back while a replica drained, and a cold one was started beside it."""
    leaving = replica("base-2", ReplicaState.DRAINING, since=NOON, signals=carrying(4))
    taken = plan(fleet(replica("base-1", in_flight=40), leaving), policy(), SEEN, NOON + timedelta(seconds=15))
    assert kinds(taken)[0] == "resume base-2"
    assert kinds(taken)[1:] == ["start base-3"]


def test_d6_a_tenant_is_told_to_uncordon_before_it_starts() -> None:
    story = Story(drain_s=120.0)
    story.run(14.0, 40)
    grown = story.size
    story.victims.clear()
    while not story.victims:
        story.tick(1.0)
    came_back = []
    for _ in range(7):  # within the drain
        made = story.tick(24.0)
        came_back += [name for pool in made["pools"].values() for name in pool["uncordon"]]
    assert grown >= 4
    assert came_back


def test_d7_a_drain_that_the_host_would_cut_short_is_an_error_of_the_file() -> None:
    """kserve website#726: 15 s of preStop, 45 s of shutdown, 60 s of grace. The relation is checked at load."""
    text = (
        '[[service]]\nname = "s"\n[[pool]]\nname = "p"\n[[pool.flavour]]\ntemplate = "t"\ndrain_deadline_seconds = 10\n'
        '[[host]]\nname = "h"\ngpus = 1\n'
        '[[template]]\nname = "t"\nkind = "systemd"\nunit = "t@{slot}.service"\ndrain_grace_seconds = 10\n'
    )
    (told,) = complaints(text)
    assert "must be below drain_deadline_seconds of the pool p (10)" in told


@pytest.mark.parametrize("start", [30.0, 240.0])
def test_no_scale_in_drops_the_load_on_too_few(start: float) -> None:
    """The tenant's replicas answer within the objective all the way down."""
    story = Story(start_s=start)
    story.run(14.0, 60)
    for rate in (10.0, 7.0, 4.0):
        story.run(rate, 30)
        assert story.size * story.tenant.carries >= rate
