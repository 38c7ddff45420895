"""What `tidegate bill list`, `show`, `diff` and `quarantine` print; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Context
from typing import TYPE_CHECKING

from tidegate.cli.bill_view import amount, period, signed, table

if TYPE_CHECKING:
    from decimal import Decimal

    from tidegate.link.bill_commands import DiffShape, VersionShape
    from tidegate.link.bill_messages import PartShape, QuarantinedShape, SumShape

_EXACT = Context(prec=400)


def snapshot_name(version: VersionShape) -> str:
    """Source, account and billing period."""
    snapshot = version.snapshot
    shard = f" [{snapshot.shard}]" if snapshot.shard else ""
    return f"{snapshot.source} {snapshot.account}{shard} {period(snapshot)}"


def version_lines(versions: Sequence[VersionShape]) -> Iterator[str]:
    """A line for each version and currency."""
    if not versions:
        yield "no bill has been imported yet: `tidegate bill import FILE...`"
        return
    rows: list[tuple[str, ...]] = []
    for version in versions:
        state = f"closed by {version.closed_evidence}" if version.closed else "open"
        state += "" if version.active else ", replaced"
        aside = version.snapshot.quarantined.rows
        state += f", {aside} quarantined" if aside else ""
        first = (str(version.id), snapshot_name(version), str(version.number), str(version.snapshot.rows))
        for number, (currency, sums) in enumerate(version.snapshot.totals.items()):
            left = first if number == 0 else ("", "", "", "")
            right = state if number == 0 else ""
            rows.append((*left, currency, amount(sums.billed), amount(sums.effective), right))
    yield from table(("id", "snapshot", "version", "rows", "currency", "billed", "effective", "state"), rows)


def details(version: VersionShape) -> Iterator[str]:
    """Everything about one version."""
    snapshot = version.snapshot
    yield f"{snapshot_name(version)}, version {version.number}{'' if version.active else ' (replaced)'}"
    files = ", ".join(version.files)
    yield f"imported   {version.imported_at:%Y-%m-%d %H:%M:%S} UTC by {version.imported_by} from {files}"
    yield f"state      {f'closed by {version.closed_evidence}' if version.closed else 'open'}"
    yield f"rows       {snapshot.rows}, {snapshot.quarantined.rows} quarantined, {snapshot.corrections} corrections"
    if not snapshot.effective_usable:
        yield "effective  not usable: the billed ledger stands in for it"
    yield ""
    rows = [
        (part.category, part.service, part.currency, amount(part.billed), amount(part.effective))
        for part in snapshot.parts
    ]
    rows += [
        ("total", "", currency, amount(sums.billed), amount(sums.effective))
        for currency, sums in snapshot.totals.items()
    ]
    yield from table(("category", "service", "currency", "billed", "effective"), rows)
    for invoice, billed in snapshot.invoices.items():
        yield f"invoice {invoice}: {amount(billed)}"
    yield from (f"warning: {text}" for text in snapshot.warnings)


def difference_lines(found: DiffShape) -> Iterator[str]:
    """What changed."""
    new, old = found.new, found.old
    if old is None:
        yield f"{snapshot_name(new)}: version {new.number} is the first"
        return
    yield f"{snapshot_name(new)}: version {new.number} (id {new.id}) against {old.number} (id {old.id})"
    yield from table(("currency", "category", "service", "billed", "effective"), _changes(old, new))
    if found.movers is None:
        yield "the charges of one of them are no longer kept: no resources to name"
        return
    yield ""
    yield from table(
        ("resource", "sku", "currency", "billed", "effective"),
        [
            (mover.resource_id or "-", mover.sku or "-", mover.currency, signed(mover.billed), signed(mover.effective))
            for mover in found.movers
        ],
    )


def _changes(old: VersionShape, new: VersionShape) -> list[tuple[str, ...]]:
    before = {(part.currency, part.category, part.service): part for part in old.snapshot.parts}
    after = {(part.currency, part.category, part.service): part for part in new.snapshot.parts}
    rows: list[tuple[str, ...]] = []
    for key in sorted({*before, *after}):
        billed, effective = _change(before.get(key), after.get(key))
        if billed or effective:
            rows.append((*key, signed(billed), signed(effective)))
    for currency in sorted({*old.snapshot.totals, *new.snapshot.totals}):
        billed, effective = _change(old.snapshot.totals.get(currency), new.snapshot.totals.get(currency))
        rows.append((currency, "total", "", signed(billed), signed(effective)))
    return rows


def _change(
    old: PartShape | SumShape | None, new: PartShape | SumShape | None
) -> tuple[Decimal | None, Decimal | None]:
    return (
        minus(new.billed if new else None, old.billed if old else None),
        minus(new.effective if new else None, old.effective if old else None),
    )


def minus(new: Decimal | None, old: Decimal | None) -> Decimal | None:
    """A difference, in which absence counts as nothing; None where both are absent."""
    if new is None or old is None:
        return new if old is None else -old
    return _EXACT.subtract(new, old)


def quarantine_lines(rows: Sequence[QuarantinedShape]) -> Iterator[str]:
    """A line for each row, and what it said."""
    if not rows:
        yield "nothing is quarantined"
    for row in rows:
        money = f"{row.currency} {amount(row.amount)}" if row.amount is not None else "amount not readable"
        yield f"{row.file} row {row.row}: {row.reason} ({money})"
        yield f"  {row.text}"
