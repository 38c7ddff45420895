"""What goes wrong in bills, each a test: encodings, dialects, words for nothing, rows that are odd but right."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from decimal import Decimal
from pathlib import Path

import pytest
from fakes.bills import FOCUS, focus, focus_row, read_bytes, read_files, read_text

from tidegate.bills.wishes import Wishes
from tidegate.cost.restate import judge
from tidegate.model.charge import ChargeCategory
from tidegate.runtime.errors import Permanent

TWO = focus(focus_row("1.10"), focus_row("2.20"))


@pytest.mark.parametrize(
    "data",
    [
        TWO.encode("utf-8-sig"),
        TWO.encode("utf-16"),
        TWO.encode("utf-16-le"),
        TWO.replace("\n", "\r\n").encode(),
        TWO.replace("\n", "\r").encode(),
        TWO.replace("\n", "\n\n").encode(),
        TWO.replace(",", ";").encode(),
        TWO.replace(",", "\t").encode(),
        ("sep=;\n" + TWO.replace(",", ";")).encode(),
        gzip.compress(TWO.encode()),
        TWO.rstrip("\n").encode(),
        ("Exported by the console\n\n" + TWO).encode(),
    ],
    ids=[
        "bom",
        "utf16",
        "utf16le",
        "crlf",
        "cr",
        "blank-lines",
        "semicolon",
        "tab",
        "sep-line",
        "gzip",
        "no-end",
        "title",
    ],
)
def test_however_it_is_written_the_sum_is_the_same(tmp_path: Path, data: bytes) -> None:
    found = read_bytes(tmp_path, data)
    assert (len(found.charges), found.billed) == (2, Decimal("3.30"))


def test_zip_of_parts(tmp_path: Path) -> None:
    path = tmp_path / "bill.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/part-1.csv", TWO)
        archive.writestr("b/part-2.csv.gz", gzip.compress(TWO.encode()))
        archive.writestr("readme.md", "not a bill")
    assert read_files([path]).billed == Decimal("6.60")


@pytest.mark.parametrize("nothing", ["", "NULL", "null", "(null)", "-", "N/A"])
def test_words_for_nothing_are_no_value(tmp_path: Path, nothing: str) -> None:
    charge = read_text(tmp_path, focus(focus_row("5", resource=nothing, tags=nothing))).charge
    assert (charge.resource_id, charge.tags) == ("", {})


@pytest.mark.parametrize("nothing", ["-2", "Unassigned"])
def test_azure_placeholders_are_no_name_but_minus_two_is_money(tmp_path: Path, nothing: str) -> None:
    charge = read_text(tmp_path, focus(focus_row("-2", resource=nothing))).charge
    assert (charge.resource_id, charge.billed) == ("", -2)


@pytest.mark.parametrize(("text", "value"), [("8.0E-10", "8.0E-10"), ("35.2E-7", "0.00000352"), ("1e2", "100")])
def test_scientific_notation(tmp_path: Path, text: str, value: str) -> None:
    assert read_text(tmp_path, focus(focus_row(text))).billed == Decimal(value)


def test_quoted_newlines_and_quotes(tmp_path: Path) -> None:
    row = focus_row("3").replace("i-1", '"i-1\nwith ""quotes"""')
    assert read_text(tmp_path, focus(row)).charge.resource_id == 'i-1\nwith "quotes"'


def test_decimal_comma_with_semicolons(tmp_path: Path) -> None:
    text = TWO.replace(",", ";").replace("1.10", "1.234,10").replace("2.20", "2,20")
    assert read_text(tmp_path, text).billed == Decimal("1236.30")


def test_files_joined_to_one_have_their_header_within(tmp_path: Path) -> None:
    found = read_text(tmp_path, TWO + TWO + FOCUS + "\n")
    assert (found.read.rows, found.billed, found.quarantined) == (4, Decimal("6.60"), ())
    assert any("header stands in it once more" in text and "(2 rows)" in text for text in found.read.warnings)


def test_a_bill_that_names_no_account_says_so(tmp_path: Path) -> None:
    (sums,) = read_text(tmp_path, focus(focus_row("1", account=""))).read.snapshots
    assert any("--account" in text for text in sums.warnings)
    (sums,) = read_text(tmp_path, focus(focus_row("1", account="")), wishes=Wishes(account="A")).read.snapshots
    assert sums.warnings == ()


def test_thousands_separators(tmp_path: Path) -> None:
    assert read_text(tmp_path, focus(focus_row('"1,234,567.89"'), focus_row("0.11"))).billed == Decimal("1234568.00")


def test_what_may_mean_either_is_refused(tmp_path: Path) -> None:
    """1,5 in a file of decimal points is no number: neither 1.5 nor 15 is guessed."""
    found = read_text(tmp_path, focus(focus_row('"1,5"'), focus_row("2.25"), focus_row("0.50")))
    assert found.billed == Decimal("2.75")
    assert "BilledCost" in found.quarantined[0].reason


def test_headers_in_other_case_order_and_with_more_columns(tmp_path: Path) -> None:
    header, row = FOCUS.upper().split(","), focus_row("4").split(",")
    pairs = [*zip(header, row, strict=True), ("x_Anything", "7")][::-1]
    text = "\n".join((",".join(name for name, _ in pairs), ",".join(value for _, value in pairs)))
    assert read_text(tmp_path, text).billed == 4


def test_missing_columns_are_no_value_and_no_error(tmp_path: Path) -> None:
    charge = read_text(tmp_path, "BilledCost,ChargePeriodStart\n7,2026-05-03T00:00:00Z\n").charge
    assert (charge.billed, charge.effective, charge.account, charge.currency) == (7, None, "unknown", "XXX")
    assert (charge.billing_start.day, charge.billing_end.month) == (1, 6)


def test_a_money_column_that_stands_twice_refuses_the_file(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="billedcost stands twice"):
        read_text(tmp_path, f"{FOCUS},BilledCost\n{focus_row()},2\n")


def test_another_column_that_stands_twice_is_said(tmp_path: Path) -> None:
    found = read_text(tmp_path, f"{FOCUS},Tags\n{focus_row()},x\n")
    assert found.billed == 1
    assert any("stand twice" in text for text in found.read.warnings)


def test_negative_amounts_credits_and_refunds_without_a_resource(tmp_path: Path) -> None:
    rows = focus_row("10"), focus_row("-3", category="Credit", resource=""), focus_row("-1", category="Adjustment")
    found = read_text(tmp_path, focus(*rows))
    assert found.billed == 6
    assert [charge.category for charge in found.charges][1:] == [ChargeCategory.CREDIT, ChargeCategory.ADJUSTMENT]


def test_rows_without_dates_belong_to_the_billing_period(tmp_path: Path) -> None:
    row = focus_row("9").split(",")
    row[4] = row[5] = ""
    found = read_text(tmp_path, focus(",".join(row)))
    assert (found.charge.start, found.charge.end) == (found.charge.billing_start, found.charge.billing_end)
    assert any("no charge period" in text for text in found.read.warnings)


def test_zero_rows_and_exact_duplicates_are_rows(tmp_path: Path) -> None:
    found = read_text(tmp_path, focus(focus_row("0"), focus_row("1.5"), focus_row("1.5")))
    assert (len(found.charges), found.billed) == (3, Decimal("3.0"))


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ('{"a":"1","b":true}', {"a": "1", "b": "true"}),
        ('"a":"1","b":"2"', {"a": "1", "b": "2"}),
        ('{"user:pool":"chat","aws:x":"y"}', {"user:pool": "chat", "aws:x": "y"}),
        ('{"a":"1","a":"2"}', {"a": "2"}),
        ('{"org":"x"," org":"y"}', {"org": "y"}),
        ("key1:value1;key2:value2", {"key1": "value1", "key2": "value2"}),
        ("key:team value:a b; key:env value:prod", {"team": "a b", "env": "prod"}),
        ("{broken", {"{broken": "true"}),
    ],
)
def test_tags_however_they_are_written(tmp_path: Path, text: str, tags: dict[str, str]) -> None:
    quoted = '"' + text.replace('"', '""') + '"'
    assert dict(read_text(tmp_path, focus(focus_row(tags=quoted))).charge.tags) == tags


def test_two_currencies_are_never_added(tmp_path: Path) -> None:
    found = read_text(tmp_path, focus(focus_row("1"), focus_row("2", currency="EUR"))).read
    assert {each.currency: each.billed for each in found.totals} == {"USD": 1, "EUR": 2}
    assert any("never added" in text for sums in found.snapshots for text in sums.warnings)


def test_a_currency_that_is_none_is_quarantined_with_its_amount(tmp_path: Path) -> None:
    found = read_text(tmp_path, focus(focus_row("1"), focus_row("2", currency="Dollar")))
    assert [(row.amount, row.currency) for row in found.quarantined] == [(2, "XXX")]


def test_a_file_without_a_currency_takes_the_operators_word(tmp_path: Path) -> None:
    text = focus(focus_row(currency=""))
    assert read_text(tmp_path, text).total.currency == "XXX"
    assert read_text(tmp_path, text, wishes=Wishes(currency="CNY")).total.currency == "CNY"


def test_a_truncated_row_is_quarantined_and_said(tmp_path: Path) -> None:
    found = read_text(tmp_path, TWO + focus_row("5")[:60])
    assert len(found.quarantined) == 1
    assert found.read.files[0].truncated
    assert "fields where the header has" in found.quarantined[0].reason


def test_a_truncated_gzip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="damaged or not complete"):
        read_bytes(tmp_path, gzip.compress(TWO.encode() * 100)[:-30])


def test_day_and_month_are_told_apart_once_for_a_file(tmp_path: Path) -> None:
    def dated(*days: str) -> str:
        return "BilledCost,ChargePeriodStart\n" + "".join(f"1,{day}\n" for day in days)

    month_first = read_text(tmp_path, dated("01/02/2026", "01/13/2026")).charges
    day_first = read_text(tmp_path, dated("01/02/2026", "13/02/2026")).charges
    assert [charge.start.month for charge in month_first] == [1, 1]
    assert [charge.start.month for charge in day_first] == [2, 2]


def test_a_row_against_the_files_order_of_dates_is_quarantined(tmp_path: Path) -> None:
    found = read_text(tmp_path, "BilledCost,ChargePeriodStart\n1,05/13/2026\n1,05/14/2026\n1,25/05/2026\n")
    assert len(found.charges) == 2
    assert found.quarantined[0].amount == 1


def test_future_rows_are_kept(tmp_path: Path) -> None:
    """Savings plans are billed for hours to come; whether they count yet is for whoever asks about a time."""
    assert read_text(tmp_path, focus(focus_row("4", month=11, day=30))).billed == 4


def test_an_empty_month_has_a_header_and_no_rows(tmp_path: Path) -> None:
    assert read_text(tmp_path, FOCUS + "\n").read.totals == ()


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="empty"):
        read_bytes(tmp_path, b"")


def test_another_table_is_refused_with_what_was_found(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="no known bill has these columns: name, age"):
        read_text(tmp_path, "name,age\nx,1\n")


def test_a_line_of_totals_is_no_charge_but_told(tmp_path: Path) -> None:
    found = read_text(tmp_path, TWO + "合计,,,,,,,,3.30,3.30,,,,,\n")
    assert found.billed == Decimal("3.30")
    assert (found.read.files[0].totals_rows, len(found.quarantined)) == (1, 0)


def test_the_manifest_decides_which_files_count(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report-1.csv").write_text(TWO)
    keys = {"reportKeys": ["prefix/report/20260501-20260601/new/report-1.csv"]}
    (tmp_path / "report-Manifest.json").write_text(json.dumps(keys))
    found = read_files([tmp_path])
    assert found.billed == Decimal("3.30")
    assert any("left out" in text for text in found.read.warnings)


def test_a_manifest_whose_file_is_not_there_refuses_the_delivery(tmp_path: Path) -> None:
    (tmp_path / "Manifest.json").write_text(json.dumps({"dataFiles": ["s3://bucket/x/data-1.csv.gz"]}))
    with pytest.raises(Permanent, match="delivery is incomplete"):
        read_files([tmp_path])


@pytest.mark.parametrize(("promised", "refused"), [(2, False), (3, False), (4, True), (900, True), (1, False)])
def test_a_file_with_fewer_rows_than_its_manifest_promises_is_said_and_refused(
    tmp_path: Path, promised: int, refused: bool
) -> None:
    """Cut at the end of a line nothing else tells; one row more may be the header, counted."""
    (tmp_path / "part_0.csv").write_text(TWO)
    manifest = {"blobs": [{"blobName": "a/part_0.csv", "dataRowCount": promised}]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    read = read_files([tmp_path]).read
    assert any(f"promises {promised} rows, 2" in text for text in read.warnings) is (promised != 2)
    assert bool(judge(read, []).refusals) is refused
    assert judge(read, [], force=True).refusals == ()


@pytest.mark.parametrize("encoding", ["gbk", "gb18030", "utf-8-sig", "utf-8"])
def test_chinese_consoles_write_gbk_or_a_bom(tmp_path: Path, encoding: str) -> None:
    text = "账期,账号ID,产品,实例ID,消费时间,应付金额,币种\n2026-03,123,云服务器 ECS,i-abc,2026-03-05,12.34,CNY\n"
    charge = read_bytes(tmp_path, text.encode(encoding)).charge
    assert (charge.provider, charge.billed, charge.service_name) == ("alibaba", Decimal("12.34"), "云服务器 ECS")


def test_parquet_decimals_are_exact_and_doubles_are_said(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = list(csv.DictReader(io.StringIO(TWO)))
    exact = pa.array([Decimal("0.1000000000000000001"), Decimal("0.2")], pa.decimal128(38, 19))
    double = pa.array([0.1, 8e-10])
    columns = {name: pa.array([row[name] for row in rows]) for name in rows[0]}
    table = pa.table({**columns, "BilledCost": exact, "EffectiveCost": double})
    pq.write_table(table, tmp_path / "bill.parquet")
    found = read_files([tmp_path / "bill.parquet"])
    assert found.billed == Decimal("0.3000000000000000001")
    assert found.total.effective == Decimal("0.1") + Decimal("8e-10")
    assert any("binary doubles" in text for text in found.read.warnings)


def test_a_list_price_that_cannot_be_read_costs_no_row(tmp_path: Path) -> None:
    found = read_text(tmp_path, f"{FOCUS},ListCost\n{focus_row('5')},shifted\n")
    assert (found.billed, found.charge.list_cost) == (5, None)
    assert any("ListCost cannot be read" in text for text in found.read.warnings)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig", "utf-16"])
def test_german_exports_in_every_encoding_keep_their_words(tmp_path: Path, encoding: str) -> None:
    """Each of these letters and the one behind it is a Chinese character too, which they do not become."""
    text = "Abonnement-GUID (SubscriptionGuid);UsageDateTime;Kategorie (MeterCategory);MeterId;Währung (Currency);"
    text += "PreTaxCost (PreTaxCost);Ressource (InstanceId)\ns;2026-03-02;Virtuelle Größe;m;EUR;1.234,50;Köln-Süd\n"
    charge = read_bytes(tmp_path, text.encode(encoding)).charge
    assert (charge.billed, charge.currency) == (Decimal("1234.50"), "EUR")
    assert (charge.service_name, charge.resource_id) == ("Virtuelle Größe", "Köln-Süd")


def test_azure_legacy_enterprise_usage(tmp_path: Path) -> None:
    header = "SubscriptionId,SubscriptionGuid,Date,Meter ID,Meter Category,Consumed Quantity,ResourceRate,ExtendedCost"
    charge = read_text(tmp_path, f"{header}\n1,guid,03/13/2026,m,Virtual Machines,1,1,1.25\n").charge
    assert (charge.billed, charge.provider) == (Decimal("1.25"), "azure")


def test_lines_of_blanks_are_no_rows(tmp_path: Path) -> None:
    found = read_text(tmp_path, focus(focus_row("5")) + "\n   \n,,,,\n \t \n")
    assert (found.billed, found.read.rows, found.read.warnings) == (5, 1, ())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.50-", "-1.50"),
        ("5E-324", "5E-324"),
        ("1.2345678901234567E-45", "1.2345678901234567E-45"),
        ("-$2", "-2"),
        ("(2.5)", "-2.5"),
    ],
)
def test_amounts_as_ledgers_and_doubles_write_them(tmp_path: Path, text: str, value: str) -> None:
    assert read_text(tmp_path, focus(focus_row(text, "0"))).billed == Decimal(value)


@pytest.mark.parametrize("month", ["202603", "202603.0", "2026-03", "2026-03-01", '"""202603"""', "2026/3"])
def test_invoice_months_as_tools_write_them(tmp_path: Path, month: str) -> None:
    header = "billing_account_id,sku.id,usage_start_time,usage_end_time,cost,currency,invoice.month"
    text = f"{header}\nB,X,2026-03-02 08:00:00 UTC,2026-03-02 09:00:00 UTC,2,USD,{month}\n"
    assert f"{read_text(tmp_path, text).charge.billing_start:%Y-%m-%d %H}" == "2026-03-01 08"
