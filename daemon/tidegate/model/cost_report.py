"""Reports of costs: what may be asked, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from tidegate.model.allocation import DayStatus, IdlePolicy, Line, LineKind
from tidegate.model.charge import Ledger
from tidegate.model.money import CostState

_MILLION = 1_000_000


class Basis(StrEnum):
    """What cost is divided by what tokens."""

    ALLOCATION = "allocation"
    BUSY = "busy"
    GOODPUT = "goodput"


class Method(StrEnum):
    """How the cost was divided between input and output, in the order in which they are to be trusted."""

    POOL = "pool"
    """Prefill and decode run on hosts of their own."""
    GPU_TIME = "gpu_time"
    """By measured GPU time of a token of each kind."""
    REQUEST_TIME = "request_time"
    """By the time that requests spent in prefill and in decode; batches overlap, so this is not GPU time."""
    RATIO = "ratio"
    """By a ratio that somebody stated."""
    BLENDED = "blended"
    """Not at all."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """What was delivered."""

    computed: Fraction
    """Input that was worked out."""
    cached: Fraction
    """Input that came from a cache."""
    output: Fraction

    @property
    def delivered(self) -> Fraction:
        """All of it."""
        return self.computed + self.cached + self.output


@dataclass(frozen=True, slots=True)
class UnitPrices:
    """Per million tokens, exact; None: no such token was served, or the method says nothing of it."""

    method: Method
    blended: Fraction | None
    input: Fraction | None
    cached: Fraction | None
    output: Fraction | None

    def conserves(self, cost: Fraction, tokens: Tokens) -> bool:
        """Whether the prices times their tokens are the cost."""
        parts = ((self.input, tokens.computed), (self.cached, tokens.cached), (self.output, tokens.output))
        return sum((price * count for price, count in parts if price is not None), Fraction(0)) == cost * _MILLION


class Dimension(StrEnum):
    """What rows may be told apart by."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    SERVICE = "service"
    MODEL = "model"
    POOL = "pool"
    SIDE = "side"
    HOST = "host"
    KIND = "kind"
    CHARGE = "charge"
    CATEGORY = "category"
    ACCOUNT = "account"
    RESOURCE = "resource"
    BILLING = "billing"
    CLASS = "class"
    TENANT = "tenant"


BY_TRAFFIC = frozenset({Dimension.CLASS, Dimension.TENANT})
WITH_TOKENS = BY_TRAFFIC | {
    Dimension.DAY,
    Dimension.WEEK,
    Dimension.MONTH,
    Dimension.SERVICE,
    Dimension.MODEL,
    Dimension.POOL,
    Dimension.SIDE,
}
"""Tokens are known by these alone: other rows have no cost per token."""


@dataclass(frozen=True, slots=True)
class Ask:
    """How lines are to be put together."""

    by: tuple[Dimension, ...] = (Dimension.POOL,)
    basis: Basis = Basis.ALLOCATION
    ledger: Ledger = Ledger.EFFECTIVE


@dataclass(frozen=True, slots=True)
class Served:
    """Tokens of a row; None is not known."""

    prompt: Decimal
    cached: Decimal
    output: Decimal
    partial: bool
    good: Decimal | None
    """Of the delivered ones those within the objective, at most."""

    @property
    def delivered(self) -> Decimal:
        """Input, cached or not, and output."""
        return self.prompt + self.output


@dataclass(frozen=True, slots=True)
class Row:
    """One row."""

    key: Mapping[Dimension, str]
    currency: str
    """Empty: GPU time or tokens without any amount."""
    state: CostState
    amount: Decimal | None
    """Everything in the row, in the ledger asked for; None: that ledger says nothing of it."""
    estimated: Decimal
    """Of `amount`, what rests on prices."""
    by_kind: Mapping[LineKind, Decimal]
    """What `amount` is made of."""
    gpu_hours: Mapping[LineKind, Decimal]
    """Of every kind, what nobody held too."""
    gpu_hours_held: Decimal
    """By replicas: worked, idle or not seen."""
    served: Served | None
    basis_amount: Decimal | None
    """What the unit cost is taken over."""
    prices: UnitPrices | None
    """Per million tokens."""


@dataclass(frozen=True, slots=True)
class Report:
    """The rows, and all of them together, a currency each."""

    rows: tuple[Row, ...]
    totals: tuple[Row, ...]
    state: CostState
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """What is asked about: a span by charge period, or billing periods that start in it."""

    since: datetime
    until: datetime
    by_billing: bool = False
    idle: IdlePolicy | None = None
    """None: as configured."""


@dataclass(frozen=True, slots=True)
class CostAnswer:
    """A report with the lines that it was made of."""

    report: Report
    lines: tuple[Line, ...]
    days: tuple[DayStatus, ...]
    notes: tuple[str, ...]
