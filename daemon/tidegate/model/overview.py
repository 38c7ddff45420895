"""What the controller knows at one moment: the value that its page, `/metrics` and `/v1/status` are rendered from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from tidegate.model.alert import AlertState
from tidegate.model.command import Command
from tidegate.model.decision import Decision
from tidegate.model.fleet import PoolName, ReplicaState
from tidegate.model.leadership import Leadership
from tidegate.model.memory import BackOff, Pending
from tidegate.model.money import CostState
from tidegate.model.policy import Mode, PolicyName, PoolPolicy
from tidegate.model.price import FlavourPrice
from tidegate.model.reading import HostName
from tidegate.model.records import DecisionRecord, PoolFigures, ReplicaRecord
from tidegate.model.scrape import SourceState


@dataclass(frozen=True, slots=True)
class Learned:
    """What a pool's past has taught, and what is under way."""

    start_seconds: float | None = None
    """How long a start took, the middle of the last ones; None before the first."""
    starts: int = 0
    drain_seconds: float | None = None
    requests_per_second: float | None = None
    """What one replica carries within the objective, by requests like the latest; under the policy `slo` alone."""
    back_offs: Mapping[str, BackOff] = field(default_factory=dict)
    """Flavours that are left alone, by name."""
    pending: tuple[Pending, ...] = ()
    """Orders whose effect was not seen yet."""


@dataclass(frozen=True, slots=True)
class PoolOverview:
    """One pool: what was asked, what is, and the last decision."""

    policy: PoolPolicy
    figures: PoolFigures
    gaps: Mapping[str, str]
    """For each figure that is missing or incomplete, why."""
    decision: Decision | None = None
    sized_by: PolicyName = PolicyName.SLO
    learned: Learned = field(default_factory=Learned)
    prices: tuple[FlavourPrice, ...] = ()
    """What decisions take a GPU hour of each flavour to cost."""


@dataclass(frozen=True, slots=True)
class HostOverview:
    """One host as the page shows it."""

    name: HostName
    heard: bool
    last_seen: datetime | None
    revoked: bool = False
    nvml_up: bool = False
    nvml_why: str = ""
    gpus_up: int = 0
    gpus: int = 0
    spool_reports: int = 0
    spool_dropped: int = 0
    agent_version: str = ""
    clock_offset_seconds: float = 0.0
    """By how much its clock was off (ahead is positive) when that was enough to stamp its reports anew; else 0."""
    problems: tuple[str, ...] = ()
    series_left_out: int = 0
    """Series that are not kept, since the host shows too many new ones in a day."""


@dataclass(frozen=True, slots=True)
class JobOverview:
    """How a job of the controller does."""

    name: str
    last_success: datetime | None = None
    runs: int = 0
    failures: int = 0
    consecutive_failures: int = 0
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A replica that takes traffic, and where."""

    target: str
    """host:port"""
    pool: str
    service: str
    replica: str
    host: str
    state: ReplicaState


@dataclass(frozen=True, slots=True)
class CostOverview:
    """What GPUs cost and what they served between two moments; what is not known is None, never zero."""

    pool: str
    """Empty for a line over several pools."""
    service: str
    state: CostState
    currency: str
    """Empty when amounts of several currencies meet, which are never added."""
    gpu_hours: Decimal
    amount: Decimal | None
    tokens: Decimal | None
    """Prompt (cached ones included) and generated tokens."""
    per_million: Decimal | None
    per_million_generated: Decimal | None
    """The same cost over generated tokens alone; not to be added to the other."""
    partial: bool
    """The tokens are lower bounds."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CostsOverview:
    """The cost of a span of time: each pool, all together, and the burst pools alone."""

    since: datetime
    until: datetime
    pools: tuple[CostOverview, ...]
    total: CostOverview
    """Everything, what is of no pool too."""
    burst: CostOverview
    others: Mapping[tuple[str, str], Decimal] = field(default_factory=dict)
    """What is of no pool (idle GPUs, tax, credits, ...), by kind and currency."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What this process has counted since it started."""

    reports: Mapping[str, int] = field(default_factory=dict)
    """By fate: stored, duplicate, left_out, malformed, unauthorized, too_large, failed, unseen."""
    decisions: Mapping[PoolName, int] = field(default_factory=dict)
    actions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By kind and outcome (applied, failed)."""
    notices: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By channel and result (delivered, retried, given_up)."""
    cut_requests: int = 0
    """Requests in flight that a drain's deadline cut short."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The whole fleet at one tick."""

    version: str
    started_at: datetime
    at: datetime | None = None
    """The tick that this shows; None before the first."""
    unrecorded: str = ""
    """Why what this shows could not be recorded, and nothing was decided by it; empty for a whole tick."""
    leadership: Leadership = field(default_factory=Leadership)
    mode: Mode = Mode.ADVISE
    currency: str = "USD"
    pools: tuple[PoolOverview, ...] = ()
    replicas: tuple[ReplicaRecord, ...] = ()
    hosts: tuple[HostOverview, ...] = ()
    commands: tuple[Command, ...] = ()
    """Operators' commands in force."""
    decisions: tuple[DecisionRecord, ...] = ()
    """The last ones that changed something or were bound, newest first."""
    alerts: tuple[AlertState, ...] = ()
    view_window: timedelta | None = None
    """What rates, ratios and quantiles are taken over."""
    cost: CostsOverview | None = None
    """Over the trailing hour of whole five-minute buckets; None before it was first worked out."""
    billed: CostsOverview | None = None
    """Over the last days that a bill speaks of, a week at most; None while there is no bill."""
    notes: tuple[str, ...] = ()
    jobs: tuple[JobOverview, ...] = ()
    tally: Tally = Tally()
    source: SourceState | None = None
    """How the Prometheus that is read does; None where agents report instead."""
    config_loaded_at: datetime | None = None
    config_reload_ok: bool = True
