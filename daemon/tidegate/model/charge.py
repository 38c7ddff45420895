"""A line of a bill, whatever provider wrote it, and the snapshot that it belongs to.

Two ledgers, never mixed: *billed* (cash, ties to the invoice) and *effective* (accrued: commitments spread over what
they cover; what a million tokens cost uses it). Two time axes, never mixed: the *billing period* says which invoice,
the *charge period* when the cost arose. Names follow FOCUS (the FinOps Open Cost and Usage Specification).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

NO_CURRENCY = "XXX"
"""ISO 4217's code for "no currency": the bill names none. It is a currency of its own: added to no other."""
NO_ACCOUNT = "unknown"
"""The account of files that name none, unless the operator does."""


def account_name(account: str) -> str:
    """What tells accounts apart: exports of one account write its path before it or not, in either case."""
    return account.rstrip("/").rpartition("/")[2].casefold()


class Ledger(StrEnum):
    """Which of the two sums."""

    BILLED = "billed"
    EFFECTIVE = "effective"


class ChargeCategory(StrEnum):
    """What kind of charge; each may be negative."""

    USAGE = "usage"
    PURCHASE = "purchase"
    TAX = "tax"
    CREDIT = "credit"
    ADJUSTMENT = "adjustment"


class ServiceClass(StrEnum):
    """What was bought, as far as allocation cares. Power, space and depreciation of own hosts are compute."""

    COMPUTE = "compute"
    NETWORK = "network"
    STORAGE = "storage"
    OTHER = "other"


class CommitmentStatus(StrEnum):
    """Whether a commitment's hour found something to cover."""

    NONE = ""
    USED = "used"
    UNUSED = "unused"


@dataclass(frozen=True, slots=True)
class Charge:
    """One accepted row. Times are UTC and half-open; an empty text means that the bill does not say."""

    provider: str
    """Lower case: `aws`, `azure`, `gcp`, `oci`, `alibaba`, `coreweave`, ..., `own`."""
    account: str
    """Who pays: payer, billing account, enrolment."""
    billing_start: datetime
    billing_end: datetime
    start: datetime
    """Charge period. A one-off fee has a length of zero; a subscription spans what it pays for."""
    end: datetime
    currency: str
    billed: Decimal | None
    """None: this source has no such ledger (an amortised export), or the cell is empty. Never zero for unknown."""
    effective: Decimal | None
    category: ChargeCategory = ChargeCategory.USAGE
    correction: bool = False
    """Corrects a period that is invoiced already: `billing_start` is then later than `start`."""
    service: ServiceClass = ServiceClass.OTHER
    service_name: str = ""
    resource_id: str = ""
    """As the bill writes it; whoever compares folds case and prefixes."""
    resource_name: str = ""
    resource_type: str = ""
    sku: str = ""
    """What was bought, most telling first: instance type, meter or SKU."""
    region: str = ""
    zone: str = ""
    sub_account: str = ""
    """Who used it: linked account, subscription, project."""
    list_cost: Decimal | None = None
    """At list price; for savings and calibration, never for allocation."""
    pricing_quantity: Decimal | None = None
    pricing_unit: str = ""
    consumed_quantity: Decimal | None = None
    consumed_unit: str = ""
    pricing_category: str = ""
    """Lower case: `standard`, `committed`, `dynamic` (spot), `other`, or empty."""
    frequency: str = ""
    """Lower case: `one-time`, `recurring`, `usage-based`, or empty."""
    commitment_id: str = ""
    commitment_status: CommitmentStatus = CommitmentStatus.NONE
    tags: Mapping[str, str] = field(default_factory=dict)
    """Provider prefixes (`user:`, `aws:`) are kept; a tag without a value is `true`."""
    hosts: tuple[str, ...] = ()
    """Hosts that the bill itself names (our own format only)."""
    description: str = ""
    invoice_id: str = ""
    file: str = ""
    """The file's name, without folders."""
    row: int = 0
    """The line's number among the records of the file, the first after the header being 1."""

    def amount(self, ledger: Ledger) -> Decimal | None:
        """What the row says in one ledger."""
        return self.billed if ledger is Ledger.BILLED else self.effective


@dataclass(frozen=True, slots=True)
class Priced(Charge):
    """A charge of a bill without amounts: quantity times a contract's price, so another price makes another charge."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One row that could not be taken, with why and how much money it speaks of."""

    file: str
    row: int
    reason: str
    amount: Decimal | None
    """The billed amount where it can be read (else the effective one); None: not even that."""
    currency: str
    text: str
    """The row as read, cut short."""
    account: str = ""
    billing_start: datetime | None = None
    """Where these can be read: which snapshot cannot become final."""


@dataclass(frozen=True, slots=True, order=True)
class SnapshotKey:
    """What an import replaces as a whole: there is no stable key of a row in any provider's bills."""

    source: str
    """The format: `focus`, `aws-cur`, `azure-actual`, `azure-amortized`, `gcp`, `alibaba`, ..., `own`."""
    account: str
    start: datetime
    """The billing period, UTC, half-open."""
    end: datetime
    shard: str = ""
    """Set by the operator where one period comes in independent pieces."""
