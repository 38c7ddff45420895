"""What the rows of an import add up to: by snapshot, exactly; and what the sums say about the bill itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeVar

from tidegate.bills.cells import EXACT
from tidegate.model.bill import AsideSum, LedgerSum, PartSum, SnapshotSums
from tidegate.model.charge import (
    NO_ACCOUNT,
    NO_CURRENCY,
    Charge,
    ChargeCategory,
    Priced,
    Quarantined,
    ServiceClass,
    SnapshotKey,
)

_ZERO = Decimal(0)
_UNUSABLE = Decimal("0.05")
"""Of what usage rows bill, the share without any effective cost beyond which the ledger is not believed."""
_INVOICES = 1000
_AN_INSTANT = timedelta(microseconds=1)
"""A charge without a length touches the moment at which it stands: what ends there does not."""
_MASK = (1 << 128) - 1
K = TypeVar("K")


class Sum:
    """An exact sum in both ledgers; a ledger that no row has is not zero but absent."""

    __slots__ = ("billed", "effective", "has_billed", "has_effective")

    def __init__(self) -> None:
        self.billed = self.effective = _ZERO
        self.has_billed = self.has_effective = False

    def add(self, billed: Decimal | None, effective: Decimal | None) -> None:
        """Add a row."""
        if billed is not None:
            self.billed, self.has_billed = EXACT.add(self.billed, billed), True
        if effective is not None:
            self.effective, self.has_effective = EXACT.add(self.effective, effective), True

    def merge(self, other: Sum) -> None:
        """Add another sum."""
        self.add(other.billed if other.has_billed else None, other.effective if other.has_effective else None)

    def of(self, currency: str) -> LedgerSum:
        """The sums, None for a ledger that no row has."""
        return LedgerSum(
            currency, self.billed if self.has_billed else None, self.effective if self.has_effective else None
        )


@dataclass(slots=True)
class Aside:
    """Quarantined rows: how many, and of how much money they speak."""

    rows: int = 0
    amounts: dict[str, Decimal] = field(default_factory=dict)
    unread: int = 0
    """Rows whose amount cannot even be read."""

    def add(self, row: Quarantined) -> None:
        """Count one."""
        self.rows += 1
        if row.amount is None:
            self.unread += 1
        else:
            self.amounts[row.currency] = EXACT.add(self.amounts.get(row.currency, _ZERO), row.amount)

    def merge(self, other: Aside) -> None:
        """Count all of another."""
        self.rows, self.unread = self.rows + other.rows, self.unread + other.unread
        for currency, amount in other.amounts.items():
            self.amounts[currency] = EXACT.add(self.amounts.get(currency, _ZERO), amount)

    def sum(self) -> AsideSum:
        """As a value."""
        return AsideSum(self.rows, dict(sorted(self.amounts.items())), self.unread)


@dataclass(slots=True)
class Tally:
    """One snapshot, while its rows come by."""

    key: SnapshotKey
    rows: int = 0
    corrections: int = 0
    priced: int = 0
    """Rows without an amount of their own."""
    by_part: dict[tuple[str, ChargeCategory, ServiceClass], Sum] = field(default_factory=dict)
    """By currency, category and service: what a difference between versions is told by."""
    invoices: dict[str, Decimal] = field(default_factory=dict)
    """The billed sum by invoice."""
    uninvoiced: int = 0
    """Rows with an amount that no invoice is named for."""
    first: datetime | None = None
    last: datetime | None = None
    providers: set[str] = field(default_factory=set)
    sub_accounts: set[str] = field(default_factory=set)
    fingerprint: int = 0
    """Of the rows' text, whatever their order: equal rows in another file are no news."""
    aside: Aside = field(default_factory=Aside)
    _billed_usage: Decimal = _ZERO
    _orphaned: Decimal = _ZERO

    def add(self, charge: Charge, digest: int) -> None:
        """Count an accepted row."""
        self.rows += 1
        self.fingerprint = (self.fingerprint + digest) & _MASK
        billed, effective = charge.billed, charge.effective
        part = (charge.currency, charge.category, charge.service)
        _sum(self.by_part, part).add(billed, effective)
        self._cover(charge)
        if charge.correction:
            self.corrections += 1
        if isinstance(charge, Priced):
            self.priced += 1
        if billed:
            self._invoice(charge.invoice_id, billed)
            if effective is not None and charge.category is ChargeCategory.USAGE:
                self._doubt(billed, effective, covered=bool(charge.commitment_id))

    def _cover(self, charge: Charge) -> None:
        if self.first is None or charge.start < self.first:
            self.first = charge.start
        end = charge.end if charge.end > charge.start else charge.start + _AN_INSTANT
        if self.last is None or end > self.last:
            self.last = end
        self.providers.add(charge.provider)
        if len(self.sub_accounts) < _INVOICES:
            self.sub_accounts.add(charge.sub_account)

    def _invoice(self, invoice: str, billed: Decimal) -> None:
        if not invoice:
            self.uninvoiced += 1
        elif invoice in self.invoices or len(self.invoices) < _INVOICES:
            self.invoices[invoice] = EXACT.add(self.invoices.get(invoice, _ZERO), billed)

    def _doubt(self, billed: Decimal, effective: Decimal, *, covered: bool) -> None:
        """A usage row that is billed and no commitment covers has an effective cost; one without is orphaned."""
        size = billed.copy_abs()
        self._billed_usage = EXACT.add(self._billed_usage, size)
        if not effective and not covered:
            self._orphaned = EXACT.add(self._orphaned, size)

    @property
    def by_currency(self) -> dict[str, Sum]:
        """The sums of the parts by currency."""
        found: dict[str, Sum] = {}
        for (currency, _, _), part in self.by_part.items():
            _sum(found, currency).merge(part)
        return found

    @property
    def effective_usable(self) -> bool:
        """Whether the effective ledger is there and can be believed."""
        if not any(each.has_effective for each in self.by_currency.values()):
            return False
        return self._orphaned <= EXACT.multiply(self._billed_usage, _UNUSABLE)

    @property
    def evidence(self) -> str:
        """What in the rows says that the period is invoiced; empty while any amount has no invoice."""
        if not self.invoices or self.uninvoiced or self.aside.rows:
            return ""
        shown = sorted(self.invoices)
        return f"invoice {', '.join(shown[:3])}" + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")

    def sums(self) -> SnapshotSums:
        """Everything, as a value."""
        parts = (
            PartSum(category.value, service.value, each.of(currency))
            for (currency, category, service), each in self.by_part.items()
        )
        return SnapshotSums(
            key=self.key,
            rows=self.rows,
            corrections=self.corrections,
            totals=tuple(each.of(currency) for currency, each in sorted(self.by_currency.items())),
            parts=tuple(sorted(parts, key=lambda part: (part.sum.currency, part.category, part.service))),
            aside=self.aside.sum(),
            invoices=dict(sorted(self.invoices.items())),
            evidence=self.evidence,
            effective_usable=self.effective_usable,
            first=self.first,
            last=self.last,
            providers=tuple(sorted(self.providers)),
            sub_accounts=tuple(sorted(self.sub_accounts)),
            fingerprint=self.fingerprint,
            warnings=tuple(self.warnings()),
            priced=self.priced,
        )

    def warnings(self) -> Sequence[str]:
        """What a person should know before believing the sums."""
        found: list[str] = []
        if len(self.by_currency) > 1:
            found.append(f"{' and '.join(sorted(self.by_currency))} in one snapshot: shown apart, never added")
        if self.key.account == NO_ACCOUNT:
            found.append(
                "the bill names no account, so that another export of it is not known as such: --account says it"
            )
        if NO_CURRENCY in self.by_currency:
            found.append("the bill names no currency: --currency says it")
        if not self.effective_usable and any(each.has_effective for each in self.by_currency.values()):
            found.append(
                f"EffectiveCost is unusable: usage rows that bill {self._orphaned:f} of {self._billed_usage:f} have "
                "an effective cost of 0 and no commitment; the billed ledger stands in for it"
            )
        if self.priced:
            found.append(f"{self.priced} rows have no amount: quantity x contract price (`tidegate price list`)")
        if self.aside.rows:
            unread = f", {self.aside.unread} of them with an amount that cannot be read" if self.aside.unread else ""
            found.append(f"{self.aside.rows} rows are quarantined{unread}: the period cannot be final")
        return found


def _sum(sums: dict[K, Sum], key: K) -> Sum:
    found = sums.get(key)
    if found is None:
        found = sums[key] = Sum()
    return found
