"""What the services mean: policies with thresholds that can work."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from tidegate.config.schema_fleet import ServiceTable
from tidegate.config.scope import Scope
from tidegate.config.tables import Entry
from tidegate.model.fleet import ServiceName
from tidegate.model.policy import PolicyName, ServicePolicy, TargetPolicy, ThresholdPolicy


def service_policies(scope: Scope) -> Mapping[ServiceName, ServicePolicy]:
    """Every service by name, in the order of the file."""
    services = {}
    for entry in scope.unique(scope.tables.services, "service"):
        name = ServiceName(entry.table.name)
        services[name] = _service(name, entry.table)
        _check_threshold(scope, entry)
        _note_unused(scope, entry)
    return services


def _service(name: ServiceName, table: ServiceTable) -> ServicePolicy:
    return ServicePolicy(
        name=name,
        model=table.model,
        policy=table.policy,
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
    )


def _check_threshold(scope: Scope, entry: Entry[ServiceTable]) -> None:
    """Out above in; and what a scale-in leaves to the others must not at once be a reason to scale out."""
    place = entry.at("threshold")
    out_key, in_key = (*place, "scale_out_threshold_gpu_util"), (*place, "scale_in_threshold_gpu_util")
    knobs = entry.table.threshold
    out_above, in_below = knobs.scale_out_threshold_gpu_util, knobs.scale_in_threshold_gpu_util
    if out_above <= in_below:
        scope.findings.problem(
            out_key,
            f"is {out_above:g}, but must be above scale_in_threshold_gpu_util ({in_below:g}):"
            " else the same load scales out and in",
            also=[in_key],
        )
        return
    if entry.table.policy is PolicyName.THRESHOLD:
        _note_flapping(scope, entry, out_above, in_below)


def _note_flapping(scope: Scope, entry: Entry[ServiceTable], out_above: float, in_below: float) -> None:
    """Take one of N replicas away and the others carry N/(N-1) of their load: most at the smallest N."""
    pools = [pool.table for pool in scope.tables.pools if pool.table.service in {entry.table.name, None}]
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


def _note_unused(scope: Scope, entry: Entry[ServiceTable]) -> None:
    for key, policy in (("threshold", PolicyName.THRESHOLD), ("target", PolicyName.TARGET)):
        if entry.has(key) and entry.table.policy is not policy:
            scope.findings.note(
                entry.at(key), f'is not used: the policy is "{entry.table.policy}" (policy = "{policy}" uses it)'
            )
    if entry.has("slo"):
        scope.findings.note(entry.at("slo"), "is kept for a later version: no policy of this one follows latencies")
    if entry.table.policy is PolicyName.TARGET and entry.table.target.scale_in_window_seconds == timedelta():
        scope.findings.note(
            (*entry.at("target"), "scale_in_window_seconds"), "is 0: one quiet moment closes replicas at once"
        )
    users = [pool for pool in scope.tables.pools if pool.table.service in {entry.table.name, None}]
    if not users and not scope.tables.named["pool"]:
        scope.findings.note(entry.path, "has no pool: nothing is sized for it")
