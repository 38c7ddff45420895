"""A total number of replicas as an answer for base and burst: base fills first, burst empties first.

The other systems know one pool; this is the fairest way to let them use two. Victims are starting replicas before
ready ones, the newest first, then those with the fewest requests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tidegate.simulate.observation import Answer, Observation, PoolAnswer, SeenPool, SeenReplica


def clamped(total: int, seen: Observation) -> int:
    """Within what the pools allow together."""
    return max(sum(pool.min for pool in seen.pools.values()), min(total, sum(pool.max for pool in seen.pools.values())))


def supply_of(seen: Observation) -> int:
    """Starting and ready replicas."""
    return len(seen.replicas("starting", "ready"))


def split(total: int, seen: Observation, reason: str = "") -> Answer:
    """The answer that makes `total` replicas of all pools."""
    left = clamped(total, seen)
    after = sum(pool.min for pool in seen.pools.values())
    pools = {}
    for name, pool in sorted(seen.pools.items(), key=lambda item: item[1].kind != "base"):
        after -= pool.min
        target = max(pool.min, min(pool.max, left - after))
        left -= target
        pools[name] = PoolAnswer(target, victims_of(pool, target), wanted=target, reason=reason)
    return Answer(pools)


def victims_of(pool: SeenPool, target: int) -> tuple[str, ...]:
    """Who has to go for the pool to be `target`."""
    supply = pool.in_state("starting", "ready")
    return tuple(replica.id for replica in sorted(supply, key=_order)[: max(0, len(supply) - target)])


def _order(replica: SeenReplica) -> tuple[bool, float, float]:
    signals = replica.signals
    load = (signals.running or 0.0) + (signals.waiting or 0.0) if signals else 0.0
    return (replica.state != "starting", load, -replica.since)


def total_of(replicas: Sequence[SeenReplica], *names: str) -> tuple[float, int]:
    """The sum of some signals over the replicas that have them all, and how many those are."""
    total, count = 0.0, 0
    for replica in replicas:
        values: list[float] = [_value(replica, name) for name in names]
        if all(math.isfinite(value) for value in values):
            total += sum(values)
            count += 1
    return total, count


def _value(replica: SeenReplica, name: str) -> float:
    value: float | None = getattr(replica.signals, name) if replica.signals else None
    return math.nan if value is None else value
