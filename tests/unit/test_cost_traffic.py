"""Costs by traffic class and tenant: the sum stays, the rest has no name, a file that is wrong is told where."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from fakes.costs import DAY, activity, charge, holding, total

from tidegate.bills.traffic_file import read_traffic
from tidegate.cost.allocate import allocate
from tidegate.cost.report import report
from tidegate.cost.traffic import by_traffic, tokens_by_traffic
from tidegate.model.activity import TrafficShare
from tidegate.model.allocation import CostPolicy, Line, PoolTokens
from tidegate.model.charge import Ledger
from tidegate.model.cost_report import Ask, Dimension, Method
from tidegate.runtime.errors import Permanent

HEAD = "day,pool,tokens,class,tenant\n"


def lines() -> tuple[Line, ...]:
    return allocate(
        [(charge("30"), False), (charge("7", resource_id="x"), False)], activity([holding("a", 8)], 1), CostPolicy()
    )


def share(tokens: int, tenant: str, traffic: str = "production") -> TrafficShare:
    return TrafficShare(DAY.date().isoformat(), "a", traffic, tenant, Decimal(tokens))


def by_tenant(shares: list[TrafficShare], delivered: int) -> dict[tuple[str, str], Decimal]:
    counted = PoolTokens(DAY.date(), "a", "", "", "", Decimal(delivered), Decimal(0), Decimal(0), partial=False)
    found = by_traffic(lines(), shares, [counted])
    assert total(found) == total(found, Ledger.BILLED) == 37
    keys = {(line.place.traffic, line.place.tenant) for line in found if line.place.pool == "a" and line.place.currency}
    return {
        key: total(line for line in found if (line.place.traffic, line.place.tenant) == key and line.place.pool)
        for key in keys
    }


def test_named_tokens_carry_their_share_and_the_rest_has_no_name() -> None:
    assert by_tenant([share(10, "acme"), share(5, "beta", "test")], 30) == {
        ("production", "acme"): 10, ("test", "beta"): 5, ("", ""): 15,
    }  # fmt: skip


def test_a_gateway_that_counts_more_than_the_engines_is_the_whole() -> None:
    assert by_tenant([share(20, "acme"), share(10, "beta")], 3) == {
        ("production", "acme"): 20, ("production", "beta"): 10,
    }  # fmt: skip


def test_classes_have_a_price_and_what_is_of_no_pool_is_in_none_of_them() -> None:
    counted = PoolTokens(
        DAY.date(), "a", "", "", "", Decimal(20), Decimal(3), Decimal(10), partial=False,
        prefill_seconds=Decimal(1), decode_seconds=Decimal(2),
    )  # fmt: skip
    shares = [share(10, "acme"), share(5, "beta", "test")]
    tokens = tokens_by_traffic(shares, [counted])
    for name in ("prompt", "cached", "output"):
        assert sum(getattr(each, name) for each in tokens) == getattr(counted, name)
    found = report(by_traffic(lines(), shares, [counted]), tokens, [], Ask((Dimension.CLASS,)), CostPolicy())
    rows = {row.key[Dimension.CLASS]: row for row in found.rows}
    assert {name: row.served.delivered for name, row in rows.items() if row.served} == {
        "": 15, "production": 10, "test": 5,
    }  # fmt: skip
    for row in rows.values():
        assert row.prices is not None
        assert (row.prices.method, row.prices.blended, row.prices.output) == (Method.BLENDED, 1_000_000, None)
    assert sum(row.amount or 0 for row in found.rows) == 37
    assert found.totals[0].served is not None
    assert found.totals[0].served.delivered == 30


def test_nobody_named_changes_nothing() -> None:
    assert by_traffic(lines(), [], []) == lines()
    assert by_traffic(lines(), [share(0, "acme")], []) == lines()


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "traffic.csv"
    file.write_text("\ufeff" + HEAD + "2026-11-25,a,12.5,production,acme\n2026-11-25,a,3,,\n", encoding="utf-8")
    assert read_traffic(file)[0] == TrafficShare("2026-11-25", "a", "production", "acme", Decimal("12.5"))
    assert len(read_traffic(file)) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("day,pool\n", "the column tokens is missing"),
        (HEAD + "25.11.2026,a,1,,\n", "line 2: day '25.11.2026' must be YYYY-MM-DD"),
        (HEAD + "2026-11-25,a,many,,\n", "tokens 'many' a number"),
        (HEAD + "2026-11-25,a,-1,,\n", "0 to 1e18"),
    ],
)
def test_a_wrong_file_is_told_where(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "traffic.csv"
    file.write_text(text)
    with pytest.raises(Permanent, match=said):
        read_traffic(file)
    with pytest.raises(Permanent, match="cannot be read"):
        read_traffic(tmp_path / "absent.csv")
