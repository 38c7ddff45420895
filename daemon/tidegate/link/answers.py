"""Turn the controller's values into the shapes of /v1. Pure."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from tidegate.link import messages as m
from tidegate.model.alert import AlertPhase, AlertState
from tidegate.model.decision import Decision, UsedSignal
from tidegate.model.fleet import Idle, Value
from tidegate.model.overview import (
    CostOverview,
    CostsOverview,
    Endpoint,
    HostOverview,
    JobOverview,
    Overview,
    PoolOverview,
    Tally,
)
from tidegate.model.reading import Missing
from tidegate.model.records import PoolFigures, ReplicaRecord


def status(overview: Overview, now: datetime, *, ready: bool, ready_why: str) -> m.StatusShape:
    """The whole overview."""
    return m.StatusShape(
        version=overview.version,
        now=now,
        started_at=overview.started_at,
        tick_at=overview.at,
        unrecorded=overview.unrecorded,
        ready=ready,
        ready_why=ready_why,
        epoch=overview.leadership.epoch,
        leader=_leader(overview),
        mode=overview.mode,
        currency=overview.currency,
        summary=_summary(overview),
        pools=[pool(found) for found in overview.pools],
        replicas=[replica(found) for found in overview.replicas],
        hosts=[_host(found) for found in overview.hosts],
        decisions=[decision(found.decision, found.id) for found in overview.decisions],
        alerts=[_alert(found) for found in overview.alerts],
        cost=costs(overview.cost) if overview.cost else None,
        billed=costs(overview.billed) if overview.billed else None,
        jobs=[_job(found) for found in overview.jobs],
        notes=list(overview.notes),
        config_loaded_at=overview.config_loaded_at,
        config_reload_ok=overview.config_reload_ok,
    )


def _leader(overview: Overview) -> m.LeaderShape:
    known = overview.leadership
    return m.LeaderShape(part=known.part, name=known.name, epoch=known.epoch, since=known.since)


def _summary(overview: Overview) -> m.SummaryShape:
    figures = [found.figures for found in overview.pools]
    tally: Tally = overview.tally
    notices: Counter[str] = Counter()
    for (_channel, result), number in tally.notices.items():
        notices[result] += number
    return m.SummaryShape(
        ready=sum(found.ready for found in figures),
        starting=sum(found.starting for found in figures),
        leaving=sum(found.leaving for found in figures),
        target=sum(found.target for found in figures),
        reports=dict(tally.reports),
        actions={kind: number for (kind, outcome), number in tally.actions.items() if outcome == "applied"},
        notices=dict(notices),
        alerts_firing=sum(alert.phase is AlertPhase.FIRING for alert in overview.alerts),
        cut_requests=tally.cut_requests,
    )


def pool(found: PoolOverview) -> m.PoolShape:
    """One pool with its figures and its last decision."""
    policy, figures = found.policy, found.figures
    return m.PoolShape(
        name=policy.name,
        service=policy.service,
        kind=policy.kind,
        role=policy.role,
        min=policy.min,
        max=policy.max,
        current=figures.ready + figures.starting,
        ready=figures.ready,
        starting=figures.starting,
        leaving=figures.leaving,
        target=figures.target,
        figures=_figures(figures),
        missing=dict(found.gaps),
        decision=decision(found.decision, None) if found.decision else None,
    )


def _figures(figures: PoolFigures) -> m.FiguresShape:
    return m.FiguresShape.model_validate(figures, from_attributes=True)


def replica(record: ReplicaRecord) -> m.ReplicaShape:
    """One replica."""
    return m.ReplicaShape.model_validate(record, from_attributes=True)


def _host(host: HostOverview) -> m.HostShape:
    return m.HostShape(
        name=host.name,
        up=host.heard,
        last_seen=host.last_seen,
        revoked=host.revoked,
        nvml_up=host.nvml_up,
        nvml_why=host.nvml_why,
        gpus_up=host.gpus_up,
        gpus=host.gpus,
        spool_reports=host.spool_reports,
        spool_dropped=host.spool_dropped,
        agent_version=host.agent_version,
        clock_offset_seconds=host.clock_offset_seconds,
        problems=list(host.problems),
    )


def _alert(alert: AlertState) -> m.AlertShape:
    return m.AlertShape.model_validate(alert, from_attributes=True)


def _job(job: JobOverview) -> m.JobShape:
    return m.JobShape.model_validate(job, from_attributes=True)


def decision(found: Decision, number: int | None) -> m.DecisionShape:
    """One decision with the signals that it rested on."""
    return m.DecisionShape(
        id=number,
        pool=found.pool,
        at=found.at,
        current=found.current,
        ready=found.ready,
        starting=found.starting,
        leaving=found.leaving,
        wanted=found.wanted,
        target=found.target,
        reason=found.reason,
        limits=list(found.limits),
        mode=found.mode,
        may_change_at=found.may_change_at,
        signals=[_signal(used) for used in found.signals],
    )


def _signal(used: UsedSignal) -> m.SignalShape:
    match used.signal:
        case Value(value, age):
            return m.SignalShape(source=used.source, name=used.name, value=value, age_seconds=age.total_seconds())
        case Idle(age):
            age_seconds = age.total_seconds()
            return m.SignalShape(source=used.source, name=used.name, value=0.0, idle=True, age_seconds=age_seconds)
        case Missing(why):
            return m.SignalShape(source=used.source, name=used.name, value=None, missing=why.value)


def costs(found: CostsOverview) -> m.CostsShape:
    """The cost of a span of time."""
    return m.CostsShape(
        since=found.since,
        until=found.until,
        pools=[_cost(pool) for pool in found.pools],
        total=_cost(found.total),
        burst=_cost(found.burst),
        others=[
            m.OtherCostShape(line=line, currency=currency, amount=amount)
            for (line, currency), amount in found.others.items()
        ],
    )


def _cost(found: CostOverview) -> m.CostShape:
    return m.CostShape(
        pool=found.pool,
        service=found.service,
        state=found.state,
        currency=found.currency,
        gpu_hours=found.gpu_hours,
        amount=found.amount,
        tokens=found.tokens,
        per_million_tokens=found.per_million,
        per_million_generated_tokens=found.per_million_generated,
        partial=found.partial,
        notes=list(found.notes),
    )


def endpoint(found: Endpoint) -> m.EndpointGroup:
    """One target with its labels, as Prometheus' http_sd and routers read it."""
    labels = {
        "pool": found.pool,
        "service": found.service,
        "replica": found.replica,
        "host": found.host,
        "state": found.state.value,
    }
    return m.EndpointGroup(targets=[found.target], labels=labels)
