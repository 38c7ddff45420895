"""What the decision core remembers from tick to tick: plain values, so that a restart loses nothing.

Times are moments of the wall clock; the core never lets one lie ahead of `now`. `model/memory_json.py` writes and
reads it; a field that is added needs a default and no new version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.model.fleet import FailureClass, PoolName, ReplicaId, ServiceName
from tidegate.model.season import NO_SEASON, Season

MEMORY_VERSION = 2


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one replica of a group was seen to carry within the objective; every sum fades. See `decide/capacity.py`."""

    sums: tuple[float, ...] = ()
    """Of the regression of the speed of answers on prompt and generated tokens per second."""
    paces: tuple[float, ...] = ()
    """How many samples answered how fast, by steps of speed."""
    unit: tuple[float, ...] = ()
    """Load per prompt token and per generated token and second, as last taken from the fit."""
    bins: tuple[tuple[float, float], ...] = ()
    """By step of load: replica-ticks seen, and the share of requests taken to have missed the objective in them."""
    waits: tuple[float, float] = (0.0, 0.0)
    """Sums of the mean wait in seconds and of load / (1 - load)."""
    alone: tuple[float, float] = (0.0, 0.0)
    """Samples in which nothing waited, and the sum of their TTFT: what a prompt takes by itself."""
    told: float = 0.0
    """Samples that told their request rate, and"""
    work: float = 0.0
    """the sum of their loads, and"""
    requests: float = 0.0
    """of their rates: together the work of a request and the rate of a replica."""
    crowd: float = 0.0
    """The most requests that ran on a replica, in the mean over the group; fades."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A forecast that is yet to be compared with what comes."""

    at: datetime
    level: float
    """As it was, and"""
    rise: float
    """by how much it would have risen along its trend."""
    forecast: float
    scale: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the forecaster knows of a group's demand, in loads of a replica; see `decide/forecast.py`."""

    since: datetime | None = None
    at: datetime | None = None
    anew: datetime | None = None
    """When level and trend last began without a past."""
    brisk: float = 0.0
    fast: float = 0.0
    slow: float = 0.0
    mean: float = 0.0
    peak: float = 0.0
    """The highest that was seen; fades."""
    guesses: tuple[Guess, ...] = ()
    trends: tuple[float, float] = (0.0, 0.0)
    """Sums of rise times what came above the level, and of rise squared: how far trends are to be trusted."""
    began: datetime | None = None
    """When the last of the blocks began."""
    blocks: tuple[tuple[float, ...], ...] = ()
    """Histograms of how far demand came to lie above the forecast, relative to its scale, one a stretch of time."""


@dataclass(frozen=True, slots=True)
class ServiceMemory:
    """What was wanted lately, when the size last changed, and what is known of the load and of a replica's capacity."""

    wishes: tuple[tuple[datetime, int], ...] = ()
    """Raw recommendations (replicas over all pools of the service), oldest first, within the scale-in window."""
    last_out: datetime | None = None
    last_in: datetime | None = None
    outs: tuple[tuple[datetime, int], ...] = ()
    """Replicas ordered within the step period."""
    ins: tuple[tuple[datetime, int], ...] = ()
    flaps: tuple[datetime, ...] = ()
    """When the group shrank as the first change after growth, within the flap window."""
    regrets: tuple[datetime, ...] = ()
    """When the group grew soon after it had shrunk, within the last 40 minutes."""
    first: tuple[datetime, int] | None = None
    """When the group was first seen, and how large it was."""
    capacity: Capacity = Capacity()
    forecast: Forecast = Forecast()
    season: Season = NO_SEASON


@dataclass(frozen=True, slots=True)
class Durations:
    """The last few durations of one kind, in seconds, oldest first."""

    seconds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class BackOff:
    """Why a flavour is left alone, and until when."""

    until: datetime
    failures: int
    """In a row; a replica that is ready after the last one sets it back to 0."""
    kind: FailureClass = FailureClass.HEALTH
    why: str = ""
    """What was the matter with the replica that failed last, in words,"""
    at: datetime | None = None
    """and when that was seen."""


@dataclass(frozen=True, slots=True)
class Tries:
    """How the last starts of a flavour ended; each counts for less the longer ago it was."""

    good: float = 0.0
    bad: float = 0.0
    """Failed by chance: not for a quota, an empty market or a wrong key."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An order that has not been seen to take effect."""

    replica: ReplicaId
    kind: str
    """The `ActionKind`."""
    at: datetime
    until: datetime
    """When it is given up and the world is taken as it is seen."""
    flavour: str = ""


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """Serial numbers are never used twice, so that an old command cannot hit a new replica."""

    next_serial: int = 1
    counted: tuple[ReplicaId, ...] = ()
    """Replicas still in sight whose failure has been counted, so that none is counted twice."""
    back_offs: Mapping[str, BackOff] = field(default_factory=dict)
    """By flavour."""
    starts: Durations = Durations()
    drains: Durations = Durations()
    starting: Mapping[ReplicaId, datetime] = field(default_factory=dict)
    """Replicas seen starting, and when each was requested."""
    draining: Mapping[ReplicaId, datetime] = field(default_factory=dict)
    pending: tuple[Pending, ...] = ()
    tries: Mapping[str, Tries] = field(default_factory=dict)
    """By flavour."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything `plan` needs from earlier ticks."""

    started_at: datetime | None = None
    """When this controller began to observe; scale-in waits for the restart grace after it."""
    at: datetime | None = None
    """The last tick."""
    services: Mapping[ServiceName, ServiceMemory] = field(default_factory=dict)
    """By group: the service, or the service and the role where its pools do a part of a request only."""
    pools: Mapping[PoolName, PoolMemory] = field(default_factory=dict)
