"""What a user may write about the fleet: services, pools, hosts, money. Defaults are those of model/policy.py."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict

from tidegate.config.fields import Amount, Between, Duration, OneOf, Pattern, Text, Whole
from tidegate.model.fleet import PoolKind, PoolName, PoolRole, ServiceName
from tidegate.model.policy import Flavour, HostPolicy, PolicyName, PoolPolicy, TargetPolicy, ThresholdPolicy
from tidegate.model.reading import HostName

_THRESHOLD = ThresholdPolicy()
_TARGET = TargetPolicy()
_FLAVOUR = Flavour()
_POOL = PoolPolicy(PoolName("pool"), ServiceName("service"))
_HOST = HostPolicy(HostName("host"), gpus=1)

PlainName = Annotated[
    str, Pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "letters, digits, _ . - (a letter or digit first)", 63)
]
"""A name that becomes part of unit names and replica ids."""
LongName = Annotated[
    str, Pattern(r"[A-Za-z0-9][A-Za-z0-9_.:@/-]*", "letters, digits, _ . : @ / - (a letter or digit first)", 253)
]
"""A name that other systems gave, such as a host's or a model's."""


def _chinese(text: str) -> str:
    return '; write "CNY"' if text.upper() in {"RMB", "¥", "元"} else f'; write "{text.upper()}"' * text.isalpha()


Currency = Annotated[str, Pattern(r"[A-Z]{3}", "a currency code of three capital letters (ISO 4217)", 8, _chinese)]
Price = Annotated[Decimal, Amount()]
Replicas = Annotated[int, Whole(0, 10_000)]
GpuCount = Annotated[int, Whole(1, 128)]
Share = Annotated[float, Between(0.01, 1)]
HostAddress = Annotated[str, Pattern(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+", "a host name or an IP, without a port")]
Port = Annotated[int, Whole(1, 65535)]


class Table(BaseModel):
    """Closed: an unknown key is an error, not a silent loss."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Actuator(StrEnum):
    """What starts and stops a replica."""

    AGENT = "agent"


class SloTable(Table):
    """`[service.slo]`: kept for the policy that follows latencies; this version only takes note of it."""

    ttft_seconds: Annotated[timedelta, Duration("seconds", 0.001, 3600)] | None = None
    tpot_seconds: Annotated[timedelta, Duration("seconds", 0.0001, 60)] | None = None


class ThresholdTable(Table):
    """`[service.threshold]`: mean GPU utilisation, with the names that many teams already use."""

    scale_out_threshold_gpu_util: Share = _THRESHOLD.scale_out_above
    scale_in_threshold_gpu_util: Share = _THRESHOLD.scale_in_below
    cooldown_seconds: Annotated[timedelta, Duration("seconds", 0, 86400)] = _THRESHOLD.cooldown


class TargetTable(Table):
    """`[service.target]`: running plus waiting requests per replica."""

    in_flight_per_replica: Annotated[float, Between(0.1, 100_000)] = _TARGET.in_flight_per_replica
    cooldown_seconds: Annotated[timedelta, Duration("seconds", 0, 86400)] = _TARGET.cooldown
    scale_in_window_seconds: Annotated[timedelta, Duration("seconds", 0, 86400)] = _TARGET.scale_in_window
    tolerance: Annotated[float, Between(0, 0.9)] = _TARGET.tolerance


class ServiceTable(Table):
    """`[[service]]`: one model behind one address."""

    name: LongName
    model: Text = ""
    policy: Annotated[PolicyName, OneOf(PolicyName, later=("slo", "schedule", "external"))] = PolicyName.TARGET
    slo: SloTable = SloTable()
    threshold: ThresholdTable = ThresholdTable()
    target: TargetTable = TargetTable()


class FlavourTable(Table):
    """`[[pool.flavour]]`: one way to get a replica."""

    name: PlainName = _FLAVOUR.name
    actuator: Annotated[Actuator, OneOf(Actuator, later=("kubernetes", "webhook", "command", "router", "dry_run"))] = (
        Actuator.AGENT
    )
    template: PlainName | None = None
    hosts: tuple[LongName, ...] | None = None
    price_per_gpu_hour: Price | None = None
    currency: Currency | None = None
    start_deadline_seconds: Annotated[timedelta, Duration("seconds", 1, 86400)] = _FLAVOUR.start_deadline
    drain_deadline_seconds: Annotated[timedelta, Duration("seconds", 1, 86400)] = _FLAVOUR.drain_deadline


class PoolTable(Table):
    """`[[pool]]`: replicas of one service that are sized together."""

    name: PlainName
    service: LongName | None = None
    kind: Annotated[PoolKind, OneOf(PoolKind)] = _POOL.kind
    role: Annotated[PoolRole, OneOf(PoolRole)] = _POOL.role
    min: Replicas = _POOL.min
    max: Replicas = _POOL.max
    gpus_per_replica: GpuCount = _POOL.gpus_per_replica
    price_per_gpu_hour: Price | None = None
    currency: Currency | None = None
    flavour: tuple[FlavourTable, ...] = ()


class HostTable(Table):
    """`[[host]]`: a machine on which the controller may place replicas."""

    name: LongName
    gpus: GpuCount
    first_port: Port = _HOST.first_port
    address: HostAddress = _HOST.address


class CostTable(Table):
    """`[cost]`: the currency of everything, and the price where a pool names none."""

    currency: Currency | None = None
    price_per_gpu_hour: Price | None = None
