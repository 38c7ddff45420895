"""How long starts and drains take, learned from those that were seen, and how far ahead a decision must look.

Until a start was seen nothing is known, and an optimistic guess costs the objective: the guess is long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tidegate.decide.supply import Supply
from tidegate.model.fleet import Replica, ReplicaId
from tidegate.model.memory import Durations, PoolMemory

UNKNOWN_START_S = 480.0
_KEPT = 12
_LONGEST_S = 7200.0
_REACTION_S = 20.0
"""A decision waits for its tick, and a replica that is ready to be seen."""


def timed(memory: PoolMemory, supply: Supply, now: datetime) -> PoolMemory:
    """Note when starts and drains began, and how long those took that have ended since the last tick."""
    ready = {replica.id: replica for replica in supply.ready}
    seen = frozenset(replica.id for replica in supply.in_sight)
    begun = [replica for replica in supply.in_sight if replica.managed]
    starts = [_seconds(at, min(ready[name].since, now)) for name, at in memory.starting.items() if name in ready]
    drains = [_seconds(at, now) for name, at in memory.draining.items() if name not in seen]
    return replace(
        memory,
        starts=_with(memory.starts, starts),
        drains=_with(memory.drains, drains),
        starting=_begun(memory.starting, (one for one in begun if one in supply.starting), now),
        draining=_begun(memory.draining, (one for one in begun if one in supply.leaving), now),
    )


def horizon(supplies: Sequence[Supply], memories: Sequence[PoolMemory], now: datetime) -> float:
    """Seconds from a decision to grow until the new replica serves: of the slowest pool that still has room.

    A pool that has never started one goes by the others of its group, which load the same model.
    """
    known = [one.starts.seconds for one in memories]
    pooled = [seconds for starts in known for seconds in starts]
    room = [supply.count < supply.pool.max for supply in supplies]
    times = [
        _start_time(supply, own or tuple(pooled), now)
        for supply, own, grows in zip(supplies, known, room, strict=True)
        if grows or not any(room)
    ]
    return max(times) + _REACTION_S


def usual_start(supply: Supply, seen: Sequence[float]) -> float | None:
    """Seconds that a start takes: nearly the longest of the last ones, else the operator's hint; None: not known."""
    hint = supply.pool.first_flavour.start_time
    if seen:
        return sorted(seen)[-1 - len(seen) // 6]
    return None if hint is None else hint.total_seconds()


def _start_time(supply: Supply, seen: Sequence[float], now: datetime) -> float:
    known = usual_start(supply, seen)
    learned = UNKNOWN_START_S if known is None else known
    under_way = [_seconds(replica.requested_at, now) for replica in supply.starting]
    return min(_LONGEST_S, max([learned, *under_way]))


def _begun(
    known: Mapping[ReplicaId, datetime], replicas: Iterable[Replica], now: datetime
) -> dict[ReplicaId, datetime]:
    return {replica.id: min(known.get(replica.id, replica.requested_at), now) for replica in replicas}


def _with(durations: Durations, more: Sequence[float]) -> Durations:
    return replace(durations, seconds=(*durations.seconds, *more)[-_KEPT:]) if more else durations


def _seconds(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())
