"""Real bills shared out: the sum of all lines is the sum of the rows, exactly, by currency and ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from pathlib import Path

import pytest
from fakes.bills import read_files
from fakes.costs import total

from tidegate.cost.allocate import allocate
from tidegate.cost.atoms import EXACT
from tidegate.cost.focus import focus_rows
from tidegate.model.activity import EVERY_SLOT, Activity, PoolFacts, hour_of
from tidegate.model.allocation import CostPolicy, Line
from tidegate.model.charge import Charge, Ledger
from tidegate.model.fleet import PoolName, ReplicaId
from tidegate.model.usage import Holding

NAMES = (
    "focus_1_0_sample.csv",
    "aws_cur_sample.csv",
    "azure_EA_actual.csv",
    "azure_EA_amortized.csv",
    "closed_s1_original.csv",
    "closed_s1_delta.csv",
    "closed_s1_ledger.csv",
    "closed_s2_late_delta.csv",
    "focus_1_2/commitment_discount_purchase_scenario_1.csv",
    "focus_1_2/commitment_discount_usage_scenario_1.csv",
    "focus_1_2/commitment_discount_usage_scenario_4.csv",
    "focus_1_2/one_hundred_percent_utilization_with_commitment_discount_flexibility_with_2_resources.csv",
    "focus_1_2/saas_spend_agreements_a2.csv",
    "focus_1_2/virtual_currency_pricing_model_a1.csv",
    "focus_1_2/virtual_currency_pricing_model_a2.csv",
)


@pytest.fixture
def bills(shared: Path) -> Path:
    folder = shared / "bills"
    if not folder.is_dir():
        pytest.skip("no bills in the shared folder")
    return folder


def around(charges: Sequence[Charge]) -> Activity:
    """A span that holds every charge, with some of the bill's own resources for hosts that serve on its first days."""
    first = min(each.start for each in charges).replace(hour=0, minute=0, second=0, microsecond=0)
    last = max(max(each.end, each.start + timedelta(seconds=1)) for each in charges)
    hosts = sorted({each.resource_id for each in charges if each.resource_id})[:3]
    begin, held, seen = hour_of(first), [], {}
    for number, host in enumerate(hosts):
        held.append(
            Holding(ReplicaId(f"p-{number}"), PoolName("p"), 3, first, first + timedelta(hours=31), None, "", host=host)
        )
        seen |= {(host, begin + hour): EVERY_SLOT >> number for hour in range(40)}
    worked = {(host, "p", hour): 0b1010 for host, hour in seen}
    return Activity(first, last, held, dict.fromkeys(hosts, 7), {"p": PoolFacts("s", "m")}, seen, worked)


def rows_sum(charges: Sequence[Charge], ledger: Ledger, currency: str) -> Decimal:
    with localcontext(EXACT):
        mine = (each.amount(ledger) for each in charges if each.currency == currency)
        return sum((each for each in mine if each is not None), Decimal(0))


@pytest.mark.parametrize("name", NAMES)
def test_lines_add_up_to_the_rows(bills: Path, name: str) -> None:
    charges = read_files([bills / name]).charges
    on = around(charges)
    if (on.until - on.since) > timedelta(days=500):
        on = replace(on, holdings=(), gpus={}, seen={}, worked={})
    lines = allocate([(each, False) for each in charges], on, CostPolicy())
    for currency in {each.currency for each in charges}:
        for ledger in Ledger:
            assert total(lines, ledger, currency) == rows_sum(charges, ledger, currency)


def test_no_file_is_left_out(bills: Path) -> None:
    assert {str(path.relative_to(bills)) for path in bills.rglob("*.csv")} == set(NAMES)


@pytest.mark.parametrize("name", ["focus_1_0_sample.csv", "aws_cur_sample.csv", "azure_EA_amortized.csv"])
def test_days_add_up_to_the_whole_and_order_does_not_matter(bills: Path, name: str) -> None:
    charges = read_files([bills / name]).charges
    on = around(charges)
    whole = allocate([(each, False) for each in charges], on, CostPolicy())
    assert allocate([(each, False) for each in reversed(charges)], on, CostPolicy()) == whole
    by_day: list[Line] = []
    day = on.since
    while day < on.until:
        span = replace(on, since=day, until=min(day + timedelta(days=1), on.until))
        by_day += allocate([(each, False) for each in charges], span, CostPolicy())
        day += timedelta(days=1)
    for currency in {each.currency for each in charges}:
        for ledger in Ledger:
            assert total(by_day, ledger, currency) == total(whole, ledger, currency)


@pytest.mark.parametrize("style", ["delta", "ledger"])
def test_a_closed_may_corrected_in_june(bills: Path, style: str) -> None:
    charges = read_files([bills / "closed_s1_original.csv", bills / f"closed_s1_{style}.csv"]).charges
    on = Activity(min(each.start for each in charges), max(each.end for each in charges))
    lines = allocate([(each, False) for each in charges], on, CostPolicy())
    (currency,) = {each.currency for each in charges}
    by_resource = {
        name: total((x for x in lines if x.place.resource == name), currency=currency) for name in ("R-111", "R-222")
    }
    assert by_resource == {"R-111": 1200, "R-222": 300}
    june = [x for x in lines if x.place.billing and x.place.billing.month == 6]
    assert june
    assert total(june, currency=currency) == 0


def test_late_usage_without_a_resource_is_on_a_line_of_its_own(bills: Path) -> None:
    charges = read_files([bills / "closed_s2_late_delta.csv"]).charges
    on = Activity(datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC))
    on = replace(on, since=charges[0].start, until=charges[0].end)
    (line,) = allocate([(each, False) for each in charges], on, CostPolicy())
    assert (line.place.kind.value, line.effective) == ("unattributed_charge", 1500)


def test_actual_and_amortised_fill_one_ledger_each(bills: Path) -> None:
    charges = read_files([bills / "azure_EA_actual.csv", bills / "azure_EA_amortized.csv"]).charges
    on = around(charges)
    lines = allocate([(each, False) for each in charges], on, CostPolicy())
    currency = charges[0].currency
    assert total(lines, Ledger.BILLED, currency) == Decimal("8.5450077867419368")
    assert total(lines, Ledger.EFFECTIVE, currency) == Decimal("16.296932136636644627485419")
    rows = list(focus_rows(lines))
    assert sum(Decimal(each["EffectiveCost"] or 0) for each in rows) == Decimal("16.296932136636644627485419")
