"""One size for a service, shared out over its pools: base fills first, burst takes the rest and empties first.

Only the difference to the present supply is shared out, never the whole: replicas do not move between pools while
the size stays. Growing takes back leaving replicas before it starts new ones. A pool that cannot start (no free
place, or left alone after failures) is passed over in the same tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.decide.bounds import NO_PAUSES, Pauses
from tidegate.decide.placement import Places
from tidegate.decide.supply import Supply
from tidegate.decide.victim import returners, victims
from tidegate.model.decision import Limit
from tidegate.model.fleet import PoolKind, PoolName, Replica, Slot


@dataclass(frozen=True, slots=True)
class Share:
    """What one pool does towards the service's size."""

    supply: Supply
    target: int
    resume: tuple[Replica, ...] = ()
    start: tuple[Slot, ...] = ()
    remove: tuple[Replica, ...] = ()
    limits: tuple[Limit, ...] = ()
    free: bool = True
    """False while an operator's pause lets nothing go, what failed included."""


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


@dataclass(frozen=True, slots=True)
class Holds:
    """The pools whose last starts failed, which start nothing now, and those that an operator has paused."""

    failing: frozenset[PoolName] = frozenset()
    pauses: Pauses = NO_PAUSES


def share(supplies: Sequence[Supply], target: int, holds: Holds, places: Places, now: datetime) -> tuple[Share, ...]:
    """Share a target out over pools in filling order."""
    drafts = [_Draft(supply, holds, places, now) for supply in supplies]
    for draft in drafts:
        draft.remove(draft.have - draft.supply.pool.max)
    surplus = sum(draft.have for draft in drafts) - target
    for draft in reversed(drafts):
        surplus -= draft.remove(min(surplus, draft.have - draft.supply.pool.min))
    for draft in drafts:
        draft.resume(draft.supply.pool.min - draft.have)
        draft.start(draft.supply.pool.min - draft.have)
    _grow(drafts, target)
    return tuple(draft.share() for draft in drafts)


def _grow(drafts: Sequence[_Draft], target: int) -> None:
    short = target - sum(draft.have for draft in drafts)
    if short <= 0:
        return
    for draft in drafts:
        short -= draft.resume(min(short, draft.room))
    for draft in drafts:
        if short == 0 and draft.waits_for_base:
            draft.limits.append(Limit.BASE_FIRST)
        short -= draft.start(min(short, draft.room))


@dataclass(slots=True)
class _Draft:
    """A share in the making."""

    supply: Supply
    holds: Holds
    places: Places
    now: datetime
    have: int = 0
    resumed: list[Replica] = field(default_factory=list)
    started: list[Slot] = field(default_factory=list)
    removed: list[Replica] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.have = self.supply.count

    @property
    def room(self) -> int:
        return max(0, self.supply.pool.max - self.have)

    @property
    def waits_for_base(self) -> bool:
        return self.supply.pool.kind is PoolKind.BURST and self.room > 0 and not self.resumed

    def remove(self, count: int) -> int:
        """Mark up to `count` replicas to go; how many could be."""
        if count <= 0:
            return 0
        if self.supply.pool.name in self.holds.pauses.inward:
            self.limits.append(Limit.PAUSED)
            return 0
        chosen = victims(self.supply)[len(self.removed) :][:count]
        if len(chosen) < count:
            self.limits.append(Limit.UNMANAGED)
        self.removed += chosen
        self.have -= len(chosen)
        return len(chosen)

    def resume(self, count: int) -> int:
        """Take up to `count` leaving replicas back; how many could be."""
        if count > 0 and self._growth_is_paused():
            return 0
        chosen = returners(self.supply, self.now)[len(self.resumed) :][: max(0, count)]
        self.resumed += chosen
        self.have += len(chosen)
        return len(chosen)

    def start(self, count: int) -> int:
        """Start up to `count` replicas; how many could be."""
        if count <= 0 or self._growth_is_paused():
            return 0
        failing = self.supply.pool.name in self.holds.failing
        chosen = () if failing else self.places.take(self.supply.free_slots, count)
        if len(chosen) < count:
            self.limits.append(Limit.START_FAILED if failing else Limit.NO_CAPACITY)
        self.started += chosen
        self.have += len(chosen)
        return len(chosen)

    def _growth_is_paused(self) -> bool:
        paused = self.supply.pool.name in self.holds.pauses.out
        if paused:
            self.limits.append(Limit.PAUSED)
        return paused

    def share(self) -> Share:
        pool, pauses = self.supply.pool, self.holds.pauses
        paused = Limit.PAUSED in self.limits
        return Share(
            supply=self.supply,
            target=self.have if paused else max(pool.min, min(pool.max, self.have)),
            free=pool.name not in pauses.inward,
            resume=tuple(self.resumed),
            start=tuple(self.started),
            remove=tuple(self.removed),
            limits=tuple(dict.fromkeys(self.limits)),
        )
