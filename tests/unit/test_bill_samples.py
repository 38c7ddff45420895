"""Real bills: the sum of all lines is the sum of the rows, exactly, by currency and ledger."""

from __future__ import annotations

import csv
from decimal import Decimal, localcontext
from pathlib import Path

import pytest
from fakes.bills import read_files

from tidegate.model.charge import ServiceClass

SUMS = {
    "focus_1_0_sample.csv": (1000, "20.52022672899", "14.97651418586"),
    "aws_cur_sample.csv": (1281, "1.68230869740", "1.68230869740"),
    "azure_EA_actual.csv": (11, "8.5450077867419368", None),
    "azure_EA_amortized.csv": (28, None, "16.29693213663664462748541900"),
    "closed_s1_original.csv": (1, "1500", "1500"),
    "closed_s1_delta.csv": (2, "0", "0"),
    "closed_s1_ledger.csv": (3, "0", "0"),
    "closed_s2_late_delta.csv": (1, "1500", "1500"),
    "focus_1_2/commitment_discount_purchase_scenario_1.csv": (1, "8760.00", "0.00"),
    "focus_1_2/commitment_discount_usage_scenario_1.csv": (1, "0.00", "1.00"),
    "focus_1_2/commitment_discount_usage_scenario_4.csv": (2, "0.50", "1.50"),
    "focus_1_2/one_hundred_percent_utilization_with_commitment_discount_flexibility_with_2_resources.csv": (
        3,
        "2",
        "2",
    ),
    "focus_1_2/saas_spend_agreements_a2.csv": (13, "1200", "1200"),
    "focus_1_2/virtual_currency_pricing_model_a1.csv": (1, "200000.00", "0.00"),
    "focus_1_2/virtual_currency_pricing_model_a2.csv": (3, "0.00", "1230.00"),
}
_BILLED = ("BilledCost", "lineItem/UnblendedCost", "Cost")


@pytest.fixture
def bills(shared: Path) -> Path:
    folder = shared / "bills"
    if not folder.is_dir():
        pytest.skip("no bills in the shared folder")
    return folder


@pytest.mark.parametrize("name", SUMS)
def test_sums_to_the_digit(bills: Path, name: str) -> None:
    rows, billed, effective = SUMS[name]
    found = read_files([bills / name])
    assert len(found.charges) == rows
    assert not found.quarantined
    assert found.total.billed == (None if billed is None else Decimal(billed))
    assert found.total.effective == (None if effective is None else Decimal(effective))


def test_no_file_is_left_out(bills: Path) -> None:
    assert {str(path.relative_to(bills)) for path in bills.rglob("*.csv")} == set(SUMS)


@pytest.mark.parametrize("name", SUMS)
def test_charges_add_up_to_the_column(bills: Path, name: str) -> None:
    """Against another reader: the standard library's, over the raw column."""
    with (bills / name).open(encoding="utf-8-sig", newline="") as file:
        table = list(csv.DictReader(file))
    column = next(each for each in _BILLED if each in table[0])
    with localcontext() as context:
        context.prec = 200
        raw = sum((Decimal(row[column]) for row in table), Decimal(0))
        charges = read_files([bills / name]).charges
        read = sum((c.billed if c.billed is not None else c.effective or Decimal(0) for c in charges), Decimal(0))
    assert read == raw


def test_all_files_at_once_keep_their_snapshots_apart(bills: Path) -> None:
    found = read_files(sorted(bills.glob("*.csv")))
    assert found.read.rows == sum(rows for name, (rows, *_) in SUMS.items() if "/" not in name)
    keys = {(sums.key.source, sums.key.account, sums.key.start) for sums in found.read.snapshots}
    assert len(keys) == len(found.read.snapshots)


def test_effective_cost_that_cannot_be_believed_is_said(bills: Path) -> None:
    found = read_files([bills / "focus_1_0_sample.csv"]).read
    usable = {sums.key.account: sums.effective_usable for sums in found.snapshots if sums.key.start.month == 9}
    assert usable == {
        "1234567890123": False,
        "20209880": False,
        "/providers/Microsoft.Billing/billingAccounts/8611537": True,
    }
    said = [text for sums in found.snapshots for text in sums.warnings]
    assert any("the billed ledger stands in" in text for text in said)


def test_one_row_of_the_next_period_is_its_own_snapshot(bills: Path) -> None:
    found = read_files([bills / "focus_1_0_sample.csv"]).read
    october = [sums for sums in found.snapshots if sums.key.start.month == 10]
    assert [sums.rows for sums in october] == [1]


def test_aws_tax_rows_span_the_month(bills: Path) -> None:
    charges = read_files([bills / "aws_cur_sample.csv"]).charges
    taxes = [charge for charge in charges if charge.category.value == "tax"]
    assert len(taxes) == 12
    assert {(charge.end - charge.start).days for charge in taxes} == {30}
    assert {charge.service for charge in taxes} == {ServiceClass.OTHER}


@pytest.mark.parametrize("style", ["delta", "ledger"])
def test_correction_of_a_closed_month_on_both_time_axes(bills: Path, style: str) -> None:
    charges = read_files([bills / "closed_s1_original.csv", bills / f"closed_s1_{style}.csv"]).charges
    by_charge: dict[str, Decimal] = {}
    by_billing: dict[int, Decimal] = {}
    for charge in charges:
        assert charge.billed is not None
        assert charge.start.month == 5
        by_charge[charge.resource_id] = by_charge.get(charge.resource_id, Decimal(0)) + charge.billed
        by_billing[charge.billing_start.month] = by_billing.get(charge.billing_start.month, Decimal(0)) + charge.billed
    assert by_charge == {"R-111": 1200, "R-222": 300}
    assert by_billing == {5: 1500, 6: 0}


def test_late_usage_without_a_resource_is_kept(bills: Path) -> None:
    charge = read_files([bills / "closed_s2_late_delta.csv"]).charge
    assert (charge.resource_id, charge.correction, charge.billing_start.month, charge.start.month) == ("", True, 6, 5)


def test_used_commitments_are_marked(bills: Path) -> None:
    folder = bills / "focus_1_2"
    purchase = read_files([folder / "commitment_discount_purchase_scenario_1.csv"]).charge
    used = read_files([folder / "commitment_discount_usage_scenario_1.csv"]).charge
    assert (purchase.category.value, purchase.commitment_status.value) == ("purchase", "")
    assert (used.category.value, used.commitment_status.value) == ("usage", "used")
    assert purchase.commitment_id == used.commitment_id
