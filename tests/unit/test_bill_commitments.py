"""Commitments: what was used and what was not add up to what was paid, before and after discounts."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from fakes.bills import Found, read_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.model.charge import Charge, CommitmentStatus

_PLACE = "bill/PayerAccountId,bill/BillingPeriodStartDate,lineItem/UsageStartDate,lineItem/UsageEndDate"
_FIGURES = (
    "lineItem/LineItemType,lineItem/UnblendedCost,lineItem/NetUnblendedCost,savingsPlan/SavingsPlanARN,"
    "savingsPlan/SavingsPlanEffectiveCost,savingsPlan/NetSavingsPlanEffectiveCost,"
    "savingsPlan/TotalCommitmentToDate,savingsPlan/UsedCommitment,"
    "savingsPlan/AmortizedUpfrontCommitmentForBillingPeriod,savingsPlan/RecurringCommitmentForBillingPeriod,"
    "savingsPlan/NetAmortizedUpfrontCommitmentForBillingPeriod,savingsPlan/NetRecurringCommitmentForBillingPeriod,"
    "reservation/ReservationARN,reservation/EffectiveCost,reservation/NetEffectiveCost,"
    "reservation/UnusedAmortizedUpfrontFeeForBillingPeriod,reservation/UnusedRecurringFee,"
    "reservation/NetUnusedAmortizedUpfrontFeeForBillingPeriod,reservation/NetUnusedRecurringFee"
)
COLUMNS = [name.partition("/")[2] for name in _FIGURES.split(",")]
HOUR = 24


def row(hour: int, kind: str, **figures: Decimal | str) -> str:
    """A line item of one hour of May."""
    start, end = (f"2026-05-{each // HOUR + 1:02}T{each % HOUR:02}:00:00Z" for each in (hour, hour + 1))
    values = {"LineItemType": kind, **{name: str(value) for name, value in figures.items()}}
    return ",".join(("P", "2026-05-01T00:00:00Z", start, end, *(values.get(name, "") for name in COLUMNS)))


def cur(folder: Path, *rows: str) -> Found:
    """A report of these."""
    return read_text(folder, "\n".join((f"{_PLACE},{_FIGURES}", *rows)) + "\n")


def effective(charges: tuple[Charge, ...], status: CommitmentStatus) -> Decimal:
    """What one kind of them accrued."""
    return sum((each.effective or Decimal(0) for each in charges if each.commitment_status is status), Decimal(0))


money = st.decimals("0.01", "1000", places=2)
discounts = st.sampled_from([Decimal(1), Decimal("0.9"), Decimal("0.875"), Decimal("0.37")])
hours = st.lists(st.tuples(money, st.integers(0, 10)), min_size=1, max_size=20)
any_folder = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def plan_hour(hour: int, fee: Decimal, tenths: int, kept: Decimal, *, upfront: bool) -> list[str]:
    """An hour of a savings plan of which some tenths are used; `kept`: the share that a discount leaves."""
    used, net = fee * tenths / 10, kept != 1
    plan: dict[str, Decimal | str] = {"SavingsPlanARN": "sp"}
    covered = plan | {"UnblendedCost": used * 2, "SavingsPlanEffectiveCost": used}
    negation = plan | {"UnblendedCost": -used * 2}
    paid = Decimal(0) if upfront else fee
    recurring = plan | {"UnblendedCost": paid, "TotalCommitmentToDate": fee, "UsedCommitment": used}
    if upfront:
        recurring |= {"AmortizedUpfrontCommitmentForBillingPeriod": fee, "RecurringCommitmentForBillingPeriod": "0"}
    if net:
        covered |= {"NetUnblendedCost": used * 2 * kept, "NetSavingsPlanEffectiveCost": used * kept}
        negation |= {"NetUnblendedCost": -used * 2 * kept}
        recurring |= {"NetUnblendedCost": paid * kept}
    if net and upfront:
        recurring |= {
            "NetAmortizedUpfrontCommitmentForBillingPeriod": fee * kept,
            "NetRecurringCommitmentForBillingPeriod": "0",
        }
    rows = [row(hour, "SavingsPlanRecurringFee", **recurring)]
    if used:
        covers = ("SavingsPlanCoveredUsage", covered), ("SavingsPlanNegation", negation)
        rows += [row(hour, kind, **figures) for kind, figures in covers]
    return rows


@any_folder
@given(hours=hours, kept=discounts, upfront=st.booleans())
def test_a_savings_plan_costs_over_its_term_what_was_paid(
    tmp_path: Path, hours: list[tuple[Decimal, int]], kept: Decimal, upfront: bool
) -> None:
    rows = [each for at, (fee, used) in enumerate(hours) for each in plan_hour(at, fee, used, kept, upfront=upfront)]
    found = cur(tmp_path, *rows)
    paid = sum((fee for fee, _ in hours), Decimal(0)) * kept
    assert found.total.effective == paid
    assert found.billed == (0 if upfront else paid)
    unused = sum((fee * (10 - used) / 10 for fee, used in hours), Decimal(0)) * kept
    assert effective(found.charges, CommitmentStatus.UNUSED) == unused
    assert effective(found.charges, CommitmentStatus.USED) == paid - unused


@any_folder
@given(hours=hours, kept=discounts)
def test_a_reservation_costs_over_its_term_what_was_paid(
    tmp_path: Path, hours: list[tuple[Decimal, int]], kept: Decimal
) -> None:
    """Half paid before, half by the month: `RIFee` is the month's and says what of both halves was not used."""
    fee = sum((each for each, _ in hours), Decimal(0))
    used = [each * tenths / 10 for each, tenths in hours]
    unused = fee - sum(used, Decimal(0))
    monthly = {"ReservationARN": "ri", "UnblendedCost": fee / 2, "NetUnblendedCost": fee / 2 * kept}
    halves = {"UnusedAmortizedUpfrontFeeForBillingPeriod": unused / 2, "UnusedRecurringFee": unused / 2}
    netted = {f"Net{name}": figure * kept for name, figure in halves.items()}
    rows = [row(0, "Fee", ReservationARN="ri", UnblendedCost=fee / 2, NetUnblendedCost=fee / 2 * kept)]
    rows += [row(0, "RIFee", **monthly, **halves, **netted)]
    for at, cost in enumerate(used):
        covered = {"EffectiveCost": cost, "NetEffectiveCost": cost * kept}
        rows.append(row(at, "DiscountedUsage", ReservationARN="ri", UnblendedCost="0", NetUnblendedCost="0", **covered))
    found = cur(tmp_path, *rows)
    assert (found.billed, found.total.effective) == (fee * kept, fee * kept)
    assert effective(found.charges, CommitmentStatus.UNUSED) == unused * kept


@pytest.mark.parametrize("net", ["", "0"])
def test_a_discount_is_not_taken_off_twice(tmp_path: Path, net: str) -> None:
    """Net costs have it in them; its own row then has none, whether that is written as nothing or as 0."""
    rows = [
        row(0, "EdpDiscount", UnblendedCost="-10", NetUnblendedCost=net),
        row(0, "Usage", UnblendedCost="100", NetUnblendedCost="90"),
        row(0, "Usage", UnblendedCost="5"),
    ]
    for order in (rows, rows[::-1]):
        found = cur(tmp_path, *order)
        assert (found.billed, found.total.effective) == (95, 95)
        assert any("discounts without a net cost count 0" in text for text in found.read.warnings) == (net == "")


def test_a_report_whose_net_columns_are_empty_counts_discounts_as_they_stand(tmp_path: Path) -> None:
    """CUR 2.0 has the columns in any case."""
    found = cur(tmp_path, row(0, "Usage", UnblendedCost="100"), row(0, "EdpDiscount", UnblendedCost="-10"))
    assert (found.billed, found.read.warnings) == (90, ())


def test_gcp_fees_of_commitments_are_known_as_such(tmp_path: Path) -> None:
    text = (
        "billing_account_id,sku_id,sku_description,usage_start_time,cost,currency,credits,invoice_month\n"
        "A,1,Commitment - dollar based v1: GPUs for 1 year,2026-09-01 00:00:00 UTC,10,USD,,202609\n"
        'A,2,A3 High,2026-09-01 00:00:00 UTC,15,USD,"[{""amount"": -12}]",202609\n'
    )
    found = read_text(tmp_path, text)
    assert (found.billed, [bool(each.commitment_id) for each in found.charges]) == (13, [True, False])
    assert any("fees of commitments stand on lines of their own" in text for text in found.read.warnings)
