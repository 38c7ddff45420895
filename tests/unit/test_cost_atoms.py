"""Shares of money: exact, mirrored for negative amounts, stable where fractions tie."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cost.atoms import amount, atoms, between, shown, split

MONEY = st.decimals(min_value=-(10**12), max_value=10**12, places=30, allow_nan=False)
WEIGHTS = st.lists(st.integers(0, 10**15), min_size=1, max_size=12).filter(sum)


def test_a_hundred_by_three_and_minus_five_cents_by_three() -> None:
    assert shown([Decimal(100) / 3] * 3) == [Decimal("33.34"), Decimal("33.33"), Decimal("33.33")]
    third = Decimal("-0.05") / 3
    assert shown([third] * 3) == [Decimal("-0.02"), Decimal("-0.02"), Decimal("-0.01")]
    assert [amount(each) for each in split(atoms(Decimal(100)), [1, 1, 1])][1] == Decimal("33." + "3" * 24)


@given(MONEY, WEIGHTS)
def test_shares_add_up_and_follow_the_sign(money: Decimal, weights: list[int]) -> None:
    total = atoms(money)
    shares = split(total, weights)
    assert sum(shares) == total
    assert all(share * total >= 0 for share in shares)
    assert split(-total, weights) == [-share for share in shares]
    assert all(share == 0 for share, weight in zip(shares, weights, strict=True) if weight == 0)


@given(MONEY, st.lists(st.integers(0, 10**9), min_size=1, max_size=8))
def test_parts_of_any_partition_of_time_add_up(money: Decimal, cuts: list[int]) -> None:
    edges = sorted({0, 10**9, *cuts})
    parts = [between(atoms(money), a, b, 10**9) for a, b in pairwise(edges)]
    assert sum(parts) == atoms(money)


@given(st.lists(MONEY, min_size=1, max_size=9), st.integers(0, 4))
def test_what_is_shown_adds_up_to_what_is_shown(amounts: list[Decimal], places: int) -> None:
    exact = amount(sum(map(atoms, amounts)))
    assert abs(sum(shown(amounts, places), Decimal(0)) - exact) <= Decimal(1).scaleb(-places) / 2
    assert all(
        abs(one - two) <= Decimal(1).scaleb(-places) for one, two in zip(shown(amounts, places), amounts, strict=True)
    )


@given(MONEY)
def test_an_amount_is_the_same_after_atoms(money: Decimal) -> None:
    assert amount(atoms(money)) == money


def test_a_million_tiny_amounts_are_exact() -> None:
    """Floats would say 100000.00000133288."""
    assert amount(1_000_000 * atoms(Decimal("0.1")) + 1_000_000 * atoms(Decimal("1e-10"))) == Decimal("100000.0001")


def test_what_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to split by"):
        split(5, [0, 0])
    with pytest.raises(ValueError, match="no amount"):
        atoms(Decimal("NaN"))
    with pytest.raises(ValueError, match="finer"):
        atoms(Decimal("1e-61"))
