"""Files that mean harm or are damaged: refused or quarantined with a reason, in bounded memory, never a traceback."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import zipfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from fakes.bills import FOCUS, focus, focus_row, read_bytes, read_files, read_text
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.bills import parts, records
from tidegate.bills.cells import NumberError, decimal_of, tags_of
from tidegate.bills.moments import CHINA, MomentError, inclusive_end, moment_of, month_of, pacific_month
from tidegate.runtime.errors import Permanent


def test_a_zip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_FREE_BYTES", 1 << 16)
    monkeypatch.setattr(parts, "_LARGEST_RATIO", 20)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bill.csv", FOCUS + "\n" + (focus_row() + "\n") * 8_000)
    with pytest.raises(Permanent, match="20 times its size"):
        read_files([path])


def test_a_gzip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_FREE_BYTES", 1 << 16)
    monkeypatch.setattr(parts, "_LARGEST_RATIO", 20)
    with pytest.raises(Permanent, match="20 times its size"):
        read_bytes(tmp_path, gzip.compress((FOCUS + "\n" + (focus_row() + "\n") * 8_000).encode()))


@pytest.mark.parametrize(
    "key", ["../../etc/passwd", "/etc/passwd", "s3://b/../../etc/passwd", "a/./b.csv", "..\\x.csv"]
)
def test_a_manifest_reads_nothing_outside_its_folders(tmp_path: Path, key: str) -> None:
    (tmp_path / "Manifest.json").write_text(json.dumps({"reportKeys": [key]}))
    with pytest.raises(Permanent, match=r"does not name a file below it|is not here"):
        read_files([tmp_path / "Manifest.json"])


def test_a_manifest_follows_no_link_out_of_its_folder(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "bill.csv").write_text(focus(focus_row()))
    deep = tmp_path / "a" / "b" / "c" / "d" / "delivery"
    deep.mkdir(parents=True)
    (deep / "bill.csv").symlink_to(secret / "bill.csv")
    (deep / "Manifest.json").write_text(json.dumps({"reportKeys": ["x/bill.csv"]}))
    with pytest.raises(Permanent, match="is not here"):
        read_files([deep / "Manifest.json"])


def test_a_name_in_a_zip_writes_nothing_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "bill.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../outside.csv", focus(focus_row()))
    before = set(tmp_path.parent.rglob("outside.csv"))
    assert read_files([path]).charge.file == "outside.csv"
    assert set(tmp_path.parent.rglob("outside.csv")) == before


@pytest.mark.parametrize("manifest", ["[]", "{}", "nonsense", '{"blobs":[{}]}', '{"reportKeys":5}', "[" * 100_000])
def test_a_broken_manifest_is_refused_by_name(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "Manifest.json").write_text(manifest)
    with pytest.raises(Permanent, match=r"Manifest\.json"):
        read_files([tmp_path / "Manifest.json"])


def test_a_manifest_names_no_other_manifest(tmp_path: Path) -> None:
    (tmp_path / "Manifest.json").write_text(json.dumps({"reportKeys": ["a/Manifest.json"]}))
    with pytest.raises(Permanent, match="another manifest"):
        read_files([tmp_path / "Manifest.json"])


def test_an_excel_workbook_is_told_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "bill.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<x/>")
    with pytest.raises(Permanent, match="save the sheet as CSV"):
        read_files([path])


def test_a_quote_that_never_closes_is_refused_by_line(tmp_path: Path) -> None:
    text = focus(focus_row()) + '"' + "x,y\n" * 400_000
    with pytest.raises(Permanent, match="a quote that is never closed"):
        read_text(tmp_path, text)


def test_a_line_that_no_memory_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_LONGEST_LINE", 5000)
    with pytest.raises(Permanent, match=r"bill\.csv: a line of more than"):
        read_text(tmp_path, focus(focus_row("1")) + "0" * 100_000)


def test_an_account_of_a_page_of_text_is_quarantined(tmp_path: Path) -> None:
    found = read_text(tmp_path, focus(focus_row("1", account="A" * 600), focus_row("2")))
    assert (found.billed, [row.amount for row in found.quarantined]) == (2, [1])


def test_formulas_are_data(tmp_path: Path) -> None:
    charge = read_text(tmp_path, focus(focus_row(resource='=cmd|"/c calc"!A1'))).charge
    assert charge.resource_id.startswith("=cmd")


def test_nul_bytes_do_no_harm(tmp_path: Path) -> None:
    found = read_text(tmp_path, focus(focus_row(resource="i\0x"), focus_row("1\0")))
    assert found.billed == 1
    assert len(found.quarantined) == 1


def test_bytes_of_a_wrong_encoding_are_counted(tmp_path: Path) -> None:
    rows = "".join(focus_row() + "\n" for _ in range(6000))
    found = read_bytes(
        tmp_path, f"{FOCUS}\n{rows}".encode() + focus_row(resource="@").encode().replace(b"@", b"\xff\xfe")
    )
    assert found.billed == 6001
    assert any("not utf-8" in text for text in found.read.warnings)


@pytest.mark.parametrize("number", ["1e999999999", "1E+40", "9" * 200, "1e-999999", "Infinity", "0x10", "1_000", "١٢"])
def test_numbers_that_only_cost_memory_are_none(number: str) -> None:
    with pytest.raises(NumberError):
        decimal_of(number)


def test_every_row_is_accepted_or_quarantined_with_its_amount(tmp_path: Path) -> None:
    rows = [focus_row(str(n) if n % 3 else "x", "2", resource=f"r{n}") for n in range(30)]
    found = read_text(tmp_path, focus(*rows))
    read = found.read
    assert read.accepted + read.aside.rows == read.rows == 30
    assert read.aside.amounts == {"USD": 20}  # the effective amount, where the billed one cannot be read
    assert sum(sums.aside.rows for sums in read.snapshots) == read.aside.rows


@settings(max_examples=40)
@given(st.binary(max_size=600))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    with contextlib.suppress(Permanent):
        read_bytes(folder, data)


@settings(max_examples=40)
@given(st.lists(st.lists(st.text(max_size=12), min_size=15, max_size=15), max_size=6))
def test_any_cells_under_a_good_header_are_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    out = io.StringIO()
    csv.writer(out).writerows([FOCUS.split(","), *rows])
    folder = tmp_path_factory.mktemp("cells")
    with contextlib.suppress(Permanent):
        found = read_bytes(folder, out.getvalue().encode("utf-8", "surrogatepass"))
        read = found.read
        assert read.rows == read.accepted + read.aside.rows + sum(file.totals_rows for file in read.files)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=12))
def test_numbers_come_back_exactly(number: Decimal) -> None:
    assert decimal_of(str(number)) == number
    assert decimal_of(f"{number:,}") == number
    assert decimal_of(f"{number:f}".replace(".", ","), comma=True) == number


@given(st.text(max_size=80))
def test_any_text_is_a_number_a_moment_tags_or_said_not_to_be(text: str) -> None:
    with contextlib.suppress(NumberError):
        decimal_of(text)
    with contextlib.suppress(MomentError):
        moment_of(text)
    assert all(isinstance(value, str) for value in tags_of(text).values())


@given(st.dates(min_value=date(2008, 1, 1), max_value=date(2199, 11, 30)))
def test_pacific_months_are_those_of_the_time_zone(day: date) -> None:
    start, end = pacific_month(f"{day:%Y%m}")
    local = datetime(day.year, day.month, 1, tzinfo=ZoneInfo("America/Los_Angeles"))
    assert start == local
    assert pacific_month(f"{end:%Y%m}")[0] == end


def test_months_and_inclusive_ends() -> None:
    assert month_of("2026-03", CHINA)[0] == datetime(2026, 2, 28, 16, tzinfo=UTC)
    assert inclusive_end(datetime(2026, 5, 31, tzinfo=UTC)) == datetime(2026, 6, 1, tzinfo=UTC)
    assert inclusive_end(datetime(2026, 5, 31, 23, 59, 59, tzinfo=UTC)) == datetime(2026, 6, 1, tzinfo=UTC)


def test_a_million_tenths_and_tiny_amounts_add_up_exactly(tmp_path: Path) -> None:
    """Exact where floats are not; twenty thousand rows here, the million is the bench's."""
    rows = "".join("0.1,2026-05-01T00:00:00Z\n1e-10,2026-05-01T00:00:00Z\n" for _ in range(10_000))
    found = read_text(tmp_path, "BilledCost,ChargePeriodStart\n" + rows)
    assert found.billed == Decimal("1000.0000010000")
