"""Checked tables into frozen settings: what the file means as a whole, every problem at once."""

from __future__ import annotations

from dataclasses import replace

from tidegate.config.document import Document
from tidegate.config.fields import did_you_mean
from tidegate.config.findings import Findings
from tidegate.config.foreign import read_foreign
from tidegate.config.meaning_alerts import alert_rules, channels
from tidegate.config.meaning_bills import bill_settings
from tidegate.config.meaning_budget import fleet_budget
from tidegate.config.meaning_costs import cost_policy, traffic_file
from tidegate.config.meaning_pools import fleet_currency, host_policies, pool_policies
from tidegate.config.meaning_prometheus import prometheus_place
from tidegate.config.meaning_roles import agent_settings, controller_settings, fleet_mode
from tidegate.config.meaning_services import service_policies
from tidegate.config.ports import check_ports
from tidegate.config.problem import ConfigProblems
from tidegate.config.scope import Scope
from tidegate.config.secret_files import Secrets
from tidegate.config.settings import Settings
from tidegate.config.short_form import expand
from tidegate.config.tables import read_tables
from tidegate.model.policy import FleetPolicy

FIGURES = (
    "tokens_per_gpu_per_second",
    "cost_per_million_tokens",
    "ttft",
    "tpot",
    "p95_latency",
    "p99_latency",
    "gpu_utilization",
    "kv_cache_hit_rate",
    "queue_depth",
    "retry_rate",
)
"""The figures that users ask for by name, as `[observability] metrics` may list them."""


def interpret(document: Document, host: str, secrets: Secrets) -> Settings:
    """The settings of a file as read on the machine `host`; raises ConfigProblems with everything that is wrong."""
    findings = Findings(document)
    tables = expand(read_tables(document, findings), findings)
    foreign = read_foreign(document, findings)
    scope = Scope(tables, foreign, findings, document.path.parent.absolute(), host, secrets)
    settings = _settings(scope)
    settings = replace(settings, path=document.path)
    check_ports(scope, settings)
    _note_routed(scope, settings)
    if findings.problems:
        raise ConfigProblems(findings.problems)
    return replace(settings, notes=findings.notes)


def _settings(scope: Scope) -> Settings:
    fleet, currency = _fleet(scope)
    return Settings(
        path=scope.folder,
        fleet=fleet,
        controller=controller_settings(scope),
        prometheus=prometheus_place(scope),
        agent=agent_settings(scope, dict(fleet.pools)),
        alerts=alert_rules(scope),
        channels=channels(scope),
        bills=bill_settings(scope),
        costs=cost_policy(scope),
        traffic_file=traffic_file(scope),
        currency=currency,
        log_level=scope.tables.observability.table.log_level,
        figures=_figures(scope),
    )


def _fleet(scope: Scope) -> tuple[FleetPolicy, str]:
    services, hosts, currency = service_policies(scope), host_policies(scope), fleet_currency(scope)
    table = scope.tables.controller.table
    pools = pool_policies(scope, frozenset(services), hosts, currency)
    fleet = FleetPolicy(
        services=services,
        pools=pools,
        hosts=hosts,
        mode=fleet_mode(scope),
        silent_share=table.silent_share,
        restart_grace=table.restart_grace_seconds,
        budget=fleet_budget(scope, pools),
    )
    return fleet, currency


def _figures(scope: Scope) -> tuple[str, ...]:
    """The figures to put first, under our names: units are seconds here, whatever the copied name ends in."""
    entry = scope.tables.observability
    figures, renamed = [], []
    for position, written in enumerate(entry.table.metrics):
        name = written.removesuffix("_ms").removesuffix("_seconds")
        place = (*entry.at("metrics"), position)
        if name not in FIGURES:
            scope.findings.problem(place, f'"{written}" is no figure of ours; {did_you_mean(name, list(FIGURES))}')
        elif name in figures:
            scope.findings.note(place, f"{name} stands twice in the list")
        else:
            figures.append(name)
        if name != written and name in FIGURES:
            renamed.append(f"{written} is {name}")
    if renamed:
        scope.findings.note(entry.at("metrics"), f"our names: {', '.join(renamed)}; we show them in seconds")
    return tuple(figures)


def _note_routed(scope: Scope, settings: Settings) -> None:
    """The gateway's pools that are not pools here: their requests are seen only under other names."""
    unknown = {pool.name: pool.path for pool in reversed(scope.foreign.routed) if pool.name not in settings.fleet.pools}
    if unknown:
        names = ", ".join(reversed(unknown))
        scope.findings.note(
            next(reversed(unknown.values())),
            f"the gateway routes to {names}; no pool here is called so (a [[pool]] of that name would show its load)",
        )
