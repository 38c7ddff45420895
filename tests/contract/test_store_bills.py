"""The book of bills on a real Postgres: snapshots, restatements, closing, corrections, quarantine, prices."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from fakes.bill_book import ALWAYS, Book
from fakes.bills import FOCUS, focus, focus_row, read_files
from fakes.clock import ManualClock

from tidegate.model.charge import Charge
from tidegate.model.price import Price
from tidegate.runtime.errors import Permanent
from tidegate.store.bill_codec import COLUMNS
from tidegate.store.bills import StoredBills
from tidegate.store.database import Database

ROWS = [focus_row(str(n), day=n + 1, resource=f"r{n}") for n in range(10)]


@pytest.fixture
def book(database: Database, tmp_path: Path, now: datetime) -> Book:
    return Book(StoredBills(database), tmp_path, ManualClock(now))


def test_every_field_of_a_charge_is_stored() -> None:
    assert set(Charge.__dataclass_fields__) == set(COLUMNS[1:])


def test_what_is_stored_is_what_was_read(book: Book) -> None:
    odd = focus_row("-1.50E-7", resource='"a\tb\\c\n""d"""', tags='"{""p\\\\"": ""x\ty"", ""名"": ""值""}"')
    result = book.text(focus(*ROWS, odd))
    stored = {charge.row: charge for _, charge in book.store.charges(*ALWAYS)}
    assert len(stored) == 11
    assert stored[11].resource_id == 'a\tb\\c\n"d"'
    assert stored[11].billed == Decimal("-1.50E-7")
    assert stored[11].tags == {"p\\": "x\ty", "名": "值"}
    assert sum(charge.billed or 0 for charge in stored.values()) == result.read.totals[0].billed


@pytest.mark.parametrize("name", ["focus_1_0_sample.csv", "aws_cur_sample.csv", "azure_EA_amortized.csv"])
def test_real_bills_keep_every_digit(book: Book, shared: Path, name: str) -> None:
    path = shared / "bills" / name
    if not path.is_file():
        pytest.skip("no bills in the shared folder")
    book.file(path)
    read = sorted(read_files([path]).charges, key=lambda charge: charge.row)
    stored = sorted((charge for _, charge in book.store.charges(*ALWAYS, by_billing=True)), key=lambda each: each.row)
    assert stored == read


def test_the_same_bytes_are_no_change_whatever_their_name(book: Book) -> None:
    book.text(focus(*ROWS))
    again = book.text(focus(*ROWS), "other.csv")
    assert [each.outcome for each in again.snapshots] == ["unchanged"]
    assert book.state == [("focus", "A", 1, "45")]


def test_the_same_rows_in_another_order_are_no_change(book: Book) -> None:
    book.text(focus(*ROWS))
    shuffled = random.Random(1).sample(ROWS, len(ROWS))
    assert [each.outcome for each in book.text(focus(*shuffled)).snapshots] == ["unchanged"]
    assert len(list(book.store.charges(*ALWAYS))) == 10


def test_a_restatement_replaces_and_says_the_difference(book: Book) -> None:
    book.text(focus(*ROWS))
    result = book.text(focus(*ROWS, focus_row("0.25")))
    (only,) = result.snapshots
    assert (only.outcome, only.version, only.difference["USD"].billed) == ("replaced", 2, Decimal("0.25"))
    assert book.state == [("focus", "A", 2, "45.25")]
    assert sum(charge.billed or 0 for _, charge in book.store.charges(*ALWAYS)) == Decimal("45.25")
    old, new = book.store.versions(active_only=False)
    movers = book.store.movers(old.id, new.id)
    assert [(each.resource_id, each.sum.billed) for each in movers] == [("i-1", Decimal("0.25"))]


def test_only_the_periods_that_changed_get_a_version(book: Book) -> None:
    june = [focus_row("1", month=6)]
    book.text(focus(*ROWS, *june))
    result = book.text(focus(*ROWS, focus_row("7", month=6)))
    assert [each.outcome for each in result.snapshots] == ["unchanged", "replaced"]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (ROWS[:8], "8 rows where 10 were"),
        ([*ROWS[:9], focus_row("9", day=1)], "ends 2026-05-09"),
        ([focus_row(str(n), day=n + 1) for n in range(9)] + [focus_row("-30", day=10)], "billed USD 6 where 45 was"),
        ([row.replace("USD", "EUR") for row in ROWS], "has no USD any more"),
    ],
)
def test_shrinking_is_refused_unless_forced(book: Book, rows: list[str], why: str) -> None:
    book.text(focus(*ROWS))
    before = book.state
    with pytest.raises(Permanent, match=why):
        book.text(focus(*rows))
    assert book.state == before
    assert len(list(book.store.charges(*ALWAYS))) == 10
    book.text(focus(*rows), force=True)
    assert [each.number for each in book.active] == [2]


def test_a_truncated_file_is_refused_unless_forced(book: Book) -> None:
    with pytest.raises(Permanent, match="last row is incomplete"):
        book.text(focus(*ROWS)[:-30])
    assert book.active == []
    book.text(focus(*ROWS)[:-30], force=True)
    (version,) = book.active
    assert (version.sums.rows, version.sums.aside.rows) == (9, 1)
    assert [row.reason for row in book.store.quarantined(version.id)]


def test_another_accounts_file_is_refused(database: Database, tmp_path: Path, now: datetime) -> None:
    book = Book(StoredBills(database), tmp_path, ManualClock(now), accounts=("A",))
    book.text(focus(*ROWS))
    with pytest.raises(Permanent, match=r"none of those in \[bills\] accounts"):
        book.text(focus(*(row.replace("A,USD", "B,USD") for row in ROWS)))
    assert len(book.active) == 1


def test_every_amount_invoiced_closes_the_period_and_nothing_replaces_it(book: Book) -> None:
    invoiced = [focus_row(str(n), day=n + 1, invoice="I-1") for n in range(10)]
    book.text(focus(*invoiced))
    (version,) = book.active
    assert (version.closed, version.closed_evidence) == (True, "invoice I-1")
    with pytest.raises(Permanent, match="closed by invoice I-1"):
        book.text(focus(*invoiced, focus_row("5", invoice="I-2")), force=True)
    assert [each.outcome for each in book.text(focus(*invoiced[::-1])).snapshots] == ["unchanged"]
    book.book.reopen(version.id, "the provider restated it", "ann")
    book.text(focus(*invoiced, focus_row("5", invoice="I-2")))
    assert [(each.number, each.closed_evidence) for each in book.active] == [(2, "invoice I-1, I-2")]


def test_one_row_without_an_invoice_keeps_the_period_open(book: Book) -> None:
    book.text(focus(focus_row("1", invoice="I-1"), focus_row("2")))
    assert [each.closed for each in book.active] == [False]


def test_a_quarantined_row_keeps_the_period_open_and_cannot_be_closed(book: Book) -> None:
    book.text(focus(focus_row("1", invoice="I-1"), focus_row("x", "2", invoice="I-1")))
    (version,) = book.active
    assert not version.closed
    assert version.sums.aside.amounts == {"USD": Decimal(2)}
    with pytest.raises(Permanent, match="1 rows of it are quarantined"):
        book.book.close(version.id, "the month is over", "ann")


def test_another_export_of_the_account_is_known_whatever_it_calls_it(book: Book) -> None:
    """Azure's own exports write 8611537 for what its FOCUS export calls by its whole path."""
    book.text(focus(focus_row("5", account="/providers/Microsoft.Billing/billingAccounts/8611537")))
    own = (
        "BillingAccountId,SubscriptionId,Date,BillingPeriodStartDate,BillingPeriodEndDate,MeterCategory,MeterId,"
        "CostInBillingCurrency,BillingCurrency,ChargeType\n"
        "8611537,s,05/02/2026,05/01/2026,05/31/2026,Virtual Machines,m,5,USD,Usage\n"
    )
    with pytest.raises(Permanent, match="two sources would count the same money twice"):
        book.text(own, "azure.csv", force=True)
    assert book.text(focus(focus_row("6", account="8611537", month=7)), account="/x/8611537").snapshots


def test_a_row_that_may_be_anybodys_keeps_the_largest_from_being_closed_by_hand_too(book: Book) -> None:
    """Its period cannot be read; no period closes by itself, and the one that counts its money by nobody."""
    may = [focus_row("5", month=5, day=day, invoice="I-1") for day in (1, 2, 3)]
    lost = focus_row("7", month=6, invoice="I-2").replace("2026-06-01T00:00:00Z", "in June")
    book.text(focus(focus_row("1", month=6, invoice="I-2"), lost, *may))
    first, other = sorted(book.active, key=lambda version: -version.sums.rows)
    assert [each.closed for each in (first, other)] == [False, False]
    assert first.sums.aside.amounts == {"USD": Decimal(7)}
    assert [row.amount for row in book.store.quarantined(first.id)] == [Decimal(7)]
    with pytest.raises(Permanent, match="1 rows of it are quarantined"):
        book.book.close(first.id, "the month is over", "ann")
    again = book.text(focus(focus_row("1", month=6, invoice="I-2"), lost, *may))
    assert (again.read.aside.rows, again.read.aside.amounts) == (1, {"USD": Decimal(7)})
    assert book.book.close(other.id, "I have looked at it", "ann").closed


def test_closing_and_reopening_by_hand_need_each_other(book: Book) -> None:
    book.text(focus(*ROWS))
    (version,) = book.active
    with pytest.raises(Permanent, match="open already"):
        book.book.reopen(version.id, "why not", "ann")
    closed = book.book.close(version.id, "ties to the invoice of 2 June", "ann")
    assert closed.closed_evidence == "ann: ties to the invoice of 2 June"
    with pytest.raises(Permanent, match="closed already"):
        book.book.close(version.id, "again", "ann")


def test_billing_period_status_closes(book: Book) -> None:
    book.text(focus(*ROWS))
    status = (
        "BillingAccountId,BillingPeriodStart,BillingPeriodEnd,BillingPeriodStatus\nA,2026-05-01,2026-06-01,Closed\n"
    )
    book.text(status, "status.csv")
    assert [each.closed_evidence for each in book.active] == ["BillingPeriodStatus Closed"]


def test_an_invoice_that_differs_from_its_charges_is_said_to_the_cent(book: Book) -> None:
    book.text(focus(focus_row("10.00", invoice="I-1")))
    detail = "InvoiceId,InvoiceDetailId,BilledCost,BillingCurrency\nI-1,1,10.01,USD\n"
    assert "invoice I-1: USD 10.01, its charges add up to 10.00: -0.01" in book.text(detail, "detail.csv").warnings


def test_corrections_show_on_both_axes(book: Book) -> None:
    book.text(focus(focus_row("1500", resource="R-111", invoice="I-5")))
    delta = [
        focus_row(amount, resource=resource, month=6, charged_month=5, correction="Correction", invoice="I-6")
        for amount, resource in (("-300", "R-111"), ("300", "R-222"))
    ]
    book.text(focus(*delta), "june.csv")
    may, june, july = (datetime(2026, month, 1, tzinfo=UTC) for month in (5, 6, 7))
    by_charge: dict[str, Decimal] = {}
    for _, charge in book.store.charges(may, june):
        by_charge[charge.resource_id] = by_charge.get(charge.resource_id, Decimal(0)) + (charge.billed or 0)
    invoice = sum(charge.billed or 0 for _, charge in book.store.charges(june, july, by_billing=True))
    assert by_charge == {"R-111": 1200, "R-222": 300}
    assert invoice == 0


def test_two_sources_of_one_ledger_are_refused(book: Book) -> None:
    azure = (
        "BillingAccountId,BillingPeriodStartDate,BillingPeriodEndDate,Date,SubscriptionId,MeterCategory,Cost,"
        "BillingCurrency,ChargeType,PricingModel\n"
        "A,05/01/2026,05/31/2026,05/03/2026,s,Virtual Machines,5,USD,Usage,OnDemand\n"
    )
    book.text(azure, "actual.csv", source="azure-actual")
    book.text(azure.replace(",5,", ",6,"), "amortized.csv", source="azure-amortized")
    assert [each.key.source for each in book.active] == ["azure-actual", "azure-amortized"]
    with pytest.raises(Permanent, match="billed ledger comes from azure-actual already"):
        book.text(focus(*ROWS), "focus.csv", force=True)
    assert len(book.active) == 2


def test_shards_stand_side_by_side(book: Book) -> None:
    book.text(focus(*ROWS), shard="eu")
    book.text(focus(focus_row("3")), "us.csv", shard="us")
    assert sum(charge.billed or 0 for _, charge in book.store.charges(*ALWAYS)) == 48


def test_old_versions_keep_their_sums_and_lose_their_charges(book: Book) -> None:
    for number in range(5):
        book.text(focus(*ROWS, focus_row(str(number), resource="extra")))
    versions = book.store.versions(active_only=False)
    assert [each.charges_kept for each in versions] == [False, False, True, True, True]
    assert [str(each.sums.totals[0].billed) for each in versions] == ["45", "46", "47", "48", "49"]


def test_a_failure_in_the_middle_leaves_everything_as_it_was(book: Book) -> None:
    book.text(focus(*ROWS))
    before = book.state
    text = focus(*ROWS, *(focus_row("1") for _ in range(6000))) + '"' + "x" * 2_000_000
    with pytest.raises(Permanent, match="never closed"):
        book.text(text)
    assert book.state == before
    assert len(list(book.store.charges(*ALWAYS))) == 10


def test_concurrent_imports_of_a_period_take_turns(book: Book) -> None:
    texts = [focus(*ROWS, focus_row(str(n), resource="extra")) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: book.text(texts[each], f"{each}.csv"), range(4)))
    versions = book.store.versions(active_only=False)
    assert [each.number for each in versions] == [1, 2, 3, 4]
    assert [each.active for each in versions] == [False, False, False, True]
    assert len(list(book.store.charges(*ALWAYS))) == 11


def test_readers_see_the_old_or_the_new_never_a_mix(book: Book) -> None:
    book.text(focus(*ROWS))
    reader: Iterator[object] = book.store.charges(*ALWAYS)
    next(reader)
    book.text(focus(*(focus_row("100", day=n + 1, resource=f"r{n}") for n in range(10))))
    assert sum(1 for _ in reader) == 9


def test_an_import_of_nothing_good_is_refused(book: Book) -> None:
    with pytest.raises(Permanent, match="none of 1 rows can be taken"):
        book.text(f"{FOCUS}\n{focus_row('x', 'y')}\n")
    assert book.store.versions(active_only=False) == []


def test_prices_replace_their_like(book: Book, now: datetime) -> None:
    price = Price("aws", "p5.48xlarge", "USD", Decimal("98.32"), gpus=8)
    book.book.put_prices([price, Price("aws", "p5.48xlarge", "USD", Decimal(90), since=now)], "ann")
    book.book.put_prices([Price("aws", "p5.48xlarge", "USD", Decimal("55.04"), gpus=8)], "ann")
    assert sorted(each.amount for each in book.book.prices()) == [Decimal("55.04"), 90]


def test_the_same_rows_under_another_account_are_refused_until_the_first_are_withdrawn(book: Book) -> None:
    nameless = focus(*(row.replace("A,USD", ",USD") for row in ROWS))
    book.text(nameless)
    with pytest.raises(Permanent, match="the very same rows are there as focus unknown"):
        book.text(nameless, account="A")
    (version,) = book.active
    book.book.withdraw(version.id, "imported without its account", "ann")
    assert list(book.store.charges(*ALWAYS)) == []
    book.text(nameless, account="A")
    assert book.state == [("focus", "A", 1, "45")]


def test_naming_the_currency_later_is_no_loss(book: Book) -> None:
    nameless = focus(*(row.replace("A,USD", "A,") for row in ROWS))
    book.text(nameless)
    book.text(nameless, currency="USD")
    (version,) = book.active
    assert [each.currency for each in version.sums.totals] == ["USD"]


def test_a_withdrawn_bill_may_come_again(book: Book) -> None:
    book.text(focus(*ROWS))
    (version,) = book.active
    book.book.withdraw(version.id, "by mistake", "ann")
    assert [each.outcome for each in book.text(focus(*ROWS)).snapshots] == ["new"]
    assert [each.number for each in book.active] == [2]


def test_a_file_of_another_account_than_the_one_named_is_refused(book: Book) -> None:
    with pytest.raises(Permanent, match="of the account A, not of B"):
        book.text(focus(*ROWS), account="B")
    assert book.active == []


def quantities(*rows: tuple[str, str]) -> str:
    """A file of quantities alone: (SKU, hours)."""
    header = "BillingAccountId,BillingPeriodStart,BillingPeriodEnd,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,"
    span = "cw,2026-05-01,2026-06-01,2026-05-03T00:00:00Z,2026-05-03T01:00:00Z,Usage"
    lines = [f"{span},{hours},Hours,{sku},CoreWeave" for sku, hours in rows]
    return "\n".join([f"{header}ConsumedQuantity,ConsumedUnit,SkuId,ProviderName", *lines]) + "\n"


def test_a_price_that_comes_later_prices_the_same_file(book: Book) -> None:
    """The remedy that a quarantined row names helps; a file whose amounts rest on no price is not read again."""
    first = Price("coreweave", "h100", "USD", Decimal(2))
    text = quantities(("h100", "3"), ("b200", "5"))
    assert isinstance(book.book.clock, ManualClock)
    book.book.put_prices([first], "ann")
    book.text(text)
    book.text(focus(focus_row("1")), "focus.csv")
    assert [str(each.sums.totals[0].billed) for each in book.active] == ["6", "1"]
    assert book.text(text).snapshots[0].outcome == "unchanged"
    later = (Price("coreweave", "b200", "USD", Decimal(4)), "26"), (replace(first, amount=Decimal(3)), "29")
    for price, billed in later:
        book.book.clock.forward(60)
        book.book.put_prices([price], "ann")
        result = book.text(text)
        assert (result.snapshots[0].outcome, str(result.read.totals[0].billed)) == ("replaced", billed)
        assert "same files have been imported before" in book.text(text).read.warnings[-1]
        assert "same files have been imported before" in book.text(focus(focus_row("1")), "focus.csv").read.warnings[-1]
    assert any("2 rows have no amount" in text for text in book.active[0].sums.warnings)


def test_what_was_imported_before_is_all_of_it(book: Book) -> None:
    """Of a file of two months one was news: imported again it has both in its sums, until one is restated."""
    assert isinstance(book.book.clock, ManualClock)
    may, june, later = focus_row("1"), focus_row("2", month=6), focus_row("4", month=6, day=2)
    book.text(focus(may, june), "first.csv")
    for text, outcomes, total in (
        (focus(may, june, later), ["unchanged", "replaced"], "7"),
        (focus(may, june, later), ["unchanged", "unchanged"], "7"),
        (focus(june, later, may), ["unchanged", "unchanged"], "7"),
    ):
        book.book.clock.forward(60)
        result = book.text(text)
        assert [each.outcome for each in result.snapshots] == outcomes
        assert str(result.read.totals[0].billed) == total
    again = book.text(focus(june, later, may))
    assert "same files have been imported before" in again.read.warnings[-1]
    assert [each.outcome for each in again.snapshots] == ["unchanged", "unchanged"]
    book.book.clock.forward(60)
    book.text(focus(focus_row("3")), "restated.csv")
    book.book.clock.forward(60)
    back = book.text(focus(june, later, may), force=True)
    assert sorted(each.outcome for each in back.snapshots) == ["replaced", "unchanged"]
