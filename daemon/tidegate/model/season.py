"""What is remembered of a group's load by time of day: plain values, see `decide/season.py`.

Times of day are UTC, in buckets of five minutes counted from 1970; loads are in replicas' worth, as in `Forecast`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Day:
    """The load of one day, bucket by bucket."""

    number: int
    """Days since 1970-01-01."""
    loads: str
    """Two letters a bucket, see `decide/profile.py`; text, because all of it is written at every tick."""


@dataclass(frozen=True, slots=True)
class Rise:
    """A rise that is due by what earlier days did at this time."""

    by: float
    """How much load came on top of what there was,"""
    to: float
    """and up to which level, both in proportion to how busy today is."""
    days: int
    """How many earlier days say so,"""
    like: str
    """and which: "days", "workdays", "weekend days" or "weeks"."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What was foretold for one bucket, to be compared with what comes."""

    bucket: int
    plain: float
    """Without the season,"""
    with_season: tuple[float, ...]
    """and with it, one for each kind of likeness."""
    scale: float
    """What errors are relative to."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A stretch of up to an hour in which the season said something else than the plain forecast."""

    bucket: int
    """The first one."""
    plain: float
    """The worst error, relative to the load of those hours,"""
    with_season: tuple[float, ...]
    """and with the season, by likeness."""


@dataclass(frozen=True, slots=True)
class Season:
    """The last two weeks by time of day, and how well they foretold."""

    at: datetime | None = None
    """The last look."""
    bucket: int = 0
    """The one that is being filled:"""
    seconds: float = 0.0
    """of so much of it the load is known,"""
    total: float = 0.0
    """and this is load times seconds."""
    days: tuple[Day, ...] = ()
    claims: tuple[Claim, ...] = ()
    trials: tuple[Trial, ...] = ()
    coming: Rise | None = None
    """Due before a replica that is ordered now could serve,"""
    later: Rise | None = None
    """or soon after: nothing should go for so short a time. Both None where the season has not proved better."""


NO_SEASON = Season()
"""Before anything is known."""
