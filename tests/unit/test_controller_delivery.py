"""Notices: tried at once, then ever more slowly, given up after hours; every attempt is counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from threading import Event

import pytest
from fakes.store import FakeAlerts
from hypothesis import given
from hypothesis import strategies as st

from tidegate.controller.counts import Counts
from tidegate.controller.delivery import GIVE_UP_AFTER, Delivery, next_try
from tidegate.model.alert import AlertPhase, AlertState, Notice
from tidegate.runtime.errors import Permanent, Transient, TryLater
from tidegate.store.fence import Fence

NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")


def notice(name: str = "msg_1") -> Notice:
    state = AlertState("print", "rule", {"pool": "base"}, AlertPhase.FIRING, NOON, starts_at=NOON)
    return Notice(name, "ops", state, NOON)


class Channel:
    """Answers each delivery with the next of its errors, then takes everything."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.taken = list(errors), []

    def send(self, found: Notice, now: datetime) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.taken.append((found.id, now))


def delivery(channel: Channel) -> Delivery:
    alerts = FakeAlerts()
    alerts.save([notice().alert], [notice()])
    return Delivery(alerts, channel, Counts())


def test_a_notice_is_delivered_once() -> None:
    """What was taken is not sent again."""
    channel = Channel()
    made = delivery(channel)

    made.run(NOON)
    made.run(NOON + timedelta(hours=1))

    assert channel.taken == [("msg_1", NOON)]
    assert made.counts.tally().notices == {("ops", "delivered"): 1}


def test_a_channel_that_is_away_is_tried_again_after_5_s_30_s_2_min_5_min_and_then_every_15_min() -> None:
    """With a fifth of jitter at most, and never before its time."""
    channel = Channel(*[Transient("away")] * 6)
    made, now, waits = delivery(channel), NOON, []
    for _ in range(6):
        made.run(now)
        again = made.alerts.owed["msg_1"].next_at  # type: ignore[attr-defined]
        assert again is not None
        made.run(again - timedelta(milliseconds=1))
        waits.append((again - now).total_seconds())
        now = again
    made.run(now)

    assert [
        wait == pytest.approx(least * 1.1, rel=0.1)
        for wait, least in zip(waits, (5, 30, 120, 300, 900, 900), strict=True)
    ] == [True] * 6
    assert len(channel.taken) == 1
    assert made.counts.tally().notices == {("ops", "retried"): 6, ("ops", "delivered"): 1}


def test_a_channel_that_hangs_costs_a_run_one_time_out_whatever_waits_for_it() -> None:
    """Every try of it may last for the whole time-out, and the notices of other channels stand behind it."""
    channel = Channel(*[Transient("hangs")] * 2)
    made = delivery(channel)
    others = [("msg_2", "ops"), ("msg_3", "ops"), ("msg_9", "pager")]
    for name, to in others:
        made.alerts.save([], [replace(notice(name), channel=to, alert=replace(notice().alert, fingerprint=name))])

    made.run(NOON)

    assert made.counts.tally().notices == {("ops", "retried"): 1, ("pager", "retried"): 1}
    made.run(NOON + timedelta(seconds=1))
    assert [name for name, _ in channel.taken] == ["msg_2", "msg_3"]


def test_a_refusal_for_good_is_given_up_at_once_and_counted() -> None:
    """Trying again would not help; somebody sees it in the counter and in the log."""
    made = delivery(Channel(Permanent("gone")))

    made.run(NOON)
    made.run(NOON + timedelta(hours=1))

    assert made.counts.tally().notices == {("ops", "given_up"): 1}
    assert made.alerts.errors == {"msg_1": "gone"}  # type: ignore[attr-defined]


def test_the_receivers_wish_to_wait_is_honoured() -> None:
    """Retry-After lengthens the pause, never shortens it."""
    assert next_try(notice(), 1, NOON, timedelta(minutes=7)) >= NOON + timedelta(minutes=7)  # type: ignore[operator]
    assert next_try(notice(), 4, NOON, timedelta(seconds=1)) >= NOON + timedelta(minutes=5)  # type: ignore[operator]
    made = delivery(Channel(TryLater("slow down", timedelta(minutes=7))))

    made.run(NOON)

    assert made.alerts.owed["msg_1"].next_at >= NOON + timedelta(minutes=7)  # type: ignore[attr-defined]


@given(st.integers(1, 1000), st.timedeltas(timedelta(), timedelta(hours=8)))
def test_a_notice_is_given_up_some_hours_after_it_was_made(attempts: int, age: timedelta) -> None:
    """Never tried later than that, always later than now."""
    again = next_try(notice(), attempts, NOON + age)

    assert again is None or NOON + age < again <= NOON + GIVE_UP_AFTER
    assert age < GIVE_UP_AFTER - timedelta(minutes=19) or again is None or age < GIVE_UP_AFTER


def test_a_dead_channel_with_many_notices_holds_up_no_other() -> None:
    """What is due for others goes out while it is waited for, and of its own it is asked once a run."""
    alerts, asked, told = FakeAlerts(), list[str](), Event()

    class Two:
        def send(self, found: Notice, now: datetime) -> None:
            asked.append(found.channel)
            if found.channel == "a-dead-one":
                assert told.wait(20), "the other channel waits for this one"
                raise Transient("no answer in time")
            told.set()

    def owe(number: int, channel: str, at: datetime) -> None:
        state = AlertState(f"print-{channel}-{number}", "rule", {}, AlertPhase.FIRING, at, starts_at=at)
        alerts.save([state], [Notice(f"{channel}-{number}", channel, state, at)])

    for number in range(30):
        owe(number, "a-dead-one", NOON)
    owe(0, "ops", NOON)
    made = Delivery(alerts, Two(), Counts())
    made.run(NOON)
    assert sorted(asked) == ["a-dead-one", "ops"]
    told.clear()
    later = NOON + timedelta(seconds=1)
    owe(1, "ops", later)
    made.run(later)
    assert sorted(asked) == ["a-dead-one", "a-dead-one", "ops", "ops"]


def test_notices_are_sent_under_the_term_that_they_were_looked_up_in() -> None:
    """By whatever thread: a leader whose term is over claims none."""
    fence, terms = Fence(), list[int | None]()

    class Asking(Channel):
        def send(self, found: Notice, now: datetime) -> None:
            terms.append(fence.epoch())

    made = replace(delivery(Asking()), carried=fence.carried)
    with fence.under(7):
        made.run(NOON)
    assert terms == [7]
    assert fence.carried(fence.epoch)() is None
