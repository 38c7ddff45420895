"""The controller's overview as metric families, rendered at scrape time; what is missing is an absent series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from prometheus_client.core import Metric

from tidegate.expose.exposition import Exposition
from tidegate.expose.families import Role
from tidegate.model.alert import AlertPhase
from tidegate.model.fleet import ReplicaState
from tidegate.model.leadership import Part
from tidegate.model.overview import CostsOverview, HostOverview, JobOverview, Overview, PoolOverview, Tally
from tidegate.model.policy import Mode
from tidegate.model.records import PoolFigures
from tidegate.model.scrape import SourceState

_TICK = "tick"


class ControllerCollector:
    """Yields the families of one overview.

    When ticks no longer go through (`fresh` is False) pools, replicas and hosts are left out: old figures are never
    served as live ones.
    """

    def __init__(self, overview: Overview, now: datetime, *, fresh: bool) -> None:
        self._overview, self._now, self._fresh = overview, now, fresh

    def collect(self) -> Iterable[Metric]:
        """Build every family from the overview."""
        out = Exposition(Role.CONTROLLER)
        _add_self(out, self._overview)
        _add_tally(out, self._overview.tally)
        _add_source(out, self._overview.source)
        for job in self._overview.jobs:
            _add_job(out, job)
        for rule, number in sorted(_firing(self._overview).items()):
            out.add("tidegate_alerts_firing", {"rule": rule}, float(number))
        if self._fresh:
            for pool in self._overview.pools:
                _add_pool(out, pool, self._overview)
            for host in self._overview.hosts:
                _add_host(out, host, self._now)
            _add_cost(out, self._overview.cost)
        _add_billed(out, self._overview.billed)
        return out.metrics()


def _add_self(out: Exposition, overview: Overview) -> None:
    out.add("tidegate_build_info", {"version": overview.version}, 1.0)
    leadership = overview.leadership
    out.add("tidegate_leading", {}, 1.0 if leadership.part is Part.LEADS else 0.0)
    if leadership.name:
        out.add("tidegate_leader_epoch", {"leader": leadership.name}, float(leadership.epoch))
    out.add("tidegate_config_last_reload_successful", {}, 1.0 if overview.config_reload_ok else 0.0)
    if overview.config_loaded_at is not None:
        loaded = overview.config_loaded_at.timestamp()
        out.add("tidegate_config_last_reload_success_timestamp_seconds", {}, loaded)


def _add_tally(out: Exposition, tally: Tally) -> None:
    for fate, number in sorted(tally.reports.items()):
        out.add("tidegate_reports_total", {"result": fate}, float(number))
    for pool, number in sorted(tally.decisions.items()):
        out.add("tidegate_decisions_total", {"pool": pool}, float(number))
    for (kind, outcome), number in sorted(tally.actions.items()):
        out.add("tidegate_actions_total", {"kind": kind, "outcome": outcome}, float(number))
    for (channel, result), number in sorted(tally.notices.items()):
        out.add("tidegate_notifications_total", {"channel": channel, "result": result}, float(number))


def _add_source(out: Exposition, source: SourceState | None) -> None:
    if source is not None:
        out.add("tidegate_source_hosts", {}, source.hosts)
        for reason, number in sorted(source.dropped.items()):
            out.add("tidegate_source_samples_dropped", {"reason": reason}, float(number))


def _add_job(out: Exposition, job: JobOverview) -> None:
    last = job.last_success.timestamp() if job.last_success else None
    if job.name == _TICK:
        out.add("tidegate_ticks_total", {"result": "ok"}, float(job.runs - job.failures))
        out.add("tidegate_ticks_total", {"result": "failed"}, float(job.failures))
        out.add("tidegate_tick_duration_seconds", {}, job.seconds if job.runs else None)
        out.add("tidegate_tick_last_success_timestamp_seconds", {}, last)
        return
    labels = {"job": job.name}
    out.add("tidegate_job_runs_total", labels, float(job.runs))
    out.add("tidegate_job_failures_total", labels, float(job.failures))
    out.add("tidegate_job_last_success_timestamp_seconds", labels, last)
    out.add("tidegate_job_duration_seconds", labels, job.seconds if job.runs else None)


def _firing(overview: Overview) -> Counter[str]:
    rules = Counter({alert.rule: 0 for alert in overview.alerts})
    rules.update(alert.rule for alert in overview.alerts if alert.phase is AlertPhase.FIRING)
    return rules


def _add_pool(out: Exposition, pool: PoolOverview, overview: Overview) -> None:
    name: dict[str, str] = {"pool": pool.policy.name}
    info = {"service": pool.policy.service, "kind": pool.policy.kind.value, "role": pool.policy.role.value}
    out.add("tidegate_pool_info", {**name, **info}, 1.0)
    out.one_of("tidegate_pool_mode", name, "mode", Mode, overview.mode)
    states = Counter(replica.state for replica in overview.replicas if replica.pool == pool.policy.name)
    for state in ReplicaState:
        if state is not ReplicaState.STOPPED:
            out.add("tidegate_pool_replicas", {**name, "state": state.value}, float(states[state]))
    if pool.decision is not None:
        out.add("tidegate_pool_target_replicas", name, float(pool.decision.target))
        out.add("tidegate_pool_wanted_replicas", name, float(pool.decision.wanted))
        for limit in dict.fromkeys(pool.decision.limits):
            out.add("tidegate_pool_limited", {**name, "limit": limit.value}, 1.0)
    _add_figures(out, name, pool.figures)


def _add_figures(out: Exposition, name: dict[str, str], figures: PoolFigures) -> None:
    out.add("tidegate_pool_running_requests", name, figures.running)
    out.add("tidegate_pool_queue_depth", name, figures.queue_depth)
    out.add("tidegate_pool_gpu_utilization", name, figures.gpu_utilization)
    out.add("tidegate_pool_kv_cache_usage", name, figures.kv_cache_usage)
    out.add("tidegate_pool_kv_cache_hit_rate", name, figures.kv_cache_hit_rate)
    out.add("tidegate_pool_prompt_tokens_per_second", name, figures.prompt_tokens_per_second)
    out.add("tidegate_pool_generation_tokens_per_second", name, figures.generation_tokens_per_second)
    out.add("tidegate_pool_tokens_per_gpu_per_second", name, figures.tokens_per_gpu_per_second)
    out.quantile("tidegate_pool_ttft_window_seconds", name, 0.95, figures.ttft_p95_seconds)
    out.quantile("tidegate_pool_tpot_window_seconds", name, 0.95, figures.tpot_p95_seconds)
    out.quantile("tidegate_pool_e2e_latency_window_seconds", name, 0.99, figures.e2e_p99_seconds)


def _add_cost(out: Exposition, cost: CostsOverview | None) -> None:
    for line in cost.pools if cost else ():
        if line.per_million is not None:
            labels = {"pool": line.pool, "state": line.state.value, "currency": line.currency}
            out.add("tidegate_cost_per_million_tokens", labels, float(line.per_million))


def _add_billed(out: Exposition, billed: CostsOverview | None) -> None:
    """It is of days long past, so it stands whether ticks go through or not."""
    if billed is None:
        return
    out.add("tidegate_billed_until_timestamp_seconds", {}, billed.until.timestamp())
    for line in billed.pools:
        labels = {"pool": line.pool, "state": line.state.value, "currency": line.currency}
        if line.per_million is not None:
            out.add("tidegate_billed_cost_per_million_tokens", labels, float(line.per_million))
        if line.amount is not None:
            out.add("tidegate_billed_cost", labels | {"line": "pool"}, float(line.amount))
    for (kind, currency), amount in billed.others.items():
        labels = {"pool": "", "line": kind, "state": billed.total.state.value, "currency": currency}
        out.add("tidegate_billed_cost", labels, float(amount))


def _add_host(out: Exposition, host: HostOverview, now: datetime) -> None:
    if host.revoked:
        return
    labels = {"host": host.name}
    out.add("tidegate_host_up", labels, 1.0 if host.heard else 0.0)
    out.add("tidegate_host_series_left_out", labels, float(host.series_left_out))
    if host.last_seen is not None:
        out.add("tidegate_host_last_seen_age_seconds", labels, max(0.0, (now - host.last_seen).total_seconds()))
