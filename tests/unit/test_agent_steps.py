"""What the agent does with its units, told as stories: no clock, no process."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from fakes.agent_parts import NOON, desired, reading, replica
from hypothesis import given
from hypothesis import strategies as st

from tidegate.agent.desired_state import Kept
from tidegate.agent.steps import Start, Step, Stop, accepted, in_flight, newer, observe, steps
from tidegate.model.fleet import ReplicaState, Want
from tidegate.model.reading import EngineName, EngineReading, EngineState
from tidegate.model.target import UnitStatus
from tidegate.wire import Desired

GRACE = {"vllm": timedelta(seconds=10)}
SECOND = timedelta(seconds=1)


class Story:
    """One host over time: what is desired, what runs, what its engines say; every round decides anew."""

    def __init__(self) -> None:
        self.kept = Kept()
        self.now = NOON
        self.units: dict[str, UnitStatus] = {}
        self.readings: dict[EngineName, list[EngineReading]] = {}

    def want(self, *replicas: object, revision: int = 1) -> None:
        self.kept = accepted(self.kept, desired(*replicas, revision=revision), self.now)  # type: ignore[arg-type]

    def unit(self, name: str, state: ReplicaState = ReplicaState.LOADING, why: str = "", slot: int = 0) -> None:
        self.units[name] = UnitStatus(name, state, why, "vllm", slot, (slot,))

    def says(self, name: str, running: float = 0.0, state: EngineState = EngineState.READY) -> None:
        self.readings.setdefault(EngineName(name), []).append(reading(name, self.now, running, state=state))

    def round(self, after: timedelta = SECOND) -> tuple[Step, ...]:
        self.now += after
        self.kept = observe(self.kept, self.units, self.readings, self.now)
        return steps(self.kept, self.units, self.readings, GRACE, self.now)

    def state(self, name: str) -> ReplicaState:
        return self.kept.replicas[name].state

    def serving(self, name: str = "b-1") -> None:
        self.want(replica(name))
        self.unit(name)
        self.says(name)
        self.round()


def test_a_wanted_replica_is_started_once_and_is_ready_when_its_engine_answers() -> None:
    story = Story()
    story.want(replica("b-1"))
    assert story.round() == (Start(replica("b-1")),)
    assert story.state("b-1") is ReplicaState.REQUESTED
    story.unit("b-1", ReplicaState.BOOTING)
    assert story.round() == ()
    assert story.state("b-1") is ReplicaState.BOOTING
    story.unit("b-1")
    story.says("b-1", state=EngineState.UNREACHABLE)
    assert story.round() == ()
    assert story.state("b-1") is ReplicaState.LOADING
    story.says("b-1")
    story.round()
    assert story.state("b-1") is ReplicaState.READY


def test_a_ready_replica_stays_ready_when_one_scrape_fails() -> None:
    story = Story()
    story.serving()
    story.says("b-1", state=EngineState.UNREACHABLE)
    story.round()
    assert story.state("b-1") is ReplicaState.READY


def test_a_dead_unit_is_reported_failed_with_why_and_not_started_again() -> None:
    story = Story()
    story.serving()
    story.unit("b-1", ReplicaState.FAILED, "exited with 1")
    assert story.round() == ()
    assert (story.state("b-1"), story.kept.replicas["b-1"].why) == (ReplicaState.FAILED, "exited with 1")


def test_a_failed_unit_is_cleared_away_when_the_controller_gives_it_up() -> None:
    story = Story()
    story.serving()
    story.unit("b-1", ReplicaState.FAILED, "exited with 1")
    story.want(replica("b-1", Want.STOP), revision=2)
    assert [type(step) for step in story.round()] == [Stop]
    assert story.state("b-1") is ReplicaState.STOPPED


def test_a_drain_waits_for_two_idle_readings_after_the_grace() -> None:
    story = Story()
    story.serving()
    story.want(replica("b-1", Want.DRAIN, deadline=NOON + timedelta(minutes=5)), revision=2)
    story.says("b-1", running=0.0)
    assert story.round() == ()
    assert story.state("b-1") is ReplicaState.DRAINING
    story.now += timedelta(seconds=15)
    story.says("b-1", running=2.0)
    assert story.round() == ()
    story.says("b-1", running=0.0)
    assert story.round() == ()
    story.now += SECOND
    story.says("b-1", running=0.0)
    (stop,) = story.round()
    assert isinstance(stop, Stop)
    assert (stop.replica_id, stop.in_flight) == ("b-1", 0.0)


def test_idle_readings_within_the_grace_stop_nothing() -> None:
    story = Story()
    story.serving()
    story.want(replica("b-1", Want.DRAIN), revision=2)
    for _ in range(8):
        story.says("b-1")
        assert story.round() == ()


def test_a_drain_that_misses_its_deadline_is_cut_with_its_requests_counted() -> None:
    story = Story()
    story.serving()
    story.want(replica("b-1", Want.DRAIN, deadline=NOON + timedelta(minutes=1)), revision=2)
    story.says("b-1", running=3.0)
    assert story.round() == ()
    (stop,) = story.round(timedelta(minutes=1))
    assert isinstance(stop, Stop)
    assert (stop.in_flight, stop.why) == (3.0, "the drain's deadline is over")


def test_a_deadline_is_told_by_the_controllers_clock() -> None:
    """Our clock is an hour ahead: the drain must not be cut an hour too early."""
    story = Story()
    story.serving()
    story.want(replica("b-1", Want.DRAIN, deadline=NOON - timedelta(minutes=50)), revision=2)
    story.says("b-1", running=3.0)
    story.kept = story.kept.model_copy(update={"clock_offset_seconds": -3600.0})
    assert story.round() == ()
    assert len(story.round(timedelta(minutes=11))) == 1


def test_a_silent_engine_is_not_taken_for_an_idle_one() -> None:
    story = Story()
    story.serving()
    story.want(replica("b-1", Want.DRAIN, deadline=NOON + timedelta(minutes=5)), revision=2)
    for _ in range(10):
        story.says("b-1", state=EngineState.HANGING)
        assert story.round(timedelta(seconds=15)) == ()


def test_a_replica_that_never_served_is_drained_at_once() -> None:
    story = Story()
    story.want(replica("b-1"))
    story.unit("b-1")
    story.round()
    story.want(replica("b-1", Want.DRAIN), revision=2)
    assert len(story.round()) == 1


def test_a_cordoned_replica_runs_on_and_can_be_taken_back() -> None:
    story = Story()
    story.serving()
    story.want(replica("b-1", Want.CORDON), revision=2)
    assert story.round(timedelta(hours=1)) == ()
    assert story.state("b-1") is ReplicaState.CORDONED
    story.want(replica("b-1"), revision=3)
    assert story.round() == ()
    assert story.state("b-1") is ReplicaState.READY


def test_a_replica_wanted_again_after_its_stop_starts_anew() -> None:
    story = Story()
    story.serving()
    story.unit("b-1", ReplicaState.DRAINING)
    assert [type(step) for step in story.round()] == [Stop]
    story.unit("b-1", ReplicaState.STOPPED)
    assert [type(step) for step in story.round()] == [Start]


def test_what_is_not_desired_any_more_is_stopped_and_nothing_else() -> None:
    story = Story()
    story.serving()
    story.unit("old-7", slot=3)
    (stop,) = story.round()
    assert isinstance(stop, Stop)
    assert (stop.replica_id, stop.slot, stop.template) == ("old-7", 3, "vllm")


def test_without_any_desired_state_nothing_is_stopped() -> None:
    story = Story()
    story.unit("old-7")
    assert story.round() == ()


def test_a_new_replica_waits_until_the_old_one_has_left_its_gpus() -> None:
    story = Story()
    story.serving()
    story.want(replica("b-1", Want.STOP), replica("b-2"), revision=2)
    assert [type(step) for step in story.round()] == [Stop]
    assert story.kept.replicas["b-2"].why == "waits: b-1 still holds its slot or GPUs"
    del story.units["b-1"]
    assert story.round() == (Start(replica("b-2")),)
    assert story.state("b-1") is ReplicaState.STOPPED


def test_a_unit_that_vanished_without_a_record_is_failed_not_started_twice() -> None:
    story = Story()
    story.want(replica("b-1"))
    story.round()
    known = story.kept.replicas["b-1"].model_copy(update={"state": ReplicaState.BOOTING, "started_at": NOON})
    story.kept = story.kept.model_copy(update={"replicas": {"b-1": known}})
    assert story.round() == ()
    assert story.state("b-1") is ReplicaState.FAILED


def test_in_flight_is_unknown_when_the_engine_does_not_say() -> None:
    assert in_flight([]) is None
    assert in_flight([reading("b", NOON, state=EngineState.UNREACHABLE)]) is None
    assert in_flight([reading("b", NOON, running=4.0)]) == 4.0


@pytest.mark.parametrize(
    ("epoch", "revision", "expected"), [(1, 9, False), (2, 5, False), (2, 4, False), (2, 6, True), (3, 1, True)]
)
def test_only_a_later_term_or_revision_replaces_the_desired_state(epoch: int, revision: int, expected: bool) -> None:
    present = desired(epoch=2, revision=5)
    assert newer(desired(epoch=epoch, revision=revision), present) is expected
    assert newer(Desired(epoch=0, revision=0), None)


_NAMES = ("b-1", "b-2", "b-3")


@st.composite
def _hosts(draw: st.DrawFn) -> Story:
    story = Story()
    wanted = draw(st.lists(st.sampled_from(_NAMES), unique=True))
    story.want(*(replica(name, draw(st.sampled_from(Want)), slot) for slot, name in enumerate(wanted)))
    for slot, name in enumerate(draw(st.lists(st.sampled_from(_NAMES), unique=True))):
        state = draw(
            st.sampled_from(
                [
                    ReplicaState.BOOTING,
                    ReplicaState.LOADING,
                    ReplicaState.DRAINING,
                    ReplicaState.STOPPED,
                    ReplicaState.FAILED,
                ]
            )
        )
        story.unit(name, state, slot=slot)
        for _ in range(draw(st.integers(0, 3))):
            story.now += timedelta(seconds=15)
            story.says(name, float(draw(st.integers(0, 2))))
    return story


@given(_hosts())
def test_no_step_ever_stops_a_living_replica_that_is_wanted_or_starts_two_on_one_gpu(story: Story) -> None:
    due = story.round()
    assert due == steps(story.kept, story.units, story.readings, GRACE, story.now), "the same look, the same steps"
    wants = {name: known.replica.want for name, known in story.kept.replicas.items()}
    for step in due:
        if isinstance(step, Stop) and wants.get(step.replica_id) in (Want.RUN, Want.CORDON):
            assert story.units[step.replica_id].state is ReplicaState.DRAINING
        if isinstance(step, Start):
            assert wants[step.replica.replica_id] is Want.RUN
            others = [unit for name, unit in story.units.items() if name != step.replica.replica_id]
            assert all(set(unit.gpus).isdisjoint(step.replica.gpus) for unit in others)


def test_moments_are_kept_across_lives_of_the_agent() -> None:
    story = Story()
    story.serving()
    again = Kept.model_validate_json(story.kept.model_dump_json())
    assert again == story.kept
    assert isinstance(again.replicas["b-1"].since, datetime)
