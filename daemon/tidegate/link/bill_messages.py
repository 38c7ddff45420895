"""What is said about bills, over /v1 and by `--json`: amounts are texts, so that no cent is lost; null is not known."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer

from tidegate.model.bill import AsideSum, BillRead, Declared, FileRead, LedgerSum, SnapshotSums, TieOut
from tidegate.model.charge import Quarantined

Amount = Annotated[Decimal, PlainSerializer(lambda amount: format(amount, "f"), return_type=str)]


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True)


class SumShape(_Shape):
    """The sums of one currency in both ledgers."""

    billed: Amount | None
    effective: Amount | None


class PartShape(_Shape):
    """The sums of one category and service class."""

    currency: str
    category: str
    service: str
    billed: Amount | None
    effective: Amount | None


class AsideShape(_Shape):
    """Quarantined rows: how many, of how much money they speak, and how many amounts cannot even be read."""

    rows: int
    amounts: dict[str, Amount]
    unread: int


class QuarantinedShape(_Shape):
    """One quarantined row."""

    file: str
    row: int
    reason: str
    amount: Amount | None
    currency: str
    text: str


class FileShape(_Shape):
    """One file as it was read."""

    name: str
    format: str
    rows: int
    accepted: int
    quarantined: int
    totals_rows: int
    truncated: bool


class DeclaredShape(_Shape):
    """What a bill says about itself beside its charges."""

    account: str
    billing_period_start: datetime | None
    billing_period_end: datetime | None
    closed: bool
    says: str
    invoice_id: str
    total: Amount | None
    currency: str


class SnapshotShape(_Shape):
    """One snapshot: what an import replaces as a whole."""

    source: str
    account: str
    billing_period_start: datetime
    billing_period_end: datetime
    shard: str
    rows: int
    corrections: int
    totals: dict[str, SumShape]
    parts: list[PartShape]
    quarantined: AsideShape
    invoices: dict[str, Amount]
    evidence: str
    effective_usable: bool
    charges_from: datetime | None
    charges_until: datetime | None
    providers: list[str]
    outcome: str = ""
    """What the import did with it: `new`, `replaced`, `unchanged`; empty in a dry run."""
    version: int | None = None
    difference: dict[str, SumShape] = {}
    """Against the version before."""
    warnings: list[str]


class RowsShape(_Shape):
    """Every row is one of these."""

    read: int
    accepted: int
    quarantined: int
    totals_rows: int


class TieShape(_Shape):
    """The total that was expected, and what all rows together bill."""

    currency: str
    expected: Amount
    found: Amount
    difference: Amount
    """Found less expected."""
    quarantined: Amount
    """What quarantined rows of the currency speak of; in none of the sums."""


class BillShape(_Shape):
    """Everything that an import found (and did)."""

    dry_run: bool
    files: list[FileShape]
    rows: RowsShape
    totals: dict[str, SumShape]
    quarantined: AsideShape
    snapshots: list[SnapshotShape]
    quarantine: list[QuarantinedShape]
    """The first 200."""
    declared: list[DeclaredShape]
    warnings: list[str]
    tie: TieShape | None = None
    """Null: no total was expected."""


def _tied(tie: TieOut) -> TieShape:
    return TieShape(
        currency=tie.currency,
        expected=tie.expected,
        found=tie.found,
        difference=tie.difference,
        quarantined=tie.aside,
    )


def bill_shape(read: BillRead, *, dry_run: bool) -> BillShape:
    """A read as it is shown."""
    return BillShape(
        dry_run=dry_run,
        files=[_file(each) for each in read.files],
        rows=RowsShape(
            read=read.rows,
            accepted=read.accepted,
            quarantined=read.aside.rows,
            totals_rows=sum(each.totals_rows for each in read.files),
        ),
        totals=_sums(read.totals),
        quarantined=_aside(read.aside),
        snapshots=[snapshot_shape(each) for each in read.snapshots],
        quarantine=[quarantined_shape(each) for each in read.quarantine],
        declared=[_declared(each) for each in read.declared],
        warnings=list(read.warnings),
        tie=_tied(read.tie) if read.tie else None,
    )


def snapshot_shape(sums: SnapshotSums) -> SnapshotShape:
    """A snapshot as it is shown."""
    return SnapshotShape(
        source=sums.key.source,
        account=sums.key.account,
        billing_period_start=sums.key.start,
        billing_period_end=sums.key.end,
        shard=sums.key.shard,
        rows=sums.rows,
        corrections=sums.corrections,
        totals=_sums(sums.totals),
        parts=[
            PartShape(
                currency=part.sum.currency,
                category=part.category,
                service=part.service,
                billed=part.sum.billed,
                effective=part.sum.effective,
            )
            for part in sums.parts
        ],
        quarantined=_aside(sums.aside),
        invoices=dict(sums.invoices),
        evidence=sums.evidence,
        effective_usable=sums.effective_usable,
        charges_from=sums.first,
        charges_until=sums.last,
        providers=list(sums.providers),
        warnings=list(sums.warnings),
    )


def _sums(sums: tuple[LedgerSum, ...]) -> dict[str, SumShape]:
    return {each.currency: SumShape(billed=each.billed, effective=each.effective) for each in sums}


def sums_shape(sums: Mapping[str, LedgerSum]) -> dict[str, SumShape]:
    """Sums by currency."""
    return _sums(tuple(sums.values()))


def _aside(aside: AsideSum) -> AsideShape:
    return AsideShape(rows=aside.rows, amounts=dict(aside.amounts), unread=aside.unread)


def _file(read: FileRead) -> FileShape:
    return FileShape(
        name=read.name,
        format=read.format,
        rows=read.rows,
        accepted=read.accepted,
        quarantined=read.quarantined,
        totals_rows=read.totals_rows,
        truncated=read.truncated,
    )


def quarantined_shape(row: Quarantined) -> QuarantinedShape:
    """A quarantined row as it is shown."""
    return QuarantinedShape(
        file=row.file, row=row.row, reason=row.reason, amount=row.amount, currency=row.currency, text=row.text[:500]
    )


def _declared(found: Declared) -> DeclaredShape:
    return DeclaredShape(
        account=found.account,
        billing_period_start=found.start,
        billing_period_end=found.end,
        closed=found.closed,
        says=found.says,
        invoice_id=found.invoice_id,
        total=found.total,
        currency=found.currency,
    )
