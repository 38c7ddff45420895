"""The one door of the decision core: what each pool should be, why, what to do about it, and what to remember.

Same arguments, same plan. Nothing here asks for the time, reads or writes anything, or raises on any fleet. A plan
rests on what is observed: whatever part of an earlier plan took effect, planning again continues from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.decide.actions import actions_of, in_order
from tidegate.decide.backoff import back_off_of, on_trial, with_failures
from tidegate.decide.bounds import Standing, effective
from tidegate.decide.draft import Means, Share
from tidegate.decide.durations import horizon, timed, usual_start
from tidegate.decide.explain import Conclusion, decision_of, wanted_by_pool
from tidegate.decide.group import Group, Seen, Sized, groups_of, size
from tidegate.decide.odds import odds, with_tries
from tidegate.decide.orders import with_orders
from tidegate.decide.phases import together
from tidegate.decide.placement import Places
from tidegate.decide.pools import base_first, share
from tidegate.decide.purse import Purse
from tidegate.decide.remember import began, with_change
from tidegate.decide.serial import next_serial
from tidegate.decide.supply import Supply, supply_of
from tidegate.model.decision import Action, ActionKind, Decision, Plan
from tidegate.model.fleet import NO_GATEWAY, Fleet, PoolName, PoolView, ServiceName
from tidegate.model.memory import Memory, PoolMemory, ServiceMemory
from tidegate.model.policy import FleetPolicy, Mode, PoolPolicy
from tidegate.model.reading import Gap, Missing

_FIRST_S, _LONGEST_S = 15.0, 60.0
_GREW = frozenset({ActionKind.START, ActionKind.RESUME})
_SHRANK = frozenset({ActionKind.CANCEL, ActionKind.DRAIN})


def plan(fleet: Fleet, policy: FleetPolicy, memory: Memory, now: datetime) -> Plan:
    """Decide every pool of the policy once; a pool that the fleet does not show has no replica and no free place.

    In the modes `advise` and `paused` the decisions are the same and the actions are none.
    """
    policy, standing = effective(policy, now)
    views = {name: fleet.pools.get(name, PoolView(name, ())) for name in policy.pools}
    supplies = {name: supply_of(policy.pools[name], view, now) for name, view in views.items()}
    pools = {
        name: _refreshed(memory.pools.get(name, PoolMemory()), supplies[name], view, now)
        for name, view in views.items()
    }
    began_at = began(memory, policy.restart_grace, now)
    seconds = _FIRST_S if memory.at is None else min(_LONGEST_S, max(0.0, (now - memory.at).total_seconds()))
    purse = Purse(policy.budget, supplies.values())
    sized = [
        size(_seen(group, supplies, pools, Scene(fleet, policy, memory, now)), began_at, seconds)
        for group in groups_of(policy)
    ]
    alone = {name: frozenset(_alone(policy.pools[name], pools[name], now)) for name in policy.pools}
    starts = {name: usual_start(supply, pools[name].starts.seconds) for name, supply in supplies.items()}
    means = Means(Places(), purse, now, alone, standing.pauses, starts, _trials(pools, supplies, now))
    concluded = [_conclude(one, pools, policy.mode, standing, means) for one in together(sized, purse.gpus_left)]
    decisions = {decision.pool: decision for one in concluded for decision in one.decisions}
    return Plan(
        decisions=tuple(decisions[name] for name in policy.pools),
        actions=in_order([steps for one in concluded for steps in one.actions]),
        memory=Memory(
            started_at=began_at,
            at=now,
            services={**memory.services, **{one.key: one.service for one in concluded}},
            pools={**memory.pools, **{name: pool for one in concluded for name, pool in one.pools.items()}},
        ),
    )


@dataclass(frozen=True, slots=True)
class _Concluded:
    """One group's part of the plan."""

    key: ServiceName
    decisions: tuple[Decision, ...]
    actions: tuple[tuple[Action, ...], ...]
    """By pool, in filling order."""
    service: ServiceMemory
    pools: Mapping[PoolName, PoolMemory]


@dataclass(frozen=True, slots=True)
class Scene:
    """The arguments of `plan`, with the policy's bounds as they are now."""

    fleet: Fleet
    policy: FleetPolicy
    memory: Memory
    now: datetime


def _seen(
    group: Group, supplies: Mapping[PoolName, Supply], pools: Mapping[PoolName, PoolMemory], scene: Scene
) -> Seen:
    found = tuple(base_first([supplies[name] for name in group.pools]))
    service, fleet = group.service.name, scene.fleet
    known = [pools[supply.pool.name] for supply in found]
    return Seen(
        group=group,
        supplies=found,
        memory=scene.memory.services.get(group.key, ServiceMemory()),
        policy=scene.policy,
        horizon=horizon(found, known, scene.now),
        odds=odds(found, known),
        gateway=fleet.gateways.get(service, NO_GATEWAY),
        external=fleet.external.get(service, Missing(Gap.NOT_REPORTED)),
        now=scene.now,
    )


def _alone(pool: PoolPolicy, memory: PoolMemory, now: datetime) -> Iterator[str]:
    for flavour in pool.flavours:
        if back_off_of(memory, flavour.name, now):
            yield flavour.name


def _trials(
    pools: Mapping[PoolName, PoolMemory], supplies: Mapping[PoolName, Supply], now: datetime
) -> dict[tuple[PoolName, str], int]:
    found = {
        (name, flavour): on_trial(memory, supplies[name], flavour, now)
        for name, memory in pools.items()
        for flavour in memory.back_offs
    }
    return {key: most for key, most in found.items() if most is not None}


def _refreshed(memory: PoolMemory, supply: Supply, view: PoolView, now: datetime) -> PoolMemory:
    counted = with_failures(timed(with_tries(memory, supply), supply, now), supply, now)
    return replace(counted, next_serial=next_serial(counted.next_serial, view.replicas))


def _conclude(
    sized: Sized, pools: Mapping[PoolName, PoolMemory], mode: Mode, standing: Standing, means: Means
) -> _Concluded:
    wanted, withheld, now = wanted_by_pool(sized), mode is not Mode.ACT, means.now
    decisions: list[Decision] = []
    actions: list[tuple[Action, ...]] = []
    after: dict[PoolName, PoolMemory] = {}
    for part in share(sized.supplies, sized.guarded.target, sized.spare, means):
        name = part.supply.pool.name
        steps = _steps(part, pools[name].next_serial, now)
        conclusion = Conclusion(wanted[name], mode, withheld and bool(steps), pools[name], standing.bounds[name], now)
        decisions.append(decision_of(sized, part, conclusion))
        actions.append(() if withheld else steps)
        after[name] = with_orders(pools[name], part.supply, () if withheld else steps, now)
    kinds = [action.kind for steps in actions for action in steps]
    grew, shrank = sum(kind in _GREW for kind in kinds), sum(kind in _SHRANK for kind in kinds)
    service = with_change(sized.memory, grew, shrank, sized.bounds, now)
    return _Concluded(sized.group.key, tuple(decisions), tuple(actions), service, after)


def _steps(part: Share, serial: int, now: datetime) -> tuple[Action, ...]:
    found = actions_of(part, serial, now)
    return tuple(action for action in found if part.free or action.kind is not ActionKind.GIVE_UP)
