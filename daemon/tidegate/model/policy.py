"""What the operator asked for: frozen policies, made from the configuration and from nothing else.

Every field says its unit; defaults stand here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from tidegate.model.fleet import PoolKind, PoolName, PoolRole, ServiceName
from tidegate.model.reading import HostName


class PolicyName(StrEnum):
    """How load becomes replicas."""

    THRESHOLD = "threshold"
    TARGET = "target"


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
    flavour: Flavour = Flavour()


@dataclass(frozen=True, slots=True)
class ServicePolicy:
    """One model behind one address: how its pools are sized together."""

    name: ServiceName
    model: str = ""
    policy: PolicyName = PolicyName.TARGET
    threshold: ThresholdPolicy = ThresholdPolicy()
    target: TargetPolicy = TargetPolicy()


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
