"""The one door of the decision core: what each pool should be, why, what to do about it, and what to remember.

Same arguments, same plan. Nothing here asks for the time, reads or writes anything, or raises on any fleet. A plan
rests on what is observed: whatever part of an earlier plan took effect, planning again continues from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.decide.actions import actions_of, in_order
from tidegate.decide.backoff import back_off_of, with_failures
from tidegate.decide.bounds import Standing, effective
from tidegate.decide.durations import horizon, timed
from tidegate.decide.explain import Conclusion, decision_of, wanted_by_pool
from tidegate.decide.group import Seen, Sized, groups_of, size
from tidegate.decide.placement import Places
from tidegate.decide.pools import Holds, Share, base_first, share
from tidegate.decide.remember import began, with_change
from tidegate.decide.serial import next_serial
from tidegate.decide.supply import Supply, supply_of
from tidegate.model.decision import Action, ActionKind, Decision, Plan
from tidegate.model.fleet import NO_GATEWAY, Fleet, PoolName, PoolView, ServiceName
from tidegate.model.memory import Memory, PoolMemory, ServiceMemory
from tidegate.model.policy import FleetPolicy, Mode
from tidegate.model.reading import Gap, Missing

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
    began_at, places = began(memory.started_at, now), Places()
    seconds = 15.0 if memory.at is None else min(60.0, max(0.0, (now - memory.at).total_seconds()))
    concluded: list[_Concluded] = []
    for group in groups_of(policy):
        seen = _seen(group, supplies, pools, memory, fleet, policy, now)
        sized = size(seen, began_at, seconds)
        concluded.append(_conclude(sized, pools, policy, standing, places, now))
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


def _seen(group, supplies, pools, memory, fleet, policy, now):
    found = tuple(base_first([supplies[name] for name in group.pools]))
    return Seen(
        group,
        found,
        memory.services.get(group.key, ServiceMemory()),
        policy,
        horizon(found, [pools[supply.pool.name] for supply in found], now),
        fleet.gateways.get(group.service.name, NO_GATEWAY),
        fleet.external.get(group.service.name, Missing(Gap.NOT_REPORTED)),
        now,
    )


def _refreshed(memory: PoolMemory, supply: Supply, view: PoolView, now: datetime) -> PoolMemory:
    counted = with_failures(timed(memory, supply, now), supply, now)
    return replace(counted, next_serial=next_serial(counted.next_serial, view.replicas))


def _conclude(
    sized: Sized,
    pools: Mapping[PoolName, PoolMemory],
    policy: FleetPolicy,
    standing: Standing,
    places: Places,
    now: datetime,
) -> _Concluded:
    paused = frozenset(
        name for name in sized.group.pools if back_off_of(pools[name], policy.pools[name].first_flavour.name, now)
    )
    wanted, mode = wanted_by_pool(sized), policy.mode
    withheld = mode is not Mode.ACT
    decisions: list[Decision] = []
    actions: list[tuple[Action, ...]] = []
    after: dict[PoolName, PoolMemory] = {}
    for part in share(sized.supplies, sized.guarded.target, Holds(paused, standing.pauses), places, now):
        name = part.supply.pool.name
        steps = tuple(
            action
            for action in actions_of(part, pools[name].next_serial, now)
            if part.free or action.kind is not ActionKind.GIVE_UP
        )
        conclusion = Conclusion(wanted[name], mode, withheld and bool(steps), pools[name], standing.bounds[name], now)
        decisions.append(decision_of(sized, part, conclusion))
        actions.append(() if withheld else steps)
        after[name] = pools[name] if withheld else _numbered(pools[name], part)
    kinds = {action.kind for steps in actions for action in steps}
    service = with_change(sized.memory, now, grew=bool(kinds & _GREW), shrank=bool(kinds & _SHRANK))
    return _Concluded(sized.group.key, tuple(decisions), tuple(actions), service, after)


def _numbered(memory: PoolMemory, part: Share) -> PoolMemory:
    return replace(memory, next_serial=memory.next_serial + len(part.start))
