"""The units' loop: what it does, what it remembers on disk, and what it refuses."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from fakes.agent_parts import NOON, FakeUnits, ManualClock, desired, reading, replica

from tidegate.agent.desired_state import Kept, KeptFile
from tidegate.agent.units import Manners, Replicas
from tidegate.model.fleet import ReplicaState, Want
from tidegate.model.reading import EngineName
from tidegate.model.target import EngineTarget
from tidegate.runtime.errors import Permanent, Transient
from tidegate.wire import DesiredReplica

B1 = EngineName("b-1")


def target(replica: DesiredReplica) -> EngineTarget:
    return EngineTarget(EngineName(replica.replica_id), f"http://127.0.0.1:{replica.port}/metrics", replica.pool)


MANNERS = Manners(target, {"vllm": timedelta(seconds=10)})


class House:
    """One host, whose agent may be started anew at any moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.units = FakeUnits()
        self.start_agent()

    def start_agent(self) -> None:
        self.replicas = Replicas(self.units, KeptFile(self.folder / "desired.json"), MANNERS, self.clock)

    def round(self, running: float | None = None) -> None:
        self.clock.pass_by(timedelta(seconds=5))
        now = self.clock.now()
        seen = {} if running is None else {B1: [reading("b-1", now - timedelta(seconds=n), running) for n in (4, 1)]}
        self.replicas.reconcile(seen)

    def state(self, name: str = "b-1") -> ReplicaState:
        return self.replicas.states()[name]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_command_is_carried_out_at_the_next_round_and_reported(house: House) -> None:
    assert house.replicas.offer(desired(replica("b-1")))
    assert house.replicas.wake.is_set()
    house.round()
    assert house.units.started == ["b-1"]
    assert house.replicas.position() == (1, 1)
    assert house.replicas.starting() == {B1}
    house.round()
    assert [one.name for one in house.replicas.targets()] == ["b-1"]
    house.round(running=2.0)
    (status,) = house.replicas.report({B1: [reading("b-1", NOON, 2.0)]})
    assert (status.state, status.in_flight) == (ReplicaState.READY, 2.0)
    assert house.replicas.starting() == frozenset()


def test_an_earlier_term_or_revision_is_refused(house: House) -> None:
    house.replicas.offer(desired(replica("b-1"), epoch=5, revision=3))
    house.round()
    assert not house.replicas.offer(desired(epoch=4, revision=99))
    assert not house.replicas.offer(desired(epoch=5, revision=2))
    assert not house.replicas.offer(desired(epoch=5, revision=3))
    house.round()
    assert house.units.stopped == []


def test_a_restarted_agent_takes_over_its_units_and_still_refuses_an_earlier_term(house: House) -> None:
    house.replicas.offer(desired(replica("b-1"), epoch=5))
    house.round()
    house.round(running=1.0)
    house.start_agent()
    assert house.replicas.position() == (5, 1)
    assert not house.replicas.offer(desired(epoch=4, revision=7))
    house.round(running=1.0)
    assert (house.units.started, house.units.stopped) == (["b-1"], [])
    assert house.state() is ReplicaState.READY


def test_a_silent_controller_changes_nothing(house: House) -> None:
    house.replicas.offer(desired(replica("b-1")))
    for _ in range(100):
        house.round(running=0.0)
    assert (house.units.started, house.units.stopped) == (["b-1"], [])


def test_a_restarted_agent_without_its_file_stops_nothing_until_it_is_told(house: House) -> None:
    house.replicas.offer(desired(replica("b-1")))
    house.round()
    (house.folder / "desired.json").unlink()
    house.start_agent()
    house.round()
    assert house.units.stopped == []
    house.replicas.offer(desired(replica("b-1"), revision=2))
    house.round(running=0.0)
    assert (house.units.started, house.state()) == (["b-1"], ReplicaState.READY)


def test_an_unreadable_file_is_set_aside(house: House) -> None:
    path = house.folder / "desired.json"
    path.write_text('{"desired": {"epoch": ')
    assert KeptFile(path).load() == Kept()
    assert (house.folder / "desired.unreadable").exists()


def test_a_drain_at_its_deadline_counts_what_it_cut(house: House) -> None:
    house.replicas.offer(desired(replica("b-1")))
    house.round()
    house.round(running=3.0)
    house.replicas.offer(desired(replica("b-1", Want.DRAIN, deadline=house.clock.now()), revision=2))
    house.round(running=3.0)
    house.round()
    (status,) = house.replicas.report({})
    assert (status.state, status.cut_requests) == (ReplicaState.STOPPED, 3)
    assert status.why == "the drain's deadline is over"


def test_an_idle_drain_cuts_nothing_and_then_leaves_no_trace(house: House) -> None:
    house.replicas.offer(desired(replica("b-1")))
    house.round()
    house.round(running=0.0)
    house.replicas.offer(desired(replica("b-1", Want.DRAIN), revision=2))
    for _ in range(5):
        house.round(running=0.0)
    (status,) = house.replicas.report({})
    assert (status.state, status.cut_requests) == (ReplicaState.STOPPED, 0)
    assert house.units.statuses() == []
    house.replicas.offer(desired(revision=3))
    house.round()
    assert house.replicas.report({}) == []


def test_a_unit_that_cannot_be_started_is_reported_with_the_remedy_and_not_tried_again(house: House) -> None:
    house.units.refusal = Permanent("no [[template]] named 'vllm'")
    house.replicas.offer(desired(replica("b-1")))
    house.round()
    house.units.refusal = None
    house.round()
    (status,) = house.replicas.report({})
    assert (status.state, status.why) == (ReplicaState.FAILED, "no [[template]] named 'vllm'")
    assert house.units.started == []


def test_a_start_that_may_succeed_later_is_tried_again(house: House) -> None:
    house.units.refusal = Transient("systemctl did not answer")
    house.replicas.offer(desired(replica("b-1")))
    house.round()
    assert house.replicas.report({})[0].why == "systemctl did not answer"
    house.units.refusal = None
    house.round()
    assert house.units.started == ["b-1"]


def test_a_dead_unit_is_reported_and_left_to_the_controller(house: House) -> None:
    house.replicas.offer(desired(replica("b-1")))
    house.round()
    house.units.die("b-1", "killed by SIGKILL (out of memory?)")
    for _ in range(3):
        house.round()
    (status,) = house.replicas.report({})
    assert (status.state, status.why) == (ReplicaState.FAILED, "killed by SIGKILL (out of memory?)")
    assert (house.units.started, house.units.stopped) == (["b-1"], [])


def test_a_full_disk_is_said_and_the_units_are_seen_to_when_it_has_room_again(
    tmp_path: Path,
) -> None:
    house = House(tmp_path / "gone")
    house.replicas.offer(desired(replica("b-1")))
    with pytest.raises(Transient, match="make room there"):
        house.round()
    (tmp_path / "gone").mkdir()
    house.round()
    assert house.units.started == ["b-1"]


def test_an_engine_may_be_silent_only_for_its_start_time(house: House) -> None:
    house.replicas.offer(desired(replica("b-1", deadline=house.clock.now() + timedelta(minutes=2))))
    house.round()
    house.clock.pass_by(timedelta(minutes=1))
    assert house.replicas.starting() == {B1}
    house.clock.pass_by(timedelta(minutes=1))
    assert house.replicas.starting() == frozenset()


def test_only_a_real_clock_offset_counts(house: House) -> None:
    house.replicas.offer(desired(replica("b-1", deadline=house.clock.now() + timedelta(minutes=2))))
    house.round()
    house.replicas.clock_offset(timedelta(seconds=30))
    assert house.replicas.starting() == {B1}
    house.replicas.clock_offset(timedelta(hours=1))
    assert house.replicas.starting() == frozenset()


def test_a_template_that_left_the_configuration_keeps_its_running_engine_watched(house: House) -> None:
    house.replicas.offer(desired(replica("b-1")))
    house.round()
    house.round()
    house.replicas.use(Manners(lambda _: None, {}))
    house.round()
    assert [one.name for one in house.replicas.targets()] == ["b-1"]
