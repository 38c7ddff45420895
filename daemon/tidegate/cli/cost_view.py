"""A report of costs for people: a table that adds up, what it rests on, two windows side by side."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from tidegate.cli.bill_view import table
from tidegate.cli.hosted_prices import HostedPrice
from tidegate.cost.atoms import shown
from tidegate.cost.compare import Change, Window
from tidegate.link.cost_messages import CostReportShape, CostRowShape
from tidegate.model.allocation import LineKind
from tidegate.model.cost_report import Basis
from tidegate.model.money import CostState

_OVER = {Basis.BUSY: "busy cost", Basis.GOODPUT: "M good"}
"""What the prices of a basis are taken over, where that is not the amount and the tokens beside it."""


def report_lines(found: CostReportShape) -> Iterable[str]:
    """The table, its totals, and what to know of them."""
    yield (
        f"{found.since:%Y-%m-%d %H:%M} to {found.until:%Y-%m-%d %H:%M} UTC by {found.axis} period: "
        f"{found.state.value}, {found.ledger.value} cost, {found.basis.value} basis"
    )
    names = list(found.rows[0].key) if found.rows else []
    over = [_OVER[found.basis]] if found.basis in _OVER else []
    figures = ("state", "amount", "GPU h", "busy", "M tokens", *over, "per M", "in", "cached", "out")
    heads = (*([name.value for name in names] or [""]), *figures)
    rows = [*found.rows, *found.totals]
    amounts = _amounts(found)
    keys = [[row.key.get(name, "") for name in names] for row in rows]
    cells = [_cells(row, keys[at], amounts[at], found.basis) for at, row in enumerate(rows)]
    for at in range(len(found.rows), len(rows)):
        cells[at][0] = "total"
    yield from table(heads, [tuple(each) for each in cells])
    yield from _kinds(found.totals)
    yield from _known(found)
    yield from (f"note: {note}" for note in found.notes)


def _amounts(found: CostReportShape) -> list[str]:
    """Rounded so that the rows of a currency add up to its total."""
    texts: dict[int, str] = {}
    rows = found.rows
    for currency in {row.currency for row in rows}:
        mine = [at for at, row in enumerate(rows) if row.currency == currency and row.amount is not None]
        for at, amount in zip(mine, shown([rows[at].amount or Decimal(0) for at in mine]), strict=True):
            texts[at] = f"{amount:,.2f} {currency}"
    totals = ["" if row.amount is None else f"{shown([row.amount])[0]:,.2f} {row.currency}" for row in found.totals]
    return [*(texts.get(at, "") for at in range(len(rows))), *totals]


def _cells(row: CostRowShape, key: Sequence[str], amount: str, basis: Basis) -> list[str]:
    hours = row.gpu_hours_held
    busy = row.gpu_hours.get(LineKind.BUSY, Decimal(0))
    tokens = None if row.prompt_tokens is None else row.prompt_tokens + (row.generation_tokens or 0)
    prices = row.per_million
    figures = (prices.blended, prices.input, prices.cached, prices.output) if prices else (None,) * 4
    return [
        *(key or [""]),
        row.state.value,
        amount or ("unknown" if hours or tokens else ""),
        f"{hours:,.1f}" if hours else "",
        f"{busy / hours:.0%}" if hours else "",
        "" if tokens is None else f"{'>=' if row.tokens_partial else ''}{tokens / 1_000_000:,.2f}",
        *_over(row, basis),
        *("" if price is None else f"{price:,.4f}" for price in figures),
    ]


def _over(row: CostRowShape, basis: Basis) -> list[str]:
    if basis is Basis.BUSY:
        return ["" if row.basis_amount is None else f"{shown([row.basis_amount])[0]:,.2f} {row.currency}"]
    if basis is Basis.GOODPUT:
        return ["" if row.good_tokens is None else f"{row.good_tokens / 1_000_000:,.2f}"]
    return []


def _kinds(totals: Sequence[CostRowShape]) -> Iterable[str]:
    for row in totals:
        if row.amount is None:
            continue
        kinds = [kind for kind in LineKind if row.kinds.get(kind)]
        parts = shown([row.kinds[kind] for kind in kinds])
        spelled = ", ".join(
            f"{kind.value.replace('_', ' ')} {part:,.2f}" for kind, part in zip(kinds, parts, strict=True)
        )
        yield f"{row.currency}: {spelled or 'nothing'}" + (
            f" (of it estimated {row.estimated:,.2f})" if row.estimated else ""
        )
        if row.per_million:
            yield f"input and output are told apart by: {row.per_million.method.value}"


def _known(found: CostReportShape) -> Iterable[str]:
    if not found.days:
        yield "no bill speaks of these days yet: everything is estimated from prices"
        return
    days = {state: [day for day in found.days if day.state is state] for state in CostState}
    versions = sorted({version for day in found.days for version in day.versions})
    counted = ", ".join(f"{len(mine)} {state.value}" for state, mine in days.items() if mine)
    yield f"days with a bill: {counted} (versions {', '.join(map(str, versions))})"
    seen = [day.observed for day in found.days if day.observed is not None]
    covered = [day.coverage for day in found.days if day.coverage is not None]
    if seen:
        yield f"telemetry saw {min(seen):.1%} or more of each day's host hours"
    if covered:
        yield f"bills speak of {min(covered):.1%} or more of each day's held GPU time"


def csv_text(found: CostReportShape) -> str:
    """The rows as CSV, exact amounts."""
    names = list(found.rows[0].key) if found.rows else []
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        (*(name.value for name in names), "state", "currency", "amount", "estimated", "basis_amount", "gpu_hours_held",
         "prompt_tokens", "cached_prompt_tokens", "generation_tokens", "method", "blended", "input", "cached", "output")
    )  # fmt: skip
    for row in found.rows:
        prices = row.per_million
        figures: tuple[object, ...] = (
            row.state.value, row.currency, row.amount, row.estimated, row.basis_amount, row.gpu_hours_held,
            row.prompt_tokens, row.cached_prompt_tokens, row.generation_tokens, prices.method.value if prices else None,
        )  # fmt: skip
        unit = (prices.blended, prices.input, prices.cached, prices.output) if prices else (None,) * 4
        keys = [row.key[name] for name in names]
        writer.writerow([*keys, *(_plain(value) for value in (*figures, *unit))])
    return out.getvalue()


def _plain(value: object) -> str:
    if value is None:
        return ""
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def window(found: CostReportShape) -> Window:
    """A report's totals, on its basis, as one of two windows; several currencies have no common cost."""
    rows = found.totals
    tokens = next(
        (row.prompt_tokens + (row.generation_tokens or 0) for row in rows if row.prompt_tokens is not None), None
    )
    good = next((row.good_tokens for row in rows), None) if found.basis is Basis.GOODPUT else tokens
    priced = [row for row in rows if row.basis_amount is not None]
    one = priced[0] if len(priced) == 1 else None
    return Window(
        found.since, found.until, one.basis_amount if one else None, one.currency if one else "",
        max((row.gpu_hours_held for row in rows), default=Decimal(0)), tokens, good,
    )  # fmt: skip


def change_lines(found: Change) -> Iterable[str]:
    """Two windows, and what became of GPU hours and cost."""
    for name, each in (("before", found.before), ("after", found.after)):
        rate, price = each.per_gpu_hour, each.per_million
        hours = (each.until - each.since) / timedelta(hours=1)
        yield (
            f"{name}: {each.since:%Y-%m-%d %H:%M} to {each.until:%Y-%m-%d %H:%M} UTC, {hours:g} h: "
            f"{_number(rate, 0)} tokens a GPU hour, {_number(price, 4)} {each.currency or 'of money'} per million"
        )
    yield f"GPU hours saved for the same tokens (1 - T1/T2): {_share(found.gpu_hours_saved)}"
    yield f"cost saved for the same tokens (1 - c2/c1): {_share(found.cost_saved)}"


def hosted_lines(price: HostedPrice, found: CostReportShape) -> Iterable[str]:
    """The same tokens at a hosted API's price beside our own cost, on the allocation basis that includes idle."""
    for row in found.totals:
        if row.prompt_tokens is None or row.amount is None:
            continue
        cached = row.cached_prompt_tokens or Decimal(0)
        fresh, output = row.prompt_tokens - cached, row.generation_tokens or Decimal(0)
        theirs = (fresh * price.input + cached * price.cached + output * price.output) / 1_000_000
        yield (
            f"{price.provider}/{price.model}: {price.input:f} in, {price.cached:f} cached, {price.output:f} out USD "
            f"per million: {theirs:,.2f} USD for these tokens"
        )
        if row.currency == "USD" and theirs:
            yield f"ours: {row.amount:,.2f} USD, {row.amount / theirs:.1%} of it"
        else:
            yield f"ours: {row.amount:,.2f} {row.currency}; no exchange rate is ever assumed"


def _number(value: Fraction | None, places: int) -> str:
    return "unknown" if value is None else f"{float(value):,.{places}f}"


def _share(value: Fraction | None) -> str:
    return "unknown" if value is None else f"{float(value):.1%}"
