"""What a bill's money went to: lines, where each of them belongs, and how far a day's figures can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from tidegate.model.charge import Ledger
from tidegate.model.money import CostState


class LineKind(StrEnum):
    """What an amount was spent on. Every amount of a bill is in exactly one line."""

    BUSY = "busy"
    """GPU time in which a model worked."""
    RESIDENT = "resident_idle"
    """GPU time that a model held and did not use."""
    EMPTY = "empty"
    """GPU time of a host that nothing held."""
    UNOBSERVED = "unobserved"
    """GPU time of a host of ours of which nothing was reported."""
    SHARED = "shared"
    """Network, storage and shared services, spread by a stated key."""
    COMMITMENT = "commitment"
    """Commitments that covered nothing, and their purchases: of the base."""
    UNATTRIBUTED_HOST = "unattributed_host"
    """A machine that none of our hosts is known to be."""
    UNATTRIBUTED_CHARGE = "unattributed_charge"
    """What names no machine and follows no key."""
    TAX = "tax"
    CREDIT = "credit"
    ROUNDING = "rounding"
    OVER_ALLOCATION = "over_allocation"
    """GPU time held beyond what the host has: a negative time, no amount; shares are scaled to what was paid."""


OF_MODELS = frozenset({LineKind.BUSY, LineKind.RESIDENT, LineKind.SHARED})
"""Kinds that a model may own."""
IDLE = frozenset({LineKind.EMPTY, LineKind.UNOBSERVED, LineKind.COMMITMENT})
"""Kinds that an idle policy may give to models."""


class Place(NamedTuple):
    """Where an amount belongs. An empty text is "does not apply" or "not known"."""

    day: date
    """UTC, of the charge period."""
    kind: LineKind
    estimated: bool
    """True: from prices, since no bill speaks of it yet."""
    currency: str
    """Empty on lines that carry GPU time alone."""
    billing: date | None
    """The start of the billing period that the amount is invoiced in; None for estimates and time."""
    account: str = ""
    host: str = ""
    pool: str = ""
    service: str = ""
    model: str = ""
    side: str = ""
    """`base` or `burst`."""
    charge: str = ""
    """compute, network, storage, other."""
    category: str = ""
    """usage, purchase, tax, credit, adjustment."""
    resource: str = ""
    """As the bill writes it, where no host of ours is meant."""
    method: str = ""
    """How it came here: `resource`, `name`, `tag`, `map`, `bytes`, `tokens`, `gpu_time`, `price`, ..."""
    traffic: str = ""
    """The traffic class."""
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """What was spent at one place. None is "this ledger has no such figure", never zero."""

    place: Place
    billed: Decimal | None
    effective: Decimal | None
    gpu_seconds: Decimal = Decimal(0)

    def amount(self, ledger: Ledger) -> Decimal | None:
        """What one ledger says."""
        return self.billed if ledger is Ledger.BILLED else self.effective


@dataclass(frozen=True, slots=True)
class DayStatus:
    """How far one UTC day is known."""

    day: date
    state: CostState
    versions: tuple[int, ...] = ()
    """The active bill versions that touch it."""
    coverage: Decimal | None = None
    """The share of the held GPU time that a bill speaks of; None: nothing was held."""
    observed: Decimal | None = None
    """The share of hosts' time of which anything was reported."""
    unbilled: tuple[str, ...] = ()
    """Hosts that held GPUs and stand in no bill of a closed period: they cost 0 in it."""
    notes: tuple[str, ...] = ()


class IdlePolicy(StrEnum):
    """Who pays for GPUs that nothing held."""

    SEPARATE = "separate"
    TO_RESIDENT = "to_resident"
    """Those who held GPUs of the same host that day, by time held."""
    PROPORTIONAL = "proportional"
    """Everybody, by busy cost."""
    TO_POOL_OWNER = "to_pool_owner"
    """The pool that lists the host first."""


class Apart(StrEnum):
    """Whether charges of a kind stay on a line of their own."""

    SEPARATE = "separate"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class CostPolicy:
    """How charges become lines: `[cost]`."""

    idle: IdlePolicy = IdlePolicy.SEPARATE
    network: Apart = Apart.SPREAD
    storage: Apart = Apart.SPREAD
    credits: Apart = Apart.SEPARATE
    """Of whole accounts; a credit that names a machine is that machine's."""
    tax: Apart = Apart.SEPARATE
    shared: tuple[str, ...] = ("support",)
    """Words in a service's name or SKU that make it a shared service, spread by GPU time."""
    output_ratio: Decimal | None = None
    """What an output token costs in computed input tokens; None: only what is measured."""
    cached_ratio: Decimal = Decimal(0)
    """What a cached input token costs in computed ones."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Resource of a bill, case folded -> our host."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What a host's bill came to on a day, beside what prices alone would have said: kappa is learned from it."""

    day: date
    provider: str
    sku: str
    region: str
    pricing: str
    currency: str
    host: str
    gpu_hours: Decimal
    effective: Decimal
    listed: Decimal | None
    """Price x GPU hours; None without a price."""


@dataclass(frozen=True, slots=True)
class Kappa:
    """By how much a price is wrong, learned from the bill."""

    factor: Decimal
    days: int
    gpu_hours: Decimal
    last: date
    """The newest day that it was learned from."""


@dataclass(frozen=True, slots=True)
class PoolTokens:
    """What a pool delivered on a day, kept beside its cost: later there may be no telemetry to count again."""

    day: date
    pool: str
    service: str
    model: str
    side: str
    prompt: Decimal
    """Input tokens, cached ones included."""
    cached: Decimal
    output: Decimal
    partial: bool
    """Lower bounds."""
    attainment: Decimal | None = None
    """The share of requests within the objective, at most: the smaller of those within TTFT and within TPOT."""
    prefill_seconds: Decimal | None = None
    decode_seconds: Decimal | None = None
    """What requests spent in each phase, where engines count it."""
    role: str = "mixed"


@dataclass(frozen=True, slots=True)
class TrafficTokens(PoolTokens):
    """What a pool delivered to one traffic class and tenant, in the pool's own proportion of input and output."""

    traffic: str = ""
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Everything about some days."""

    lines: tuple[Line, ...]
    """By place; the sum of all is the sum of the charges, exactly."""
    reconciled: tuple[Reconciled, ...] = ()
    tokens: tuple[PoolTokens, ...] = ()
    unpriced: Mapping[str, Decimal] = field(default_factory=dict)
    """GPU hours by pool: held, in no bill, and without a price."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredDay:
    """A day as it is kept."""

    status: DayStatus
    signature: str
    """Of everything that it was made from."""
    computed_at: datetime
