"""Whether what an import found may take the place of what is there: shrinking, closed periods, a ledger's two sources.

A person may force a smaller state; nothing forces a closed period or a second source of the same money.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from tidegate.model.bill import BillRead, LedgerSum, SnapshotSums, SnapshotVersion
from tidegate.model.charge import NO_ACCOUNT, NO_CURRENCY, SnapshotKey, account_name

_FEWER_ROWS = Decimal("0.9")
_LESS_MONEY = Decimal("0.8")
_EARLIER = timedelta(days=1)
"""Exports are cut at different hours of a day."""
_NAMED = 3
_HEADER = 1
"""A row that a manifest may count and we do not."""


class Outcome(StrEnum):
    """What an import does with a snapshot."""

    NEW = "new"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of each snapshot, or why nothing does."""

    outcomes: Mapping[SnapshotKey, Outcome]
    refusals: tuple[str, ...]
    """Not empty: the whole import is refused."""


def judge(
    found: BillRead, before: Sequence[SnapshotVersion], accounts: Collection[str] = (), *, force: bool = False
) -> Verdict:
    """Compare with every active version of the accounts concerned. `accounts`: those that may come; empty: any."""
    earlier = {version.key: version for version in before}
    outcomes = {sums.key: _outcome(sums, earlier.get(sums.key)) for sums in found.snapshots}
    changing = [sums for sums in found.snapshots if outcomes[sums.key] is not Outcome.UNCHANGED]
    refusals = [text for sums in changing for text in _against(sums, before, found.snapshots, accounts)]
    if not force:
        refusals += [
            f"{each.name}: the last row is incomplete; fetch the file again" for each in found.files if each.truncated
        ]
        refusals += [
            f"{each.name}: {each.rows} rows where the manifest promises {each.promised}; fetch the file again"
            for each in found.files
            if each.promised is not None and each.rows + _HEADER < each.promised
        ]
        if found.tie is not None and found.tie.difference:
            refusals.append(f"{found.tie}; --force imports it all the same")
        refusals += [f"{text}; import one of them, or --force takes both" for text in found.overlapping]
        for sums in changing:
            if (version := earlier.get(sums.key)) is not None:
                less = shrinking(version.sums, sums)
                refusals += [f"{name_of(sums.key)}: {'; '.join(less)}; --force imports it all the same"] if less else []
    return Verdict(outcomes, tuple(dict.fromkeys(refusals)))


def _outcome(sums: SnapshotSums, version: SnapshotVersion | None) -> Outcome:
    if version is None:
        return Outcome.NEW
    same = version.sums.fingerprint == sums.fingerprint and version.sums.rows == sums.rows
    same = same and version.sums.totals == sums.totals and version.sums.aside == sums.aside
    return Outcome.UNCHANGED if same else Outcome.REPLACED


def _against(
    sums: SnapshotSums, before: Sequence[SnapshotVersion], found: Sequence[SnapshotSums], accounts: Collection[str]
) -> list[str]:
    """What no force overrules."""
    name, refusals = name_of(sums.key), []
    if accounts and account_name(sums.key.account) not in set(map(account_name, accounts)):
        refusals.append(
            f"{name}: the account is none of those in [bills] accounts; add it there, or import the right file"
        )
    closed = next((version for version in before if version.key == sums.key and version.closed), None)
    if closed is not None:
        refusals.append(
            f"{name}: closed by {closed.closed_evidence}; corrections come in a later billing period, "
            "or reopen it: `tidegate bill reopen ... --reason`"
        )
    twin = next((version for version in before if _same_rows(version, sums)), None)
    if twin is not None:
        refusals.append(
            f"{name}: the very same rows are there as {name_of(twin.key)}; "
            f"`tidegate bill withdraw {twin.id}` takes that away"
        )
    others = [(version.key, version.sums) for version in before] + [(each.key, each) for each in found]
    for key, other in others:
        shared = sums.ledgers & other.ledgers
        if _rival(sums.key, key) and shared:
            refusals.append(
                f"{name}: its {' and '.join(sorted(shared))} ledger comes from {key.source} already ({name_of(key)}); "
                "two sources would count the same money twice: import one of them"
            )
    return refusals


def _same_rows(version: SnapshotVersion, sums: SnapshotSums) -> bool:
    """Whether a snapshot of another name holds the same rows, as when an account was not named the first time."""
    return (
        version.key != sums.key
        and (version.key.source, version.key.start) == (sums.key.source, sums.key.start)
        and (version.sums.fingerprint, version.sums.rows) == (sums.fingerprint, sums.rows)
    )


def _rival(one: SnapshotKey, other: SnapshotKey) -> bool:
    """Whether two snapshots tell of the same account and time from different sources."""
    overlapping = one.start < other.end and other.start < one.end
    same = account_name(one.account) == account_name(other.account) != NO_ACCOUNT
    return one.source != other.source and same and overlapping


def shrinking(before: SnapshotSums, after: SnapshotSums) -> list[str]:
    """In what the new state covers less than the old one."""
    found: list[str] = []
    if Decimal(after.rows) < _FEWER_ROWS * before.rows:
        found.append(f"{after.rows} rows where {before.rows} were")
    if before.last and after.last and after.last <= before.last - _EARLIER:
        found.append(f"ends {after.last:%Y-%m-%d %H:%M} UTC where it went to {before.last:%Y-%m-%d %H:%M} UTC")
    lost = sorted(set(before.sub_accounts) - set(after.sub_accounts) - {""})
    if lost:
        found.append(f"lacks the accounts {', '.join(lost[:_NAMED])}{' and more' if len(lost) > _NAMED else ''}")
    totals = {each.currency: each for each in after.totals}
    for each in before.totals:
        found += _less(each, totals.get(each.currency))
    return found


def _less(before: LedgerSum, after: LedgerSum | None) -> list[str]:
    if after is None and before.currency == NO_CURRENCY:
        return []  # its currency has been named since
    if after is None:
        return [f"has no {before.currency} any more"]
    found = []
    for ledger, old, new in (("billed", before.billed, after.billed), ("effective", before.effective, after.effective)):
        if old is not None and old > 0 and (new is None or new < _LESS_MONEY * old):
            found.append(f"{ledger} {before.currency} {'-' if new is None else f'{new:f}'} where {old:f} was")
    return found


def difference(before: SnapshotSums | None, after: SnapshotSums) -> Mapping[str, LedgerSum]:
    """The new totals less the old ones, by currency, under the caller's decimal context; only what changed."""
    old = {each.currency: each for each in before.totals} if before else {}
    new = {each.currency: each for each in after.totals}
    found: dict[str, LedgerSum] = {}
    for currency in sorted({*old, *new}):
        nothing = LedgerSum(currency, None, None)
        one, other = old.get(currency, nothing), new.get(currency, nothing)
        change = LedgerSum(currency, _minus(other.billed, one.billed), _minus(other.effective, one.effective))
        if change.billed or change.effective:
            found[currency] = change
    return found


def _minus(new: Decimal | None, old: Decimal | None) -> Decimal | None:
    if new is None and old is None:
        return None
    return (new or Decimal(0)) - (old or Decimal(0))


def name_of(key: SnapshotKey) -> str:
    """A snapshot in words."""
    shard = f" [{key.shard}]" if key.shard else ""
    return f"{key.source} {key.account}{shard} {key.start:%Y-%m-%d} to {key.end:%Y-%m-%d}"
