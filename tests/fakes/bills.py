"""Bills for tests: write a small file, read it, ask what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from tidegate.bills.parts import gather
from tidegate.bills.reading import Reading
from tidegate.bills.wishes import Wishes
from tidegate.model.bill import BillRead, LedgerSum
from tidegate.model.charge import Charge, Quarantined

FOCUS = (
    "BillingAccountId,BillingCurrency,BillingPeriodStart,BillingPeriodEnd,ChargePeriodStart,ChargePeriodEnd,"
    "ChargeCategory,ChargeClass,BilledCost,EffectiveCost,ResourceId,ServiceCategory,InvoiceId,ProviderName,Tags"
)
"""A header of FOCUS 1.2, as far as most tests need it."""


@dataclass(frozen=True)
class Found:
    """What reading some files gave."""

    read: BillRead
    charges: tuple[Charge, ...]
    quarantined: tuple[Quarantined, ...]

    @property
    def charge(self) -> Charge:
        """The only one."""
        (found,) = self.charges
        return found

    @property
    def total(self) -> LedgerSum:
        """The sums of the only currency."""
        (found,) = self.read.totals
        return found

    @property
    def billed(self) -> Decimal | None:
        """The billed sum of the only currency."""
        return self.total.billed


def read_files(paths: Sequence[Path], wishes: Wishes | None = None) -> Found:
    """Read files as one import."""
    reading = Reading(gather(list(paths)), wishes or Wishes())
    items = list(reading.items())
    charges = tuple(each[1] for each in items if isinstance(each, tuple))
    return Found(reading.result(), charges, tuple(each for each in items if isinstance(each, Quarantined)))


def read_bytes(folder: Path, data: bytes, name: str = "bill.csv", wishes: Wishes | None = None) -> Found:
    """Read one file with these bytes."""
    path = folder / name
    path.write_bytes(data)
    return read_files([path], wishes)


def read_text(folder: Path, text: str, name: str = "bill.csv", wishes: Wishes | None = None) -> Found:
    """Read one file with this text."""
    return read_bytes(folder, text.encode(), name, wishes)


def focus_row(
    billed: str = "1",
    effective: str | None = None,
    *,
    account: str = "A",
    month: int = 5,
    day: int = 1,
    category: str = "Usage",
    resource: str = "i-1",
    currency: str = "USD",
    invoice: str = "",
    correction: str = "",
    charged_month: int | None = None,
    tags: str = "",
) -> str:
    """One row under `FOCUS`, of 2026."""
    charged = charged_month or month
    start, end = f"2026-{month:02}-01T00:00:00Z", f"2026-{month + 1:02}-01T00:00:00Z"
    used, until = f"2026-{charged:02}-{day:02}T00:00:00Z", f"2026-{charged:02}-{day:02}T01:00:00Z"
    cells = (
        account, currency, start, end, used, until, category, correction, billed,
        billed if effective is None else effective, resource, "Compute", invoice, "AWS", tags,
    )  # fmt: skip
    return ",".join(cells)


def focus(*rows: str) -> str:
    """A file of rows."""
    return "\n".join((FOCUS, *rows)) + "\n"
