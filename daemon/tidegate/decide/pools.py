"""One size for a service, shared out over its pools: base fills first, burst takes the rest and empties first.

Only the difference to the present supply is shared out, never the whole: replicas do not move between pools while
the size stays. Growing takes back leaving replicas before it starts new ones. A pool that cannot start (no free
place, or left alone after failures) is passed over in the same tick.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.decide.draft import Draft, Means, Share, Spare
from tidegate.decide.supply import Supply
from tidegate.model.decision import Limit
from tidegate.model.fleet import PoolKind


def base_first(supplies: Sequence[Supply]) -> list[Supply]:
    """The pools in the order in which they fill; the reverse is the order in which they empty."""
    return sorted(supplies, key=lambda supply: supply.pool.kind is PoolKind.BURST)


def wanted_of(supplies: Sequence[Supply], wish: int) -> list[int]:
    """The wish over pools in filling order before any bound: what is above every max falls to the last pool."""
    wanted = [supply.count for supply in supplies]
    difference = wish - sum(wanted)
    for place in reversed(range(len(wanted))):
        cut = min(wanted[place], max(0, -difference))
        wanted[place] -= cut
        difference += cut
    for place, supply in enumerate(supplies):
        add = min(max(0, supply.pool.max - wanted[place]), max(0, difference))
        wanted[place] += add
        difference -= add
    wanted[-1] += difference
    return wanted


def share(supplies: Sequence[Supply], target: int, spare: int, means: Means) -> tuple[Share, ...]:
    """Share a target out over pools in filling order; of the ready replicas `spare` may go."""
    kept = Spare(spare)
    drafts = [Draft(supply, means, kept) for supply in supplies]
    for draft in drafts:
        draft.cut()
    surplus = sum(draft.have for draft in drafts) - target
    if surplus > 0:
        surplus = max(0, surplus - sum(draft.seen_through for draft in drafts))
    for draft in reversed(drafts):
        surplus -= draft.remove(min(surplus, draft.have - draft.supply.pool.min))
    for draft in drafts:
        draft.resume(draft.supply.pool.min - draft.have)
        draft.start(draft.supply.pool.min - draft.have)
    _grow(drafts, target)
    return tuple(draft.share() for draft in drafts)


def _grow(drafts: Sequence[Draft], target: int) -> None:
    short = target - sum(draft.have for draft in drafts)
    if short <= 0:
        return
    for draft in drafts:
        short -= draft.resume(min(short, draft.room))
    for draft in drafts:
        if short == 0 and draft.waits_for_base:
            draft.limits.append(Limit.BASE_FIRST)
        short -= draft.start(min(short, draft.room))
