"""What the operator asked for: frozen policies, made from the configuration and from nothing else.

Every field says its unit; defaults stand here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import StrEnum

from tidegate.model.fleet import PoolKind, PoolName, PoolRole, ServiceName
from tidegate.model.reading import HostName


class PolicyName(StrEnum):
    """How load becomes replicas."""

    SLO = "slo"
    THRESHOLD = "threshold"
    TARGET = "target"
    SCHEDULE = "schedule"
    EXTERNAL = "external"


class Mode(StrEnum):
    """What happens to a decision."""

    ADVISE = "advise"
    ACT = "act"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class ThresholdPolicy:
    """Mean GPU utilisation over a service's ready replicas: how many teams start."""

    scale_out_above: float = 0.75
    scale_in_below: float = 0.30
    cooldown: timedelta = timedelta(seconds=120)


@dataclass(frozen=True, slots=True)
class TargetPolicy:
    """Running plus waiting requests per replica."""

    in_flight_per_replica: float = 16.0
    cooldown: timedelta = timedelta(seconds=120)
    scale_in_window: timedelta = timedelta(seconds=300)
    """A pool shrinks to the highest wish of this window, so one quiet moment closes nothing."""
    tolerance: float = 0.1


@dataclass(frozen=True, slots=True)
class SloPolicy:
    """What every request is promised; capacity is learned from what replicas were seen to carry within it."""

    ttft_s: float = 2.0
    """Seconds to the first token."""
    tpot_s: float = 0.06
    """Seconds per output token after the first, as a mean over the request."""
    attainment: float = 0.99
    """The share of requests that must meet both."""


@dataclass(frozen=True, slots=True)
class SchedulePolicy:
    """So many replicas, over all pools of the service, whenever no `Schedule` of a pool says otherwise."""

    replicas: int = 1


@dataclass(frozen=True, slots=True)
class ExternalPolicy:
    """Another program says how many replicas are wanted; the guards stay ours."""

    stale_after: timedelta = timedelta(seconds=120)
    """A number older than this counts as missing."""
    fallback: int | None = None
    """Replicas wanted while the number is missing; None: what there is."""


@dataclass(frozen=True, slots=True)
class Steps:
    """How fast a group of pools may change, per period; 0 means no limit."""

    out: int = 0
    inward: int = 0
    period: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class FlapBudget:
    """How often a group may shrink as the first change after growth; spent, nothing scales in for a while."""

    scale_ins: int = 19
    window: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Prefill replicas for each decode replica; both or neither are at zero."""

    low: float = 0.0
    high: float = math.inf


@dataclass(frozen=True, slots=True)
class Flavour:
    """One way to get a replica of a pool."""

    name: str = "default"
    template: str = ""
    """The agent's `[[template]]` that starts it; empty when replicas are only observed."""
    hosts: tuple[HostName, ...] = ()
    """Hosts in order of preference."""
    price_per_gpu_hour: Decimal | None = None
    currency: str = "USD"
    start_deadline: timedelta = timedelta(minutes=10)
    drain_deadline: timedelta = timedelta(minutes=5)
    start_time: timedelta | None = None
    """How long a start is expected to take until it has been learned."""
    minimum_hold: timedelta = timedelta()
    """A replica is kept at least this long after it was requested."""
    billing_increment: timedelta = timedelta()
    """The provider bills whole steps of this (an hour); 0: by the second."""
    gpu_limit: int | None = None
    """GPUs that this flavour may hold at once (a quota)."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Bounds of a pool in a recurring window [start, end) of local time; a window over midnight has end <= start."""

    start: time
    end: time
    zone: tzinfo
    """Made from its name when the configuration is read, so that an unknown one is found there."""
    days: frozenset[int] = frozenset(range(7))
    """Weekdays on which the window begins, Monday = 0."""
    minimum: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """Bounds and manners of one pool."""

    name: PoolName
    service: ServiceName
    kind: PoolKind = PoolKind.BASE
    role: PoolRole = PoolRole.MIXED
    min: int = 0
    max: int = 1
    gpus_per_replica: int = 1
    flavours: tuple[Flavour, ...] = (Flavour(),)
    """In order of preference; at least one."""
    schedules: tuple[Schedule, ...] = ()

    @property
    def first_flavour(self) -> Flavour:
        """The preferred one."""
        return self.flavours[0]

    def flavour_of(self, name: str) -> Flavour:
        """The flavour of that name, else the preferred one."""
        return next((flavour for flavour in self.flavours if flavour.name == name), self.flavours[0])


@dataclass(frozen=True, slots=True)
class ServicePolicy:
    """One model behind one address: how its pools are sized together."""

    name: ServiceName
    model: str = ""
    policy: PolicyName = PolicyName.SLO
    slo: SloPolicy = SloPolicy()
    threshold: ThresholdPolicy = ThresholdPolicy()
    target: TargetPolicy = TargetPolicy()
    schedule: SchedulePolicy = SchedulePolicy()
    external: ExternalPolicy = ExternalPolicy()
    ratio: Ratio = Ratio()
    steps: Steps = Steps()
    flaps: FlapBudget = FlapBudget()


class ControlKind(StrEnum):
    """What an operator may do by hand."""

    PAUSE_OUT = "pause_out"
    """Nothing grows."""
    PAUSE_IN = "pause_in"
    """Nothing shrinks."""
    BOUNDS = "bounds"


@dataclass(frozen=True, slots=True)
class Control:
    """An operator's command in force beside the policy, until it ends by itself."""

    kind: ControlKind
    pool: PoolName | None = None
    """None: every pool."""
    until: datetime | None = None
    minimum: int | None = None
    maximum: int | None = None
    """Of `BOUNDS`; they win over `PoolPolicy.min` and `max`."""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """What the whole fleet may hold at any instant, starting and draining replicas included; None: no limit."""

    gpus: int | None = None
    per_hour: Decimal | None = None
    """In the currency of the flavours' prices; a flavour without a price cannot be started under it."""


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """What a host offers: GPUs, and the ports that its replicas listen on."""

    name: HostName
    gpus: int
    first_port: int = 8100
    """Slot k of the host listens on first_port + k."""
    address: str = ""
    """Where routers reach its replicas, a name or an IP without a port; empty: the host's name."""


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """Everything the decision core is told."""

    services: Mapping[ServiceName, ServicePolicy]
    pools: Mapping[PoolName, PoolPolicy]
    hosts: Mapping[HostName, HostPolicy] = field(default_factory=dict)
    mode: Mode = Mode.ADVISE
    silent_share: float = 0.25
    """Share of a service's ready replicas that may be silent and are taken as at target; at least one may."""
    restart_grace: timedelta = timedelta(seconds=300)
    """After a controller start nothing scales in until this much has been seen."""
    budget: Budget = Budget()
    controls: tuple[Control, ...] = ()
    """Set by operators while the program runs; those that have ended are ignored."""


@dataclass(frozen=True, slots=True)
class HitRateRule:
    """Alert when the KV hit rate of a pool falls below its own trailing baseline."""

    name: str = "kv_cache_hit_rate_drop"
    window: timedelta = timedelta(minutes=15)
    baseline: timedelta = timedelta(hours=24)
    drop: float = 0.3
    """Fires when rate < baseline * (1 - drop)."""
    recover: float = 0.15
    """Resolves when rate >= baseline * (1 - recover)."""
    minimum_queries: float = 10_000
    """Prompt tokens looked up in the window below which nothing is said."""
    hold: timedelta = timedelta(minutes=5)
    """How long the drop must last before it fires."""
    channels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Channel:
    """A webhook that is told of alerts, signed as Standard Webhooks 1.0 when it has a secret."""

    name: str
    url: str
    secret: str = ""
    """`whsec_` and base64; never logged."""
    allow_private: bool = False
