"""The `slo` policy: from what replicas do to how many are needed within the objective when a new one could be ready."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.decide.demand import Demand, unknown_demand
from tidegate.decide.flow import Flow
from tidegate.decide.forecast import Outlook, ahead
from tidegate.decide.misses import Curve, curve, overall_misses
from tidegate.decide.odds import to_have
from tidegate.decide.season import due, foretold
from tidegate.decide.yardstick import yardstick
from tidegate.model.decision import Limit
from tidegate.model.fleet import ServiceName
from tidegate.model.memory import Capacity, ServiceMemory
from tidegate.model.policy import SloPolicy
from tidegate.model.season import Rise

_DRAIN_S, _DRAIN = 30.0, 0.2
"""A queue is to be gone within this, or this part of the time that help takes to come."""
_FULL_KV = 0.85
_SHRINK_AT = 0.15
"""Replicas' worth of KV cache that must be free before one less is asked for."""
_SURE = 0.5
"""A shrunken group is to miss no more than this part of what is allowed."""
_AT_MOST, _AT_LEAST = 2.5, 0.3
_LIGHT = 0.1
_LIKELY = 0.95
_KNEE = 0.02
_TARGET = 0.85
"""What silent replicas are taken to carry, as a part of what they could: groups are seldom planned fuller."""
_NOW = 2.0
_NOTHING = 0.01
_LITTLE = 0.3
_ARRIVING = 0.8
"""How far what arrives may lie above what is carried before it counts: requests differ in size."""
_LEAVING = 1.15
_ROUNDING = 1e-9
_MOST = 100_000.0


@dataclass(frozen=True, slots=True)
class Pressure:
    """The demand of a group in loads of one replica."""

    load: float
    """Now, silent replicas taken as the mean of the others."""
    known: float
    """Now, of the replicas that speak alone."""
    queue: float
    """What it takes to work off what waits."""
    silent_extra: float
    """What silent replicas may carry more than that: as much as they should. Where a gateway shares requests out no
    more than the busiest of the others, and together no more than what arrives."""
    kv: float
    """Replicas that the KV caches in use would fill."""


def pressure_of(flow: Flow, memory: ServiceMemory, slo: SloPolicy, horizon: float) -> Pressure:
    """What the group carries now, with what waits before it and what the gateway says is coming."""
    capacity = memory.capacity
    stick, target = yardstick(capacity), _TARGET * curve(capacity, slo).limit(_KNEE)
    loads = [stick.load(sample) for sample in flow.samples] if stick else []
    known = sum(loads)
    each = known / len(loads) if loads else 0.0
    per_request = _per_request(capacity)
    arriving = (flow.arrivals or 0.0) * per_request
    queue = flow.waiting * per_request / max(_DRAIN_S, _DRAIN * horizon)
    kv = sum(sample.kv for sample in flow.samples) / _FULL_KV
    total, below = known + flow.silent * each, max(0.0, target - each)
    load = _offered(total, arriving, flow)
    unbounded = flow.silent if flow.arrivals is None else flow.fresh
    bounded = (flow.silent - unbounded) * min(below, max(loads, default=0.0) - each)
    return Pressure(
        load=load,
        known=_offered(known, arriving, flow),
        queue=min(_MOST, queue),
        silent_extra=unbounded * below + _offered(total + bounded, arriving, flow) - load,
        kv=kv * (1 + flow.silent / len(flow.samples)) if flow.samples else 0.0,
    )


def _per_request(capacity: Capacity) -> float:
    """Seconds of a whole replica that a request takes."""
    return capacity.work / capacity.requests if capacity.requests > _ROUNDING else 0.0


def _offered(known: float, arriving: float, flow: Flow) -> float:
    """What is asked for, not what is done: less is done than asked while a queue grows, more while it is worked off."""
    if flow.arrivals is None or arriving <= 0:
        return min(_MOST, known)
    return min(_MOST, max(_ARRIVING * arriving, min(known, _LEAVING * arriving + 0.25)))


@dataclass(frozen=True, slots=True)
class Setting:
    """What a demand is reckoned for."""

    key: ServiceName
    supply: int
    """Ready and starting replicas."""
    slo: SloPolicy
    horizon: float
    """Seconds until a replica that is ordered now would serve."""
    odds: float
    """How likely it is that it ever will."""
    now: datetime


def demand_by_objective(setting: Setting, flow: Flow, memory: ServiceMemory) -> Demand:
    """The replicas that the forecast load needs at what one was seen to carry.

    Growing asks for a little more than a replica's worth and shrinking for a clear one, so that a need on the border
    changes nothing.
    """
    slo, supply, horizon, capacity = setting.slo, setting.supply, setting.horizon, memory.capacity
    pressure = pressure_of(flow, memory, slo, horizon)
    misses = curve(capacity, slo)
    outlook = ahead(memory.forecast, pressure.known if flow.blind else pressure.load, horizon, setting.now)
    allowed = _allowed(capacity, slo)
    grow = max(_enough(outlook.loads(pressure.queue), misses, allowed), _ceil(pressure.kv))
    shrink = max(
        _enough(outlook.loads(pressure.queue + pressure.silent_extra), misses, _SURE * allowed),
        _ceil(pressure.kv + _SHRINK_AT),
    )
    wish = max(to_have(grow, flow.ready, setting.odds), min(supply, shrink), 1)
    if flow.swamped(slo.ttft_s, slo.tpot_s):
        wish = max(wish, flow.ready + _more(flow, capacity), _now(pressure.load + pressure.queue, misses, allowed))
    if flow.blind or not capacity.unit:
        wish = max(wish, supply)
    if not flow.busy:  # what was learned may keep a size, it takes a request to ask for more
        wish = min(wish, max(supply, 1))
    rests = flow.told and _at_rest(flow, outlook)
    wish = 0 if rests and not flow.blind else wish
    soon, later = (None, None) if flow.blind else due(memory.season, setting.now)
    known = min(supply, _certain(later, outlook, misses, allowed))
    known = max(known, _certain(soon, outlook, misses, allowed)) if flow.busy else known
    now_needs = 0 if rests else _now(pressure.load + pressure.silent_extra, misses, allowed)
    because = (
        f"{setting.key} carries {pressure.load:.1f} replicas' worth of load on {_ready(flow)}, up to "
        f"{outlook.peak(_LIKELY):.1f} expected in {horizon:.0f} s, and one carries {misses.limit(_KNEE):.2f} "
        f"within the objective: {max(wish, known)} needed" + (_as_before(soon or later) if known > wish else "")
    )
    floor = flow.ready if flow.blind else min(flow.ready, now_needs)
    return Demand(max(wish, known), because, flow.blind, floor, tuple(_unmendable(flow, slo)))


def from_nothing(key: ServiceName, supply: int, flow: Flow, memory: ServiceMemory) -> Demand:
    """The demand of a service without a ready replica: what waits at its gateway calls the first ones."""
    arriving = (flow.arrivals or 0.0) * _per_request(memory.capacity)
    if flow.queued <= 0 and not flow.arrivals:
        return unknown_demand(key, supply)
    wish = max(1, supply, _ceil(arriving))
    because = f"{key} has no ready replica and {flow.queued:.0f} requests waiting at its gateway: {wish} needed"
    return Demand(wish, because, blind=True)


def _more(flow: Flow, capacity: Capacity) -> int:
    """Replicas that would take what waits, each as many as one was seen to run; one, before any was seen."""
    return max(1, _ceil(flow.waiting / max(1.0, capacity.crowd))) if capacity.crowd else 1


def _now(load: float, misses: Curve, allowed: float) -> int:
    """Replicas for a load that is certain."""
    return _enough([(1.0, load)], misses, _NOW * allowed)


def _certain(rise: Rise | None, outlook: Outlook, misses: Curve, allowed: float) -> int:
    """Replicas for the load that a known rise leads to; 0 without one."""
    return _enough([(1.0, foretold(rise, outlook.expected))], misses, allowed) if rise else 0


def _as_before(rise: Rise | None) -> str:
    return f"; the last {rise.days} {rise.like} rose to {rise.to:.1f} at this hour" if rise else ""


def _at_rest(flow: Flow, outlook: Outlook) -> bool:
    """Nothing runs, waits or comes, has not for a while, and no bursts are known that would come back."""
    return not flow.busy and outlook.expected < _NOTHING and outlook.peak(_LIKELY) < _LITTLE


def _unmendable(flow: Flow, slo: SloPolicy) -> Iterator[Limit]:
    if flow.hopeless(slo.ttft_s):
        yield Limit.SLO_INFEASIBLE
    if flow.stuck:
        yield Limit.STUCK_QUEUE


def _ready(flow: Flow) -> str:
    if not flow.silent:
        return f"{flow.ready} ready"
    why = ", ".join(gap.value for gap in flow.gaps)
    return f"{flow.ready} ready ({flow.silent} silent: {why})"


def _allowed(capacity: Capacity, slo: SloPolicy) -> float:
    """The share of misses to plan for: what the objective allows, less where more was missed lately."""
    budget = 1.0 - slo.attainment
    return budget * min(_AT_MOST, max(_AT_LEAST, budget / max(overall_misses(capacity), 1e-6)))


def _enough(loads: Sequence[tuple[float, float]], misses: Curve, allowed: float) -> int:
    """The smallest number of replicas on which few enough requests are expected to miss, over the cases by load."""
    weight = sum(chance * load for chance, load in loads)
    most = math.ceil(min(_MOST, max((load for _, load in loads), default=0.0) / _LIGHT))

    def fits(count: int) -> bool:
        missed = sum(chance * load * misses.at(load / count) for chance, load in loads)
        return missed <= allowed * weight

    low, high = 0, max(1, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _ceil(need: float) -> int:
    return max(0, math.ceil(min(need, _MOST) - _ROUNDING))
