"""From shares to actions: each names one replica and what it should be. Releases come before acquisitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from tidegate.decide.draft import Share
from tidegate.decide.serial import replica_id
from tidegate.decide.supply import why_lost
from tidegate.model.decision import Action, ActionKind
from tidegate.model.fleet import Want

_RELEASES = (ActionKind.GIVE_UP, ActionKind.CANCEL, ActionKind.DRAIN)
_ORDER = (*_RELEASES, ActionKind.RESUME, ActionKind.START)


def in_order(by_pool: Sequence[Sequence[Action]]) -> tuple[Action, ...]:
    """One order for the actions of pools in filling order, so that any first part of it can stand alone.

    What frees GPUs comes before what takes them; the last pool to fill is the first to empty.
    """
    releases = (action for actions in reversed(by_pool) for action in actions if action.kind in _RELEASES)
    others = (action for actions in by_pool for action in actions if action.kind not in _RELEASES)
    return tuple(sorted((*releases, *others), key=lambda action: _ORDER.index(action.kind)))


def actions_of(share: Share, serial: int, now: datetime) -> Iterator[Action]:
    """What makes a pool its share; new replicas are numbered from `serial`."""
    supply, flavour_of = share.supply, share.supply.pool.flavour_of
    pool, move = supply.pool.name, f"{supply.count} -> {share.target}"
    for replica in supply.lost:
        if replica.managed and replica.want is not Want.STOP:
            yield Action(ActionKind.GIVE_UP, replica.id, pool, reason=why_lost(replica, now))
    starting = frozenset(replica.id for replica in supply.starting)
    for replica in share.remove:
        if replica.id in starting:
            yield Action(ActionKind.CANCEL, replica.id, pool, reason=move)
        else:
            yield Action(
                ActionKind.DRAIN,
                replica.id,
                pool,
                deadline=now + flavour_of(replica.flavour).drain_deadline,
                reason=move,
            )
    for replica in share.resume:  # one that has ended meanwhile starts anew and gets the time of a start
        deadline = now + flavour_of(replica.flavour).start_deadline
        yield Action(ActionKind.RESUME, replica.id, pool, deadline=deadline, reason=move)
    for number, slot in enumerate(share.start, start=serial):
        deadline = now + flavour_of(slot.flavour).start_deadline
        yield Action(ActionKind.START, replica_id(pool, number), pool, slot, deadline, move)
