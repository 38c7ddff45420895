"""Decisions, memory, figures, alerts and notices; held by the store in memory and by the one in Postgres."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from fakes.store import FakeStore

from tidegate.model.alert import AlertPhase, AlertState, Notice
from tidegate.model.decision import Action, ActionKind, Decision, Limit, Plan, UsedSignal
from tidegate.model.fleet import Idle, PoolName, ReplicaId, ServiceName, Slot, Value
from tidegate.model.memory import BackOff, Memory, PoolMemory, ServiceMemory
from tidegate.model.policy import Mode
from tidegate.model.reading import Gap, HostName, Missing
from tidegate.model.records import Outcome, PoolFigures
from tidegate.store.store import Store

AnyStore = FakeStore | Store
BASE, BURST = PoolName("base"), PoolName("burst")
TICK = timedelta(seconds=15)


def decision(at: datetime, pool: PoolName = BURST, target: int = 2) -> Decision:
    return Decision(
        pool=pool,
        at=at,
        current=1,
        ready=1,
        starting=0,
        leaving=0,
        wanted=3,
        target=target,
        reason="47 requests in flight want 3 replicas of 16",
        limits=(Limit.MAX, Limit.COOLDOWN),
        signals=(
            UsedSignal("burst-1", "queue_depth", Value(7.0, timedelta(seconds=4))),
            UsedSignal("burst-2", "queue_depth", Missing(Gap.UNREACHABLE)),
            UsedSignal("burst-3", "running", Idle(timedelta(seconds=1.5))),
        ),
        mode=Mode.ACT,
        may_change_at=at + timedelta(minutes=2),
    )


def plan(at: datetime, *starts: int) -> Plan:
    slot = Slot(HostName("gpu-2"), 0, (0,), 8100)
    actions = tuple(Action(ActionKind.START, ReplicaId(f"burst-{n}"), BURST, slot, at + TICK, "queue") for n in starts)
    return Plan((decision(at, BASE), decision(at)), actions, Memory())


def figures(at: datetime, pool: PoolName = BURST, queue: float | None = 7.0) -> PoolFigures:
    return PoolFigures(at, pool, "chat", ready=1, starting=1, leaving=0, target=2, queue_depth=queue)


def alert(at: datetime, phase: AlertPhase = AlertPhase.FIRING) -> AlertState:
    return AlertState(
        fingerprint="f1",
        rule="kv_cache_hit_rate_drop",
        labels={"pool": "base"},
        phase=phase,
        since=at,
        starts_at=at - TICK,
        ends_at=None,
        value=0.31,
        baseline=0.62,
        annotations={"summary": "hit rate fell", "summary_zh": "命中率下降"},
        excluded=((at - 9 * TICK, at - 8 * TICK),),
    )


def notice(at: datetime, name: str = "n1", channel: str = "ops") -> Notice:
    return Notice(name, channel, alert(at), at)


# Decisions


def test_a_decision_is_read_back_whole(store: AnyStore, now: datetime) -> None:
    store.decisions.record(plan(now))
    found = store.decisions.latest(10, BURST)
    assert [record.decision for record in found] == [decision(now)]


def test_the_newest_decisions_come_first(store: AnyStore, now: datetime) -> None:
    for tick in range(3):
        store.decisions.record(plan(now + TICK * tick))
    found = [(record.decision.at, record.decision.pool) for record in store.decisions.latest(3)]
    assert found == [(now + TICK * 2, BURST), (now + TICK * 2, BASE), (now + TICK, BURST)]


def test_only_decisions_that_did_something_when_asked(store: AnyStore, now: datetime) -> None:
    store.decisions.record(plan(now))
    store.decisions.record(plan(now + TICK, 1))
    store.decisions.record(plan(now + TICK * 2))
    (found,) = store.decisions.latest(10, changes_only=True)
    assert (found.decision.at, found.decision.pool) == (now + TICK, BURST)


def test_the_same_plan_again_has_the_same_ids(store: AnyStore, now: datetime) -> None:
    first = store.decisions.record(plan(now, 1, 2))
    assert len(set(first)) == 2
    assert store.decisions.record(plan(now, 1, 2)) == first
    assert len(store.decisions.latest(10)) == 2
    assert set(store.decisions.record(plan(now + TICK, 1))).isdisjoint(first)


def test_a_plan_without_decisions(store: AnyStore, now: datetime) -> None:
    assert store.decisions.record(Plan((), (), Memory())) == []
    with pytest.raises(ValueError, match="explains nothing"):
        store.decisions.record(replace(plan(now, 1), decisions=()))


def test_memory_survives_whole(store: AnyStore, now: datetime) -> None:
    assert store.decisions.memory() == Memory()
    memory = Memory(
        started_at=now,
        services={ServiceName("chat"): ServiceMemory(((now, 3), (now + TICK, 2)), last_out=now, last_in=None)},
        pools={BURST: PoolMemory(7, (ReplicaId("burst-6"),), {"default": BackOff(now + TICK, 2)})},
    )
    store.decisions.settle([], Memory(started_at=now), [])
    store.decisions.settle([], memory, [])
    assert store.decisions.memory() == memory


def test_figures_of_a_span_by_time_and_the_missing_stay_missing(store: AnyStore, now: datetime) -> None:
    (action,) = store.decisions.record(plan(now, 1))
    done = [Outcome(action, "applied")]
    store.decisions.settle(done, Memory(), [figures(now + TICK, queue=None), figures(now + TICK, BASE)])
    store.decisions.settle([], Memory(), [figures(now)])
    store.decisions.settle([], Memory(), [figures(now)])
    found = store.decisions.figures(now, now + TICK * 2)
    assert found == [figures(now), figures(now + TICK, BASE), figures(now + TICK, queue=None)]
    assert store.decisions.figures(now, now + TICK) == [figures(now)]


# Alerts


def test_a_hundred_pools_of_one_tick_are_kept_whole(store: AnyStore, now: datetime) -> None:
    """They are written some at a time, as texts: whatever stands in them."""
    odd = ['say "no"', "back\\slash", "{a,b}", "NULL", "", "it's", "命中率", "two\nlines"]
    names = [PoolName(f"pool-{number:03d}") for number in range(100)]
    made = [replace(decision(now, name), reason=odd[number % 8]) for number, name in enumerate(names)]
    made[3] = replace(made[3], limits=(), signals=(), may_change_at=None)
    store.decisions.record(Plan(tuple(made), (), Memory()))
    rows = [figures(now, name, 0.1 * number if number % 3 else None) for number, name in enumerate(names)]
    rows[5] = replace(rows[5], service=odd[0], running=1e300, kv_cache_hit_rate=1 / 3, gpus=8)
    store.decisions.settle([], Memory(), rows)
    assert {record.decision.pool: record.decision for record in store.decisions.latest(200)} == {
        each.pool: each for each in made
    }
    assert store.decisions.figures(now, now + TICK) == rows
    again = [replace(row, target=9) for row in rows]
    store.decisions.settle([], Memory(), again)
    assert store.decisions.figures(now, now + TICK) == again


def test_an_alert_is_kept_in_its_last_phase(store: AnyStore, now: datetime) -> None:
    store.alerts.save([alert(now)], [])
    resolved = replace(alert(now + TICK, AlertPhase.RESOLVED), ends_at=now + TICK, value=None)
    store.alerts.save([resolved], [])
    assert store.alerts.states() == [resolved]


def test_of_one_channel_a_few_notices_are_due_at_once(store: AnyStore, now: datetime) -> None:
    """Many that wait for a dead channel hide no other's."""
    states = [replace(alert(now), fingerprint=f"f{number:02}") for number in range(30)]
    waiting = [Notice(f"dead-{state.fingerprint}", "dead", state, now) for state in states]
    store.alerts.save(states, [*waiting, notice(now + TICK)])
    channels = [found.channel for found, _ in store.alerts.due(now + TICK)]
    assert channels == ["dead"] * 5 + ["ops"]


def test_it_is_known_whom_an_alert_was_told(store: AnyStore, now: datetime) -> None:
    store.alerts.save([], [notice(now), notice(now, "n2", "chat"), notice(now, "n3", "chat")])
    assert list(store.alerts.told("f1")) == ["chat", "ops"]
    assert list(store.alerts.told("f2")) == []


def test_a_notice_is_due_until_it_is_delivered(store: AnyStore, now: datetime) -> None:
    store.alerts.save([], [notice(now)])
    assert store.alerts.due(now - TICK) == []
    assert store.alerts.due(now) == [(notice(now), 0)]
    store.alerts.retry("n1", now + TICK * 2, "503")
    assert store.alerts.due(now + TICK) == []
    assert store.alerts.due(now + TICK * 2) == [(notice(now), 1)]
    store.alerts.delivered("n1", now + TICK * 2)
    assert store.alerts.due(now + TICK * 9) == []


def test_a_notice_that_is_given_up_or_was_known_is_not_sent_again(store: AnyStore, now: datetime) -> None:
    store.alerts.save([], [notice(now)])
    store.alerts.retry("n1", None, "404")
    store.alerts.save([], [notice(now)])
    assert store.alerts.due(now + TICK) == []


def test_a_resolve_does_not_overtake_its_alert_on_one_channel(store: AnyStore, now: datetime) -> None:
    store.alerts.save([], [notice(now), notice(now + TICK, "n2"), notice(now + TICK, "n3", "dev")])
    assert [owed.id for owed, _ in store.alerts.due(now + TICK * 2)] == ["n1", "n3"]
    store.alerts.retry("n1", now + TICK * 9, "503")
    assert [owed.id for owed, _ in store.alerts.due(now + TICK * 2)] == ["n3"]
    store.alerts.delivered("n1", now)
    assert [owed.id for owed, _ in store.alerts.due(now + TICK * 2)] == ["n2", "n3"]
    assert len(store.alerts.due(now + TICK * 2, limit=1)) == 1
