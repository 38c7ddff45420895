"""Delivery: newest first, backlog after it, layouts when they are needed, the next controller when one is silent."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from fakes.agent_parts import NOON, FakeLink, ManualClock, desired, layout, report
from hypothesis import given
from hypothesis import strategies as st

from tidegate.agent.report import BACKLOG_BATCH, DesiredPoll, Listeners, Reporter, clipped, least_offset
from tidegate.agent.spool import Spool, SpoolLimits
from tidegate.runtime.errors import Permanent, Transient
from tidegate.wire import Desired, HostState, Range


class Desk:
    """A reporter with two controllers in memory."""

    def __init__(self, folder: Path) -> None:
        self.spool = Spool(folder / "spool.db", SpoolLimits())
        self.first, self.second = FakeLink(), FakeLink()
        self.heard: list[Desired] = []
        self.offsets: list[timedelta] = []
        listeners = Listeners(self.heard.append, self.offsets.append)
        self.reporter = Reporter("gpu-1", [self.first, self.second], self.spool, listeners, ManualClock())
        self.next = 1

    def collect(self, count: int = 1, name: str = "0" * 32) -> None:
        for _ in range(count):
            self.spool.append(report(self.next, layout=name), layout(name), NOON)
            self.next += 1

    def waiting(self) -> list[int]:
        return [one.sequence for one in self.spool.backlog(10_000)]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_report_goes_out_with_its_layout_once_and_is_forgotten(desk: Desk) -> None:
    for _ in range(3):
        desk.collect()
        desk.reporter.round(HostState())
    assert [len(batch.layouts) for batch in desk.first.batches] == [1, 0, 0]
    assert desk.waiting() == []
    assert desk.reporter.state().last_success == NOON
    assert set(desk.offsets) == {timedelta()}


def test_after_an_outage_the_newest_goes_first_and_the_backlog_follows_in_order(desk: Desk) -> None:
    desk.first.failure = desk.second.failure = Transient("down")
    desk.collect(250)
    with pytest.raises(Transient):
        desk.reporter.round(HostState())
    desk.first.failure = desk.second.failure = None
    for _ in range(3):
        desk.collect()
        desk.reporter.round(HostState())
    sent = [[one.sequence for one in batch.reports] for batch in desk.first.batches]
    assert sent == [[251], list(range(1, 101)), [252], list(range(101, 201)), [253], list(range(201, 251))]
    assert [batch.state is not None for batch in desk.first.batches] == [True, False] * 3, "state rides live only"
    assert len(desk.first.stored) == 253
    assert desk.waiting() == []


def test_nothing_is_lost_while_no_controller_answers(desk: Desk) -> None:
    desk.first.failure = desk.second.failure = Transient("down")
    desk.collect(2)
    for _ in range(2):
        with pytest.raises(Transient, match="down"):
            desk.reporter.round(HostState())
    state = desk.reporter.state()
    assert (state.failures, state.error, state.last_success) == (2, "down", None)
    assert desk.waiting() == [1, 2]


def test_the_next_controller_is_asked_and_kept_when_the_first_is_silent(desk: Desk) -> None:
    desk.first.failure = Transient("down")
    desk.collect()
    desk.reporter.round(HostState())
    desk.first.failure = None
    desk.collect()
    desk.reporter.round(HostState())
    assert (len(desk.first.stored), len(desk.second.stored)) == (0, 2)


def test_a_controller_that_forgot_a_layout_gets_it_at_once(desk: Desk) -> None:
    desk.collect()
    desk.reporter.round(HostState())
    desk.first.layouts.clear()
    desk.collect()
    desk.reporter.round(HostState())
    assert desk.waiting() == []
    assert [len(batch.layouts) for batch in desk.first.batches] == [1, 0, 1]


def test_a_refused_token_loses_nothing_and_is_not_hidden_by_the_next_controller(desk: Desk) -> None:
    desk.first.failure = Permanent("401: tidegate host enroll gpu-1")
    desk.collect(5)
    with pytest.raises(Permanent, match="enroll"):
        desk.reporter.round(HostState())
    assert len(desk.waiting()) == 5
    assert desk.spool.state().dropped == 0
    assert "enroll" in desk.reporter.state().error


def test_one_bad_report_is_found_given_up_and_counted_and_every_other_arrives(desk: Desk) -> None:
    desk.first.refusal = Permanent("422")
    desk.first.poison = lambda one: one.sequence == 37
    desk.collect(150)
    for _ in range(30):
        desk.collect()
        desk.reporter.round(HostState())
    assert desk.waiting() == []
    assert {sequence for _, sequence in desk.first.stored} == set(range(1, 181)) - {37}
    assert desk.spool.state().dropped == 1


def test_a_controller_that_refuses_everything_makes_nothing_be_dropped(desk: Desk) -> None:
    desk.first.refusal = Permanent("400: wire version 2 is not spoken here")
    desk.first.poison = lambda _: True
    for _ in range(20):
        desk.collect()
        with pytest.raises(Permanent):
            desk.reporter.round(HostState())
    assert len(desk.waiting()) == 20
    assert desk.spool.state().dropped == 0


def test_the_desired_state_in_an_answer_is_handed_on(desk: Desk) -> None:
    desk.first.answer_with = desired(epoch=3, revision=4)
    desk.first.offset = timedelta(hours=1)
    desk.collect()
    desk.reporter.round(HostState())
    assert desk.heard == [desired(epoch=3, revision=4)]
    assert desk.offsets == [timedelta(hours=1)]


def test_without_a_fresh_collection_no_state_is_claimed_and_the_backlog_goes_on(desk: Desk) -> None:
    desk.collect(BACKLOG_BATCH + 20)
    desk.reporter.round(None)
    assert all(batch.state is None for batch in desk.first.batches)
    assert len(desk.waiting()) == 19


def test_a_reload_may_bring_other_controllers(desk: Desk) -> None:
    third = FakeLink()
    desk.reporter.use([third])
    desk.collect()
    desk.reporter.round(HostState())
    assert len(third.stored) == 1


@given(first=st.integers(1, 20), last=st.integers(1, 20))
def test_no_answer_makes_us_forget_what_was_not_sent(first: int, last: int) -> None:
    sent = [report(sequence) for sequence in range(5, 10)]
    taken = clipped([Range(boot_id="boot", first=first, last=last), Range(boot_id="other", first=1, last=99)], sent)
    assert [one.first for one in taken] == [n for n in range(5, 10) if first <= n <= last]
    assert all(one.boot_id == "boot" and one.first == one.last for one in taken)


@pytest.mark.parametrize(("told", "offset"), [(0, 0), (3, 0), (6, 0), (-3600, -3600), (3606, 3600)])
def test_a_slow_request_is_not_taken_for_a_clock_that_is_off(told: int, offset: int) -> None:
    """Six seconds under way: any time told between is the same clock."""
    told_at, received = NOON + timedelta(seconds=told), NOON + timedelta(seconds=6)
    assert least_offset(NOON, told_at, received) == timedelta(seconds=offset)


def test_without_anything_to_say_nothing_is_sent(desk: Desk) -> None:
    desk.reporter.round(None)
    assert desk.first.batches == []
    assert desk.reporter.state().last_success is None


def test_the_long_poll_goes_to_the_next_controller_after_a_failure() -> None:
    first, second = FakeLink(), FakeLink()
    first.failure = Transient("down")
    second.answer_with = desired(revision=9)
    heard: list[Desired] = []
    poll = DesiredPoll([first, second], heard.append)
    with pytest.raises(Transient):
        poll.turn((1, 8), timedelta(seconds=25))
    poll.turn((1, 8), timedelta(seconds=25))
    assert heard == [desired(revision=9)]
