"""What is asked of the book of bills over /v1, and the rest of its answers."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from tidegate.link.bill_messages import Amount, BillShape, SnapshotShape, snapshot_shape
from tidegate.model.bill import BillPart, Expected, ImportOrder, Mover, SnapshotVersion
from tidegate.model.price import Price

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Word = Annotated[str, Field(max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Currency = Annotated[str, Field(pattern=r"^([A-Z]{3})?$")]
_Reason = Annotated[str, Field(min_length=3, max_length=2000, pattern=r"^[^\x00]*$")]


class _Command(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PartCommand(_Command):
    """One file of rows: a file that was sent, or an entry of a zip that was."""

    sha256: Sha256
    name: _Word
    entry: _Word = ""
    hints: Annotated[tuple[_Word, ...], Field(max_length=16)] = ()
    rows: Annotated[int, Field(ge=0, lt=2**63)] | None = None


class ExpectedCommand(_Command):
    """What all rows together should bill; of which currency, where the bill has several."""

    amount: Annotated[Decimal, Field(max_digits=60)]
    currency: _Currency = ""


class ImportCommand(_Command):
    """An import of files; those that the controller has not got are named in the answer and sent first."""

    content: Sha256
    parts: Annotated[tuple[PartCommand, ...], Field(min_length=1, max_length=10_000)]
    source: _Word = "auto"
    account: _Word = ""
    currency: _Currency = ""
    shard: _Word = ""
    force: bool = False
    left_out: Annotated[tuple[_Word, ...], Field(max_length=1000)] = ()
    expected: ExpectedCommand | None = None

    def order(self, folder: str) -> ImportOrder:
        """What it means where the files lie in `folder` under their hashes."""
        parts = tuple(
            BillPart(f"{folder}/{part.sha256}", part.name, part.entry, part.hints, part.rows) for part in self.parts
        )
        expected = Expected(self.expected.amount, self.expected.currency) if self.expected else None
        return ImportOrder(
            self.content, parts, self.source, self.account, self.currency, self.shard, self.force, self.left_out,
            expected,
        )  # fmt: skip


class ImportAnswer(BaseModel):
    """What was imported, or which files are to be sent first."""

    missing: list[str]
    bill: BillShape | None


class ReasonCommand(_Command):
    """Why something is done by hand."""

    reason: _Reason


class VersionShape(BaseModel):
    """One imported state of a snapshot."""

    id: int
    number: int
    active: bool
    closed: bool
    closed_evidence: str
    imported_at: datetime
    imported_by: str
    charges_kept: bool
    files: list[str]
    snapshot: SnapshotShape


class MoverShape(BaseModel):
    """What changed of one resource and SKU."""

    resource_id: str
    sku: str
    currency: str
    billed: Amount | None
    effective: Amount | None


class DiffShape(BaseModel):
    """Two versions of a snapshot, and what changed most; `movers` is null where charges are no longer kept."""

    old: VersionShape | None
    new: VersionShape
    movers: list[MoverShape] | None


class PriceCommand(_Command):
    """What one unit of a SKU costs."""

    provider: _Word = ""
    sku: Annotated[str, Field(min_length=1, max_length=512)]
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    amount: Annotated[Decimal, Field(ge=0, lt=Decimal("1e12"), allow_inf_nan=False)]
    unit: _Word = "hour"
    region: _Word = ""
    gpus: Annotated[int, Field(ge=1, le=10_000)] | None = None
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None


class PricesCommand(_Command):
    """Prices to add, each in the place of the one of the same provider, SKU, region, unit and `since`."""

    prices: Annotated[tuple[PriceCommand, ...], Field(min_length=1, max_length=5000)]


def version_shape(version: SnapshotVersion) -> VersionShape:
    """A version as it is shown."""
    return VersionShape(
        id=version.id,
        number=version.number,
        active=version.active,
        closed=version.closed,
        closed_evidence=version.closed_evidence,
        imported_at=version.imported_at,
        imported_by=version.imported_by,
        charges_kept=version.charges_kept,
        files=list(version.files),
        snapshot=snapshot_shape(version.sums),
    )


def mover_shape(mover: Mover) -> MoverShape:
    """A mover as it is shown."""
    money = mover.sum
    return MoverShape(
        resource_id=mover.resource_id,
        sku=mover.sku,
        currency=money.currency,
        billed=money.billed,
        effective=money.effective,
    )


def price_of(command: PriceCommand) -> Price:
    """A price as it was sent."""
    return Price(**command.model_dump())


def price_command(price: Price) -> PriceCommand:
    """A price as it is sent."""
    return PriceCommand(**{name: getattr(price, name) for name in Price.__slots__})
