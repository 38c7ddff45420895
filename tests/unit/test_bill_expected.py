"""The total on an invoice beside what the rows add up to: to the cent, by currency, never guessed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from fakes.bills import focus, focus_row, read_text

from tidegate.bills.expected import expected_of
from tidegate.bills.wishes import Wishes
from tidegate.cost.restate import judge
from tidegate.model.bill import Expected
from tidegate.runtime.errors import Permanent

ROWS = focus(focus_row("1200.10"), focus_row("-0.05"), focus_row("x", "7"))


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("1395.52", "1395.52", ""),
        ("USD 1,395.52", "1395.52", "USD"),
        ("1395.52 usd", "1395.52", "USD"),
        ("EUR=0", "0", "EUR"),
        ("-5.55", "-5.55", ""),
    ],
)
def test_what_somebody_types(text: str, amount: str, currency: str) -> None:
    assert expected_of(text) == Expected(Decimal(amount), currency)


@pytest.mark.parametrize("text", ["much", "1,5", "USD", "USD 1 EUR", "nan", "inf"])
def test_what_is_no_amount_is_said(text: str) -> None:
    with pytest.raises(Permanent, match=r"write an amount such as 1395\.52"):
        expected_of(text)


@pytest.mark.parametrize(("said", "difference"), [("1200.05", "0.00"), ("USD 1200", "0.05"), ("EUR 3", "-3")])
def test_the_difference_is_told_to_the_cent_and_refuses_the_import(tmp_path: Path, said: str, difference: str) -> None:
    read = read_text(tmp_path, ROWS, wishes=Wishes(expected=expected_of(said))).read
    assert read.tie is not None
    assert (read.tie.difference, read.tie.aside) == (Decimal(difference), 0 if said.startswith("EUR") else 7)
    refusals = judge(read, []).refusals
    assert bool(refusals) == bool(Decimal(difference))
    assert all(difference in text and "--force" in text for text in refusals)
    assert judge(read, [], force=True).refusals == ()


def test_of_several_currencies_one_must_be_said(tmp_path: Path) -> None:
    text = focus(focus_row("1"), focus_row("2", currency="EUR"))
    with pytest.raises(Permanent, match="the bill is in EUR and USD"):
        read_text(tmp_path, text, wishes=Wishes(expected=expected_of("3")))
    read = read_text(tmp_path, text, wishes=Wishes(expected=expected_of("2 EUR"))).read
    assert read.tie is not None
    assert not read.tie.difference


def test_a_bill_of_the_other_ledger_alone_is_compared_by_it(tmp_path: Path) -> None:
    text = ROWS.replace("BilledCost", "x_Other")
    read = read_text(tmp_path, text, wishes=Wishes(expected=expected_of("1207.05"))).read
    assert read.tie is not None
    assert not read.tie.difference
