"""The recorded past under another configuration: the same one changes nothing, another one says what it would have."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from fakes.world import BASE, BURST, CHAT, World, decision, policy, pool
from fakes.world import replica as ready_replica

from tidegate.cli.replay import moment
from tidegate.cli.replay_view import as_data, as_text
from tidegate.controller.replay import Replayed, replay
from tidegate.controller.replay_world import Load, would_be
from tidegate.decide.plan import plan
from tidegate.model.fleet import STARTING_STATES, PoolName, ReplicaState
from tidegate.model.policy import Flavour, FleetPolicy, Mode
from tidegate.model.records import PoolFigures

START = timedelta(seconds=60)


def priced(made: FleetPolicy) -> FleetPolicy:
    """Both pools at two an hour."""
    flavours = (Flavour(price_per_gpu_hour=Decimal(2)),)
    return replace(made, pools={name: replace(found, flavours=flavours) for name, found in made.pools.items()})


def recorded(made: FleetPolicy, loads: list[float], tpot: float | None = None) -> list[PoolFigures]:
    """What a controller under this policy would have stored, tick by tick."""
    world = World(made, ready_replica("base-1"), start=START.total_seconds())
    rows = []
    for load in loads:
        taken = world.tick(load)
        seen = {name: [one for one in world.replicas if one.pool == name] for name in (BASE, BURST)}
        serving = sum(decision(taken, name).ready for name in (BASE, BURST))
        for name in (BASE, BURST):
            found = decision(taken, name)
            busy = bool(found.ready)
            rows.append(
                PoolFigures(
                    at=world.now,
                    pool=name,
                    service=CHAT,
                    ready=found.ready,
                    starting=found.starting,
                    leaving=sum(one.state is ReplicaState.DRAINING for one in seen[name]),
                    target=found.target,
                    running=load * found.ready / serving if busy else None,
                    queue_depth=0.0 if busy else None,
                    prompt_tokens_per_second=100.0 * load if busy and name == BASE else 0.0 if busy else None,
                    generation_tokens_per_second=10.0 * load if busy and name == BASE else 0.0 if busy else None,
                    tpot_p95_seconds=tpot if busy else None,
                    ttft_p95_seconds=0.5 if busy and tpot else None,
                )
            )
        assert all(one.state not in STARTING_STATES or one.requested_at <= world.now for one in world.replicas)
    return rows


PEAK = [20.0] * 40 + [90.0] * 60 + [20.0] * 80


def run(rows: list[PoolFigures], made: FleetPolicy) -> Replayed:
    return replay(rows, made, plan, {BASE: START, BURST: START})


def test_the_configuration_that_ran_would_have_done_the_same() -> None:
    made = priced(policy())
    played = run(recorded(made, PEAK), made)

    assert played.ticks == len(PEAK)
    assert played.differences == []
    for tally in played.pools.values():
        assert tally.hours_would == pytest.approx(tally.hours_was, rel=0.05)
        assert tally.changes_would == tally.changes_was > 0


def test_a_smaller_pool_costs_less_and_risks_more() -> None:
    rows = recorded(priced(policy()), PEAK, tpot=0.05)
    small = priced(policy(pool(BASE, 1, 2), pool(BURST, 0, 0)))
    played = run(rows, small)

    base, burst = played.pools[BASE], played.pools[BURST]
    assert base.hours_would < base.hours_was
    assert burst.hours_would == 0 < burst.hours_was
    assert base.cost_would == Decimal(2) * Decimal(repr(base.gpu_hours_would))
    assert played.risks[CHAT].missed_would == played.risks[CHAT].missed_was == 0  # t0 = TPOT: nothing says it was busy
    first = played.differences[0]
    assert (first.pool, first.was, first.would) == (BASE, 4, 2)
    assert "needs 6 at 16 each" in first.reason


def test_what_would_have_been_slower_is_reckoned_from_what_was() -> None:
    """Half of the time in use on four replicas is all of it on two."""
    load = Load(ready=4, tpot=0.04, ttft=0.5)
    assert would_be(load, 4, 0.02) == (0.04, 0.5)
    slower = would_be(load, 3, 0.02)
    assert slower[0] == pytest.approx(0.06)
    assert slower[1] == pytest.approx(0.75)
    assert would_be(load, 2, 0.02)[0] == pytest.approx(1.0)
    assert would_be(load, 8, 0.02)[0] == pytest.approx(0.02 / 0.75)
    assert would_be(Load(ready=4), 2, None) == (None, None)


def test_a_risk_is_the_share_of_tokens_at_ticks_that_missed() -> None:
    rows = recorded(priced(policy()), PEAK, tpot=0.03)
    quick = [replace(row, tpot_p95_seconds=0.02 if row.tpot_p95_seconds else None) for row in rows[:40]]
    fixed = priced(policy(pool(BASE, 1, 1), pool(BURST, 0, 0)))
    played = run([*quick, *rows[40:]], fixed)
    risk = played.risks[CHAT]
    assert risk.missed_was == 0
    assert 0.3 < risk.missed_would / risk.tokens < 1


def test_what_is_missing_teaches_nothing_and_holds() -> None:
    rows = [
        replace(row, running=None, queue_depth=None, prompt_tokens_per_second=None, generation_tokens_per_second=None)
        for row in recorded(priced(policy()), PEAK)
    ]
    played = run(rows, priced(policy()))
    assert {tally.changes_would for tally in played.pools.values()} == {0}


def test_a_hole_in_the_record_is_not_counted_as_time_in_use() -> None:
    rows = recorded(priced(policy()), [20.0] * 2)
    late = [replace(row, at=row.at + timedelta(hours=9)) for row in rows[2:]]
    played = run([*rows[:2], *late], priced(policy()))
    assert played.pools[BASE].hours_was < 0.2


def test_pools_that_are_new_or_gone_are_said() -> None:
    made = policy(pool(BASE, 1, 4), pool(PoolName("spare"), 0, 2), mode=Mode.PAUSED)
    played = run(recorded(policy(), PEAK), made)
    assert played.notes == [
        "pools that the configuration does not have are left out: burst",
        "no price for base, spare: its cost is not known",
    ]
    assert played.pools[PoolName("spare")].hours_would > 0
    assert played.pools[BASE].cost_was is None


def test_nothing_recorded_is_said() -> None:
    assert replay([], priced(policy()), plan).notes == ["nothing is recorded for this time"]
    assert list(as_text(replay([], priced(policy()), plan), "USD")) == ["nothing is recorded for this time"]


def test_the_result_reads_as_text_and_as_data() -> None:
    played = run(recorded(priced(policy()), PEAK, tpot=0.05), priced(policy(pool(BASE, 1, 2), pool(BURST, 0, 0))))
    text = list(as_text(played, "USD"))
    assert text[0] == "2026-11-25 12:00 to 2026-11-25 12:45 UTC, 180 ticks: was -> would have been"
    assert any(line.startswith("  burst: ") and "-> 0.00 USD (-100%)" in line for line in text)
    assert any("tokens served while a p95 missed the objective: 0.00% -> 0.00%" in line for line in text)
    data = as_data(played, "USD")
    assert data["pools"]["burst"]["cost"]["would"] == "0.00"
    assert data["differences"][0]["pool"] == "base"
    assert data["slo_risk"]["chat"] == {"was": 0.0, "would": 0.0}


def test_moments_are_read_as_people_write_them(now: object) -> None:
    from datetime import UTC, datetime

    import typer

    noon = datetime(2026, 11, 25, 12, tzinfo=UTC)
    assert moment("24h", noon) == noon - timedelta(days=1)
    assert moment("90m", noon) == noon - timedelta(minutes=90)
    assert moment("2026-11-25T08:00", noon) == noon - timedelta(hours=4)
    assert moment("2026-11-25T08:00+08:00", noon) == noon - timedelta(hours=12)
    with pytest.raises(typer.BadParameter, match="write a time such as"):
        moment("yesterday", noon)
