"""The total that somebody has before him, on an invoice, beside what the rows of an import add up to. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from tidegate.bills.cells import EXACT, NumberError, decimal_of
from tidegate.model.bill import Expected, LedgerSum, TieOut
from tidegate.runtime.errors import Permanent

_CODE = re.compile(r"[A-Z]{3}")


def expected_of(text: str) -> Expected | None:
    """`1395.52`, `USD 1,395.52` or `1395.52 USD`; None of an empty text. Raises Permanent with the remedy."""
    if not text.strip():
        return None
    codes = _CODE.findall(text.upper())
    try:
        amount = decimal_of(_CODE.sub("", text.upper()).strip(" ="))
    except NumberError:
        amount = None
    if amount is None or len(codes) > 1:
        raise Permanent(f"--expect {text[:40]!r}: write an amount such as 1395.52 or 'USD 1395.52'")
    return Expected(amount, codes[0] if codes else "")


def tie_out(totals: Sequence[LedgerSum], aside: Mapping[str, Decimal], expected: Expected) -> TieOut:
    """Compare with the billed sum, or the effective one of a bill that has no other.

    Raises Permanent where the bill has several currencies and none was said, for they are never added.
    """
    by_currency = {each.currency: each for each in totals}
    if not expected.currency and len(by_currency) > 1:
        codes = " and ".join(sorted(by_currency))
        raise Permanent(
            f"--expect {expected.amount:f}: the bill is in {codes}; say which, as in '{min(by_currency)} 1'"
        )
    currency = expected.currency or next(iter(by_currency), "")
    found = by_currency.get(currency, LedgerSum(currency, None, None))
    billed = found.billed if found.billed is not None else found.effective
    amount = Decimal(0) if billed is None else billed
    difference = EXACT.subtract(amount, expected.amount)
    return TieOut(expected.amount, currency, amount, difference, aside.get(currency, Decimal(0)))
