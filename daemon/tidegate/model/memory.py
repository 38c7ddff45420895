"""What the decision core remembers from tick to tick: plain values, so that a restart loses nothing.

Times are moments of the wall clock; the core never lets one lie ahead of `now`. `model/memory_json.py` writes and
reads it; a field that is added needs a default and no new version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.model.fleet import FailureClass, PoolName, ReplicaId, ServiceName

MEMORY_VERSION = 2


@dataclass(frozen=True, slots=True)
class Fit:
    """A weighted least-squares fit of y = offset - slope * x by its sums, which fade; dimensionless."""

    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one replica of a group was seen to carry within the objective."""

    sums: tuple[float, ...] = ()
    """Of the regression of steps per second on prompt and generated tokens per second; see `decide/capacity.py`."""
    first_token: Fit = Fit()
    """1 / (TTFT over its objective) against the share of capacity in use."""
    bins: tuple[tuple[float, float], ...] = ()
    """By share of capacity in use: requests seen, and of these how many are taken to have missed the objective."""
    crowd: float = 0.0
    """The most requests seen running in a replica at once."""
    crowd_limit: float | None = None
    """How many ran when others had to wait for a place; None: never seen."""
    work_per_request: float = 0.0
    """Seconds of a whole replica that a request takes."""
    prompt_per_request: float = 0.0
    answer_per_request: float = 0.0
    samples: float = 0.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the forecaster knows of a group's demand, in replicas at capacity."""

    recent: tuple[tuple[datetime, float], ...] = ()
    """Demand of the last ticks, oldest first, as far back as a horizon."""
    level: float | None = None
    trend: float = 0.0
    """Replicas per second."""
    growth: tuple[float, ...] = ()
    """Histogram of how far demand rose above its level within a horizon; fades."""
    peaks: tuple[tuple[datetime, float], ...] = ()
    """Falling staircase of the peaks that are still held."""
    shape: tuple[tuple[float, float], ...] = ()
    """By part of the day: weight and mean demand."""


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
    capacity: Capacity = Capacity()
    forecast: Forecast = Forecast()


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
    """What was the matter with the replica that failed last, in words."""


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
