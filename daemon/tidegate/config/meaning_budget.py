"""What the budget means, and what the sizes of a service must leave possible: nothing that can never be met."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from tidegate.config.meaning_services import policy_of, pools_of
from tidegate.config.schema_fleet import ServiceTable
from tidegate.config.scope import Scope
from tidegate.config.tables import Entry
from tidegate.model.fleet import PoolName, PoolRole
from tidegate.model.policy import Budget, PolicyName, PoolPolicy

Pools = Mapping[PoolName, PoolPolicy]


def fleet_budget(scope: Scope, pools: Pools) -> Budget:
    """The `[budget]` table; one that the pools' minima alone exceed is a problem."""
    entry = scope.tables.budget
    budget = Budget(entry.table.gpus, entry.table.per_hour)
    least = sum(pool.min * pool.gpus_per_replica for pool in pools.values())
    if budget.gpus is not None and least > budget.gpus:
        scope.findings.problem(entry.at("gpus"), f"is {budget.gpus}, but the pools' min alone take {least} GPUs")
    if budget.per_hour is not None:
        _check_money(scope, pools, budget.per_hour)
    for service in scope.tables.services:
        _check_sizes(scope, service)
        _check_ratio(scope, service)
    return budget


def _check_money(scope: Scope, pools: Pools, per_hour: Decimal) -> None:
    """What has no price cannot be held to a budget, so it is never started under one."""
    place = scope.tables.budget.at("per_hour")
    unpriced = [
        pool.name
        for pool in pools.values()
        if any(flavour.template and flavour.price_per_gpu_hour is None for flavour in pool.flavours)
    ]
    if unpriced:
        scope.findings.problem(
            place,
            f"needs prices, and {', '.join(unpriced)} has none: set price_per_gpu_hour (of the pool or in [cost])",
        )
    least = sum(
        (
            (pool.first_flavour.price_per_gpu_hour or Decimal()) * pool.gpus_per_replica * pool.min
            for pool in pools.values()
        ),
        Decimal(),
    )
    if least > per_hour:
        scope.findings.problem(place, f"is {per_hour}, but the pools' min alone cost {least} an hour")


def _check_sizes(scope: Scope, entry: Entry[ServiceTable]) -> None:
    """What a policy asks for must lie within the bounds of the pools that it has."""
    most = sum(pool.table.max for pool in pools_of(scope, entry))
    asked = {PolicyName.SCHEDULE: ("replicas", entry.table.schedule.replicas)}
    if entry.table.external.fallback is not None:
        asked[PolicyName.EXTERNAL] = ("fallback", entry.table.external.fallback)
    policy = policy_of(entry)
    if policy in asked and asked[policy][1] > most:
        key, count = asked[policy]
        scope.findings.problem(
            (*entry.at(policy.value), key), f"is {count}, but the pools of this service have room for {most} (max)"
        )


def _check_ratio(scope: Scope, entry: Entry[ServiceTable]) -> None:
    """A band that the pools' bounds leave no size in would hold everything for ever."""
    table, place = entry.table.ratio, entry.at("ratio")
    if not entry.has("ratio"):
        return
    if table.min is not None and table.max is not None and table.min > table.max:
        scope.findings.problem((*place, "min"), f"is {table.min:g}, above max ({table.max:g})", also=[(*place, "max")])
        return
    bounds = {role: [0, 0] for role in (PoolRole.PREFILL, PoolRole.DECODE)}
    for pool in pools_of(scope, entry):
        if pool.table.role in bounds:
            bounds[pool.table.role][0] += pool.table.min
            bounds[pool.table.role][1] += pool.table.max
    (least, most), (least_decode, most_decode) = bounds[PoolRole.PREFILL], bounds[PoolRole.DECODE]
    if not most or not most_decode:
        scope.findings.note(place, "is not used: the service has no pair of a prefill and a decode pool")
    elif most < (table.min or 0) * max(1, least_decode) or (table.max and least > table.max * most_decode):
        scope.findings.problem(
            place,
            f"leaves no size: {least} to {most} prefill and {least_decode} to {most_decode} decode replicas (min, max)",
        )
