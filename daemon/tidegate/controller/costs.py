"""The cost of a span of time, from what the store knows was held and served."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.controller.ports import Replicas, Usage
from tidegate.cost.line import CostLine
from tidegate.cost.per_million import cost_per_million
from tidegate.model.fleet import PoolKind
from tidegate.model.overview import CostOverview, CostsOverview
from tidegate.model.policy import FleetPolicy
from tidegate.model.usage import bucket_of

TRAILING = timedelta(hours=1)


def trailing_hour(now: datetime) -> tuple[datetime, datetime]:
    """The last hour of whole buckets: tokens are counted by bucket, so GPU hours are taken over the same span."""
    until = bucket_of(now)
    return until - TRAILING, until


@dataclass(frozen=True, slots=True)
class Costs:
    """Reads holdings and usage, and lets `cost/` do the sums."""

    usage: Usage
    replicas: Replicas

    def between(self, since: datetime, until: datetime, policy: FleetPolicy) -> CostsOverview:
        """What was spent and served from `since` (inclusive) to `until` (exclusive)."""
        burst = [name for name, pool in policy.pools.items() if pool.kind is PoolKind.BURST]
        table = cost_per_million(
            self.usage.between(since, until), self.replicas.holdings(since, until, policy), since, until, burst
        )
        return CostsOverview(
            since=since,
            until=until,
            pools=tuple(_overview(line, policy) for _, line in sorted(table.pools.items())),
            total=_overview(table.total, policy),
            burst=_overview(table.burst, policy),
        )


def _overview(line: CostLine, policy: FleetPolicy) -> CostOverview:
    pool = policy.pools.get(line.pool) if line.pool is not None else None
    return CostOverview(
        pool=line.pool or "",
        service=pool.service if pool else "",
        state=line.state,
        currency=line.money.currency if line.money else "",
        gpu_hours=line.gpu_hours,
        amount=line.money.amount if line.money else None,
        tokens=line.delivered_tokens,
        per_million=line.per_million,
        per_million_generated=line.per_million_generated,
        partial=line.partial,
        notes=line.notes,
    )
