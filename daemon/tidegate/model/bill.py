"""What a read of bill files found: sums by snapshot, file and currency, and what a person should know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from tidegate.model.charge import Ledger, Quarantined, SnapshotKey


@dataclass(frozen=True, slots=True)
class LedgerSum:
    """An exact sum in one currency; None for a ledger that no row has."""

    currency: str
    billed: Decimal | None
    effective: Decimal | None


@dataclass(frozen=True, slots=True)
class PartSum:
    """The sum of one category and service class: what a difference between two versions is told by."""

    category: str
    service: str
    sum: LedgerSum


@dataclass(frozen=True, slots=True)
class AsideSum:
    """Quarantined rows together."""

    rows: int = 0
    amounts: Mapping[str, Decimal] = field(default_factory=dict)
    """By currency."""
    unread: int = 0
    """Rows whose amount cannot even be read."""


@dataclass(frozen=True, slots=True)
class SnapshotSums:
    """One snapshot of one import."""

    key: SnapshotKey
    rows: int
    corrections: int
    totals: tuple[LedgerSum, ...]
    parts: tuple[PartSum, ...]
    aside: AsideSum
    invoices: Mapping[str, Decimal]
    """The billed sum by invoice."""
    evidence: str
    """What in the rows says that the period is invoiced; empty while it is open."""
    effective_usable: bool
    first: datetime | None
    last: datetime | None
    """When the first charge starts and the last one ends."""
    providers: tuple[str, ...]
    sub_accounts: tuple[str, ...]
    fingerprint: int
    """Of the rows' text whatever their order; 128 bits."""
    warnings: tuple[str, ...] = ()
    priced: int = 0
    """Rows whose amounts are quantity times contract price."""

    @property
    def ledgers(self) -> frozenset[Ledger]:
        """Which ledgers it fills."""
        billed = any(each.billed is not None for each in self.totals)
        effective = any(each.effective is not None for each in self.totals)
        return frozenset(ledger for ledger, filled in zip(Ledger, (billed, effective), strict=True) if filled)


@dataclass(frozen=True, slots=True)
class FileRead:
    """One file."""

    name: str
    format: str
    rows: int
    accepted: int
    quarantined: int
    totals_rows: int
    """Rows that only add up others."""
    truncated: bool
    promised: int | None = None
    """How many rows its manifest says that it has."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a bill says about itself beside its charges."""

    account: str
    start: datetime | None
    end: datetime | None
    closed: bool
    says: str
    invoice_id: str = ""
    total: Decimal | None = None
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """What somebody says that all rows of an import together should bill."""

    amount: Decimal
    currency: str = ""
    """Empty: that of the bill, if it has but one."""


@dataclass(frozen=True, slots=True)
class TieOut:
    """What was expected, beside what was found."""

    expected: Decimal
    currency: str
    found: Decimal
    difference: Decimal
    """Found less expected."""
    aside: Decimal
    """What quarantined rows of the currency speak of; in none of the sums."""

    def __str__(self) -> str:
        held = f"; quarantined rows speak of {self.aside:f}" if self.aside else ""
        if not self.difference:
            return f"expected {self.currency} {self.expected:f}, and so it is{held}"
        return (
            f"expected {self.currency} {self.expected:f}, the rows add up to {self.found:f}: {self.difference:+f}{held}"
        )


@dataclass(frozen=True, slots=True)
class BillRead:
    """Everything that one import found."""

    files: tuple[FileRead, ...]
    snapshots: tuple[SnapshotSums, ...]
    totals: tuple[LedgerSum, ...]
    aside: AsideSum
    quarantine: tuple[Quarantined, ...]
    """The first of them, for a person to look at."""
    declared: tuple[Declared, ...]
    warnings: tuple[str, ...]
    unplaced: int = 0
    """Quarantined rows that speak of none of the snapshots: the largest counts them, and none closes by itself."""
    overlapping: tuple[str, ...] = ()
    """Which of its files hold the same rows, in words."""
    tie: TieOut | None = None
    """None: nobody said what to expect."""

    @property
    def rows(self) -> int:
        """Every row of every file."""
        return sum(file.rows for file in self.files)

    @property
    def accepted(self) -> int:
        """Rows that are charges or evidence."""
        return sum(file.accepted for file in self.files)


@dataclass(frozen=True, slots=True)
class SnapshotVersion:
    """One imported state of a snapshot."""

    id: int
    number: int
    """1, 2, ... within the snapshot."""
    active: bool
    """One of a snapshot's versions is; it alone counts."""
    closed: bool
    """The snapshot is closed: by evidence in the bill, or by a person with a reason."""
    closed_evidence: str
    """What closed it; empty while open."""
    imported_at: datetime
    imported_by: str
    charges_kept: bool
    """False: an old version of which only the sums remain."""
    content: str
    files: tuple[str, ...]
    sums: SnapshotSums

    @property
    def key(self) -> SnapshotKey:
        """Which snapshot."""
        return self.sums.key

    @property
    def effective_usable(self) -> bool:
        """False: the effective ledger is absent or implausible, so the billed one stands in for it, which is said."""
        return self.sums.effective_usable


@dataclass(frozen=True, slots=True)
class Mover:
    """What changed of one resource and SKU between two versions."""

    resource_id: str
    sku: str
    sum: LedgerSum


@dataclass(frozen=True, slots=True)
class BillPart:
    """One file of rows of an import, where the reader finds it."""

    path: str
    name: str
    entry: str = ""
    """Its name in the zip at `path`, empty outside of one."""
    hints: tuple[str, ...] = ()
    rows: int | None = None
    """How many a manifest promises."""


@dataclass(frozen=True, slots=True)
class ImportOrder:
    """What to import, and what its sender says of it."""

    content: str
    """The hash of the files and of what is said of them."""
    parts: tuple[BillPart, ...]
    source: str = "auto"
    account: str = ""
    currency: str = ""
    shard: str = ""
    force: bool = False
    left_out: tuple[str, ...] = ()
    expected: Expected | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of one snapshot."""

    sums: SnapshotSums
    outcome: str
    """`new`, `replaced`, `unchanged`."""
    version: int | None
    """Its number; None where nothing changed."""
    difference: Mapping[str, LedgerSum]
    evidence: str


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What became of an import."""

    read: BillRead
    snapshots: tuple[Imported, ...]
    warnings: tuple[str, ...] = ()


def added(sums: Sequence[LedgerSum]) -> tuple[LedgerSum, ...]:
    """Sums by currency, under the caller's decimal context."""
    found: dict[str, LedgerSum] = {}
    for each in sums:
        before = found.get(each.currency, LedgerSum(each.currency, None, None))
        found[each.currency] = LedgerSum(
            each.currency, _plus(before.billed, each.billed), _plus(before.effective, each.effective)
        )
    return tuple(found[currency] for currency in sorted(found))


def _plus(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    if one is None or other is None:
        return one if other is None else other
    return one + other
