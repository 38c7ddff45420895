"""The book of bills: imports, restatements, closing. Reading and judging are elsewhere; here they are put in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from itertools import islice
from typing import TypeVar

import structlog

from tidegate.controller.bill_ports import BillReader, Bills, BillSession
from tidegate.cost.restate import Outcome, Verdict, difference, judge, name_of
from tidegate.model.bill import (
    AsideSum,
    BillRead,
    Declared,
    Imported,
    ImportOrder,
    ImportResult,
    LedgerSum,
    Mover,
    SnapshotVersion,
    added,
)
from tidegate.model.charge import Quarantined, account_name
from tidegate.model.price import Price, Prices
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import Permanent

_log = structlog.get_logger()
_BATCH = 5000
T = TypeVar("T")
_EXACT = Context(prec=400)
_SAME = "the same files have been imported before: nothing changes"
_VERSIONS_KEPT = 3
"""How many versions of a snapshot keep their charges; the sums of all stay."""


@dataclass(frozen=True, slots=True)
class BillBook:
    """Everything about bills that people and jobs ask for."""

    clock: Clock
    store: Bills
    read: BillReader
    accounts: Callable[[], Collection[str]]
    """The accounts that may be imported; empty: any."""

    def known(self, content: str) -> ImportResult | None:
        """What was made of exactly these files before, when all of it still stands; else None.

        Where rows lacked a price, or were given one, it stands until prices change.
        """
        versions = self.store.known(content)
        rests = [each.imported_at for each in versions if each.sums.priced or each.sums.aside.rows]
        if rests and (changed := self.store.priced_at()) is not None and changed > min(rests):
            return None
        return _as_before(versions) if versions else None

    def take(self, order: ImportOrder, who: str) -> ImportResult:
        """Import files; raises Permanent, and leaves everything as it was, when they cannot take their place."""
        if (before := self.known(order.content)) is not None:
            return before
        reading = self.read(order, Prices(self.store.prices()))
        names = [part.name for part in order.parts]
        with self.store.importing(self.clock.now(), who, order.content, names) as session:
            for batch in _batches(reading.items()):
                session.add(batch)
            found = reading.result()
            self._check(found, order)
            before_it = session.before()
            verdict = judge(found, before_it, self.accounts(), force=order.force)
            if verdict.refusals:
                raise Permanent("not imported: " + "; ".join(verdict.refusals))
            with localcontext(_EXACT):
                snapshots = self._settle(session, found, before_it, verdict)
        warnings = self._declared(found.declared, who)
        for each in snapshots:
            _log.info(
                "bill imported", snapshot=name_of(each.sums.key), outcome=each.outcome, rows=each.sums.rows, by=who
            )
        return ImportResult(found, snapshots, warnings)

    @staticmethod
    def _check(found: BillRead, order: ImportOrder) -> None:
        mine = account_name(order.account)
        others = sorted({sums.key.account for sums in found.snapshots if account_name(sums.key.account) != mine})
        if mine and others:
            raise Permanent(f"not imported: of the account {', '.join(others[:3])}, not of {order.account}")
        if not found.snapshots and found.aside.rows:
            first = found.quarantine[0]
            raise Permanent(
                f"not imported: none of {found.aside.rows} rows can be taken; the first: {first.file} row {first.row}: "
                f"{first.reason}"
            )

    def _settle(
        self, session: BillSession, found: BillRead, before: Sequence[SnapshotVersion], verdict: Verdict
    ) -> tuple[Imported, ...]:
        earlier = {version.key: version for version in before}
        settled: list[Imported] = []
        for sums in found.snapshots:
            outcome, version = verdict.outcomes[sums.key], earlier.get(sums.key)
            change = difference(version.sums if version else None, sums)
            if outcome is Outcome.UNCHANGED:
                session.drop(sums.key)
                settled.append(Imported(sums, outcome.value, None, {}, version.closed_evidence if version else ""))
                continue
            evidence = sums.evidence if not found.unplaced else ""  # a row of nobody's may be this one's
            number = session.activate(sums, evidence, _in_words(change))
            settled.append(Imported(sums, outcome.value, number, change, evidence))
        session.set_aside()
        session.forget(_VERSIONS_KEPT)
        return tuple(settled)

    def _declared(self, declared: Sequence[Declared], who: str) -> tuple[str, ...]:
        """Close what a bill says is closed, and compare invoices with what the charges add up to."""
        if not declared:
            return ()
        versions = self.store.versions()
        said: list[str] = []
        for each in declared:
            if each.closed:
                said += self._close_declared(each, versions, who)
        return (*said, *_tie_out(declared, versions))

    def _close_declared(self, declared: Declared, versions: Sequence[SnapshotVersion], who: str) -> Iterator[str]:
        mine = [
            version
            for version in versions
            if (version.key.start, version.key.end) == (declared.start, declared.end)
            and declared.account in ("", version.key.account)
            and version.key.source == "focus"
        ]
        if not mine:
            yield f"{declared.says} for {declared.start:%Y-%m-%d}: no such snapshot is here"
        for version in mine:
            if version.closed:
                continue
            try:
                self.store.close(version.key, declared.says, who, self.clock.now())
            except Permanent as error:
                yield f"{name_of(version.key)} is not closed: {error}"

    def versions(self, *, every: bool) -> Sequence[SnapshotVersion]:
        """The active versions, or all."""
        return self.store.versions(active_only=not every)

    def version(self, version: int) -> SnapshotVersion:
        """One; raises Permanent when there is none."""
        found = self.store.version(version)
        if found is None:
            raise Permanent(f"there is no version {version}; `tidegate bill list --all` shows them")
        return found

    def compare(
        self, version: int, against: int | None
    ) -> tuple[SnapshotVersion | None, SnapshotVersion, Sequence[Mover] | None]:
        """(the one before, this one, what changed most); None where there is none, or its charges are gone."""
        new = self.version(version)
        old = self.store.earlier(new) if against is None else self.version(against)
        if old is None or not (old.charges_kept and new.charges_kept):
            return old, new, None
        return old, new, self.store.movers(old.id, new.id)

    def quarantined(self, version: int) -> Sequence[Quarantined]:
        """The quarantined rows of a version."""
        return self.store.quarantined(self.version(version).id)

    def close(self, version: int, reason: str, who: str) -> SnapshotVersion:
        """Close the snapshot of a version, for a reason."""
        self.store.close(self.version(version).key, f"{who}: {reason}", who, self.clock.now())
        _log.info("bill closed", version=version, reason=reason, by=who)
        return self.version(version)

    def reopen(self, version: int, reason: str, who: str) -> SnapshotVersion:
        """Open the snapshot of a version again, for a reason."""
        self.store.reopen(self.version(version).key, reason, who, self.clock.now())
        _log.info("bill reopened", version=version, reason=reason, by=who)
        return self.version(version)

    def withdraw(self, version: int, reason: str, who: str) -> SnapshotVersion:
        """Let the snapshot of a version count no longer, for a reason: it was imported by mistake."""
        self.store.withdraw(self.version(version).key, reason, who, self.clock.now())
        _log.info("bill withdrawn", version=version, reason=reason, by=who)
        return self.version(version)

    def prices(self) -> Sequence[Price]:
        """Every price."""
        return self.store.prices()

    def put_prices(self, prices: Sequence[Price], who: str) -> None:
        """Add or replace prices."""
        self.store.put_prices(prices, who, self.clock.now())
        _log.info("prices imported", count=len(prices), by=who)


def _batches(items: Iterator[T]) -> Iterator[list[T]]:
    while batch := list(islice(items, _BATCH)):
        yield batch


def _in_words(change: Mapping[str, LedgerSum]) -> str:
    parts = [
        f"{ledger} {amount:+f} {currency}"
        for currency, each in change.items()
        for ledger, amount in (("billed", each.billed), ("effective", each.effective))
        if amount
    ]
    return ", ".join(parts) or "no change of totals"


def _as_before(versions: Sequence[SnapshotVersion]) -> ImportResult:
    """What an import of the same files would say: nothing changes."""
    snapshots = tuple(version.sums for version in versions)
    with localcontext(_EXACT):
        totals = added([each for sums in snapshots for each in sums.totals])
        aside = _together([sums.aside for sums in snapshots])
    read = BillRead(
        (), snapshots, totals, aside, (), (), ("the same files have been imported before: nothing changes",)
    )
    unchanged = tuple(
        Imported(version.sums, Outcome.UNCHANGED.value, None, {}, version.closed_evidence) for version in versions
    )
    return ImportResult(read, unchanged)


def _together(asides: Sequence[AsideSum]) -> AsideSum:
    amounts: dict[str, Decimal] = {}
    for each in asides:
        for currency, amount in each.amounts.items():
            amounts[currency] = amounts.get(currency, Decimal(0)) + amount
    return AsideSum(sum(each.rows for each in asides), amounts, sum(each.unread for each in asides))


def _tie_out(declared: Sequence[Declared], versions: Sequence[SnapshotVersion]) -> Iterator[str]:
    """Where an invoice's own total differs from what the charges of that invoice add up to."""
    invoices: dict[tuple[str, str], Decimal] = {}
    charged: dict[str, Decimal] = {}
    with localcontext(_EXACT):
        for each in declared:
            if each.invoice_id and each.total is not None:
                key = each.invoice_id, each.currency
                invoices[key] = invoices.get(key, Decimal(0)) + each.total
        for version in versions:
            for invoice, amount in version.sums.invoices.items():
                charged[invoice] = charged.get(invoice, Decimal(0)) + amount
        for (invoice, currency), total in sorted(invoices.items()):
            found = charged.get(invoice)
            if found is None:
                yield f"invoice {invoice}: {currency} {total:f}, but no charge here names it"
            elif found != total:
                yield f"invoice {invoice}: {currency} {total:f}, its charges add up to {found:f}: {found - total:+f}"
            else:
                yield f"invoice {invoice}: {currency} {total:f}, as its charges add up to"
