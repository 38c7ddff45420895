"""The tick: record before act, act by name, settle last; a crash at any step is made good by the next tick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from fakes.clock import ManualClock
from fakes.controller_world import (
    BASE,
    BURST,
    H1,
    H2,
    World,
    batch,
    engine,
    fleet_policy,
    host_state,
    own_engine,
    reading,
)
from structlog.testing import capture_logs

from tidegate.controller.observer import remembered
from tidegate.model.decision import ActionKind
from tidegate.model.fleet import ReplicaState, Want
from tidegate.model.memory import Durations, Memory, PoolMemory
from tidegate.model.policy import Mode
from tidegate.runtime.errors import Permanent, Transient

NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")


class CrashError(Exception):
    """The process ends here."""


def world(mode: Mode = Mode.ACT) -> World:
    """Two hosts with GPUs and nothing running."""
    made = World(ManualClock(NOON))
    made.settings = replace(made.settings, fleet=fleet_policy(mode))
    made.current.reload(NOON)
    made.enroll(H1, H2)
    for host, gpus in ((H1, 2), (H2, 4)):
        made.report(host, reading(host, NOON), state=host_state(gpus))
    return made


def ids(made: World, want: Want = Want.RUN) -> list[str]:
    return sorted(record.id for record in made.store.replicas.load() if record.want is want)


def obey(made: World) -> None:
    """Every host brings its replicas to where they are wanted; 25 requests in flight are spread over what serves."""
    now = made.clock.now()
    share = 25.0 / max(1, len(ids(made)))
    for host, gpus in ((H1, 2), (H2, 4)):
        wanted = made.store.replicas.desired(host)
        states = {
            found.replica_id: ReplicaState.READY if found.want is Want.RUN else ReplicaState.STOPPED
            for found in wanted.replicas
        }
        engines = [
            engine(name, now, running=share, queue_depth=0.0, steps=now.timestamp())
            for name, state in states.items()
            if state is ReplicaState.READY
        ]
        state = host_state(gpus, replicas=states, seen_at=now, desired=(wanted.epoch, wanted.revision))
        made.report(host, reading(host, now, engines), state=state, first=int(now.timestamp()))


def test_a_base_pool_is_brought_to_its_minimum_and_the_host_is_woken() -> None:
    """From nothing to one: a place is chosen, the wish is stored, the agent hears of it at once."""
    made = world()

    made.run()

    assert ids(made) == ["base-1"]
    assert made.woken == [frozenset({H1})]
    assert made.store.decisions.outcomes == {1: "applied"}
    assert [figures.target for figures in made.store.decisions.rows.values()] == [1, 0]
    assert made.state.overview().pools[0].figures.target == 1


def test_a_decision_is_on_record_before_anything_is_done() -> None:
    """Whoever asks afterwards why a replica was started finds the answer, even when starting failed."""
    made = world()

    def refuse(*_: object) -> None:
        assert made.store.decisions.decisions, "acted before recording"
        raise Permanent("no such template")

    made.store.replicas.apply = refuse  # type: ignore[method-assign]
    made.run()

    assert made.store.decisions.outcomes == {1: "failed: no such template"}
    assert made.state.overview().tally.actions == {("start", "failed"): 1}


@pytest.mark.parametrize("mode", [Mode.ADVISE, Mode.PAUSED])
def test_without_the_mode_act_nothing_is_done(mode: Mode) -> None:
    """The decision is recorded with its reason, and that is all."""
    made = world(mode)

    made.run()

    assert made.store.decisions.decisions
    assert ids(made) == []
    assert made.woken == []


STEPS: dict[str, Callable[[World], tuple[object, str]]] = {
    "observe": lambda made: (made.store.replicas, "observe"),
    "memory": lambda made: (made.store.decisions, "memory"),
    "record": lambda made: (made.store.decisions, "record"),
    "act": lambda made: (made.store.replicas, "apply"),
    "settle": lambda made: (made.store.decisions, "settle"),
    "show": lambda made: (made.state, "show"),
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_is_made_good_by_the_next_tick(step: str, after: bool) -> None:
    """Whether the step took effect or not: the fleet ends at one base replica and two burst ones, each started once."""
    made = world()
    made.run()
    made.clock.forward(15)
    obey(made)
    owner, name = STEPS[step](made)
    works = getattr(owner, name)

    def crash(*arguments: object) -> None:
        if after:
            works(*arguments)
        raise CrashError

    setattr(owner, name, crash)
    with pytest.raises(CrashError):
        made.run()
    setattr(owner, name, works)

    for _ in range(8):
        made.clock.forward(15)
        obey(made)
        made.run()

    ready = [record for record in made.store.replicas.load() if record.state is ReplicaState.READY]
    assert len([record for record in ready if record.pool == BASE]) == 1
    starts = [action.replica for _, action in made.store.decisions.actions if action.kind is ActionKind.START]
    records = made.store.replicas.records
    assert set(starts) >= set(records), "something runs that no decision started"
    slots = [(record.host, record.slot) for record in ready]
    assert len(slots) == len(set(slots)), "two replicas in one place"
    assert len([record for record in ready if record.pool == BURST]) == 2


def test_a_store_that_is_away_fails_the_tick_and_the_next_one_goes_on() -> None:
    """The loop counts it; nothing was half done."""
    made = world()
    works = made.store.hosts.all

    def away() -> None:
        raise Transient("database does not answer")

    made.store.hosts.all = away  # type: ignore[method-assign,assignment]
    with pytest.raises(Transient):
        made.run()
    made.store.hosts.all = works  # type: ignore[method-assign]
    made.run()

    assert ids(made) == ["base-1"]


def test_a_replica_that_was_told_to_stop_leaves_the_desired_state_once_its_host_says_so() -> None:
    """Until then the wish stands, and its place is held."""
    made = world()
    made.run()
    made.clock.forward(15)
    obey(made)
    made.run()
    record = made.store.replicas.records["base-1"]  # type: ignore[index]
    made.store.replicas.records["base-1"] = replace(record, want=Want.STOP)  # type: ignore[index]
    made.store.replicas._raise([H1])

    made.clock.forward(15)
    made.run()
    assert [found.want for found in made.store.replicas.desired(H1).replicas][:1] == [Want.STOP]

    obey(made)
    made.clock.forward(1)
    made.run()

    stopped = made.store.replicas.records["base-1"]  # type: ignore[index]
    assert (stopped.state, stopped.stopped_at) == (ReplicaState.STOPPED, made.clock.now() - timedelta(seconds=1))


def test_a_new_process_goes_on_where_the_last_one_was_with_unused_serials() -> None:
    """A restart is invisible, a first start earns its grace, and a crash before settling hands out no number twice."""
    settled = Memory(started_at=NOON - timedelta(days=1), pools={BURST: PoolMemory(4, starts=Durations((240.0,)))})

    memory = remembered(settled, NOON, {BURST: 7, BASE: 2})

    assert memory.started_at == NOON - timedelta(days=1)
    assert remembered(Memory(), NOON, {}).started_at == NOON
    assert memory.pools[BURST] == PoolMemory(7, starts=Durations((240.0,)))
    assert memory.pools[BASE].next_serial == 2


def test_a_bad_reload_keeps_the_running_policy_and_a_good_one_takes_it_at_the_next_tick() -> None:
    """Targets carry on: nothing is stopped because a file was read again."""
    made = world()
    made.run()
    bigger = fleet_policy()
    bigger = replace(bigger, pools={**bigger.pools, BASE: replace(bigger.pools[BASE], min=2, max=2)})
    made.settings = replace(made.settings, fleet=bigger)

    assert made.current.reload(NOON)
    made.clock.forward(15)
    obey(made)
    made.run()

    assert [name for name in ids(made) if name.startswith("base")] == ["base-1", "base-2"]


def test_problems_of_a_host_that_are_too_many_to_show_are_counted() -> None:
    """What is dropped is said."""
    world = World(ManualClock(NOON))
    world.enroll(H1)
    engines = [own_engine(f"e{number}", problems=["HTTP 404", "HTTP 500"]) for number in range(15)]
    world.report(H1, reading(H1, NOON, []), state=host_state(2, engines))
    world.run()

    (host,) = world.state.overview().hosts
    assert len(host.problems) == 21
    assert host.problems[-1] == "10 more: see the agent's own page"


def test_two_agents_under_one_name_are_told_and_a_restarted_one_is_not() -> None:
    """A copied machine brings its token along; each of the two would start every replica of the host."""
    clock = ManualClock(NOON)
    world = World(clock)
    world.enroll(H1)

    def report(boot: str, number: int) -> tuple[str, ...]:
        made = batch(H1, [reading(H1, clock.now(), [])], host_state(2), number, clock.now())
        (sent,) = made.reports
        fresh = made.model_copy(update={"reports": [sent.model_copy(update={"boot_id": boot})]})
        world.intake.take(H1, fresh, clock)
        world.run()
        clock.forward(15)
        return world.state.overview().notes

    for number, boot in enumerate(("first", "first", "second", "second", "third"), start=1):
        assert report(boot, number) == ()
    with capture_logs() as said:
        (note,) = report("second", 6)
        report("third", 7)
    assert note.startswith("host gpu-1: two agents report under this name")
    assert [line["event"] for line in said if line["log_level"] == "warning"] == ["two agents under one name"]
    clock.forward(301)
    assert report("third", 8) == ()
