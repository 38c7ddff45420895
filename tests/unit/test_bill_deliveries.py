"""Several files at once: copies, overlapping exports, older deliveries beside the newest, what is no bill."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import zipfile
from decimal import Decimal
from pathlib import Path

import pytest
from fakes.bills import focus, focus_row, read_files

from tidegate.bills.overlap import Sketch, overlaps
from tidegate.cost.restate import judge
from tidegate.runtime.errors import Permanent


def bill(*costs: str, first: int = 0) -> bytes:
    return focus(*(focus_row(cost, resource=f"i-{first + place}") for place, cost in enumerate(costs))).encode()


def laid(folder: Path, files: dict[str, bytes | str]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def zipped(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return target.getvalue()


def test_the_same_file_under_other_names_counts_once(tmp_path: Path) -> None:
    laid(tmp_path, {"a.csv": bill("1", "2"), "copy/b.csv": bill("1", "2"), "c.csv": bill("4", first=9)})
    found = read_files([tmp_path / "a.csv", tmp_path / "a.csv", tmp_path / "copy/b.csv", tmp_path / "c.csv"])
    assert (found.billed, len(found.read.files)) == (7, 2)
    assert any("b.csv (the same as a.csv)" in text for text in found.read.warnings)


def test_the_same_file_twice_in_zips_counts_once(tmp_path: Path) -> None:
    laid(tmp_path, {"a.zip": zipped({"x/a.csv": bill("1"), "b.csv": bill("1")}), "b.zip": zipped({"a.csv": bill("1")})})
    assert read_files([tmp_path]).billed == 1


def test_two_empty_months_are_no_copies_to_worry_about(tmp_path: Path) -> None:
    laid(tmp_path, {"a.csv": focus(), "b.csv": focus(), "c.csv": bill("1")})
    assert read_files([tmp_path]).billed == 1


@pytest.mark.parametrize("other", ["packed", "shuffled", "longer"])
def test_overlapping_exports_are_said_and_not_imported(tmp_path: Path, other: str) -> None:
    costs = [str(number) for number in range(40)]
    lines = bill(*costs).decode().splitlines()
    second = {
        "packed": gzip.compress(bill(*costs)),
        "shuffled": "\n".join([lines[0], *reversed(lines[1:])]).encode(),
        "longer": bill(*costs, "99"),
    }[other]
    laid(tmp_path, {"a.csv": bill(*costs), "b.csv": second})
    read = read_files([tmp_path]).read
    assert any("a.csv and b.csv share 100% of their rows" in text for text in read.warnings)
    assert any("count the same money twice" in text for text in judge(read, []).refusals)
    assert judge(read, [], force=True).refusals == ()


def test_a_file_of_two_rows_and_the_same_one_packed_are_no_two_bills(tmp_path: Path) -> None:
    laid(tmp_path, {"a.csv": bill("1000", "2"), "b.csv.gz": gzip.compress(bill("1000", "2"))})
    assert judge(read_files([tmp_path]).read, []).refusals


def test_parts_of_one_export_do_not_overlap(tmp_path: Path) -> None:
    laid(tmp_path, {f"part-{part}.csv": bill("1", "1", "1", first=3 * part) for part in range(20)})
    read = read_files([tmp_path]).read
    assert (read.overlapping, judge(read, []).refusals) == ((), ())


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [(5000, 5000, 5000), (5000, 5000, 0), (300, 8000, 300), (5000, 5000, 1000), (2, 2, 2), (5000, 5000, 4000)],
)
def test_sketches_tell_overlap_from_chance(one: int, other: int, shared: int) -> None:
    draw = random.Random(7)
    common = [draw.getrandbits(128) for _ in range(shared)]
    sketches = [Sketch("a"), Sketch("b")]
    for sketch, size in zip(sketches, (one, other), strict=True):
        for digest in common + [draw.getrandbits(128) for _ in range(size - shared)]:
            sketch.add(digest)
            sketch.add(digest)
    assert bool(list(overlaps(sketches))) == (shared in (300, 4000) or one == other == shared)


HEADER = (
    "bill/PayerAccountId,bill/BillingPeriodStartDate,bill/BillingPeriodEndDate,lineItem/LineItemType,"
    "lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/CurrencyCode,lineItem/UnblendedCost\n"
)


def cur(*costs: str) -> bytes:
    row = "P,2026-03-01T00:00:00Z,2026-04-01T00:00:00Z,Usage,2026-03-02T00:00:00Z,2026-03-02T01:00:00Z,USD,{}\n"
    return gzip.compress((HEADER + "".join(map(row.format, costs))).encode(), mtime=0)


def test_aws_the_manifest_above_names_the_assembly_that_counts(tmp_path: Path) -> None:
    """With report versioning on, older assemblies and their manifests stay beside the newest."""
    month = "pre/rep/20260301-20260401"

    def manifest(assembly: str) -> str:
        period = {"start": "20260301T000000.000Z", "end": "20260401T000000.000Z"}
        keys = [f"{month}/{assembly}/rep-1.csv.gz"]
        return json.dumps({"account": "P", "reportName": "rep", "billingPeriod": period, "reportKeys": keys})

    laid(
        tmp_path,
        {
            f"{month}/zzzz/rep-1.csv.gz": cur("100"),
            f"{month}/zzzz/rep-Manifest.json": manifest("zzzz"),
            f"{month}/bbbb/rep-1.csv.gz": cur("2", "3"),
            f"{month}/bbbb/rep-Manifest.json": manifest("bbbb"),
            f"{month}/rep-Manifest.json": manifest("bbbb"),
        },
    )
    found = read_files([tmp_path])
    assert found.billed == 5
    assert any("rep-1.csv.gz (not in the newest manifest)" in text for text in found.read.warnings)


def test_aws_data_exports_the_newest_execution_counts(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {}
    for month, execution, costs in (
        ("2026-03", "2026-03-02T01:00:00.000Z-f1", ("100",)),
        ("2026-03", "2026-03-05T01:00:00.000Z-a2", ("2", "3")),
        ("2026-02", "2026-03-01T01:00:00.000Z-c3", ("7",)),
    ):
        key = f"data/BILLING_PERIOD={month}/{execution}/x-00001.csv.gz"
        manifest = {"exportArn": "arn:x", "dataFiles": [f"s3://bucket/exp/{key}"]}
        files[f"exp/{key}"] = cur(*costs)
        files[f"exp/metadata/BILLING_PERIOD={month}/{execution}/exp-Manifest.json"] = json.dumps(manifest)
    assert read_files([laid(tmp_path, files)]).billed == 12


def test_azure_the_newest_run_of_an_export_counts(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {}
    for export, run, at, costs in (
        ("daily", "ffff", "2026-05-02T01:00:00", ("1",)),
        ("daily", "aaaa", "2026-05-03T01:00:00", ("1", "2")),
        ("other", "bbbb", "2026-05-01T01:00:00", ("50",)),
    ):
        folder = f"{export}/20260501-20260531/{run}"
        manifest = {
            "exportConfig": {"exportName": export, "resourceId": f"/x/{export}", "type": "FocusCost"},
            "runInfo": {"submittedTime": at, "runId": run, "startDate": "2026-05-01T00:00:00"},
            "blobs": [{"blobName": f"{folder}/part_0_0001.csv", "dataRowCount": len(costs)}],
        }
        first = 100 if export == "other" else 0
        files |= {
            f"{folder}/part_0_0001.csv": bill(*costs, first=first),
            f"{folder}/manifest.json": json.dumps(manifest),
        }
    found = read_files([laid(tmp_path, files)])
    assert found.billed == 53
    assert not any("promises" in text for text in found.read.warnings)


@pytest.mark.parametrize("inside", [False, True])
def test_a_readme_and_an_empty_file_are_left_out_and_said(tmp_path: Path, inside: bool) -> None:
    files = {"a.csv": bill("1.5"), "README.txt": b"Please read me.\n", "empty.csv": b"", "notes.md": b"x"}
    laid(tmp_path, {"all.zip": zipped(files)} if inside else dict(files))
    found = read_files([tmp_path])
    assert found.billed == Decimal("1.5")
    assert any("README.txt (no table)" in text and "empty.csv (empty)" in text for text in found.read.warnings)


def test_a_table_that_is_no_bill_is_never_passed_over(tmp_path: Path) -> None:
    laid(tmp_path, {"a.csv": bill("1.5"), "b.csv": "name,colour\nx,red\n"})
    with pytest.raises(Permanent, match=r"b\.csv: no known bill"):
        read_files([tmp_path])


def test_a_tar_archive_is_told_what_to_do(tmp_path: Path) -> None:
    packed = tmp_path / "bill.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(laid(tmp_path / "in", {"a.csv": bill("1")}) / "a.csv", "a.csv")
    with pytest.raises(Permanent, match="a tar archive; unpack it"):
        read_files([packed])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"%PDF-1.7 a bill", "a PDF; import the provider's export"),
        (gzip.compress(gzip.compress(bill("1"))), "packed with gzip twice"),
        (b"\x28\xb5\x2f\xfd....", "packed with zstandard; unpack it first"),
        (b"\xd0\xcf\x11\xe0....", "an Excel workbook; save the sheet as CSV"),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "the download may have failed"),
    ],
)
def test_what_is_no_table_is_told_what_to_do(tmp_path: Path, data: bytes, said: str) -> None:
    laid(tmp_path, {"bill.csv": data})
    with pytest.raises(Permanent, match=f"bill.csv: .*{said}"):
        read_files([tmp_path / "bill.csv"])
