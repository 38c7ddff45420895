"""What the decision core remembers from tick to tick: plain values, so that a restart loses nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.model.fleet import PoolName, ReplicaId, ServiceName

MEMORY_VERSION = 1


@dataclass(frozen=True, slots=True)
class ServiceMemory:
    """What was wanted lately and when the size last changed."""

    wishes: tuple[tuple[datetime, int], ...] = ()
    """Raw recommendations (replicas over all pools of the service), oldest first, within the scale-in window."""
    last_out: datetime | None = None
    last_in: datetime | None = None


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """Serial numbers are never used twice, so that an old command cannot hit a new replica."""

    next_serial: int = 1
    failed_until: datetime | None = None
    """No start before this: the last one missed its deadline."""
    failures: int = 0
    """Failures in a row; a replica that is ready after the last one sets it back to 0."""
    counted: tuple[ReplicaId, ...] = ()
    """Replicas still in sight whose failure has been counted, so that none is counted twice."""
    failed_why: str = ""
    """What was the matter with the replica that failed last, in words."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything `plan` needs from earlier ticks."""

    started_at: datetime | None = None
    """When this controller began to observe; scale-in waits for the restart grace after it."""
    services: Mapping[ServiceName, ServiceMemory] = field(default_factory=dict)
    pools: Mapping[PoolName, PoolMemory] = field(default_factory=dict)
