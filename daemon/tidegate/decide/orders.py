"""Orders that have not been seen to take effect: kept with a deadline, so that one that was lost is not waited for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from tidegate.decide.supply import UNWANTED, Supply
from tidegate.model.decision import Action, ActionKind
from tidegate.model.memory import Pending, PoolMemory

_PATIENCE = timedelta(seconds=120)
"""After so long an order counts as lost: the plan rests on what is seen in any case."""


def with_orders(memory: PoolMemory, supply: Supply, actions: Iterable[Action], now: datetime) -> PoolMemory:
    """Forget orders that took effect or were lost, and note those of this tick."""
    steps = tuple(actions)
    kept = tuple(order for order in memory.pending if now < order.until <= now + _PATIENCE and not _done(order, supply))
    again = {action.replica for action in steps}
    fresh = tuple(
        Pending(step.replica, step.kind.value, now, now + _PATIENCE, step.slot.flavour if step.slot else "")
        for step in steps
    )
    starts = sum(step.kind is ActionKind.START for step in steps)
    pending = (*(order for order in kept if order.replica not in again), *fresh)
    return replace(memory, next_serial=memory.next_serial + starts, pending=pending)


def _done(order: Pending, supply: Supply) -> bool:
    found = next((replica for replica in supply.in_sight if replica.id == order.replica), None)
    match ActionKind(order.kind):
        case ActionKind.START:
            return found is not None
        case ActionKind.RESUME:
            return found is None or found in supply.ready
        case _:
            return found is None or found in supply.leaving or found.want in UNWANTED
