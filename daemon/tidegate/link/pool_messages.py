"""What people ask and command of pools under /v1: explanations, pauses, bounds, the mode, other programs' wishes."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tidegate.link.messages import FiguresShape, PoolShape, Shape
from tidegate.model.command import CommandKind
from tidegate.model.fleet import FailureClass
from tidegate.model.policy import Mode, PolicyName
from tidegate.model.price import PriceSource

LONGEST_SECONDS = 366 * 86_400
MOST_REPLICAS = 10_000

Seconds = Annotated[float, Field(gt=0, le=LONGEST_SECONDS, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=MOST_REPLICAS)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PauseCommand(_Message):
    """Keep a pool from growing, from shrinking, or from both; until it is resumed, or for a time."""

    growing: bool = True
    shrinking: bool = True
    for_seconds: Seconds | None = None


class BoundsCommand(_Message):
    """Other bounds of a pool for a time; they win over the configured ones."""

    min: Count | None = None
    max: Count | None = None
    for_seconds: Seconds


class ModeCommand(_Message):
    """Another mode than the configured one, until it is taken back (null), or for a time."""

    mode: Mode | None
    for_seconds: Seconds | None = None


class WishCommand(_Message):
    """How many replicas another program wants of a service under the policy `external`."""

    replicas: Count
    for_seconds: Seconds | None = None
    """How long it counts; null: `stale_after_seconds` of the service."""


class RecordedShape(FiguresShape):
    """A pool's figures at one tick of the past, as they were stored."""

    at: datetime
    pool: str
    service: str
    ready: int
    starting: int
    leaving: int
    target: int
    gpus: int


class CommandShape(Shape):
    """A command on record."""

    id: int
    kind: CommandKind
    pool: str | None
    """Null: every pool."""
    min: int | None
    max: int | None
    mode: Mode | None
    at: datetime
    by: str
    until: datetime | None
    """Null: until somebody ends it."""
    ended_at: datetime | None
    ended_by: str
    standing: bool


class DoneShape(Shape):
    """What a command did, in words."""

    done: str


class BackOffShape(Shape):
    """A flavour that is left alone."""

    flavour: str
    until: datetime
    failures: int
    kind: FailureClass
    why: str


class PendingShape(Shape):
    """An order whose effect was not seen yet."""

    replica: str
    kind: str
    at: datetime
    until: datetime


class LearnedShape(Shape):
    """What the pool's past has taught; null is not known yet."""

    start_seconds: float | None
    starts: int
    drain_seconds: float | None
    requests_per_second: float | None
    """Of one replica, within the objective."""
    back_offs: list[BackOffShape]
    pending: list[PendingShape]


class FlavourPriceShape(Shape):
    """What decisions take a GPU hour of a flavour to cost; amounts are strings, null is not known."""

    flavour: str
    currency: str
    per_gpu_hour: Decimal | None
    configured: Decimal | None
    source: PriceSource
    billed: Decimal | None
    """What bills say; decisions go by no less than a fifth and no more than five times the configured price."""
    bounded: bool
    days: int
    """With a bill, that it rests on."""
    last: date | None


class ExplanationShape(Shape):
    """Why a pool has the size that it has."""

    pool: PoolShape
    policy: PolicyName
    mode: Mode
    tick_at: datetime | None
    commands: list[CommandShape]
    """Operators' commands in force that concern it."""
    learned: LearnedShape
    prices: list[FlavourPriceShape]
