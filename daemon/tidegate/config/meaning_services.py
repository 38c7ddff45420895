"""What the services mean: policies with thresholds that can work."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta

from tidegate.config.schema_fleet import PoolTable, ServiceTable
from tidegate.config.scope import Scope
from tidegate.config.tables import Entry
from tidegate.model.fleet import ServiceName
from tidegate.model.policy import (
    ExternalPolicy,
    FlapBudget,
    PolicyName,
    Ratio,
    SchedulePolicy,
    ServicePolicy,
    SloPolicy,
    Steps,
    TargetPolicy,
    ThresholdPolicy,
)

_OWN_TABLES = (PolicyName.THRESHOLD, PolicyName.TARGET, PolicyName.SCHEDULE, PolicyName.EXTERNAL, PolicyName.SLO)
"""Each policy's table is called as the policy is."""


def service_policies(scope: Scope) -> Mapping[ServiceName, ServicePolicy]:
    """Every service by name, in the order of the file."""
    services = {}
    for entry in scope.unique(scope.tables.services, "service"):
        name, policy = ServiceName(entry.table.name), policy_of(entry)
        services[name] = _service(name, entry.table, policy)
        _check_threshold(scope, entry, policy)
        _check_windows(scope, entry, policy)
        _note_unused(scope, entry, policy)
    return services


def policy_of(entry: Entry[ServiceTable]) -> PolicyName:
    """The policy that is named, else the only one whose table stands there, else the default.

    A file from before `slo` was the default has the table of the policy that it meant.
    """
    given = [policy for policy in _OWN_TABLES if entry.has(policy.value)]
    return given[0] if not entry.has("policy") and len(given) == 1 else entry.table.policy


def pools_of(scope: Scope, entry: Entry[ServiceTable]) -> Sequence[Entry[PoolTable]]:
    """The pools that serve a service; one that names none serves the only one."""
    return [pool for pool in scope.tables.pools if pool.table.service in {entry.table.name, None}]


def _service(name: ServiceName, table: ServiceTable, policy: PolicyName) -> ServicePolicy:
    return ServicePolicy(
        name=name,
        model=table.model,
        policy=policy,
        slo=SloPolicy(
            table.slo.ttft_seconds.total_seconds(), table.slo.tpot_seconds.total_seconds(), table.slo.attainment
        ),
        threshold=ThresholdPolicy(
            scale_out_above=table.threshold.scale_out_threshold_gpu_util,
            scale_in_below=table.threshold.scale_in_threshold_gpu_util,
            cooldown=table.threshold.cooldown_seconds,
        ),
        target=TargetPolicy(
            in_flight_per_replica=table.target.in_flight_per_replica,
            cooldown=table.target.cooldown_seconds,
            scale_in_window=table.target.scale_in_window_seconds,
            tolerance=table.target.tolerance,
        ),
        schedule=SchedulePolicy(table.schedule.replicas),
        external=ExternalPolicy(table.external.stale_after_seconds, table.external.fallback),
        ratio=Ratio(table.ratio.min or 0.0, table.ratio.max or math.inf),
        steps=Steps(table.steps.scale_out, table.steps.scale_in, table.steps.period_seconds),
        flaps=FlapBudget(table.flaps.scale_ins, table.flaps.window_hours),
    )


def _check_threshold(scope: Scope, entry: Entry[ServiceTable], policy: PolicyName) -> None:
    """Out above in; and what a scale-in leaves to the others must not at once be a reason to scale out."""
    place = entry.at("threshold")
    out_key, in_key = (*place, "scale_out_threshold_gpu_util"), (*place, "scale_in_threshold_gpu_util")
    knobs = entry.table.threshold
    out_above, in_below = knobs.scale_out_threshold_gpu_util, knobs.scale_in_threshold_gpu_util
    if out_above >= 1:
        scope.findings.problem(out_key, "must be below 1: no GPU is used more than wholly, so nothing would scale out")
    if out_above <= in_below:
        scope.findings.problem(
            out_key,
            f"is {out_above:g}, but must be above scale_in_threshold_gpu_util ({in_below:g}):"
            " else the same load scales out and in",
            also=[in_key],
        )
        return
    if policy is PolicyName.THRESHOLD:
        _note_flapping(scope, entry, out_above, in_below)


def _note_flapping(scope: Scope, entry: Entry[ServiceTable], out_above: float, in_below: float) -> None:
    """Take one of N replicas away and the others carry N/(N-1) of their load: most at the smallest N."""
    pools = [pool.table for pool in pools_of(scope, entry)]
    if all(pool.min == pool.max for pool in pools):
        return
    smallest = max(sum(pool.min for pool in pools) + 1, 2)
    after = in_below * smallest / (smallest - 1)
    if after >= out_above:
        scope.findings.note(
            (*entry.at("threshold"), "scale_in_threshold_gpu_util"),
            f"a load just below {in_below:g} on {smallest} replicas is {after:.2f} on {smallest - 1}, above"
            f" scale_out_threshold_gpu_util ({out_above:g}): such a step is not taken; below"
            f" {out_above * (smallest - 1) / smallest:.2f} every step can be",
        )


def _check_windows(scope: Scope, entry: Entry[ServiceTable], policy: PolicyName) -> None:
    """What shrinks must look back at least as far as what it looks at, or one reading decides again and again."""
    key = "scale_in_window_seconds"
    window = entry.table.target.scale_in_window_seconds
    if policy is PolicyName.TARGET and window == timedelta():
        scope.findings.note((*entry.at("target"), key), "is 0: one quiet moment closes replicas at once")
    elif policy is PolicyName.TARGET and "scale_in_window_seconds" in entry.table.target.model_fields_set:
        _check_look_back(scope, entry, ("target", key), window)
    if policy is PolicyName.THRESHOLD and "cooldown_seconds" in entry.table.threshold.model_fields_set:
        _check_look_back(scope, entry, ("threshold", "cooldown_seconds"), entry.table.threshold.cooldown_seconds)


def _check_look_back(scope: Scope, entry: Entry[ServiceTable], key: tuple[str, str], window: timedelta) -> None:
    look_back = scope.tables.controller.table.view_window_seconds
    if window < look_back:
        place = entry.at(key[0])
        scope.findings.note(
            place if place == entry.path else (*place, key[1]),
            f"is {window.total_seconds():g}, shorter than the time that a reading looks back"
            f" ([controller] view_window_seconds, {look_back.total_seconds():g}): the same load may be answered twice",
        )


def _note_unused(scope: Scope, entry: Entry[ServiceTable], policy: PolicyName) -> None:
    for other in _OWN_TABLES:
        if entry.has(other.value) and other is not policy:
            scope.findings.note(
                entry.at(other.value), f'is not used: the policy is "{policy}" (policy = "{other}" uses it)'
            )
    if not entry.has("policy") and policy is not ServicePolicy(ServiceName("")).policy:
        scope.findings.note(entry.path, f'has no policy: "{policy}", because [service.{policy}] stands there')
    if not pools_of(scope, entry) and not scope.tables.named["pool"]:
        scope.findings.note(entry.path, "has no pool: nothing is sized for it")
