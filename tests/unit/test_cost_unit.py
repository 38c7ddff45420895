"""Unit cost: published examples to the digit, every split conserves, and the faults of others that must not be ours."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from fakes.costs import DAY, HOUR, activity, charge, holding
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cost.allocate import allocate
from tidegate.cost.compare import Window, change
from tidegate.cost.report import report
from tidegate.cost.unit import (
    by_pools,
    by_rates,
    by_ratio,
    by_request_time,
    peak_price,
    shown,
    tokens_per_unit,
    unit_prices,
)
from tidegate.model.allocation import CostPolicy, DayStatus, LineKind, PoolTokens
from tidegate.model.cost_report import Ask, Basis, Dimension, Method, Report, Tokens
from tidegate.model.money import CostState

F = Fraction
BILLION = 10**9
DEEPSEEK = Tokens(F(266 * BILLION), F(342 * BILLION), F(168 * BILLION))
DEEPSEEK_COST = F("226.75") * 8 * 2 * 24


def rounded(price: F | None, places: int = 4) -> Decimal:
    assert price is not None
    return Decimal(round(price * 10**places)).scaleb(-places)


def test_deepseeks_day() -> None:
    """226.75 nodes x 8 GPUs x 2 USD; 608 G tokens in, of them 342 G cached, 168 G out."""
    assert DEEPSEEK_COST == 87_072
    blended = unit_prices(DEEPSEEK_COST, DEEPSEEK)
    assert (blended.method, rounded(blended.blended)) == (Method.BLENDED, Decimal("0.1122"))
    assert rounded(DEEPSEEK_COST * 10**6 / DEEPSEEK.output) == Decimal("0.5183")
    assert rounded(DEEPSEEK_COST * 10**6 / (DEEPSEEK.computed + DEEPSEEK.cached)) == Decimal("0.1432")


def test_deepseeks_day_by_measured_rates() -> None:
    """73.7k tokens in (cached ones counted) and 14.8k out a second of a node: the data close within 0.05 %."""
    division = by_rates(DEEPSEEK, F(73_700), F(14_800), cached=True)
    hours = division.input / 3600, division.output / 3600
    assert [rounded(each, 2) for each in hours] == [Decimal("2291.57"), Decimal("3153.15")]
    assert rounded(sum(hours) / (F("226.75") * 24)) == Decimal("1.0005")
    over_all = unit_prices(DEEPSEEK_COST, DEEPSEEK, division, cached_ratio=F(1))
    assert (rounded(over_all.input), rounded(over_all.output)) == (Decimal("0.0603"), Decimal("0.3001"))
    computed = unit_prices(DEEPSEEK_COST, DEEPSEEK, division)
    assert (rounded(computed.input), computed.cached) == (Decimal("0.1378"), 0)
    assert all(prices.conserves(DEEPSEEK_COST, DEEPSEEK) for prices in (over_all, computed))
    assert rounded(over_all.output / over_all.input, 2) == Decimal("4.98")  # type: ignore[operator]


def test_deepseeks_day_by_a_stated_ratio_is_another_answer_and_says_so() -> None:
    prices = unit_prices(DEEPSEEK_COST, DEEPSEEK, by_ratio(DEEPSEEK, F("2.5"), F(1)), F(1))
    assert (prices.method, rounded(prices.input), rounded(prices.output)) == (
        Method.RATIO, Decimal("0.0847"), Decimal("0.2118"),
    )  # fmt: skip
    assert prices.conserves(DEEPSEEK_COST, DEEPSEEK)
    listed = unit_prices(
        DEEPSEEK_COST, DEEPSEEK, by_ratio(DEEPSEEK, F("2.19") / F("0.55"), F("0.14") / F("0.55")), F("0.14") / F("0.55")
    )
    assert [rounded(each) for each in (listed.cached, listed.input, listed.output)] == [
        Decimal("0.0217"), Decimal("0.0852"), Decimal("0.3392"),
    ]  # fmt: skip


def test_lmsys_and_what_output_only_leaves_out() -> None:
    """16 USD a node and hour: 0.1993 per million out leaves the prefill nodes out; all on output is 1.90."""
    assert rounded(peak_price(F(16), F(22_300))) == Decimal("0.1993")
    assert rounded(peak_price(F(16), F(52_300))) == Decimal("0.0850")
    request = (F(2000, 52_300) + F(100, 22_300)) * 16 / 3600
    assert rounded(request, 8) == Decimal("0.00018989")
    tokens = Tokens(F(2000), F(0), F(100))
    prices = unit_prices(request, tokens, by_rates(tokens, F(52_300), F(22_300)))
    assert (rounded(prices.blended), rounded(prices.output)) == (Decimal("0.0904"), Decimal("0.1993"))
    assert rounded(request * 10**6 / 100, 2) == Decimal("1.90")


def test_peak_prices_of_inferencemax() -> None:
    assert rounded(peak_price(F("1.69"), F(2000))) == Decimal("0.2347")
    assert rounded(peak_price(F("2.90"), F(10_000))) == Decimal("0.0806")
    assert rounded(peak_price(F("1.30"), F(500))) == Decimal("0.7222")


def test_opencosts_example_reads_cached_tokens_as_tokens() -> None:
    """3.20 USD, 12 M prompt of which 800 k cached, 3 M generated, equal times: 0.213, 0.143, 0.533."""
    tokens = Tokens(F(11_200_000), F(800_000), F(3_000_000))
    prices = unit_prices(F("3.20"), tokens, by_request_time(F(600), F(600)))
    assert (rounded(prices.blended, 3), rounded(prices.input, 3), rounded(prices.output, 3)) == (
        Decimal("0.213"), Decimal("0.143"), Decimal("0.533"),
    )  # fmt: skip
    assert prices.conserves(F("3.20"), tokens)


def test_decode_time_is_not_a_sum_of_means() -> None:
    """Fault a: 30.85 s instead of 37,674.8 s would leave nearly everything to the input."""
    tokens = Tokens(F(10**6), F(0), F(10**6))
    right = unit_prices(F(10), tokens, by_request_time(F(600), F("37674.8")))
    wrong = unit_prices(F(10), tokens, by_request_time(F(600), F("30.85")))
    assert right.output is not None
    assert wrong.output is not None
    assert right.output > 9
    assert wrong.output < 1


COUNT = st.integers(0, 10**12).map(F)
TOKENS = st.builds(Tokens, COUNT, COUNT, COUNT)
MONEY = st.decimals(min_value=-1000, max_value=10**6, places=9, allow_nan=False).map(F)
POSITIVE = st.integers(1, 10**6).map(F)


@given(MONEY, TOKENS, POSITIVE, POSITIVE, st.sampled_from([F(0), F(1, 4), F(1)]))
def test_every_split_conserves(cost: F, tokens: Tokens, one: F, two: F, phi: F) -> None:
    for division in (
        by_pools(one, two),
        by_request_time(one, two),
        by_rates(tokens, one, two),
        by_ratio(tokens, one, phi),
    ):
        prices = unit_prices(cost, tokens, division, phi)
        if prices.method is not Method.BLENDED:
            assert prices.method is division.method
            assert prices.conserves(cost, tokens)
        if tokens.delivered:
            assert prices.blended == cost * 10**6 / tokens.delivered


def test_no_tokens_is_no_price_and_never_an_infinite_one() -> None:
    nothing = Tokens(F(0), F(0), F(0))
    assert unit_prices(F(5), nothing, by_request_time(F(1), F(1))).blended is None
    assert shown(None) is None
    assert tokens_per_unit(F(0), F(5)) is None
    only_out = unit_prices(F(5), Tokens(F(0), F(0), F(10)), by_request_time(F(1), F(1)))
    assert (only_out.method, only_out.input) == (Method.BLENDED, None)


def test_what_a_change_saved() -> None:
    before = Window(DAY, DAY + HOUR, Decimal(100), "USD", Decimal(10), *[Decimal(10**8)] * 2)
    after = Window(DAY + HOUR, DAY + 2 * HOUR, Decimal(90), "USD", Decimal(8), *[Decimal(10**8)] * 2)
    found = change(before, after)
    assert (found.gpu_hours_saved, found.cost_saved) == (F(1, 5), F(1, 10))
    assert change(before, replace(after, currency="EUR")).cost_saved is None
    assert change(before, replace(after, tokens=None)).gpu_hours_saved is None
    half_as_good = change(before, replace(after, cost=Decimal(100), priced=Decimal(5 * 10**7)))
    assert (half_as_good.gpu_hours_saved, half_as_good.cost_saved) == (F(1, 5), -1)


def tokens_of(pool: str, model: str, prompt: int, cached: int, output: int, **more: object) -> PoolTokens:
    side = "burst" if pool == "b" else "base"
    service = {"a": "chat", "b": "code"}[pool]
    counts = (Decimal(prompt), Decimal(cached), Decimal(output))
    return PoolTokens(DAY.date(), pool, service, model, side, *counts, False, **more)  # type: ignore[arg-type]


def day_report(
    *by: Dimension, basis: Basis = Basis.ALLOCATION, policy: CostPolicy | None = None, **more: object
) -> Report:
    on = activity([holding("a", 4), holding("b", 2, 0.5)], 1)
    on = replace(on, worked=dict.fromkeys(on.worked, 63))
    lines = allocate([(charge("20"), False), (charge("1", resource_id="?"), False)], on, CostPolicy())
    tokens = [
        tokens_of("a", "model-a", 8_000_000, 2_000_000, 2_000_000, **more),
        tokens_of("b", "model-b", 0, 0, 500_000),
    ]
    states = [DayStatus(DAY.date(), CostState.FINAL, (1,))]
    return report(lines, tokens, states, Ask(by, basis), policy or CostPolicy())


def test_rows_of_any_grouping_add_up_and_the_total_is_the_whole_bill() -> None:
    for by in ((Dimension.POOL,), (Dimension.MODEL,), (Dimension.DAY, Dimension.KIND), (Dimension.SIDE,), ()):
        found = day_report(*by)
        (whole,) = found.totals
        assert whole.amount == 21
        assert sum(row.amount or 0 for row in found.rows) == 21
        assert whole.prices is not None
        assert whole.prices.blended == F(21 * 10**6, 10_500_000)
        assert found.state is CostState.FINAL


def test_what_nobody_held_and_nobody_saw_is_no_held_time() -> None:
    """A host whose agent is down, with a replica on half of its GPUs: of eight hours unobserved four were held."""
    on = replace(activity([holding("a", 4)], 1), seen={})
    found = report(allocate([(charge("20"), False)], on, CostPolicy()), (), (), Ask((Dimension.POOL,)), CostPolicy())
    held = {row.key[Dimension.POOL]: (row.gpu_hours_held, row.gpu_hours) for row in found.rows}
    assert held == {"": (0, {LineKind.UNOBSERVED: 4}), "a": (4, {LineKind.UNOBSERVED: 4})}
    assert found.totals[0].gpu_hours_held == 4


def test_the_bases_differ_as_they_should() -> None:
    """Busy leaves out what was held idle; goodput divides by what met the objective. None of them changes an amount."""
    by_basis = {}
    for basis in Basis:
        found = day_report(Dimension.POOL, basis=basis, attainment=Decimal("0.8"))
        row = next(row for row in found.rows if row.key[Dimension.POOL] == "a")
        assert row.amount == 10
        assert row.prices is not None
        by_basis[basis] = row.prices.blended
    assert by_basis == {
        Basis.ALLOCATION: F(10 * 10**6, 10**7),
        Basis.BUSY: F(5 * 10**6, 10**7),
        Basis.GOODPUT: F(10 * 10**6, 8 * 10**6),
    }


def test_the_method_is_the_most_trusted_one_that_is_known() -> None:
    def of(policy: CostPolicy | None = None, **more: object) -> Method:
        row = next(
            row for row in day_report(Dimension.POOL, policy=policy, **more).rows if row.key[Dimension.POOL] == "a"
        )
        assert row.prices is not None
        return row.prices.method

    assert of() is Method.BLENDED
    assert of(CostPolicy(output_ratio=Decimal(4))) is Method.RATIO
    assert (
        of(CostPolicy(output_ratio=Decimal(4)), prefill_seconds=Decimal(1), decode_seconds=Decimal(3))
        is Method.REQUEST_TIME
    )


def test_the_burst_row_is_what_burst_costs_at_the_margin() -> None:
    rows = {row.key[Dimension.SIDE]: row for row in day_report(Dimension.SIDE).rows}
    assert rows["burst"].prices is not None
    assert rows["burst"].prices.blended == F(Decimal("2.5")) * 10**6 / 500_000


def test_model_names_may_hold_anything() -> None:
    """Fault f: a key that is cut at the first colon mixes models up."""
    on = activity([holding("a", 8)], 1)
    pools = {"a": replace(on.pools["a"], model="registry:5000/org/model:v1")}
    lines = allocate([(charge("8"), False)], replace(on, pools=pools), CostPolicy())
    found = report(lines, [], [], Ask((Dimension.MODEL, Dimension.SERVICE)), CostPolicy())
    assert next(row for row in found.rows if row.amount).key[Dimension.MODEL] == "registry:5000/org/model:v1"


def test_a_model_without_tokens_keeps_its_cost() -> None:
    """Fault e: nothing is dropped from a total because no token was served."""
    lines = allocate([(charge("8"), False)], activity([holding("a", 8)], 1), CostPolicy())
    (whole,) = report(lines, [], [], Ask(()), CostPolicy()).totals
    assert (whole.amount, whole.prices, whole.by_kind) == (8, None, {LineKind.BUSY: 8})


def test_weeks_and_months_are_of_the_calendar() -> None:
    lines = allocate([(charge("8"), False)], activity([holding("a", 8)], 1), CostPolicy())
    (row, *_) = report(lines, [], [], Ask((Dimension.WEEK, Dimension.MONTH)), CostPolicy()).rows
    assert row.key == {Dimension.WEEK: "2026-W48", Dimension.MONTH: "2026-11"}
    assert date.fromisocalendar(2026, 48, 1) + timedelta(days=2) == DAY.date()


@pytest.mark.parametrize("states", [(CostState.FINAL, CostState.ESTIMATED), (CostState.PARTIAL, CostState.FINAL)])
def test_a_period_is_final_when_all_of_it_is(states: tuple[CostState, CostState]) -> None:
    on = activity([holding("a", 8, 48)], 48)
    lines = allocate([(charge("48", hours=48), False)], on, CostPolicy())
    days = [DayStatus(DAY.date() + timedelta(days=n), state) for n, state in enumerate(states)]
    assert report(lines, [], days, Ask(()), CostPolicy()).state is CostState.PARTIAL
