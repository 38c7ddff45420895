"""What may take the place of what: a law for each rule, over values alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cost.restate import Outcome, difference, judge, shrinking
from tidegate.model.bill import AsideSum, BillRead, LedgerSum, SnapshotSums, SnapshotVersion, added
from tidegate.model.charge import SnapshotKey

MAY, JUNE, JULY = (datetime(2026, month, 1, tzinfo=UTC) for month in (5, 6, 7))


def sums(billed: str | None = "100", effective: str | None = "100", **changes: object) -> SnapshotSums:
    source, account = str(changes.pop("source", "focus")), str(changes.pop("account", "A"))
    start = changes.pop("start", MAY)
    assert isinstance(start, datetime)
    one = LedgerSum("USD", *(None if each is None else Decimal(each) for each in (billed, effective)))
    whole = SnapshotSums(
        key=SnapshotKey(source, account, start, JUNE if start == MAY else JULY, str(changes.pop("shard", ""))),
        rows=10, corrections=0, totals=(one,), parts=(), aside=AsideSum(), invoices={}, evidence="",
        effective_usable=True, first=start, last=JUNE, providers=("aws",), sub_accounts=("x", "y"), fingerprint=1,
    )  # fmt: skip
    return replace(whole, **changes)  # type: ignore[arg-type]


def version(of: SnapshotSums, *, closed: str = "") -> SnapshotVersion:
    return SnapshotVersion(1, 1, True, bool(closed), closed, MAY, "ann", True, "c", ("f",), of)


def read(*snapshots: SnapshotSums) -> BillRead:
    return BillRead((), snapshots, (), AsideSum(), (), (), ())


def test_new_replaced_unchanged() -> None:
    before = [version(sums())]
    june = sums(start=JUNE)
    assert list(judge(read(june), before).outcomes.values()) == [Outcome.NEW]
    assert list(judge(read(sums()), before).outcomes.values()) == [Outcome.UNCHANGED]
    assert list(judge(read(sums(fingerprint=2)), before).outcomes.values()) == [Outcome.REPLACED]


def test_nothing_forces_a_closed_period_but_what_is_unchanged_may_come() -> None:
    before = [version(sums(), closed="invoice 7")]
    assert "closed by invoice 7" in judge(read(sums(fingerprint=2)), before, force=True).refusals[0]
    assert judge(read(sums()), before).refusals == ()


@pytest.mark.parametrize(
    ("other", "refused"),
    [
        (sums(source="aws-cur"), True),
        (sums(source="azure-actual", effective=None), True),
        (sums(source="aws-cur", account="B"), False),
        (sums(source="azure-actual", account="/providers/Microsoft.Billing/billingAccounts/a"), True),
        (sums(source="aws-cur", start=JUNE), False),
        (sums(shard="eu", fingerprint=9), False),
    ],
)
def test_one_source_for_a_ledger_of_an_account_and_time(other: SnapshotSums, refused: bool) -> None:
    assert bool(judge(read(other), [version(sums())], force=True).refusals) is refused
    assert bool(judge(read(sums(fingerprint=3), other), [], force=True).refusals) is refused


def test_the_same_rows_under_another_name_are_refused() -> None:
    before = [version(sums(account="unknown"))]
    assert "tidegate bill withdraw 1" in judge(read(sums()), before, force=True).refusals[0]
    assert not judge(read(sums(fingerprint=2)), before, force=True).refusals


def test_actual_and_amortised_fill_one_ledger_each() -> None:
    actual = sums(source="azure-actual", effective=None)
    amortised = sums(source="azure-amortized", billed=None)
    assert judge(read(amortised), [version(actual)]).refusals == ()


def test_only_the_accounts_that_may_come() -> None:
    assert judge(read(sums(account="B")), [], ("A",), force=True).refusals
    assert not judge(read(sums()), [], ("A",)).refusals
    assert not judge(read(sums(account="/billingAccounts/A")), [], ("a",)).refusals


def test_force_is_for_shrinking() -> None:
    smaller = sums(fingerprint=2, rows=5)
    assert judge(read(smaller), [version(sums())]).refusals
    assert not judge(read(smaller), [version(sums())], force=True).refusals


@given(st.integers(1, 1000), st.integers(0, 1000), st.decimals(0, 10**6, places=4))
def test_growth_is_never_shrinking(rows: int, more: int, money: Decimal) -> None:
    before = sums(rows=rows)
    grown = sums(str(Decimal(100) + money), rows=rows + more)
    assert shrinking(before, grown) == []


@given(st.lists(st.tuples(st.sampled_from(["USD", "EUR", "CNY"]), st.decimals(-(10**9), 10**9, places=9)), max_size=8))
def test_the_difference_is_what_makes_the_old_the_new(amounts: list[tuple[str, Decimal]]) -> None:
    with localcontext() as context:
        context.prec = 60
        new = replace(sums(), totals=added([LedgerSum(currency, amount, None) for currency, amount in amounts]))
        change = difference(sums(), new)
        rebuilt = added([*sums().totals, *change.values()])
    found = {each.currency: each.billed or 0 for each in rebuilt}
    for each in new.totals:
        assert found.get(each.currency, 0) == each.billed
