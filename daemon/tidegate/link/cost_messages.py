"""Reports of costs on the wire. Amounts are decimal texts, exact; null is not known."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from pydantic import BaseModel, ConfigDict, Field

from tidegate.link.messages import Shape
from tidegate.model.allocation import DayStatus, IdlePolicy, Line, LineKind
from tidegate.model.charge import Ledger
from tidegate.model.cost_report import Basis, CostAnswer, Dimension, Method, Row, UnitPrices
from tidegate.model.money import CostState

_SHOWN = Decimal("1e-9")


class CostForm(BaseModel):
    """What is asked; a name that is not known is refused."""

    model_config = ConfigDict(extra="forbid")

    since: datetime | None = None
    """Without a time zone: UTC. Without a start: the last seven whole days."""
    until: datetime | None = None
    by: list[Dimension] = Field(default=[Dimension.POOL], max_length=8)
    basis: Basis = Basis.ALLOCATION
    ledger: Ledger = Ledger.EFFECTIVE
    billing: bool = False
    """By billing period instead of charge period: those that start in the span."""
    idle: IdlePolicy | None = None
    """Instead of the configured policy."""
    lines: bool = False
    """With every line that the rows are made of."""


class UnitShape(Shape):
    """Prices per million tokens, to nine decimals; `method` says how input and output were told apart."""

    method: Method
    blended: Decimal | None
    input: Decimal | None
    cached: Decimal | None
    output: Decimal | None
    tokens_per_currency_unit: Decimal | None


class CostRowShape(Shape):
    """One row. `amount` is everything in it; `basis_amount` what its unit price is taken over."""

    key: dict[Dimension, str]
    state: CostState
    currency: str
    amount: Decimal | None
    estimated: Decimal
    kinds: dict[LineKind, Decimal]
    gpu_hours: dict[LineKind, Decimal]
    gpu_hours_held: Decimal
    prompt_tokens: Decimal | None
    cached_prompt_tokens: Decimal | None
    generation_tokens: Decimal | None
    good_tokens: Decimal | None
    tokens_partial: bool
    basis_amount: Decimal | None
    per_million: UnitShape | None


class DayShape(Shape):
    """How far a day is known; days that are not listed are estimated."""

    day: date
    state: CostState
    versions: list[int]
    coverage: Decimal | None
    observed: Decimal | None
    unbilled: list[str]
    notes: list[str]


class LineShape(Shape):
    """One line of the ledger."""

    day: date
    kind: LineKind
    estimated: bool
    currency: str
    billing: date | None
    account: str
    host: str
    pool: str
    service: str
    model: str
    side: str
    charge: str
    category: str
    resource: str
    method: str
    traffic: str
    tenant: str
    billed: Decimal | None
    effective: Decimal | None
    gpu_seconds: Decimal


class CostReportShape(Shape):
    """A report: rows add up to the totals exactly, a currency each."""

    since: datetime
    until: datetime
    axis: str
    basis: Basis
    ledger: Ledger
    state: CostState
    rows: list[CostRowShape]
    totals: list[CostRowShape]
    days: list[DayShape]
    notes: list[str]
    lines: list[LineShape]


def report_shape(answer: CostAnswer, form: CostForm, since: datetime, until: datetime) -> CostReportShape:
    """The answer as it goes over the wire."""
    return CostReportShape(
        since=since,
        until=until,
        axis="billing" if form.billing else "charge",
        basis=form.basis,
        ledger=form.ledger,
        state=answer.report.state,
        rows=[_row(row) for row in answer.report.rows],
        totals=[_row(row) for row in answer.report.totals],
        days=[_day(day) for day in answer.days],
        notes=list(answer.notes),
        lines=[_line(line) for line in answer.lines] if form.lines else [],
    )


def _row(row: Row) -> CostRowShape:
    served = row.served
    return CostRowShape(
        key=dict(row.key),
        state=row.state,
        currency=row.currency,
        amount=row.amount,
        estimated=row.estimated,
        kinds=dict(row.by_kind),
        gpu_hours=dict(row.gpu_hours),
        gpu_hours_held=row.gpu_hours_held,
        prompt_tokens=served.prompt if served else None,
        cached_prompt_tokens=served.cached if served else None,
        generation_tokens=served.output if served else None,
        good_tokens=served.good if served else None,
        tokens_partial=bool(served and served.partial),
        basis_amount=row.basis_amount,
        per_million=_unit(row.prices) if row.prices else None,
    )


def _unit(prices: UnitPrices) -> UnitShape:
    inverse = Fraction(1_000_000) / prices.blended if prices.blended and prices.blended > 0 else None
    return UnitShape(
        method=prices.method,
        blended=_shown(prices.blended),
        input=_shown(prices.input),
        cached=_shown(prices.cached),
        output=_shown(prices.output),
        tokens_per_currency_unit=None if inverse is None else Decimal(round(inverse)),
    )


def _shown(price: Fraction | None) -> Decimal | None:
    return None if price is None else Decimal(round(price * 1_000_000_000)).scaleb(-9).quantize(_SHOWN)


def _day(day: DayStatus) -> DayShape:
    return DayShape.model_validate(day, from_attributes=True)


def _line(line: Line) -> LineShape:
    return LineShape(**line.place._asdict(), billed=line.billed, effective=line.effective, gpu_seconds=line.gpu_seconds)
