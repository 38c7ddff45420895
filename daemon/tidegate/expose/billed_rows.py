"""The page's table of what bills say: each pool, what is of no pool, and the whole, as the bill has it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from tidegate.expose.words import Words
from tidegate.model.overview import CostOverview, Overview


@dataclass(frozen=True, slots=True)
class BilledRow:
    """One line of the table."""

    label: str
    amount: Decimal | None
    currency: str
    line: CostOverview | None = None
    sum: bool = False


def billed_rows(overview: Overview, words: Words) -> list[BilledRow]:
    """Nothing while there is no bill."""
    billed = overview.billed
    if billed is None:
        return []
    rows = [BilledRow(line.pool, line.amount, line.currency, line) for line in billed.pools]
    rows += [BilledRow(words(f"line.{kind}"), amount, currency) for (kind, currency), amount in billed.others.items()]
    total = billed.total
    return [*rows, BilledRow(words("whole_bill"), total.amount, total.currency, total, sum=True)]
