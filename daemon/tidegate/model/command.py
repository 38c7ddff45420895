"""What people and other programs ask of the decision while the program runs: commands that end, and wishes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidegate.model.fleet import PoolName, ServiceName
from tidegate.model.policy import Mode


class CommandKind(StrEnum):
    """What an operator may do by hand."""

    PAUSE_OUT = "pause_out"
    PAUSE_IN = "pause_in"
    BOUNDS = "bounds"
    MODE = "mode"


@dataclass(frozen=True, slots=True)
class Order:
    """A command as it is given."""

    kind: CommandKind
    by: str
    """The user's name: it stands in the audit log."""
    pool: PoolName | None = None
    """None: every pool."""
    minimum: int | None = None
    maximum: int | None = None
    mode: Mode | None = None
    until: datetime | None = None
    """None: until somebody ends it."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command on record."""

    id: int
    order: Order
    at: datetime
    ended_at: datetime | None = None
    ended_by: str = ""

    def stands(self, now: datetime) -> bool:
        """True while it is in force."""
        return self.ended_at is None and (self.order.until is None or self.order.until > now)


@dataclass(frozen=True, slots=True)
class ExternalWish:
    """How many replicas another program wants of a service."""

    service: ServiceName
    replicas: int
    at: datetime
    by: str
    until: datetime | None = None
    """When it counts no more, where it says so itself."""
