"""What the summary of a played day rests on. Pure values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.demo.gateway import Counts
from tidegate.demo.receiver import Delivery
from tidegate.demo.story import Story
from tidegate.link.messages import CostsShape

SETTLE_WITHIN = timedelta(hours=2)
"""Played time after the day in which the fleet has to come to rest."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the summary rests on."""

    since: datetime
    speed: float
    counts: Counts
    closed: bool
    """No request arrives any more, so every one must have been answered."""
    story: Story
    costs: CostsShape
    """Of the day."""
    tokens: float
    """What the controller has counted from the start until now; unlike the day's, it has no edge inside the traffic."""
    deliveries: Sequence[Delivery]
    burst: str
    event: tuple[datetime, datetime]
    """When the hit rate was spoilt, and mended again."""


def settled(facts_story: Story, burst: str, deliveries: Sequence[Delivery]) -> bool:
    """True when the burst pool is empty again and every transition of an alert has been told."""
    path = facts_story.sizes.get(burst, [])
    drops = facts_story.drops()
    told = len(deliveries) >= 2 * len(drops) and all(drop.resolved_at for drop in drops)
    return bool(path) and path[-1].held == 0 and told
