"""What a user may write about how a service is sized: `[service.*]` and `[budget]`. Defaults: model/policy.py."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from tidegate.config.fields import Between, Duration, Whole
from tidegate.config.schema_base import Price, Replicas, Share, Table
from tidegate.model.policy import (
    ExternalPolicy,
    FlapBudget,
    SchedulePolicy,
    SloPolicy,
    Steps,
    TargetPolicy,
    ThresholdPolicy,
)

_SLO = SloPolicy()
_THRESHOLD = ThresholdPolicy()
_TARGET = TargetPolicy()
_SCHEDULE = SchedulePolicy()
_EXTERNAL = ExternalPolicy()
_STEPS = Steps()
_FLAPS = FlapBudget()


class SloTable(Table):
    """`[service.slo]`: what every request is promised."""

    ttft_seconds: Annotated[timedelta, Duration("seconds", 0.001, 3600)] = timedelta(seconds=_SLO.ttft_s)
    tpot_seconds: Annotated[timedelta, Duration("seconds", 0.0001, 60)] = timedelta(seconds=_SLO.tpot_s)
    attainment: Annotated[float, Between(0.5, 0.9999)] = _SLO.attainment


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


class ScheduleTable(Table):
    """`[service.schedule]`: so many replicas, whatever the load."""

    replicas: Replicas = _SCHEDULE.replicas


class ExternalTable(Table):
    """`[service.external]`: another program says how many."""

    stale_after_seconds: Annotated[timedelta, Duration("seconds", 1, 86400)] = _EXTERNAL.stale_after
    fallback: Replicas | None = _EXTERNAL.fallback


class StepsTable(Table):
    """`[service.steps]`: how fast the size may change; 0 is no limit."""

    scale_out: Replicas = _STEPS.out
    scale_in: Replicas = _STEPS.inward
    period_seconds: Annotated[timedelta, Duration("seconds", 1, 86400)] = _STEPS.period


class FlapsTable(Table):
    """`[service.flaps]`: how often the service may shrink soon after it grew."""

    scale_ins: Annotated[int, Whole(1, 10_000)] = _FLAPS.scale_ins
    window_hours: Annotated[timedelta, Duration("hours", 0.1, 720)] = _FLAPS.window


class RatioTable(Table):
    """`[service.ratio]`: prefill replicas for each decode replica."""

    min: Annotated[float, Between(0.001, 1000)] | None = None
    max: Annotated[float, Between(0.001, 1000)] | None = None


class BudgetTable(Table):
    """`[budget]`: what the whole fleet may hold at any instant."""

    gpus: Annotated[int, Whole(0, 1_000_000)] | None = None
    per_hour: Price | None = None
