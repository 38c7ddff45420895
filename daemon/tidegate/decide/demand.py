"""From load to the replicas that a service wants, before any guard.

Both policies reckon with all supply, ready and starting: a replica on its way is an answer that was already given,
so a slow start is never answered twice. Both keep the last replica of a service: nothing outside of the engines says
that requests wait, so nothing could ever call it back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidegate.decide.load import Load, checked
from tidegate.model.decision import Limit
from tidegate.model.fleet import Idle, ServiceName, Signal, Value
from tidegate.model.policy import ExternalPolicy, SchedulePolicy, TargetPolicy, ThresholdPolicy

_ROUNDING = 1e-9  # 48 / 16 must be 3 even when the 48 was summed from fractions
_CEILING = 1_000_000.0  # an absurd load still gives a number; max cuts it


@dataclass(frozen=True, slots=True)
class Demand:
    """How many replicas the policy asks for, over all pools that serve together."""

    wish: int
    because: str
    """The first clause of the explanation, with its numbers."""
    blind: bool = False
    """Too little is known: the service may grow, it may not shrink."""
    ready_floor: int = 0
    """Ready replicas that the load of now needs, whatever else is still starting."""
    limits: tuple[Limit, ...] = ()
    """What more replicas would not mend."""


def unknown_demand(service: ServiceName, supply: int) -> Demand:
    """The demand of a service without a ready replica: no signal, so what is coming is neither more nor less."""
    if supply:
        return Demand(supply, f"{service} has no ready replica to read a load from and {supply} starting", blind=True)
    return Demand(0, f"{service} has no replica and so no load to read")


def demand_by_target(service: ServiceName, load: Load, supply: int, policy: TargetPolicy) -> Demand:
    """Requests in flight (running and waiting) over what one replica should carry, rounded up.

    Within the tolerance around the present supply nothing is asked for. Source: the Kubernetes HPA's formula with its
    tolerance, over a total instead of a mean, and relative to what was ordered instead of what is ready.
    """
    exact = min(load.total / policy.in_flight_per_replica, _CEILING)
    wish = max(1, math.ceil(exact - _ROUNDING))
    if supply and abs(exact / supply - 1) <= policy.tolerance:
        wish = supply
    if load.blind:
        wish = max(wish, supply)
    need = f"needs {wish} at {policy.in_flight_per_replica:g} each" if exact > _ROUNDING else "keeps its last one"
    because = f"{service} has {load.total:.4g} requests in flight on {_replicas(load)} and {need}"
    return Demand(wish, because, load.blind)


def demand_by_threshold(service: ServiceName, load: Load, supply: int, policy: ThresholdPolicy) -> Demand:
    """One replica more above the upper threshold of mean GPU utilisation, one less below the lower.

    One at a time, as the teams that start with this rule do it: a GPU is fully utilised with one request or a hundred,
    so the number says in which direction to go but not how far. Two checks keep it from swinging: starting replicas
    share the load that is measured on the ready ones, and one less is asked for only when the load, moved onto the
    rest, stays below the upper threshold (u * n / (n - 1); source: the N-1 check of NVIDIA Dynamo's planner).
    """
    mean = load.total / load.ready
    wish, why = supply, f"between {policy.scale_in_below:.0%} and {policy.scale_out_above:.0%}"
    if load.total / supply > policy.scale_out_above:
        wish, why = supply + 1, f"above {policy.scale_out_above:.0%}"
    elif mean > policy.scale_out_above:
        why = f"above {policy.scale_out_above:.0%}, and {load.total / supply:.0%} once all {supply} are ready"
    elif mean < policy.scale_in_below:
        wish, why = _one_less(load, supply, policy)
    if load.blind:
        wish = max(wish, supply)
    because = f"mean GPU utilisation of {service} is {mean:.0%} on {_replicas(load)}, {why}: {wish} needed"
    return Demand(wish, because, load.blind)


def demand_by_schedule(service: ServiceName, policy: SchedulePolicy) -> Demand:
    """What the configuration says; the schedules of the pools bound it."""
    return Demand(policy.replicas, f"{service} is scheduled for {policy.replicas}")


def demand_by_external(service: ServiceName, asked: Signal, supply: int, policy: ExternalPolicy) -> Demand:
    """What another program asked for, as long as it is fresh."""
    match checked(asked):
        case Value(value=value, age=age) if age <= policy.stale_after:
            wish = math.ceil(min(value, _CEILING) - _ROUNDING)
            return Demand(wish, f"{service} is to have {wish} by an external program, {age.total_seconds():.0f} s ago")
        case Idle(age=age) if age <= policy.stale_after:
            return Demand(0, f"{service} is to have 0 by an external program, {age.total_seconds():.0f} s ago")
    if policy.fallback is None:
        return Demand(supply, f"{service} hears nothing from its external program", blind=True)
    return Demand(
        max(supply, policy.fallback),
        f"{service} hears nothing from its external program and falls back to {policy.fallback}",
        blind=True,
    )


def _one_less(load: Load, supply: int, policy: ThresholdPolicy) -> tuple[int, str]:
    below = f"below {policy.scale_in_below:.0%}"
    if supply == 1:
        return 1, f"{below}, and the last replica stays"
    moved = load.total / (supply - 1)
    if moved > policy.scale_out_above:
        return supply, f"{below}, but {moved:.0%} on one replica less would be above {policy.scale_out_above:.0%}"
    return supply - 1, below


def _replicas(load: Load) -> str:
    noun = "replica" if load.ready == 1 else "replicas"
    if not load.silent:
        return f"{load.ready} ready {noun}"
    why = ", ".join(gap.value for gap in load.gaps)
    return f"{load.ready} ready {noun} ({load.silent} silent: {why}; taken as at target)"
