"""Operators' commands and other programs' wishes; held by the store in memory and by the one in Postgres."""

from __future__ import annotations

from datetime import datetime, timedelta

from fakes.store import FakeStore

from tidegate.model.command import CommandKind, ExternalWish, Order
from tidegate.model.fleet import PoolName, ServiceName
from tidegate.model.policy import Mode
from tidegate.store.store import Store

AnyStore = FakeStore | Store
BASE, BURST = PoolName("base"), PoolName("burst")
HOUR = timedelta(hours=1)


def test_a_command_stands_until_its_time_or_its_end(store: AnyStore, now: datetime) -> None:
    pause = Order(CommandKind.PAUSE_IN, "ann", BASE, until=now + HOUR)
    bounds = Order(CommandKind.BOUNDS, "bob", BURST, minimum=1, maximum=3)

    given = store.commands.give([pause, bounds], now)
    assert [command.order for command in given] == [pause, bounds]
    assert store.commands.standing(now) == given
    assert [command.order for command in store.commands.standing(now + HOUR)] == [bounds]

    assert store.commands.end({CommandKind.BOUNDS}, BURST, "eve", now + HOUR) == 1
    assert store.commands.standing(now + HOUR) == []
    assert store.commands.end({CommandKind.BOUNDS}, BURST, "eve", now + HOUR) == 0


def test_a_command_takes_the_place_of_its_kind_for_its_pool_alone(store: AnyStore, now: datetime) -> None:
    for pool, most in ((BASE, 3), (BURST, 4), (None, 5), (BASE, 6)):
        store.commands.give([Order(CommandKind.BOUNDS, "ann", pool, maximum=most)], now)
    store.commands.give([Order(CommandKind.PAUSE_OUT, "ann", BASE)], now)
    store.commands.give([Order(CommandKind.MODE, "ann", mode=Mode.PAUSED)], now)

    standing = [
        (command.order.kind, command.order.pool, command.order.maximum) for command in store.commands.standing(now)
    ]
    assert standing == [
        (CommandKind.BOUNDS, BURST, 4),
        (CommandKind.BOUNDS, None, 5),
        (CommandKind.BOUNDS, BASE, 6),
        (CommandKind.PAUSE_OUT, BASE, None),
        (CommandKind.MODE, None, None),
    ]


def test_the_log_says_who_gave_and_who_ended_each(store: AnyStore, now: datetime) -> None:
    later = now + timedelta(minutes=5)
    store.commands.give([Order(CommandKind.MODE, "ann", mode=Mode.PAUSED, until=now + HOUR)], now)
    store.commands.give([Order(CommandKind.MODE, "bob", mode=Mode.ACT)], later)

    second, first = store.commands.latest(10)
    assert (first.order.by, first.order.mode, first.at, first.ended_at, first.ended_by) == (
        *("ann", Mode.PAUSED),
        *(now, later, "bob"),
    )
    assert (second.order.by, second.ended_at, second.ended_by) == ("bob", None, "")
    assert store.commands.latest(1) == [second]


def test_what_ran_out_by_itself_is_not_ended_by_anybody(store: AnyStore, now: datetime) -> None:
    store.commands.give([Order(CommandKind.PAUSE_IN, "ann", BASE, until=now + HOUR)], now)
    assert store.commands.end({CommandKind.PAUSE_IN}, BASE, "bob", now + 2 * HOUR) == 0
    (only,) = store.commands.latest(10)
    assert (only.ended_at, only.ended_by) == (None, "")


def test_the_last_wish_for_a_service_counts(store: AnyStore, now: datetime) -> None:
    chat, code = ServiceName("chat"), ServiceName("code")
    store.commands.ask(ExternalWish(code, 2, now, "planner"))
    store.commands.ask(ExternalWish(chat, 3, now, "planner", now + HOUR))
    last = ExternalWish(chat, 4, now + HOUR, "other")
    store.commands.ask(last)
    assert store.commands.asked() == [last, ExternalWish(code, 2, now, "planner")]
