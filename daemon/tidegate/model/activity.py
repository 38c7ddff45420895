"""What hosts did, hour by hour, in five-minute slots: the telemetry side of cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from tidegate.model.usage import Holding

SLOT_SECONDS = 300
SLOTS = 12
"""In an hour."""
EVERY_SLOT = (1 << SLOTS) - 1
HOUR_SECONDS = 3600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

HourKey = tuple[str, int]
"""A host and an hour since 1970."""
PoolHour = tuple[str, str, int]
"""A host, a pool and an hour since 1970."""


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """What a pool is, at the time of the calculation: kept on its lines, whatever it is called later."""

    service: str = ""
    model: str = ""
    side: str = "base"
    role: str = "mixed"
    hosts: tuple[str, ...] = ()
    """In order of preference."""


@dataclass(frozen=True, slots=True)
class HostTokens:
    """Counter increases of one pool's engines on one host in one slot of five minutes."""

    host: str
    pool: str
    bucket: datetime
    prompt_tokens: float
    cached_prompt_tokens: float
    generation_tokens: float
    partial: bool


@dataclass(frozen=True, slots=True)
class Activity:
    """Everything that was observed from `since` (inclusive) to `until` (exclusive)."""

    since: datetime
    until: datetime
    holdings: Sequence[Holding] = ()
    gpus: Mapping[str, int] = field(default_factory=dict)
    """What each host has; one that is missing has what was held at most."""
    pools: Mapping[str, PoolFacts] = field(default_factory=dict)
    seen: Mapping[HourKey, int] = field(default_factory=dict)
    """The slots of which a host reported anything, one bit each, the first being 1."""
    worked: Mapping[PoolHour, int] = field(default_factory=dict)
    """The slots in which a pool's engines on a host moved tokens."""
    busy: Mapping[PoolHour, Sequence[float | None]] = field(default_factory=dict)
    """The share of time in which those GPUs worked, a slot each; None or absent is not measured."""
    output: Mapping[PoolHour, float] = field(default_factory=dict)
    """Generated tokens."""
    sent: Mapping[HourKey, float] = field(default_factory=dict)
    """Bytes that left a host."""
    stored: Mapping[HourKey, float] = field(default_factory=dict)
    """Bytes of models that lay on a host."""


@dataclass(frozen=True, slots=True)
class TrafficShare:
    """What one traffic class and tenant took of a pool on a day, by the gateway's own count."""

    day: str
    """YYYY-MM-DD, UTC."""
    pool: str
    traffic: str
    tenant: str
    tokens: Decimal


def hour_of(at: datetime) -> int:
    """The hour since 1970 that a moment lies in."""
    return int((at - _EPOCH).total_seconds() // HOUR_SECONDS)


def start_of(hour: int) -> datetime:
    """When an hour since 1970 begins."""
    return datetime.fromtimestamp(hour * HOUR_SECONDS, UTC)
