"""Decimal points and commas: decided once for a file by its amounts, said where they may mean either, never by row."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from fakes.bills import Found, read_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.bills.price_file import read_prices
from tidegate.runtime.errors import Permanent

_HEADER = (
    "BillingAccountId{0}SubscriptionId{0}Date{0}MeterCategory{0}MeterName{0}CostInBillingCurrency{0}BillingCurrency"
    "{0}Quantity{0}ChargeType{0}ResourceId\n"
)


def azure(folder: Path, *amounts: str, mark: str = ";", meter: str = "D2 v5", quantity: str = "2") -> Found:
    """An Azure export that writes its amounts so."""
    cells = ("a", "s", "2026-10-13", "Virtual Machines", meter, "{}", "EUR", quantity, "Usage", "r")
    row = mark.join(cells) + "\n"
    quoted = (f'"{each}"' if mark in each else each for each in amounts)
    return read_text(folder, _HEADER.format(mark) + "".join(map(row.format, quoted)))


@pytest.mark.parametrize(
    ("amounts", "total"),
    [
        (["12,50", "1.012,50"], "1025.00"),
        (["12,50 €", "€ 1.012,50", "-1,5"], "1023.50"),
        (["1.234.567", "1,50"], "1234568.50"),
        (["1.234.567"], "1234567"),
        (["2.000", "0,5"], "2000.5"),
        (["12.50", "3"], "15.50"),
    ],
)
def test_amounts_decide_whatever_stands_in_other_columns(tmp_path: Path, amounts: list[str], total: str) -> None:
    found = azure(tmp_path, *amounts, meter="1.5", quantity="2.25")
    assert (found.billed, found.quarantined) == (Decimal(total), ())


def test_where_amounts_may_mean_either_other_columns_decide(tmp_path: Path) -> None:
    assert azure(tmp_path, "1.234", quantity="2,5").billed == 1234
    assert azure(tmp_path, "1.234", quantity="2.5").billed == Decimal("1.234")


@pytest.mark.parametrize("amount", ["1.234", "1,234"])
def test_what_may_mean_either_is_said(tmp_path: Path, amount: str) -> None:
    found = azure(tmp_path, amount)
    assert found.billed == Decimal("1.234")
    assert any(f"an amount such as {amount} may be a whole number" in text for text in found.read.warnings)


def test_yen_in_groups_are_whole(tmp_path: Path) -> None:
    found = azure(tmp_path, "1,234", "987", "12,345,678", mark=",")
    assert (found.billed, found.read.warnings) == (12_347_899, ())


def written(amount: Decimal, group: str, mark: str) -> str:
    """As a spreadsheet shows it."""
    return f"{amount:,.2f}".replace(",", "_").replace(".", mark).replace("_", group)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    amounts=st.lists(st.decimals("-9999999", "9999999", places=2), min_size=1, max_size=8),
    group=st.sampled_from(["", "group"]),
    comma=st.booleans(),
)
def test_a_spreadsheet_s_amounts_come_back(tmp_path: Path, amounts: list[Decimal], group: str, comma: bool) -> None:
    mark, other = (",", ".") if comma else (".", ",")
    found = azure(tmp_path, *(written(each, group and other, mark) for each in amounts))
    assert (found.billed, found.quarantined) == (sum(amounts, Decimal(0)), ())


def prices(folder: Path, text: str) -> list[Decimal]:
    (folder / "prices.csv").write_text(text)
    return [each.amount for each in read_prices(folder / "prices.csv")]


def test_price_files_write_decimals_either_way(tmp_path: Path) -> None:
    assert prices(tmp_path, "sku;price;currency\na;1,25;EUR\nb;1.250,5;EUR\n") == [Decimal("1.25"), Decimal("1250.5")]
    assert prices(tmp_path, 'sku,price,currency\na,1.25,EUR\nb,"1,250.5",EUR\n') == [Decimal("1.25"), Decimal("1250.5")]
    with pytest.raises(Permanent, match=r"prices\.csv: 2\.125 may be whole or not"):
        prices(tmp_path, "sku;price;currency\na;2.125;EUR\n")
