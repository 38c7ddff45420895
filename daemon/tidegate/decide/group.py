"""One group of pools, sized together: the pools of a service that do the same part of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.decide.demand import Demand, demand_by_target, demand_by_threshold, unknown_demand
from tidegate.decide.guard import Bounds, Guarded, guard
from tidegate.decide.load import Measure, load_of
from tidegate.decide.pools import base_first
from tidegate.decide.remember import with_wish
from tidegate.decide.supply import Supply
from tidegate.model.fleet import PoolName, PoolRole, ServiceName, SignalName
from tidegate.model.memory import ServiceMemory
from tidegate.model.policy import FleetPolicy, PolicyName, PoolPolicy, ServicePolicy


@dataclass(frozen=True, slots=True)
class Group:
    """Pools that share a load, in filling order."""

    key: ServiceName
    """Under which the group is remembered: the service, and the role where it is a part of the request only."""
    service: ServicePolicy
    pools: tuple[PoolName, ...]


def groups_of(policy: FleetPolicy) -> list[Group]:
    """Every pool in exactly one group, groups in the order of the configuration.

    Prefill and decode pools of a service carry different loads and are never added up.
    """
    members: dict[ServiceName, list[PoolPolicy]] = {}
    for pool in policy.pools.values():
        key = pool.service if pool.role is PoolRole.MIXED else ServiceName(f"{pool.service} ({pool.role.value})")
        members.setdefault(key, []).append(pool)
    return [
        Group(
            key=key,
            service=policy.services.get(pools[0].service, ServicePolicy(pools[0].service)),
            pools=tuple(pool.name for pool in pools),
        )
        for key, pools in members.items()
    ]


def measure_of(service: ServicePolicy) -> Measure:
    """What the service's policy reads in a replica."""
    match service.policy:
        case PolicyName.TARGET:
            return Measure((SignalName.RUNNING, SignalName.WAITING), service.target.in_flight_per_replica)
        case PolicyName.THRESHOLD:
            return Measure((SignalName.GPU_UTILIZATION,), service.threshold.scale_out_above)
        case _:
            return Measure((SignalName.RUNNING, SignalName.WAITING), service.target.in_flight_per_replica)


def demand_of(group: Group, supplies: Sequence[Supply], silent_share: float) -> Demand:
    """How many replicas the group's policy asks for."""
    ready = [replica for supply in supplies for replica in supply.ready]
    count = sum(supply.count for supply in supplies)
    if not ready:
        return unknown_demand(group.key, count)
    measure = measure_of(group.service)
    match group.service.policy:
        case PolicyName.TARGET:
            leaving = [replica for supply in supplies for replica in supply.leaving]
            load = load_of(ready, leaving, measure, silent_share)
            return demand_by_target(group.key, load, count, group.service.target)
        case PolicyName.THRESHOLD:
            load = load_of(ready, (), measure, silent_share)
            return demand_by_threshold(group.key, load, count, group.service.threshold)
        case _:
            return unknown_demand(group.key, count)


def bounds_of(group: Group, supplies: Sequence[Supply]) -> Bounds:
    """The sums of the pools' bounds, and the manners of the group's policy."""
    threshold = group.service.policy is PolicyName.THRESHOLD
    return Bounds(
        minimum=sum(supply.pool.min for supply in supplies),
        maximum=sum(supply.pool.max for supply in supplies),
        cooldown=group.service.threshold.cooldown if threshold else group.service.target.cooldown,
        window=timedelta() if threshold else group.service.target.scale_in_window,
        growth_waits=threshold,
    )


@dataclass(frozen=True, slots=True)
class Sized:
    """A group with its demand, the size that it may have now, and what is remembered of it."""

    group: Group
    supplies: tuple[Supply, ...]
    """In filling order."""
    demand: Demand
    guarded: Guarded
    memory: ServiceMemory


def size(
    group: Group, found: Sequence[Supply], memory: ServiceMemory, policy: FleetPolicy, began_at: datetime, now: datetime
) -> Sized:
    """Decide the size of one group, over all its pools."""
    supplies = tuple(base_first(found))
    demand = demand_of(group, supplies, policy.silent_share)
    bounds = bounds_of(group, supplies)
    memory = with_wish(memory, demand.wish, bounds.window, now)
    count = sum(supply.count for supply in supplies)
    guarded = guard(demand, count, bounds, memory, began_at + policy.restart_grace)
    return Sized(group, supplies, demand, guarded, memory)
