"""One pool's share in the making: which replicas go, come back and start, and what keeps others from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.decide.bounds import NO_PAUSES, Pauses
from tidegate.decide.durations import UNKNOWN_START_S
from tidegate.decide.placement import Places
from tidegate.decide.purse import Purse
from tidegate.decide.supply import Supply
from tidegate.decide.victim import held, returners, victims
from tidegate.model.decision import Limit
from tidegate.model.fleet import PoolKind, PoolName, Replica, Slot

_NOBODY: frozenset[str] = frozenset()
_SUNK, _OVERDUE = 0.35, 2.0
"""A start is seen through between these parts of the time that starts take."""


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


@dataclass(frozen=True, slots=True)
class Means:
    """What a plan has to work with, over all its pools."""

    places: Places
    purse: Purse
    now: datetime
    alone: Mapping[PoolName, frozenset[str]] = field(default_factory=dict)
    """By pool, the flavours that are left alone after failures."""
    pauses: Pauses = NO_PAUSES
    starts: Mapping[PoolName, float | None] = field(default_factory=dict)
    """By pool, the seconds that a start usually takes."""
    trials: Mapping[tuple[PoolName, str], int] = field(default_factory=dict)
    """By pool and flavour, how many starts may be tried after failures, where that is limited."""


@dataclass(slots=True)
class Spare:
    """How many ready replicas of a group may go: the rest carries the load of now, whatever else is still starting."""

    ready: int


@dataclass(slots=True)
class Draft:
    """A share in the making."""

    supply: Supply
    means: Means
    spare: Spare
    have: int = 0
    resumed: list[Replica] = field(default_factory=list)
    started: list[Slot] = field(default_factory=list)
    removed: list[Replica] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.have = self.supply.count

    @property
    def room(self) -> int:
        """How many more the pool may have."""
        return max(0, self.supply.pool.max - self.have)

    @property
    def waits_for_base(self) -> bool:
        """A burst pool that could have grown."""
        return self.supply.pool.kind is PoolKind.BURST and self.room > 0 and not self.resumed

    @property
    def seen_through(self) -> int:
        """Starts that are nearly there and stay; no ready replica goes in their place."""
        found = sum(replica.managed and self._soon_ready(replica) for replica in self.supply.starting)
        if found:
            self.limits.append(Limit.HOLD)
        return found

    def cut(self) -> None:
        """Remove what is above max, whatever it still carries: bounds hold."""
        self._remove(self.have - self.supply.pool.max, forced=True)

    def remove(self, count: int) -> int:
        """Mark up to `count` replicas to go, those that may; how many could be."""
        return self._remove(count, forced=False)

    def _remove(self, count: int, *, forced: bool) -> int:
        if count <= 0:
            return 0
        if self.supply.pool.name in self.means.pauses.inward:
            self.limits.append(Limit.PAUSED)
            return 0
        chosen: list[Replica] = []
        order = [
            one
            for one in victims(self.supply, self.means.now, self.means.starts.get(self.supply.pool.name))
            if one not in self.removed
        ]
        for replica in order:
            if len(chosen) == count:
                break
            if forced or self._may_go(replica):
                chosen.append(replica)
        if len(chosen) < count and len(chosen) == len(order):
            self.limits.append(Limit.UNMANAGED)
        self.removed += chosen
        self.have -= len(chosen)
        return len(chosen)

    def _may_go(self, replica: Replica) -> bool:
        if held(replica, self.supply.pool, self.means.now) or self._soon_ready(replica):
            self.limits.append(Limit.HOLD)
            return False
        if replica in self.supply.ready:
            if self.spare.ready <= 0:
                self.limits.append(Limit.PROOF)
                return False
            self.spare.ready -= 1
        return True

    def _soon_ready(self, replica: Replica) -> bool:
        """A start under way for a good part of its time is seen through: most of its price is paid."""
        usual = self.means.starts.get(self.supply.pool.name) or UNKNOWN_START_S
        age = (self.means.now - replica.requested_at).total_seconds()
        return replica in self.supply.starting and _SUNK * usual < age <= _OVERDUE * usual

    def resume(self, count: int) -> int:
        """Take up to `count` leaving replicas back; how many could be."""
        if count > 0 and self._growth_is_paused():
            return 0
        chosen = returners(self.supply, self.means.now)[len(self.resumed) :][: max(0, count)]
        self.resumed += chosen
        self.have += len(chosen)
        return len(chosen)

    def start(self, count: int) -> int:
        """Start up to `count` replicas, each in the first free place that can be had; how many could be."""
        if count <= 0 or self._growth_is_paused():
            return 0
        chosen, refused = 0, list[Limit]()
        for slot in self.supply.free_slots:
            if chosen == count:
                break
            if limit := self._refused(slot):
                refused.append(limit)
            elif self.means.places.take(slot):
                self.means.purse.pay(self.supply.pool, self.supply.pool.flavour_of(slot.flavour))
                self.started.append(slot)
                chosen += 1
        if chosen < count:
            self.limits += refused or [Limit.NO_CAPACITY]
        elif refused:
            self.limits.append(Limit.FLAVOUR)
        self.have += chosen
        return chosen

    def _refused(self, slot: Slot) -> Limit | None:
        pool = self.supply.pool
        flavour = pool.flavour_of(slot.flavour)
        if flavour.name in self.means.alone.get(pool.name, _NOBODY) or self._tried(flavour.name):
            return Limit.START_FAILED
        return self.means.purse.refuses(pool, flavour)

    def _tried(self, flavour: str) -> bool:
        """Whether as many of a flavour that failed lately are on trial as may be."""
        most = self.means.trials.get((self.supply.pool.name, flavour))
        started = [slot for slot in self.started if self.supply.pool.flavour_of(slot.flavour).name == flavour]
        return most is not None and len(started) >= most

    def _growth_is_paused(self) -> bool:
        paused = self.supply.pool.name in self.means.pauses.out
        if paused:
            self.limits.append(Limit.PAUSED)
        return paused

    def share(self) -> Share:
        """What came of it."""
        pool, paused = self.supply.pool, Limit.PAUSED in self.limits
        return Share(
            supply=self.supply,
            target=self.have if paused else max(pool.min, min(pool.max, self.have)),
            resume=tuple(self.resumed),
            start=tuple(self.started),
            remove=tuple(self.removed),
            limits=tuple(dict.fromkeys(self.limits)),
            free=pool.name not in self.means.pauses.inward,
        )
