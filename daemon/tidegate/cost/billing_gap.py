"""What bills of some periods hold beyond the days that were shared out: the note of a report by billing. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext

from tidegate.cost.atoms import EXACT, trimmed
from tidegate.model.allocation import Line
from tidegate.model.bill import SnapshotVersion
from tidegate.model.charge import Ledger


def not_shared_out(versions: Iterable[tuple[SnapshotVersion, bool]], lines: Iterable[Line]) -> tuple[str, ...]:
    """For each ledger and currency what is missing, to the last digit; nothing where the lines are the whole bill.

    `versions`: those of the billing periods, each with whether its billed ledger stands in for the effective one.
    """
    missing: dict[tuple[Ledger, str], Decimal] = {}
    with localcontext(EXACT):
        for version, stands_in in versions:
            for each in version.sums.totals:
                _add(missing, Ledger.BILLED, each.currency, each.billed)
                _add(missing, Ledger.EFFECTIVE, each.currency, each.billed if stands_in else each.effective)
        for line in lines:
            for ledger in Ledger:
                amount = line.amount(ledger)
                _add(missing, ledger, line.place.currency, None if amount is None else -amount)
    return tuple(
        f"{trimmed(amount)} {currency} ({ledger.value}) of these bills is not in it: charged for days to come, "
        "for days more than 400 days ago, or imported a moment ago"
        for (ledger, currency), amount in sorted(missing.items())
        if amount
    )


def _add(sums: dict[tuple[Ledger, str], Decimal], ledger: Ledger, currency: str, amount: Decimal | None) -> None:
    if amount is not None:
        sums[ledger, currency] = sums.get((ledger, currency), Decimal(0)) + amount
