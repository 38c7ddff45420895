"""A plan as one line of JSON: the same plan always as the same bytes. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.link.planner.observation import Observation, ObservedPool
from tidegate.link.planner.world import replica_id
from tidegate.model.decision import Action, ActionKind, Decision, Plan
from tidegate.model.fleet import PoolName, ReplicaId

_RELEASES = frozenset({ActionKind.CANCEL, ActionKind.DRAIN, ActionKind.GIVE_UP})
_LIVE = frozenset({"starting", "ready"})
"""Only these can be cancelled or drained: what failed is gone already, whatever a controller of ours would do to it."""


def answer_line(observation: Observation, plan: Plan, *, budgeted: bool) -> bytes:
    """What should be, in the order of the observation's pools; `budgeted`: the fleet has a budget."""
    decisions = {decision.pool: decision for decision in plan.decisions}
    pools = {pool.name: _pool(pool, decisions, plan, budgeted=budgeted) for pool in observation.pools}
    return _line({"pools": pools, "reasons": list(observation.notes)})


def error_line(message: str) -> bytes:
    """What is wrong with a line."""
    return _line({"error": message})


def _pool(pool: ObservedPool, decisions: Mapping[PoolName, Decision], plan: Plan, *, budgeted: bool) -> dict[str, Any]:
    decision = decisions[PoolName(pool.name)]
    given: dict[ReplicaId, str | int] = {replica_id(pool.name, replica): replica.id for replica in pool.replicas}
    live = {replica_id(pool.name, replica) for replica in pool.replicas if replica.state in _LIVE}
    actions = [action for action in plan.actions if action.pool == pool.name]
    return {
        "target": _target(decision, actions, budgeted=budgeted),
        "victims": [given[one.replica] for one in actions if one.kind in _RELEASES and one.replica in live],
        "uncordon": [given[action.replica] for action in actions if action.kind is ActionKind.RESUME],
        "wanted": decision.wanted,
        "reason": decision.reason,
        "limits": list(dict.fromkeys(limit.value for limit in decision.limits)),
    }


def _target(decision: Decision, actions: Sequence[Action], *, budgeted: bool) -> int:
    """What the caller may bring the pool to: under a budget what the plan orders, and no minimum beyond it.

    A controller starts what is ordered and nothing else; this caller starts up to the target.
    """
    if not budgeted:
        return decision.target
    kinds = [action.kind for action in actions]
    gone = kinds.count(ActionKind.CANCEL) + kinds.count(ActionKind.DRAIN)
    ordered = decision.current - gone + kinds.count(ActionKind.RESUME) + kinds.count(ActionKind.START)
    return min(decision.target, ordered)


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, separators=(", ", ": ")).encode() + b"\n"
