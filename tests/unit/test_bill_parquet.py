"""Parquet as writers of all kinds make it: nested, single precision, bytes that are text, dates, damaged."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fakes.bills import Found, read_files

from tidegate.runtime.errors import Permanent

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
START, END = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)


def focus(folder: Path, **columns: Any) -> Found:
    rows = len(next(iter(columns.values())))
    plain = {
        "BillingAccountId": ["A"] * rows,
        "BillingCurrency": ["USD"] * rows,
        "BillingPeriodStart": [START] * rows,
        "BillingPeriodEnd": [END] * rows,
        "ChargePeriodStart": [START] * rows,
        "ChargePeriodEnd": [END] * rows,
        "ChargeCategory": ["Usage"] * rows,
    }
    return table(folder, **(plain | columns))


def table(folder: Path, **columns: Any) -> Found:
    pq.write_table(pa.table(columns), folder / "bill.parquet")
    return read_files([folder / "bill.parquet"])


def test_single_precision_is_what_it_was_written_as(tmp_path: Path) -> None:
    found = focus(tmp_path, BilledCost=pa.array([0.1, 0.2, 1e-7, None], pa.float32()), EffectiveCost=[0.1, 0.2, 0.3, 4])
    assert found.billed == Decimal("0.3000001")
    assert found.total.effective == Decimal("4.6")


def test_bytes_without_a_type_are_text(tmp_path: Path) -> None:
    cost = pa.array([b"0.1", b"2"], pa.binary())
    found = focus(tmp_path, BilledCost=cost, BillingCurrency=pa.array([b"EUR", b"EUR"], pa.binary()))
    assert (found.total.currency, found.billed) == ("EUR", Decimal("2.1"))


def test_days_instead_of_moments(tmp_path: Path) -> None:
    found = focus(tmp_path, BilledCost=[1.5], BillingPeriodStart=pa.array([date(2026, 3, 1)]))
    assert found.charge.billing_start == START


def test_a_double_that_is_no_number_is_no_value(tmp_path: Path) -> None:
    found = focus(tmp_path, BilledCost=[1.5, float("nan"), float("inf")], EffectiveCost=[1.0, 2.0, 3.0])
    assert (found.billed, found.total.effective) == (Decimal("1.5"), 3)
    assert len(found.quarantined) == 1  # infinity is refused, never added


def test_gcp_nested_columns_and_lists_of_credits(tmp_path: Path) -> None:
    found = table(
        tmp_path,
        billing_account_id=["B"],
        service=[{"id": "s", "description": "Compute Engine"}],
        sku=[{"id": "k", "description": "A3 GPU"}],
        project=[{"id": "p", "inner": {"deep": 1}}],
        usage_start_time=[START],
        usage_end_time=[END],
        cost=[1.1],
        currency=["USD"],
        credits=[[{"name": "CUD", "amount": -0.1}, {"name": "SUD", "amount": -1e-7}]],
        invoice=[{"month": "202603"}],
        labels=[[{"key": "pool", "value": "chat"}]],
    )
    assert found.billed == Decimal("0.9999999")
    assert (found.charge.service_name, found.charge.sub_account) == ("Compute Engine", "p")
    assert found.charge.tags["pool"] == "chat"


def test_aws_maps(tmp_path: Path) -> None:
    tags = pa.array([[("user_pool", "chat")], None], pa.map_(pa.string(), pa.string()))
    product = pa.array([[("instance_type", "p5.48xlarge")], []], pa.map_(pa.string(), pa.string()))
    found = table(
        tmp_path,
        bill_payer_account_id=["P"] * 2,
        bill_billing_period_start_date=pa.array([START] * 2, pa.timestamp("ms")),
        bill_billing_period_end_date=pa.array([END] * 2, pa.timestamp("ms")),
        line_item_line_item_type=["Usage", "Tax"],
        line_item_usage_start_date=pa.array([START] * 2, pa.timestamp("ns")),
        line_item_usage_end_date=pa.array([END] * 2, pa.timestamp("ns")),
        line_item_currency_code=["USD"] * 2,
        line_item_unblended_cost=[1e-10, 3.3],
        resource_tags=tags,
        product=product,
    )
    assert found.billed == Decimal("3.3000000001")
    assert (found.charges[0].sku, found.charges[0].tags) == ("p5.48xlarge", {"user_pool": "chat"})


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    focus(tmp_path, BilledCost=[1.5])
    whole = (tmp_path / "bill.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-40])
    with pytest.raises(Permanent, match=r"cut\.parquet: cannot be read as Parquet"):
        read_files([tmp_path / "cut.parquet"])
