"""What the decision core has learned of each pool, as people ask for it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import median

from tidegate.decide.group import groups_of
from tidegate.decide.misses import curve
from tidegate.model.fleet import PoolName
from tidegate.model.memory import Memory, PoolMemory, ServiceMemory
from tidegate.model.overview import Learned
from tidegate.model.policy import FleetPolicy, PolicyName, ServicePolicy


def learned_of(memory: Memory, policy: FleetPolicy, now: datetime) -> dict[PoolName, Learned]:
    """Every pool's lessons; back-offs that are over are left out."""
    found = {}
    for group in groups_of(policy):
        carries = _requests_per_second(memory.services.get(group.key, ServiceMemory()), group.service)
        for name in group.pools:
            found[name] = _learned(memory.pools.get(name, PoolMemory()), carries, now)
    return found


def _learned(pool: PoolMemory, carries: float | None, now: datetime) -> Learned:
    return Learned(
        start_seconds=_middle(pool.starts.seconds),
        starts=len(pool.starts.seconds),
        drain_seconds=_middle(pool.drains.seconds),
        requests_per_second=carries,
        back_offs={name: back_off for name, back_off in pool.back_offs.items() if back_off.until > now},
        pending=pool.pending,
    )


def _requests_per_second(memory: ServiceMemory, service: ServicePolicy) -> float | None:
    """The highest load with no more misses than the objective allows, over the load that a request per second is."""
    capacity = memory.capacity
    if service.policy is not PolicyName.SLO or capacity.requests <= 0 or capacity.work <= 0:
        return None
    return curve(capacity, service.slo).limit(1.0 - service.slo.attainment) * capacity.requests / capacity.work


def _middle(seconds: Sequence[float]) -> float | None:
    return median(seconds) if seconds else None
