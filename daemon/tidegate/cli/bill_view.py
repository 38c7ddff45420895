"""What `tidegate bill` prints for people: exact sums, aligned; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal

    from tidegate.link.bill_messages import BillShape, SnapshotShape, SumShape, TieShape

_SHOWN = 10


def bill_lines(bill: BillShape) -> Iterator[str]:
    """An import, or what one would be."""
    yield from _read(bill)
    yield from table(
        ("currency", "billed", "effective"),
        [(currency, amount(sums.billed), amount(sums.effective)) for currency, sums in bill.totals.items()],
    )
    for currency, money in bill.quarantined.amounts.items():
        yield f"quarantined {currency} {amount(money)}"
    if bill.tie is not None:
        yield _tied(bill.tie)
    yield ""
    yield from table(("snapshot", "period", "rows", "currency", "billed", "effective", "state"), snapshot_rows(bill))
    yield from _quarantine(bill)
    for found in bill.declared[:_SHOWN]:
        yield f"declared: {found.says}{f', {found.currency} {amount(found.total)}' if found.total is not None else ''}"
    for snapshot in bill.snapshots:
        yield from (
            f"warning: {snapshot.source} {snapshot.account} {period(snapshot)}: {text}" for text in snapshot.warnings
        )
    yield from (f"warning: {text}" for text in bill.warnings)


def _tied(tie: TieShape) -> str:
    found = f"to {amount(tie.found)}, {signed(tie.difference)}" if tie.difference else "to it"
    return f"expected {tie.currency} {amount(tie.expected)}: the rows add up {found}"


def _read(bill: BillShape) -> Iterator[str]:
    """What was read; nothing is where the same files had been imported before."""
    if not bill.files:
        return
    rows = bill.rows
    aside = f", {rows.quarantined} quarantined" if rows.quarantined else ""
    totals = f", {rows.totals_rows} of totals left out" if rows.totals_rows else ""
    files = f"{len(bill.files)} file{'s' * (len(bill.files) != 1)}"
    yield f"{rows.read} rows in {files}: {rows.accepted} accepted{aside}{totals}"
    for file in bill.files:
        yield f"  {file.name}  {file.format}, {file.rows} rows"
    yield ""


def snapshot_rows(bill: BillShape) -> list[tuple[str, ...]]:
    """A line for each snapshot and currency."""
    found: list[tuple[str, ...]] = []
    for snapshot in bill.snapshots:
        name = f"{snapshot.source} {snapshot.account}{f' [{snapshot.shard}]' if snapshot.shard else ''}"
        for number, (currency, sums) in enumerate(snapshot.totals.items()):
            first = (name, period(snapshot), str(snapshot.rows)) if number == 0 else ("", "", "")
            state = _state(snapshot) if number == 0 else ""
            found.append((*first, currency, amount(sums.billed), amount(sums.effective), state))
    return found


def _state(snapshot: SnapshotShape) -> str:
    said = snapshot.evidence or "open"
    if not snapshot.outcome:
        return said
    version = f" (version {snapshot.version})" if snapshot.version else ""
    changes = ", ".join(change(currency, sums) for currency, sums in snapshot.difference.items())
    return f"{snapshot.outcome}{version}{f': {changes}' if changes else ''}; {said}"


def change(currency: str, sums: SumShape) -> str:
    """A difference with its signs."""
    return f"{currency} billed {signed(sums.billed)}, effective {signed(sums.effective)}"


def _quarantine(bill: BillShape) -> Iterator[str]:
    if not bill.quarantine:
        return
    yield ""
    for row in bill.quarantine[:_SHOWN]:
        money = f" ({row.currency} {amount(row.amount)})" if row.amount is not None else ""
        yield f"quarantined: {row.file} row {row.row}{money}: {row.reason}"
    if bill.rows.quarantined > _SHOWN:
        yield f"quarantined: {bill.rows.quarantined - _SHOWN} more"


def period(snapshot: SnapshotShape) -> str:
    """A billing period by its two ends, the second exclusive."""
    start, end = snapshot.billing_period_start, snapshot.billing_period_end
    form = "%Y-%m-%d" if start.hour == start.minute == end.hour == end.minute == 0 else "%Y-%m-%dT%H:%MZ"
    return f"{start.strftime(form)} to {end.strftime(form)}"


def amount(value: Decimal | None) -> str:
    """An exact amount; a dash where there is none."""
    return "-" if value is None else format(value, "f")


def signed(value: Decimal | None) -> str:
    """An exact difference."""
    return "-" if value is None else format(value, "+f")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as what stands in them."""
    widths = [max(len(each[place]) for each in (head, *rows)) for place in range(len(head))]
    numeric = {"billed", "effective", "rows", "amount"}
    for line in (head, *rows):
        cells = [
            cell.rjust(width) if head[place] in numeric else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
