"""The laws of importing, on every real bill: twice, renamed, shuffled, cut short, restated and back to what it was."""

from __future__ import annotations

import csv
import random
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from fakes.bill_book import ALWAYS, Book
from fakes.clock import ManualClock

from tidegate.model.bill import added
from tidegate.model.charge import Charge, Ledger
from tidegate.runtime.errors import Permanent
from tidegate.store.bills import StoredBills
from tidegate.store.database import Database

NAMES = (
    "focus_1_0_sample.csv", "aws_cur_sample.csv", "azure_EA_actual.csv", "azure_EA_amortized.csv",
    "closed_s1_original.csv", "closed_s1_delta.csv", "closed_s1_ledger.csv", "closed_s2_late_delta.csv",
    "focus_1_2/commitment_discount_purchase_scenario_1.csv", "focus_1_2/commitment_discount_usage_scenario_1.csv",
    "focus_1_2/commitment_discount_usage_scenario_4.csv",
    "focus_1_2/one_hundred_percent_utilization_with_commitment_discount_flexibility_with_2_resources.csv",
    "focus_1_2/saas_spend_agreements_a2.csv", "focus_1_2/virtual_currency_pricing_model_a1.csv",
    "focus_1_2/virtual_currency_pricing_model_a2.csv",
)  # fmt: skip


@pytest.fixture
def book(database: Database, tmp_path: Path, now: datetime) -> Book:
    return Book(StoredBills(database), tmp_path, ManualClock(now))


@pytest.fixture(params=NAMES)
def bill(request: pytest.FixtureRequest, shared: Path) -> Path:
    path: Path = shared / "bills" / request.param
    if not path.is_file():
        pytest.skip("no bills in the shared folder")
    return path


def test_no_file_is_left_out(shared: Path) -> None:
    folder = shared / "bills"
    if not folder.is_dir():
        pytest.skip("no bills in the shared folder")
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.csv")} == set(NAMES)


def stored(book: Book) -> list[Charge]:
    """What counts, without where it was read."""
    return [charge for _, charge in book.store.charges(*ALWAYS, by_billing=True)]


def sums(book: Book) -> dict[tuple[str, Ledger], Decimal]:
    """By currency and ledger, of the charges themselves."""
    found: dict[tuple[str, Ledger], Decimal] = {}
    for charge in stored(book):
        for ledger, amount in ((Ledger.BILLED, charge.billed), (Ledger.EFFECTIVE, charge.effective)):
            if amount is not None:
                key = charge.currency, ledger
                found[key] = found.get(key, Decimal(0)) + amount
    return found


def rows_of(bill: Path) -> list[list[str]]:
    with bill.open(encoding="utf-8-sig", newline="") as file:
        return [row for row in csv.reader(file) if any(cell.strip() for cell in row)]


def write(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_what_is_imported_again_in_whatever_shape_changes_nothing(book: Book, bill: Path, tmp_path: Path) -> None:
    first = book.file(bill)
    before, versions = sums(book), [each.id for each in book.active]
    assert before == {
        (each.currency, ledger): amount
        for each in added([each for version in book.active for each in version.sums.totals])
        for ledger, amount in ((Ledger.BILLED, each.billed), (Ledger.EFFECTIVE, each.effective))
        if amount is not None
    }
    renamed = tmp_path / f"another {bill.name}"
    renamed.write_bytes(bill.read_bytes())
    header, *rows = rows_of(bill)
    random.Random(6).shuffle(rows)
    shuffled = write(tmp_path / f"shuffled {bill.name}", [header, *rows])
    for again in (bill, renamed, shuffled):
        result = book.file(again)
        assert {each.outcome for each in result.snapshots} == {"unchanged"}, again.name
    assert (sums(book), [each.id for each in book.active]) == (before, versions)
    assert sum(each.sums.rows for each in first.snapshots) == first.read.accepted == len(rows)


def test_a_file_that_is_cut_short_is_refused_and_what_was_there_stands(book: Book, bill: Path, tmp_path: Path) -> None:
    """In its last row, and half way to it; where that leaves a header alone nothing is imported."""
    book.file(bill)
    before = sums(book)
    data = bill.read_bytes().rstrip()
    last = data.rfind(b"\n") + 1
    short = tmp_path / f"cut {bill.name}"
    for length in (last + (len(data) - last) // 3, last // 2):
        short.write_bytes(data[:length])
        imported = ()
        with suppress(Permanent):
            imported = book.file(short).snapshots
        assert imported == ()
    assert sums(book) == before


def test_a_restated_bill_replaces_and_the_first_one_comes_back(book: Book, bill: Path, tmp_path: Path) -> None:
    """Not where its period is closed: then somebody has to say why."""
    book.file(bill)
    before = sums(book)
    header, *rows = rows_of(bill)
    restated = write(tmp_path / f"restated {bill.name}", [header, *rows, rows[0]])
    for version in book.active:
        if version.closed:
            with pytest.raises(Permanent, match="closed by invoice"):
                book.file(restated, force=True)
            book.book.reopen(version.id, "the provider restated it", "ann")
    (one,) = [each for each in book.file(restated).snapshots if each.outcome == "replaced"]
    assert one.version == 2
    first = next(charge for charge in stored(book) if charge.row == 1)
    assert sums(book) == {key: amount + _more(first, key) for key, amount in before.items()}
    for version in book.active:
        if version.closed:
            book.book.reopen(version.id, "it was wrong", "ann")
    back = book.file(bill, force=True)
    assert [each.version for each in back.snapshots if each.outcome == "replaced"] == [3]
    assert sums(book) == before
    assert len(book.active) == len({each.key for each in book.active})


def _more(charge: Charge, key: tuple[str, Ledger]) -> Decimal:
    """What one row more of it adds to a sum."""
    amount = charge.billed if key[1] is Ledger.BILLED else charge.effective
    return amount if amount is not None and key[0] == charge.currency else Decimal(0)
