"""Statuses, alerts and costs as the controller answers them, with everything but the point at hand filled in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from tidegate.link import messages as m
from tidegate.model.alert import AlertPhase
from tidegate.model.fleet import PoolKind, PoolRole
from tidegate.model.leadership import Part
from tidegate.model.money import CostState
from tidegate.model.policy import Mode


def pool(name: str, ready: int = 0, starting: int = 0, leaving: int = 0, **figures: float) -> m.PoolShape:
    """A pool whose figures are missing but for those given."""
    return m.PoolShape(
        name=name,
        service="chat",
        kind=PoolKind.BURST if name == "burst" else PoolKind.BASE,
        role=PoolRole.MIXED,
        min=0,
        max=5,
        current=ready + starting,
        ready=ready,
        starting=starting,
        leaving=leaving,
        target=ready + starting,
        figures=m.FiguresShape(**{**dict.fromkeys(m.FiguresShape.model_fields), **figures}),
        missing={},
        decision=None,
    )


def decision(number: int, at: datetime, reason: str = "because") -> m.DecisionShape:
    """One decision of the burst pool, from 1 to 2."""
    return m.DecisionShape(
        id=number,
        pool="burst",
        at=at,
        current=1,
        ready=1,
        starting=0,
        leaving=0,
        wanted=2,
        target=2,
        reason=reason,
        limits=[],
        mode=Mode.ACT,
        may_change_at=None,
        signals=[],
    )


def alert(
    phase: AlertPhase,
    starts_at: datetime,
    ends_at: datetime | None = None,
    *,
    pool_name: str = "base",
    value: float = 0.13,
) -> m.AlertShape:
    """The hit-rate alert of a pool."""
    return m.AlertShape(
        fingerprint=f"print-{pool_name}",
        rule="kv_cache_hit_rate_drop",
        labels={"pool": pool_name},
        phase=phase,
        since=ends_at or starts_at,
        starts_at=starts_at,
        ends_at=ends_at,
        value=value,
        baseline=0.57,
        annotations={"summary": f"hit rate of {pool_name} fell"},
    )


def status(
    at: datetime,
    pools: Sequence[m.PoolShape],
    alerts: Sequence[m.AlertShape] = (),
    decisions: Sequence[m.DecisionShape] = (),
) -> m.StatusShape:
    """A controller that works."""
    tick = m.JobShape(name="tick", last_success=at, runs=9, failures=0, consecutive_failures=0, seconds=0.1, error="")
    summary = m.SummaryShape(
        ready=0,
        starting=0,
        leaving=0,
        target=0,
        reports={"stored": 100},
        actions={},
        notices={},
        alerts_firing=0,
        cut_requests=0,
    )
    return m.StatusShape(
        version="0",
        now=at,
        started_at=at,
        tick_at=at,
        unrecorded="",
        leader=m.LeaderShape(part=Part.LEADS, name="", epoch=1, since=at),
        ready=True,
        ready_why="",
        epoch=1,
        mode=Mode.ACT,
        currency="USD",
        summary=summary,
        pools=list(pools),
        replicas=[],
        hosts=[],
        decisions=list(decisions),
        alerts=list(alerts),
        cost=None,
        jobs=[tick],
        notes=[],
        config_loaded_at=at,
        config_reload_ok=True,
    )


def cost(tokens: int, amount: str | None, state: CostState = CostState.ESTIMATED) -> m.CostsShape:
    """The cost of a day, one line for everything."""
    whole = m.CostShape(
        pool="",
        service="",
        state=state,
        currency="USD",
        gpu_hours=Decimal(80),
        amount=None if amount is None else Decimal(amount),
        tokens=Decimal(tokens),
        per_million_tokens=None if amount is None else Decimal(amount) / tokens * 1_000_000,
        per_million_generated_tokens=None,
        partial=False,
        notes=["a price is missing"] if amount is None else [],
    )
    now = datetime.fromisoformat("2026-11-24T00:00:00+00:00")
    return m.CostsShape(since=now, until=now, pools=[whole], total=whole, burst=whole)
