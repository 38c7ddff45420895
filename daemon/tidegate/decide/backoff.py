"""How a pool whose starts fail is left alone for a while: 30 s, doubling to 10 min, in policy time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tidegate.decide.supply import UNWANTED, Supply, why_lost
from tidegate.model.memory import PoolMemory

FIRST = timedelta(seconds=30)
LONGEST = timedelta(minutes=10)
_DOUBLINGS = 5  # 30 s * 2**5 is beyond LONGEST already


def pause_after(failures: int) -> timedelta:
    """How long no start is tried after so many failures in a row."""
    return min(FIRST * (1 << min(max(failures - 1, 0), _DOUBLINGS)), LONGEST)


def with_failures(memory: PoolMemory, supply: Supply, now: datetime) -> PoolMemory:
    """Count replicas that were lost since the last tick, once each; forget failures once a later start is ready.

    What is lost while the pool is already left alone was ordered before and is the same trouble: it lengthens the
    pause but does not double it again.
    """
    memory = _not_ahead(_after_success(memory, supply), now)
    seen = frozenset(replica.id for replica in supply.in_sight)
    known = tuple(replica for replica in memory.counted if replica in seen)
    fresh = tuple(r for r in supply.lost if r.managed and r.want not in UNWANTED and r.id not in known)
    memory = replace(memory, counted=known + tuple(replica.id for replica in fresh))
    if not fresh:
        return memory
    why = f"{fresh[-1].id} {why_lost(fresh[-1], now)}"
    failures = max(1, memory.failures) if backing_off(memory, now) else memory.failures + 1
    return replace(memory, failures=failures, failed_until=now + pause_after(failures), failed_why=why)


def backing_off(memory: PoolMemory, now: datetime) -> bool:
    """True while no start of the pool is tried."""
    return memory.failed_until is not None and memory.failed_until > now


def _after_success(memory: PoolMemory, supply: Supply) -> PoolMemory:
    until = memory.failed_until
    if until is not None and any(replica.managed and replica.requested_at >= until for replica in supply.ready):
        return replace(memory, failures=0, failed_until=None, failed_why="")
    return memory


def _not_ahead(memory: PoolMemory, now: datetime) -> PoolMemory:
    if memory.failed_until is None:
        return memory
    return replace(memory, failed_until=min(memory.failed_until, now + pause_after(memory.failures)))
