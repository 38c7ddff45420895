"""JSON bills: keys that come late, credits however a list was written, answers of APIs, times in milliseconds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fakes.bills import Found, read_text

from tidegate.cost.restate import judge
from tidegate.model.charge import ServiceClass


def gcp(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "billing_account_id": "B",
        "service": {"description": "Compute Engine"},
        "sku": {"id": "X", "description": "A3 GPU"},
        "usage_start_time": "2026-03-02 08:00:00 UTC",
        "usage_end_time": "2026-03-02 09:00:00 UTC",
        "cost": 0.1,
        "currency": "USD",
        "invoice": {"month": "202603"},
    }
    return row | changes


def lines(folder: Path, *rows: dict[str, Any]) -> Found:
    return read_text(folder, "\n".join(map(json.dumps, rows)), name="bill.jsonl")


def csv_credits(folder: Path, credits_: str, column: str = "credits") -> Found:
    header = f"billing_account_id,sku.id,usage_start_time,usage_end_time,cost,currency,invoice.month,{column}"
    quoted = credits_.replace('"', '""')
    return read_text(folder, f'{header}\nB,X,2026-03-02 08:00:00 UTC,2026-03-02 09:00:00 UTC,2,USD,202603,"{quoted}"\n')


@pytest.mark.parametrize("before", [1, 1500])
def test_a_line_that_is_cut_is_known_as_such(tmp_path: Path, before: int) -> None:
    whole = "\n".join(json.dumps(gcp()) for _ in range(before))
    found = read_text(tmp_path, f'{whole}\n{{"cost": 3, "curr', name="bill.jsonl")
    assert [row.reason for row in found.quarantined] == ["the line is no JSON object"]
    assert any("the file may be cut short" in text for text in found.read.warnings)
    assert any("the last row is incomplete" in text for text in judge(found.read, []).refusals)


def test_a_key_that_only_a_later_row_has_counts_all_the_same(tmp_path: Path) -> None:
    """BigQuery leaves out what is null: the first credit may stand in the millionth row."""
    rows = [gcp() for _ in range(1500)]
    rows[1200]["credits"] = [{"name": "CUD", "amount": -0.05}]
    rows[1300]["resource"] = {"name": "vm-7", "global_name": "//compute/vm-7"}
    rows[1400]["adjustment_info"] = {"mode": "manual"}
    found = lines(tmp_path, *rows)
    assert (len(found.charges), len(found.quarantined)) == (1500, 0)
    assert found.billed == 1500 * Decimal("0.1") - Decimal("0.05")
    assert (found.charges[1300].resource_id, found.charges[1300].resource_name) == ("//compute/vm-7", "vm-7")
    assert any("no figure needs" in text for text in found.read.warnings)


def test_rows_that_lack_a_key_of_the_first_ones(tmp_path: Path) -> None:
    found = lines(tmp_path, gcp(credits=[{"amount": -0.01}]), gcp())
    assert found.billed == Decimal("0.19")


@pytest.mark.parametrize(
    ("credits_", "net"),
    [
        ('[{"name": "a", "amount": -0.25}]', "1.75"),
        ("[{'name': 'Free', 'amount': -0.25, 'full_name': \"Bob's\", 'id': None, 'type': 'PROMOTION'}]", "1.75"),
        ("{'name': 'Free', 'amount': -0.1000000000000000000001}", "1.8999999999999999999999"),
        ("[{'amount': -0.25}, {'amount': -1e-7}]", "1.7499999"),
        ("[]", "2"),
        ("", "2"),
        ("-0.5", "1.5"),
    ],
)
def test_credits_as_json_as_python_or_as_a_figure(tmp_path: Path, credits_: str, net: str) -> None:
    assert csv_credits(tmp_path, credits_).billed == Decimal(net)


@pytest.mark.parametrize("credits_", ["[{'name': 'a'}]", "__import__('os')", "[1, 2]", "[" * 5000, "{'amount': x}"])
def test_credits_that_are_none_are_quarantined_with_the_cost(tmp_path: Path, credits_: str) -> None:
    found = csv_credits(tmp_path, credits_)
    assert [row.amount for row in found.quarantined] == [2]


@pytest.mark.parametrize("column", ["credit_amount", "credits.amount", "total_credits", "credits_total"])
def test_credits_in_a_column_of_their_own(tmp_path: Path, column: str) -> None:
    assert csv_credits(tmp_path, "-0.5", column).billed == Decimal("1.5")


@pytest.mark.parametrize(
    ("record", "total", "disk"),
    [
        ({"podId": "p", "gpuAmount": 10.1, "cpuAmount": 0, "diskAmount": 0.2, "totalAmount": 10.3}, "10.3", "0.2"),
        ({"serverlessId": "s", "gpuAmount": 1, "feeAmount": 0.3, "diskAmount": 0.2}, "1.5", "0.2"),
        ({"totalAmount": 3, "podGpuAmount": 1, "podDiskAmount": 0.5, "storageStandardAmount": 0.5}, "3", "1.0"),
        ({"networkVolumeId": "v", "totalAmount": 1.5, "standardAmount": 1.5}, "1.5", "1.5"),
        ({"gpuTypeId": "NVIDIA L40S", "amount": 1.5, "timeBilledMs": 3600000}, "1.5", "0"),
    ],
)
def test_runpod_answers_of_every_kind(tmp_path: Path, record: dict[str, Any], total: str, disk: str) -> None:
    period = {"startTime": "2026-03-02T00:00:00Z", "endTime": "2026-03-03T00:00:00Z"}
    answer = {"records": [period | record], "metadata": {"recordCount": 1, "totals": {"totalAmount": 99}}}
    found = read_text(tmp_path, json.dumps(answer), name="pods.json")
    assert found.billed == Decimal(total)
    stored = [charge.billed or Decimal(0) for charge in found.charges if charge.service is ServiceClass.STORAGE]
    assert sum(stored, Decimal(0)) == Decimal(disk)


@pytest.mark.parametrize("digits", ["", "000", "000000", "000000000"])
def test_times_since_1970(tmp_path: Path, digits: str) -> None:
    moment = datetime(2026, 3, 2, tzinfo=UTC)
    row = gcp(usage_start_time=f"{int(moment.timestamp())}{digits}")
    assert lines(tmp_path, row).charge.start == moment
