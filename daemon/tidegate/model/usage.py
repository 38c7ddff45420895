"""What was served and what was held for it, in fixed buckets: the common ground of cost and alerts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tidegate.model.fleet import PoolName, ReplicaId

BUCKET = timedelta(minutes=5)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def bucket_of(at: datetime) -> datetime:
    """The start of the bucket that the moment falls in."""
    return at - (at - _EPOCH) % BUCKET


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Counter increases of one pool in one bucket (start inclusive, BUCKET long)."""

    pool: PoolName
    bucket: datetime
    prompt_tokens: float
    cached_prompt_tokens: float
    generation_tokens: float
    cache_queries: float
    cache_hits: float
    partial: bool
    """A counter fell or a sample was missing inside the bucket: lower bounds."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A replica that held GPUs for a while, and at what price."""

    replica: ReplicaId
    pool: PoolName
    gpus: int
    start: datetime
    end: datetime
    price_per_gpu_hour: Decimal | None
    currency: str
    host: str = ""
