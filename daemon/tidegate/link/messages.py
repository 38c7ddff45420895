"""What the controller answers to people and programs under /v1: the shapes that its OpenAPI description shows."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tidegate.model.alert import AlertPhase
from tidegate.model.decision import Limit
from tidegate.model.fleet import PoolKind, PoolRole, ReplicaState, Want
from tidegate.model.leadership import Part
from tidegate.model.money import CostState
from tidegate.model.policy import Mode
from tidegate.wire import Name


class Shape(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True)


class FiguresShape(Shape):
    """A pool's figures; null is missing, and `PoolShape.missing` says why. Ratios are 0..1, times are seconds."""

    running: float | None
    queue_depth: float | None
    gpu_utilization: float | None
    kv_cache_usage: float | None
    kv_cache_hit_rate: float | None
    prompt_tokens_per_second: float | None
    generation_tokens_per_second: float | None
    tokens_per_gpu_per_second: float | None
    ttft_p95_seconds: float | None
    tpot_p95_seconds: float | None
    e2e_p99_seconds: float | None
    cost_per_million_tokens: float | None


class SignalShape(Shape):
    """One input of a decision: a value, idle (known to be zero), or missing with the reason."""

    source: str
    name: str
    value: float | None
    idle: bool = False
    missing: str | None = None
    age_seconds: float | None = None


class DecisionShape(Shape):
    """Why a pool has the target that it has."""

    id: int | None
    pool: str
    at: datetime
    current: int
    ready: int
    starting: int
    leaving: int
    wanted: int
    target: int
    reason: str
    limits: list[Limit]
    mode: Mode
    may_change_at: datetime | None
    signals: list[SignalShape]


class PoolShape(Shape):
    """One pool now."""

    name: str
    service: str
    kind: PoolKind
    role: PoolRole
    min: int
    max: int
    current: int
    """Ready and starting replicas."""
    ready: int
    starting: int
    leaving: int
    target: int
    figures: FiguresShape
    missing: dict[str, str]
    """For each figure that is missing or incomplete, why."""
    cost_state: CostState = CostState.ESTIMATED
    decision: DecisionShape | None


class ReplicaShape(Shape):
    """One replica that is not stopped."""

    id: str
    pool: str
    host: str
    state: ReplicaState
    since: datetime
    want: Want
    managed: bool
    slot: int | None
    gpus: list[int]
    port: int
    requested_at: datetime
    ready_at: datetime | None
    deadline: datetime | None
    why: str


class HostShape(Shape):
    """One enrolled host."""

    name: str
    up: bool
    """Heard recently enough to be believed."""
    last_seen: datetime | None
    revoked: bool
    nvml_up: bool
    nvml_why: str
    gpus_up: int
    gpus: int
    spool_reports: int
    spool_dropped: int
    agent_version: str
    clock_offset_seconds: float
    problems: list[str]


class AlertShape(Shape):
    """One alert."""

    fingerprint: str
    rule: str
    labels: dict[str, str]
    phase: AlertPhase
    since: datetime
    starts_at: datetime | None
    ends_at: datetime | None
    value: float | None
    baseline: float | None
    annotations: dict[str, str]


class JobShape(Shape):
    """One job of the controller."""

    name: str
    last_success: datetime | None
    runs: int
    failures: int
    consecutive_failures: int
    seconds: float
    error: str


class SummaryShape(Shape):
    """Totals since this controller's start, and where the fleet stands."""

    ready: int
    starting: int
    leaving: int
    target: int
    reports: dict[str, int]
    """By fate: stored, duplicate, malformed, unauthorized, too_large, failed, unseen."""
    actions: dict[str, int]
    """By kind, those applied."""
    notices: dict[str, int]
    """By result: delivered, retried, given_up."""
    alerts_firing: int
    cut_requests: int
    """Requests in flight that a drain's deadline cut short."""


class CostShape(Shape):
    """What GPUs cost and what they served; amounts are decimal strings, null is not known."""

    pool: str
    """Empty for a line over several pools."""
    service: str
    state: CostState
    currency: str
    gpu_hours: Decimal
    amount: Decimal | None
    tokens: Decimal | None
    per_million_tokens: Decimal | None
    per_million_generated_tokens: Decimal | None
    partial: bool
    """The tokens are lower bounds."""
    notes: list[str]


class OtherCostShape(Shape):
    """What is of no pool."""

    line: str
    """`empty`, `tax`, `credit`, ... (docs/billing.md)."""
    currency: str
    amount: Decimal


class CostsShape(Shape):
    """The cost of a span of time: each pool, all together, the burst pools alone, what is of no pool."""

    since: datetime
    until: datetime
    pools: list[CostShape]
    total: CostShape
    """Everything."""
    burst: CostShape
    others: list[OtherCostShape] = []


class LeaderShape(Shape):
    """Who leads, and what the controller that answers is: of several, one leads and the others stand by."""

    part: Part
    name: str
    """The leader's; empty while it is not known."""
    epoch: int
    """The number of the leader's term."""
    since: datetime | None


class StatusShape(Shape):
    """Everything that the status page shows."""

    version: str
    now: datetime
    started_at: datetime
    tick_at: datetime | None
    """The tick that this shows; null before the first."""
    unrecorded: str
    """Why the last look at the fleet could not be recorded, and nothing was decided by it; empty for a whole tick."""
    ready: bool
    ready_why: str
    epoch: int
    leader: LeaderShape
    mode: Mode
    currency: str
    summary: SummaryShape
    pools: list[PoolShape]
    replicas: list[ReplicaShape]
    hosts: list[HostShape]
    decisions: list[DecisionShape]
    """The last ones that changed something, newest first."""
    alerts: list[AlertShape]
    cost: CostsShape | None
    """Over the trailing hour; null before it was first worked out."""
    billed: CostsShape | None = None
    """Of the last days that a bill speaks of, a week at most."""
    jobs: list[JobShape]
    notes: list[str]
    config_loaded_at: datetime | None
    config_reload_ok: bool


class EndpointGroup(Shape):
    """One element of Prometheus' http_sd format."""

    targets: list[str]
    labels: dict[str, str]


class HostAction(StrEnum):
    """What to do about a host."""

    ENROLL = "enroll"
    ROTATE = "rotate"
    REVOKE = "revoke"


class HostCommand(BaseModel):
    """Enroll a host, give it another token, or refuse it from now on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: HostAction
    name: Name


class EnrolledShape(Shape):
    """A host that may report, or may no more."""

    name: str
    last_seen: datetime | None
    revoked: bool


class TokenShape(Shape):
    """A token, shown this once; only its hash is kept."""

    name: str
    token: str
    """Empty when the command makes none."""
    done: str


class Role(StrEnum):
    """What a user may do: look, or command."""

    VIEWER = "viewer"
    OPERATOR = "operator"


class UserCommand(BaseModel):
    """Add a user, or give him another token and role."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]*$")]
    role: Role
