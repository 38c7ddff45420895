"""One group of pools, sized together: the pools of a service that do the same part of a request."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegate.decide.capacity import learned
from tidegate.decide.demand import (
    Demand,
    demand_by_external,
    demand_by_schedule,
    demand_by_target,
    demand_by_threshold,
    unknown_demand,
)
from tidegate.decide.flow import READ, Flow, flow_of
from tidegate.decide.forecast import observed, scaled
from tidegate.decide.guard import Bounds, Guarded, guard, patience
from tidegate.decide.load import Measure, load_of
from tidegate.decide.objective import Setting, demand_by_objective, from_nothing, pressure_of
from tidegate.decide.remember import with_wish
from tidegate.decide.season import with_tick
from tidegate.decide.supply import Supply
from tidegate.decide.yardstick import conversion
from tidegate.model.fleet import Gateway, PoolName, PoolRole, Replica, ServiceName, Signal, SignalName
from tidegate.model.memory import Capacity, Forecast, ServiceMemory
from tidegate.model.policy import FleetPolicy, PolicyName, PoolPolicy, ServicePolicy

_NEW_S, _KNOWN_S = 900.0, 1800.0
"""A group that was first seen so long ago keeps its size, then lets go of it until so long."""
_WINDOW = 0.8
"""A need is remembered for this part of the time that a start takes,"""
_SHORTEST_WINDOW_S, _LONGEST_WINDOW_S = 120.0, 1200.0


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


def read_by(service: ServicePolicy) -> tuple[SignalName, ...]:
    """The signals that the service's policy looks at in a replica."""
    match service.policy:
        case PolicyName.SLO:
            return READ
        case PolicyName.THRESHOLD:
            return (SignalName.GPU_UTILIZATION,)
        case PolicyName.TARGET:
            return (SignalName.RUNNING, SignalName.WAITING)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that the size of one group rests on at one tick."""

    group: Group
    supplies: tuple[Supply, ...]
    """In filling order."""
    memory: ServiceMemory
    policy: FleetPolicy
    horizon: float
    """Seconds until a replica that is ordered now would serve."""
    odds: float
    """How likely it is that it ever will."""
    gateway: Gateway
    external: Signal
    now: datetime

    @property
    def ready(self) -> list[Replica]:
        """Ready replicas of all pools."""
        return [replica for supply in self.supplies for replica in supply.ready]

    @property
    def count(self) -> int:
        """Ready and starting ones."""
        return sum(supply.count for supply in self.supplies)

    @property
    def flow(self) -> Flow:
        """What the ready replicas do."""
        return flow_of(self.ready, self.policy.silent_share, self.now, self.gateway)


def demand_of(seen: Seen, flow: Flow) -> Demand:
    """How many replicas the group's policy asks for."""
    key, service, share = seen.group.key, seen.group.service, seen.policy.silent_share
    match service.policy:
        case PolicyName.SCHEDULE:
            return demand_by_schedule(key, service.schedule)
        case PolicyName.EXTERNAL:
            return demand_by_external(key, seen.external, seen.count, service.external)
    if not seen.ready:
        return (
            from_nothing(key, seen.count, flow, seen.memory)
            if _by_objective(service)
            else unknown_demand(key, seen.count)
        )
    match service.policy:
        case PolicyName.TARGET:
            leaving = [replica for supply in seen.supplies for replica in supply.leaving]
            measure = Measure(read_by(service), service.target.in_flight_per_replica)
            return demand_by_target(key, load_of(seen.ready, leaving, measure, share), seen.count, service.target)
        case PolicyName.THRESHOLD:
            measure = Measure(read_by(service), service.threshold.scale_out_above)
            return demand_by_threshold(key, load_of(seen.ready, (), measure, share), seen.count, service.threshold)
        case _:
            setting = Setting(key, seen.count, service.slo, seen.horizon, seen.odds, seen.now)
            return demand_by_objective(setting, flow, seen.memory)


def bounds_of(seen: Seen) -> Bounds:
    """The sums of the pools' bounds, and the manners of the group's policy."""
    service = seen.group.service
    minimum = sum(supply.pool.min for supply in seen.supplies)
    maximum = sum(supply.most for supply in seen.supplies)
    cooldown = window = timedelta()
    match service.policy:
        case PolicyName.THRESHOLD:
            cooldown = service.threshold.cooldown
        case PolicyName.TARGET:
            cooldown, window = service.target.cooldown, service.target.scale_in_window
        case PolicyName.SLO:
            seconds = _WINDOW * seen.horizon * patience(seen.memory, seen.now)
            window = timedelta(seconds=min(_LONGEST_WINDOW_S, max(_SHORTEST_WINDOW_S, seconds)))
        case _:
            pass
    waits = service.policy is PolicyName.THRESHOLD
    return Bounds(minimum, maximum, cooldown, window, growth_waits=waits, steps=service.steps, flaps=service.flaps)


@dataclass(frozen=True, slots=True)
class Sized:
    """A group with its demand, the size that it may have now, and what is remembered of it."""

    group: Group
    supplies: tuple[Supply, ...]
    """In filling order."""
    demand: Demand
    guarded: Guarded
    bounds: Bounds
    memory: ServiceMemory

    @property
    def count(self) -> int:
        """Ready and starting replicas."""
        return sum(supply.count for supply in self.supplies)

    @property
    def spare(self) -> int:
        """Ready replicas that may go: the others carry the load of now."""
        return max(0, sum(len(supply.ready) for supply in self.supplies) - self.demand.ready_floor)

    @property
    def role(self) -> PoolRole:
        """What its pools do of a request."""
        return self.supplies[0].pool.role

    @property
    def width(self) -> int:
        """GPUs of one replica, of the widest pool."""
        return max(supply.pool.gpus_per_replica for supply in self.supplies)


def size(seen: Seen, began_at: datetime, seconds: float) -> Sized:
    """Decide the size of one group, over all its pools; `seconds` since the last tick."""
    flow = seen.flow
    demand, bounds = demand_of(seen, flow), bounds_of(seen)
    floor = learning_floor(seen)
    demand = replace(demand, wish=max(demand.wish, floor))
    memory = with_wish(seen.memory, demand.wish, bounds.window, seen.now)
    guarded = guard(demand, seen.count, bounds, memory, began_at + seen.policy.restart_grace)
    return Sized(seen.group, seen.supplies, demand, guarded, bounds, _taught(seen, memory, flow, seconds))


def _by_objective(service: ServicePolicy) -> bool:
    return service.policy is PolicyName.SLO


def learning_floor(seen: Seen) -> int:
    """What a group that has just been met keeps of its size: bursts may come that it has not shown yet."""
    if seen.group.service.policy is not PolicyName.SLO or seen.memory.first is None:
        return 0
    at, size = seen.memory.first
    age = (seen.now - at).total_seconds()
    return min(seen.count, math.ceil(size * min(1.0, max(0.0, (_KNOWN_S - age) / (_KNOWN_S - _NEW_S)))))


def _taught(seen: Seen, memory: ServiceMemory, flow: Flow, seconds: float) -> ServiceMemory:
    """What this tick taught, for the next one: a plan never rests on what it learned from the same look."""
    slo = seen.group.service.slo
    if seen.group.service.policy is not PolicyName.SLO or not flow.ready:
        return memory
    prefill = all(supply.pool.role is PoolRole.PREFILL for supply in seen.supplies)
    capacity = learned(memory.capacity, flow.samples, slo, seconds, prefill=prefill)
    forecast, season = _in_new_unit(memory, capacity), memory.season
    if not flow.blind and memory.capacity.unit:
        load = pressure_of(flow, replace(memory, capacity=capacity), slo, seen.horizon).load
        forecast = observed(forecast, load, seen.horizon, seen.now)
        season = with_tick(season, load, forecast, seen.horizon, seen.now)
    first = memory.first or (seen.now, seen.count)
    return replace(memory, first=first, capacity=capacity, forecast=forecast, season=season)


def _in_new_unit(memory: ServiceMemory, capacity: Capacity) -> Forecast:
    """The forecast in the unit that the capacity is now in."""
    before, after = memory.capacity.unit, capacity.unit
    if not before or before == after:
        return memory.forecast
    return scaled(memory.forecast, conversion(before, after, *capacity.sums[1:3]))
