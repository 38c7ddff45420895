"""How likely a start succeeds, learned from those that were seen to end, so that enough of them are ordered.

A group whose starts fail at times gets too few replicas, and too late: what failed is missed at the end of its start,
and its successor takes a start's time again. So what is under way counts as what is likely to come of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidegate.decide.failure import failure_class
from tidegate.decide.supply import UNWANTED, Supply
from tidegate.model.fleet import FailureClass, Replica
from tidegate.model.memory import PoolMemory, Tries

_FADE = 0.93
"""Of each start, on those before it: some fifteen are remembered."""
_PRIOR, _PRIOR_WEIGHT = 0.95, 6.0
_LEAST = 0.4
"""Where more fails than that, more orders are no remedy."""
CHANCE = frozenset({FailureClass.HEALTH, FailureClass.IMAGE, FailureClass.TIME_OUT})
"""What may happen to one start and not to the next; a quota or a wrong key refuses them all."""


def with_tries(memory: PoolMemory, supply: Supply) -> PoolMemory:
    """Count the starts that have ended since the last tick; `memory` still knows which were under way."""
    tries = dict(memory.tries)
    for flavour, good in _ended(memory, supply):
        before = tries.get(flavour, Tries())
        tries[flavour] = Tries(_FADE * before.good + good, _FADE * before.bad + (not good))
    return replace(memory, tries=tries) if tries != memory.tries else memory


def odds(supplies: Sequence[Supply], memories: Sequence[PoolMemory]) -> float:
    """The chance that a start succeeds, of the pools that still have room; of all of them when none has."""
    room = [supply.count < supply.pool.max for supply in supplies]
    open_ones = [memory for memory, grows in zip(memories, room, strict=True) if grows or not any(room)]
    seen = [tries for memory in open_ones for tries in memory.tries.values()]
    good, bad = sum(one.good for one in seen), sum(one.bad for one in seen)
    return max(_LEAST, (good + _PRIOR * _PRIOR_WEIGHT) / (good + bad + _PRIOR_WEIGHT))


def to_have(needed: int, ready: int, chance: float) -> int:
    """How many to have, ready or under way, so that as many as are needed are likely to come; to the nearest number."""
    return max(needed, ready + math.floor((needed - ready) / chance + 0.5)) if needed > ready else needed


def _ended(memory: PoolMemory, supply: Supply) -> Iterable[tuple[str, bool]]:
    def flavour(replica: Replica) -> str:
        return supply.pool.flavour_of(replica.flavour).name

    for replica in supply.ready:
        if replica.id in memory.starting:
            yield flavour(replica), True
    for replica in supply.lost:
        ours = replica.managed and replica.want not in UNWANTED and replica.id in memory.starting
        if ours and failure_class(replica) in CHANCE:
            yield flavour(replica), False
