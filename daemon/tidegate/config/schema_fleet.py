"""What a user may write about the fleet: services, pools, hosts, money. Defaults are those of model/policy.py."""

from __future__ import annotations

from datetime import time, timedelta, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from tidegate.config.clock_fields import TimeOfDay, TimeZone
from tidegate.config.fields import Duration, FilePath, OneOf, Text, Whole
from tidegate.config.schema_base import (
    Currency,
    GpuCount,
    HostAddress,
    LongName,
    PlainName,
    Port,
    Price,
    Replicas,
    Table,
)
from tidegate.config.schema_policies import (
    ExternalTable,
    FlapsTable,
    RatioTable,
    ScheduleTable,
    SloTable,
    StepsTable,
    TargetTable,
    ThresholdTable,
)
from tidegate.model.allocation import Apart, CostPolicy, IdlePolicy
from tidegate.model.fleet import PoolKind, PoolName, PoolRole, ServiceName
from tidegate.model.policy import Flavour, HostPolicy, PolicyName, PoolPolicy, ServicePolicy
from tidegate.model.reading import HostName

_FLAVOUR = Flavour()
_SERVICE = ServicePolicy(ServiceName("service"))
_POOL = PoolPolicy(PoolName("pool"), ServiceName("service"))
_COST = CostPolicy()
_HOST = HostPolicy(HostName("host"), gpus=1)


class Actuator(StrEnum):
    """What starts and stops a replica."""

    AGENT = "agent"


class Day(StrEnum):
    """A day of the week; the position is its number, Monday 0."""

    MONDAY = "mon"
    TUESDAY = "tue"
    WEDNESDAY = "wed"
    THURSDAY = "thu"
    FRIDAY = "fri"
    SATURDAY = "sat"
    SUNDAY = "sun"


class ServiceTable(Table):
    """`[[service]]`: one model behind one address."""

    name: LongName
    model: Text = ""
    policy: Annotated[PolicyName, OneOf(PolicyName)] = _SERVICE.policy
    slo: SloTable = SloTable()
    threshold: ThresholdTable = ThresholdTable()
    target: TargetTable = TargetTable()
    schedule: ScheduleTable = ScheduleTable()
    external: ExternalTable = ExternalTable()
    steps: StepsTable = StepsTable()
    flaps: FlapsTable = FlapsTable()
    ratio: RatioTable = RatioTable()


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
    start_seconds: Annotated[timedelta, Duration("seconds", 1, 86400)] | None = _FLAVOUR.start_time
    minimum_hold_seconds: Annotated[timedelta, Duration("seconds", 0, 604800)] = _FLAVOUR.minimum_hold
    billing_increment_seconds: Annotated[timedelta, Duration("seconds", 0, 86400)] = _FLAVOUR.billing_increment
    gpu_limit: Annotated[int, Whole(1, 100_000)] | None = _FLAVOUR.gpu_limit


class PoolScheduleTable(Table):
    """`[[pool.schedule]]`: narrower bounds of the pool in a window that comes again."""

    start: Annotated[time, TimeOfDay()]
    end: Annotated[time, TimeOfDay()]
    time_zone: Annotated[tzinfo, TimeZone()]
    days: tuple[Annotated[Day, OneOf(Day)], ...] = tuple(Day)
    min: Replicas | None = None
    max: Replicas | None = None


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
    schedule: tuple[PoolScheduleTable, ...] = ()


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
    idle: Annotated[IdlePolicy, OneOf(IdlePolicy)] = _COST.idle
    network: Annotated[Apart, OneOf(Apart)] = _COST.network
    storage: Annotated[Apart, OneOf(Apart)] = _COST.storage
    credits: Annotated[Apart, OneOf(Apart)] = _COST.credits
    tax: Annotated[Apart, OneOf(Apart)] = _COST.tax
    shared: tuple[Text, ...] = _COST.shared
    output_ratio: Price | None = None
    cached_ratio: Price = _COST.cached_ratio
    traffic_file: Annotated[Path, FilePath()] | None = None
