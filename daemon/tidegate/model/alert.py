"""Alerts: a state machine's memory and what people are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class AlertPhase(StrEnum):
    """Where an alert is: quiet, waiting out its hold, said, or said to be over."""

    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class AlertState:
    """One alert (a rule on one subject), persisted so that a restart neither pages again nor loses a resolve."""

    fingerprint: str
    rule: str
    labels: Mapping[str, str]
    phase: AlertPhase
    since: datetime
    """When this phase began."""
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    value: float | None = None
    baseline: float | None = None
    """The baseline at the moment of firing; frozen while it fires."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """`summary` in English and `summary_zh` in Chinese."""
    excluded: tuple[tuple[datetime, datetime], ...] = ()
    """Earlier times of firing, (start, end), that no baseline may learn from; kept while one can reach them."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One message to one channel: a transition that people should hear of."""

    id: str
    """Stable over retries: the receiver's idempotency key."""
    channel: str
    alert: AlertState
    created_at: datetime
