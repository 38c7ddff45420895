"""Who leads the fleet: one of the controllers on a database, for as long as it renews its lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Candidate:
    """A controller that may lead."""

    holder: str
    """Of this controller alone, and the same after a restart: a controller that returns need not wait for itself."""
    name: str
    """What people know it by: the address that it listens on, with its machine's name."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease as the database holds it: the term that runs, or ran last."""

    epoch: int
    """The number of the term; 0 before the first."""
    name: str
    """The leader's name."""
    since: datetime
    """When the term began, by its leader's clock."""
    mine: bool
    """True when the candidate who asked leads now."""
    seconds_left: float
    """Real seconds until it ends unless it is renewed, by the database's clock; not above 0 when it is over."""


class Part(StrEnum):
    """What a controller is to the fleet."""

    LEADS = "leads"
    STANDS_BY = "stands_by"
    """Another one leads."""
    UNSURE = "unsure"
    """The database does not say: nobody can be known to lead, and nothing is changed."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who leads, as a controller knows it."""

    part: Part = Part.LEADS
    """This controller's own."""
    epoch: int = 0
    name: str = ""
    """The leader's, or the last one's; empty before anybody is known."""
    since: datetime | None = None
