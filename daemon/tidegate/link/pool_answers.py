"""Turn what is known of pools and commands into the shapes of /v1. Pure."""

from __future__ import annotations

from datetime import datetime

from tidegate.link import pool_messages as m
from tidegate.link.answers import pool
from tidegate.model.command import Command
from tidegate.model.overview import Learned, Overview, PoolOverview


def explanation(found: PoolOverview, overview: Overview, now: datetime) -> m.ExplanationShape:
    """One pool with everything that its size rests on."""
    concerned = [one for one in overview.commands if one.order.pool in (None, found.policy.name)]
    return m.ExplanationShape(
        pool=pool(found),
        policy=found.sized_by,
        mode=overview.mode,
        tick_at=overview.at,
        commands=[command(one, now) for one in concerned if one.stands(now)],
        learned=_learned(found.learned),
        prices=[m.FlavourPriceShape.model_validate(price, from_attributes=True) for price in found.prices],
    )


def _learned(learned: Learned) -> m.LearnedShape:
    return m.LearnedShape(
        start_seconds=learned.start_seconds,
        starts=learned.starts,
        drain_seconds=learned.drain_seconds,
        requests_per_second=learned.requests_per_second,
        back_offs=[
            m.BackOffShape(flavour=name, until=one.until, failures=one.failures, kind=one.kind, why=one.why)
            for name, one in learned.back_offs.items()
        ],
        pending=[
            m.PendingShape(replica=one.replica, kind=one.kind, at=one.at, until=one.until) for one in learned.pending
        ],
    )


def command(found: Command, now: datetime) -> m.CommandShape:
    """One command as the audit log has it."""
    order = found.order
    return m.CommandShape(
        id=found.id,
        kind=order.kind,
        pool=order.pool,
        min=order.minimum,
        max=order.maximum,
        mode=order.mode,
        at=found.at,
        by=order.by,
        until=order.until,
        ended_at=found.ended_at,
        ended_by=found.ended_by,
        standing=found.stands(now),
    )
