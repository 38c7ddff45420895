"""A fleet in the middle of its day, as one overview: every state, gap, limit and alert that the page can show."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from fakes.controller_world import BASE, BURST, CHAT, H1, H2, fleet_policy, record

from tidegate.model.alert import AlertPhase, AlertState
from tidegate.model.command import Command, CommandKind, Order
from tidegate.model.decision import Decision, Limit, UsedSignal
from tidegate.model.fleet import FailureClass, Idle, PoolName, ReplicaId, ReplicaState, Value, Want
from tidegate.model.leadership import Leadership, Part
from tidegate.model.memory import BackOff, Pending
from tidegate.model.money import CostState
from tidegate.model.overview import (
    CostOverview,
    CostsOverview,
    HostOverview,
    JobOverview,
    Learned,
    Overview,
    PoolOverview,
    Tally,
)
from tidegate.model.policy import Mode, PolicyName
from tidegate.model.reading import Gap, HostName, Missing
from tidegate.model.records import DecisionRecord, PoolFigures, ReplicaRecord
from tidegate.model.scrape import SourceState

SEEN = "chat has 46 requests in flight on 2 ready replicas (1 silent: stale; taken as at target) and needs 5 at 10 each"
HOSTILE = "46 requests in flight at 10 a replica need 5 replicas; <b>2</b> are there."
"""A sentence that no version of ours writes, with markup in it."""


def overview(now: datetime) -> Overview:
    """The whole of it at `now`."""
    return Overview(
        version="1.2.3",
        started_at=now - timedelta(hours=5),
        at=now - timedelta(seconds=4),
        leadership=Leadership(Part.LEADS, 7, "gate-1:9092", now - timedelta(hours=4)),
        mode=Mode.ACT,
        currency="USD",
        view_window=timedelta(seconds=60),
        pools=(_base(now), _burst(now)),
        replicas=_replicas(now),
        hosts=_hosts(now),
        commands=(
            Command(5, Order(CommandKind.PAUSE_IN, "ann", BURST, until=now + timedelta(hours=2)), now),
            Command(6, Order(CommandKind.BOUNDS, "<i>bob</i>", BURST, maximum=4), now),
        ),
        decisions=(
            DecisionRecord(41, _decision(BURST, now - timedelta(minutes=2), current=1, target=3)),
            DecisionRecord(12, _decision(BURST, now - timedelta(hours=3), current=2, target=1)),
        ),
        alerts=(_alert(now),),
        cost=_costs(now),
        billed=_billed(now),
        notes=("host gpu-1: engine old names pool 'legacy', which no [[pool]] declares; not counted",),
        jobs=(
            JobOverview("tick", now - timedelta(seconds=4), 1200, 2, 0, 0.031),
            JobOverview("notify", now - timedelta(minutes=9), 3600, 5, 4, 0.2, "channel ops answered 503"),
        ),
        tally=Tally(
            reports={"stored": 2400, "duplicate": 3, "left_out": 7},
            decisions={BASE: 1200, BURST: 1200},
            actions={("start", "applied"): 4, ("drain", "applied"): 2},
            notices={("ops", "delivered"): 1, ("ops", "retried"): 4},
            cut_requests=1,
        ),
        source=SourceState(hosts=2, dropped={"not_finite": 3}),
        config_loaded_at=now - timedelta(hours=5),
    )


def _base(now: datetime) -> PoolOverview:
    figures = PoolFigures(
        at=now,
        pool=BASE,
        service=CHAT,
        ready=1,
        starting=0,
        leaving=0,
        target=1,
        gpus=1,
        running=12.0,
        queue_depth=34.0,
        gpu_utilization=0.934,
        kv_cache_usage=0.71,
        kv_cache_hit_rate=0.4312,
        prompt_tokens_per_second=18_450.0,
        generation_tokens_per_second=2_210.4,
        tokens_per_gpu_per_second=20_660.4,
        ttft_p95_seconds=0.842,
        tpot_p95_seconds=0.0312,
        e2e_p99_seconds=12.4,
        cost_per_million_tokens=0.0282,
    )
    reason = f"{SEEN}; base stays at 1 (max allows no more)."
    decision = _decision(BASE, now - timedelta(seconds=4), current=1, target=1, limits=(Limit.MAX,), reason=reason)
    return PoolOverview(
        fleet_policy().pools[BASE], figures, {"queue_depth": "1 of 2 replicas missing (stale)"}, decision
    )


def _burst(now: datetime) -> PoolOverview:
    figures = PoolFigures(
        at=now, pool=BURST, service=CHAT, ready=1, starting=1, leaving=1, target=3, gpus=2, queue_depth=0.0
    )
    gaps = {"kv_cache_hit_rate": "no_traffic", "ttft_p95_seconds": "one_scrape", "gpu_utilization": "unreachable"}
    decision = _decision(
        BURST,
        now - timedelta(seconds=4),
        current=2,
        target=3,
        limits=(Limit.COOLDOWN, Limit.MISSING_DATA),
        reason=f"{SEEN}; burst grows from 2 to 3 (the cooldown of the last change, until 12:01:30 UTC; missing data "
        "never scales in).",
    )
    learned = Learned(
        start_seconds=243.0,
        starts=7,
        drain_seconds=41.0,
        requests_per_second=3.25,
        back_offs={
            "spot": BackOff(now + timedelta(minutes=4), 2, FailureClass.SOLD_OUT, "burst-9 failed: <b>none</b> left")
        },
        pending=(Pending(ReplicaId("burst-3"), "start", now - timedelta(seconds=9), now + timedelta(minutes=9)),),
    )
    return PoolOverview(fleet_policy().pools[BURST], figures, gaps, decision, PolicyName.SLO, learned)


def _decision(
    pool: PoolName, at: datetime, *, current: int, target: int, limits: tuple[Limit, ...] = (), reason: str = HOSTILE
) -> Decision:
    return Decision(
        pool=pool,
        at=at,
        current=current,
        ready=current,
        starting=0,
        leaving=0,
        wanted=5,
        target=target,
        reason=reason,
        limits=limits,
        signals=(
            UsedSignal("base-1", "queue_depth", Value(34.0, timedelta(seconds=4))),
            UsedSignal("burst-3", "running", Idle(timedelta(seconds=4))),
            UsedSignal("burst-4", "gpu_utilization", Missing(Gap.STALE)),
        ),
        mode=Mode.ACT,
        may_change_at=at + timedelta(seconds=94),
    )


def _replicas(now: datetime) -> tuple[ReplicaRecord, ...]:
    return (
        record("base-1", H1, since=now - timedelta(hours=30)),
        record("burst-3", H2, slot=0, since=now - timedelta(minutes=8)),
        record("burst-4", H2, slot=1, state=ReplicaState.LOADING, since=now - timedelta(seconds=40)),
        record("burst-2", H2, slot=2, state=ReplicaState.DRAINING, want=Want.DRAIN, since=now - timedelta(seconds=15)),
        record("burst-1", H2, slot=3, state=ReplicaState.FAILED, since=now - timedelta(minutes=3), why="exit status 1"),
        replace(
            record("base-0", H1, since=now - timedelta(days=4)), id=ReplicaId("gpu-1/vllm-a"), managed=False, slot=None
        ),
    )


def _hosts(now: datetime) -> tuple[HostOverview, ...]:
    return (
        HostOverview(H1, True, now - timedelta(seconds=3), nvml_up=True, gpus_up=2, gpus=2, agent_version="1.2.3"),
        HostOverview(
            H2,
            False,
            now - timedelta(minutes=4),
            nvml_up=True,
            gpus_up=3,
            gpus=4,
            spool_reports=16,
            spool_dropped=2,
            clock_offset_seconds=412.0,
            problems=("burst-4: 3 lines of the body could not be read",),
        ),
        HostOverview(HostName("gpu-3"), False, None, nvml_why="no library"),
        HostOverview(HostName("gpu-9"), False, now - timedelta(days=9), revoked=True),
    )


def _alert(now: datetime) -> AlertState:
    return AlertState(
        fingerprint="5f1d",
        rule="kv_cache_hit_rate_drop",
        labels={"alertname": "kv_cache_hit_rate_drop", "pool": "base"},
        phase=AlertPhase.FIRING,
        since=now - timedelta(minutes=12),
        starts_at=now - timedelta(minutes=12),
        value=0.13,
        baseline=0.57,
        annotations={
            "summary": "KV cache hit rate of pool base is 13.0% over the last 15 min, down from 57.0%.",
            "summary_zh": "资源池 base 最近 15 分钟的 KV 缓存命中率为 13.0%，低于基线 57.0%。",
        },
    )


def _billed(now: datetime) -> CostsOverview:
    cost = _costs(now)
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    final = [replace(line, state=CostState.FINAL, amount=Decimal("48.125"), notes=()) for line in cost.pools]
    total = replace(cost.total, state=CostState.FINAL, amount=Decimal("120.25"), per_million=Decimal("0.4"), notes=())
    return CostsOverview(
        since=day - timedelta(days=2),
        until=day - timedelta(days=1),
        pools=tuple(final),
        total=total,
        burst=final[1],
        others={("empty", "USD"): Decimal("20"), ("tax", "USD"): Decimal("4")},
    )


def _costs(now: datetime) -> CostsOverview:
    def line(pool: str, amount: str | None, tokens: str | None, million: str | None, **changes: object) -> CostOverview:
        return CostOverview(
            pool=pool,
            service="chat" if pool else "",
            state=CostState.ESTIMATED,
            currency="USD",
            gpu_hours=Decimal("1.5" if pool else "3"),
            amount=Decimal(amount) if amount else None,
            tokens=Decimal(tokens) if tokens else None,
            per_million=Decimal(million) if million else None,
            per_million_generated=None,
            partial=bool(changes.get("partial")),
            notes=("1 five-minute buckets with GPUs held have no token data",) if not pool else (),
        )

    return CostsOverview(
        since=now - timedelta(hours=1),
        until=now,
        pools=(line("base", "2.10", "74376000", "0.028235", partial=True), line("burst", "5.10", None, None)),
        total=line("", "7.20", "74376000", "0.096805"),
        burst=line("", None, None, None),
    )
