"""Case F: what was lost or misread over restarts, clock steps, pauses, failed orders and reloads.

F5 (schedules) and the pauses of F6 are told in `test_decide_bounds.py`, F8 (two writers) in `test_controller_leader.py`
and `contract/test_store_leadership.py`.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.clock import ManualClock
from fakes.controller_world import BURST as REAL_BURST
from fakes.controller_world import CHAT as REAL_CHAT
from fakes.controller_world import H1, H2, engine, fleet_policy, host_state, own_engine, reading
from fakes.controller_world import World as ControllerWorld
from fakes.observations import JSON
from fakes.planner_story import Story
from fakes.world import BASE, BURST, NOON, World, decision, policy, pool, replica

from tidegate.config.settings import Settings
from tidegate.model.decision import ActionKind, Limit
from tidegate.model.fleet import ReplicaState
from tidegate.model.memory import Memory
from tidegate.model.policy import Mode, PolicyName

BUSY, CALM = 14.0, 3.0


@pytest.fixture(scope="module")
def _settled() -> Story:
    story = Story()
    story.run(CALM, 20)
    story.run(BUSY, 40)
    return story


@pytest.fixture
def settled(_settled: Story) -> Story:
    return copy.deepcopy(_settled)


def test_f1_after_a_restart_without_a_memory_nothing_scales_in_until_it_has_looked(settled: Story) -> None:
    """knative#2705, #4795: a restart took 7 to 1, and then 2, 6 and 7 again."""
    before = settled.size
    settled.memory = Memory()
    settled.run(BUSY, 4)
    assert settled.size >= before


def test_f2_a_restart_with_its_memory_is_invisible(settled: Story) -> None:
    """ray#25646, AIBrix, HPA: windows lived in memory. Here every tick may be the first of a new process."""
    other = copy.deepcopy(settled)
    for minute in range(60):
        rate = CALM if minute < 30 else BUSY
        for _ in range(4):
            steady = settled.tick(rate)
            other.restart()
            assert other.tick(rate) == steady


def test_f2_an_hourly_restart_costs_nothing_over_a_day() -> None:
    steady, restarted = Story(), Story()
    for hour in range(6):
        for story in (steady, restarted):
            story.run(BUSY if hour % 2 else CALM, 60)
        restarted.restart()
    assert restarted.sizes == steady.sizes


@pytest.mark.parametrize("hours", [-1, 1, -24])
def test_f4_a_clock_that_steps_pins_nothing_and_loses_nothing(settled: Story, hours: int) -> None:
    """Proteus#377, cockroach#13447: a wall clock that stepped back pinned the cooldown for as long."""
    before = settled.size

    def step(tenant_seconds: float) -> None:
        settled.tenant.now += tenant_seconds
        for found in settled.tenant.replicas.values():
            for one in found:
                one["since"] = min(one["since"], settled.tenant.now)

    step(hours * 3600.0)
    settled.run(BUSY, 10)
    assert settled.size >= before - 1
    settled.run(CALM, 90)
    assert settled.size < before
    settled.run(BUSY, 20)
    assert settled.size >= 4


def controller(now: object, **changes: object) -> ControllerWorld:
    """A controller with an engine of its operator's own in base, under `target`."""
    made = fleet_policy()
    services = {REAL_CHAT: replace(made.services[REAL_CHAT], policy=PolicyName.TARGET)}
    world = ControllerWorld(
        ManualClock(now), Settings(Path("tidegate.toml"), replace(made, services=services, **changes))
    )  # type: ignore[arg-type]
    world.enroll(H1, H2)
    return world


def told(world: ControllerWorld, load: float, replicas: dict[str, ReplicaState] | None = None) -> None:
    """Time passes; hosts report, the controller looks."""
    world.clock.forward(15)
    now = world.clock.now()
    looks = reading(H1, now, [engine("vllm-a", now, running=load, queue_depth=0.0)])
    world.report(H1, looks, state=host_state(2, [own_engine()], seen_at=now))
    world.report(H2, reading(H2, now), state=host_state(4, replicas=replicas or {}, seen_at=now))
    world.run()


def test_f6_a_pause_in_the_file_goes_on_looking_and_deciding() -> None:
    """keda#3009, #5165: a pause leaked at 0 <-> 1, and another removed the reports."""
    world = World(policy(), replica("base-1"))
    world.policy = replace(world.policy, mode=Mode.PAUSED)
    taken = world.run(load=90, ticks=20)
    assert (decision(taken, BASE).wanted, taken.actions) == (4, ())
    assert Limit.MODE in decision(taken, BASE).limits
    assert [one.id for one in world.replicas] == ["base-1"]


def test_f9_what_was_ordered_counts_as_done_only_when_it_was_seen() -> None:
    """nvcf#1624: a scale request that had failed was remembered as done, and never made again."""
    world = controller(NOON)
    told(world, load=25.0)
    ordered = {one.id for one in world.store.replicas.load() if one.pool == REAL_BURST}
    assert len(ordered) == 2
    told(world, load=25.0, replicas=dict.fromkeys(ordered, ReplicaState.FAILED))
    told(world, load=25.0, replicas={})
    for _ in range(20):
        told(world, load=25.0)
    starts = {action.replica for _, action in world.store.decisions.actions if action.kind is ActionKind.START}
    assert ordered < starts


def test_f10_progress_that_was_made_is_kept_whatever_the_order_had_said() -> None:
    """kubeblocks#10674: after a time-out everything was rolled back, although most of it had worked."""
    world = World(policy(), replica("base-1"), start=60)
    world.tick(load=60)
    lost = [one for one in world.replicas if one.id != "base-2"]
    world.replicas = lost  # one order never arrived
    world.run(load=60, ticks=20)
    gone = [
        action.replica for taken in world.history for action in taken.actions if action.kind is not ActionKind.START
    ]
    assert gone == []
    assert world.count(ReplicaState.READY) == 4


def test_f12_an_order_that_nothing_became_of_expires_and_is_made_again() -> None:
    """dynamo#8422: a delegate that always called itself stable piled decisions up; a refused one must expire."""
    story = Story()
    story.run(CALM, 15)

    def deaf(_: JSON) -> None:
        return None

    obey, story.tenant.obey = story.tenant.obey, deaf  # type: ignore[method-assign]
    made = story.run(BUSY, 20)
    asked = [plan["pools"]["base"]["target"] + plan["pools"]["burst"]["target"] for plan in story.plans[-80:]]
    assert max(asked) <= 12
    assert made["pools"]["base"]["target"] == 4
    story.tenant.obey = obey  # type: ignore[method-assign]
    story.run(BUSY, 10)
    assert story.size >= 4


def test_f13_one_order_is_in_flight_for_a_replica_however_often_the_controller_looks() -> None:
    """aperture#1472: a slow webhook was called again and again. An order has an id, and repeating it does nothing."""
    world = controller(NOON)
    for _ in range(30):
        told(world, load=25.0)
    starts = [action.replica for _, action in world.store.decisions.actions if action.kind is ActionKind.START]
    assert len(starts) == len(set(starts)) == 2


def test_b18_a_reload_keeps_the_size_and_clips_it_to_the_new_bounds() -> None:
    """skypilot#3359: an update under steady traffic set the target to 0."""
    world = World(policy(), *(replica(f"base-{n}") for n in range(1, 4)))
    world.run(load=48, ticks=10)
    world.policy = policy(pool(BASE, 1, 2), pool(BURST, 0, 8))
    taken = world.tick(load=48)
    assert decision(taken, BASE).target == 2
    assert decision(taken, BURST).target == 1
    world.policy = policy(pool(BASE, 4, 6), pool(BURST, 0, 8))
    assert decision(world.tick(load=48), BASE).target == 4
