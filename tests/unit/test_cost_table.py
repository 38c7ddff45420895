"""Cost per million tokens: exact sums, unknown stays unknown, idle is never hidden."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cost.estimate import estimate
from tidegate.cost.line import CostLine, CostTable
from tidegate.cost.period import Period
from tidegate.cost.table import Spent, cost_table
from tidegate.model.activity import Activity
from tidegate.model.fleet import PoolName, ReplicaId
from tidegate.model.money import CostState, Money
from tidegate.model.usage import BUCKET, Holding, TokenUsage

NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
BASE, BURST = PoolName("base"), PoolName("burst")


def holding(
    pool: PoolName = BASE,
    hours: float = 1,
    *,
    gpus: int = 1,
    price: str | None = "2",
    currency: str = "USD",
    start: datetime = NOON,
) -> Holding:
    """A replica that held GPUs from `start` on."""
    cost = None if price is None else Decimal(price)
    return Holding(ReplicaId(f"{pool}-1"), pool, gpus, start, start + hours * HOUR, cost, currency)


def cost_per_million(
    used: Sequence[TokenUsage],
    held: Sequence[Holding],
    since: datetime,
    until: datetime,
    burst: Collection[PoolName] = (),
) -> CostTable:
    """What prices say."""
    made = estimate(Activity(since, until, held), {})
    return cost_table(Spent(made.lines, made.unpriced), used, held, Period(since, until), burst)


def usage(
    pool: PoolName = BASE,
    number: int = 0,
    *,
    prompt: float = 0.0,
    cached: float = 0.0,
    generated: float = 0.0,
    partial: bool = False,
) -> TokenUsage:
    """The bucket `number` after noon."""
    return TokenUsage(pool, NOON + number * BUCKET, prompt, cached, generated, 0.0, 0.0, partial)


def hour_of(pool: PoolName = BASE, **counts: float) -> list[TokenUsage]:
    """Twelve equal buckets that sum up to the counts."""
    return [usage(pool, number, **{name: count / 12 for name, count in counts.items()}) for number in range(12)]


def test_an_hour_of_two_gpus_over_three_million_tokens() -> None:
    used = hour_of(prompt=2_400_000, cached=1_200_000, generated=600_000)

    table = cost_per_million(used, [holding(gpus=2)], NOON, NOON + HOUR)

    assert table.pools[BASE] == CostLine(
        pool=BASE,
        money=Money(Decimal(4), "USD"),
        amounts=(Money(Decimal(4), "USD"),),
        gpu_hours=Decimal(2),
        unpriced_gpu_hours=Decimal(0),
        prompt_tokens=Decimal(2_400_000),
        cached_prompt_tokens=Decimal(1_200_000),
        generation_tokens=Decimal(600_000),
        delivered_tokens=Decimal(3_000_000),
        per_million=Decimal("1.333333333"),
        per_million_generated=Decimal("6.666666667"),
        state=CostState.ESTIMATED,
        partial=False,
        notes=(),
    )
    assert table.total.money == Money(Decimal(4), "USD")
    assert table.total.pool is None


def test_burst_alone_is_a_line_of_its_own() -> None:
    used = [*hour_of(prompt=4_000_000), *hour_of(BURST, prompt=1_000_000)]
    held = [holding(), holding(BURST, price="6")]

    table = cost_per_million(used, held, NOON, NOON + HOUR, burst={BURST})

    assert table.burst.per_million == Decimal(6)
    assert table.total.per_million == Decimal("1.6")
    assert list(table.pools) == [BASE, BURST]


def test_an_unknown_price_is_never_zero() -> None:
    used = [*hour_of(prompt=1_000_000), *hour_of(BURST, prompt=1_000_000)]
    held = [holding(), holding(BURST, 0.5, price=None)]

    table = cost_per_million(used, held, NOON, NOON + HOUR)

    assert table.pools[BURST].money is None
    assert table.pools[BURST].per_million is None
    assert table.pools[BURST].unpriced_gpu_hours == Decimal("0.5")
    assert table.pools[BURST].notes == ("0.500000 GPU hours have no price: set price_per_gpu_hour of the pool",)
    assert table.total.money is None
    assert table.total.amounts == (Money(Decimal(2), "USD"),)


def test_currencies_are_never_added() -> None:
    table = cost_per_million(
        [*hour_of(prompt=1.0), *hour_of(BURST, prompt=1.0)],
        [holding(), holding(BURST, currency="CNY", price="15")],
        NOON,
        NOON + HOUR,
    )

    assert table.total.money is None
    assert table.total.amounts == (Money(Decimal(15), "CNY"), Money(Decimal(2), "USD"))
    assert table.total.notes == ("CNY and USD are never added",)
    with pytest.raises(ValueError, match="no exchange rate"):
        _ = table.total.amounts[0] + table.total.amounts[1]


def test_no_tokens_give_no_figure_but_an_idle_cost() -> None:
    line = cost_per_million(hour_of(prompt=0.0), [holding()], NOON, NOON + HOUR).total

    assert line.money == Money(Decimal(2), "USD")
    assert line.per_million is None
    assert line.notes == ("no token was served: the whole cost is idle",)


def test_no_token_data_is_not_no_tokens() -> None:
    line = cost_per_million([], [holding()], NOON, NOON + HOUR).pools[BASE]

    assert line.prompt_tokens is None
    assert line.per_million is None
    assert line.partial
    assert line.notes == ("12 five-minute buckets with GPUs held have no token data (not reported, or still starting)",)


def test_tokens_without_a_holding_have_an_unknown_cost() -> None:
    line = cost_per_million([usage(prompt=1e6)], [], NOON, NOON + HOUR).pools[BASE]

    assert line.money is None
    assert line.per_million is None
    assert not line.partial


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_counts_that_cannot_be_are_left_out_and_said(bad: float) -> None:
    used = [usage(number=0, prompt=bad), usage(number=1, prompt=1e6)]

    line = cost_per_million(used, [holding(hours=1 / 6)], NOON, NOON + HOUR).total

    assert line.prompt_tokens == Decimal(1_000_000)
    assert line.partial
    assert line.notes[0] == "1 buckets without a usable token count are left out"


def test_a_partial_bucket_makes_a_partial_line() -> None:
    used = [*hour_of(prompt=1.0)[1:], usage(prompt=1.0, partial=True)]

    assert cost_per_million(used, [holding()], NOON, NOON + HOUR).total.partial


def test_only_what_lies_in_the_period_counts() -> None:
    held = [
        holding(hours=3, start=NOON - HOUR),
        holding(start=NOON - 2 * HOUR),
        holding(hours=-1, start=NOON + HOUR / 2),
    ]
    used = [usage(number=-1, prompt=1.0), usage(number=0, prompt=2.0), usage(number=12, prompt=4.0)]

    line = cost_per_million(used, held, NOON, NOON + HOUR).total

    assert line.gpu_hours == Decimal(1)
    assert line.prompt_tokens == Decimal(2)


def test_a_bucket_that_is_not_over_is_not_missed() -> None:
    held = [holding(hours=2, start=NOON - HOUR)]

    at = NOON + timedelta(minutes=7)
    assert not cost_per_million([usage()], held, NOON, at).total.partial
    assert cost_per_million([], held, NOON - timedelta(minutes=2), at).total.notes[0].startswith("1 five-minute")


moments = st.integers(-9_000_000, 9_000_000).map(lambda milliseconds: NOON + timedelta(milliseconds=milliseconds))
holdings = st.lists(
    st.builds(
        Holding,
        st.just(ReplicaId("r")),
        st.sampled_from([BASE, BURST]),
        st.integers(1, 16),
        moments,
        moments,
        st.none() | st.decimals(0, 99, allow_nan=False, places=4),
        st.sampled_from(["USD", "CNY"]),
    ),
    max_size=6,
)
counts = st.floats(0, 1e15)
usages = st.lists(
    st.builds(
        TokenUsage,
        st.sampled_from([BASE, BURST]),
        st.integers(-40, 40).map(lambda number: NOON + number * BUCKET),
        counts,
        counts,
        counts,
        counts,
        counts,
        st.booleans(),
    ),
    max_size=12,
)


def sums(line: CostLine) -> tuple[Decimal, ...]:
    """Everything of a line that must add up."""
    amounts = {money.currency: money.amount for money in line.amounts}
    tokens = (line.prompt_tokens, line.cached_prompt_tokens, line.generation_tokens)
    return (
        amounts.get("USD", Decimal(0)),
        amounts.get("CNY", Decimal(0)),
        line.gpu_hours,
        line.unpriced_gpu_hours,
        *(count or Decimal(0) for count in tokens),
    )


def plus(parts: list[tuple[Decimal, ...]]) -> tuple[Decimal, ...]:
    """Column sums without any rounding."""
    with localcontext(prec=2_000):
        return tuple(sum(column, Decimal(0)) for column in zip(*parts, strict=True))


@given(usages, holdings, st.lists(moments, min_size=2, max_size=6, unique=True))
def test_the_parts_of_any_partition_add_up_to_the_whole(
    used: list[TokenUsage], held: list[Holding], cuts: list[datetime]
) -> None:
    """To the last digit, thirds of an hour included; and the pools add up to the total."""
    cuts = sorted(cuts)
    parts = [cost_per_million(used, held, a, b) for a, b in pairwise(cuts)]

    whole = cost_per_million(used, held, cuts[0], cuts[-1])

    assert plus([sums(part.total) for part in parts]) == sums(whole.total)
    nothing = sums(cost_per_million([], [], cuts[0], cuts[-1]).total)
    assert plus([nothing, *(sums(line) for line in whole.pools.values())]) == sums(whole.total)


@given(usages, st.integers(1, 8), st.integers(0, 48))
def test_more_idle_time_never_makes_tokens_cheaper(used: list[TokenUsage], gpus: int, quarters: int) -> None:
    busy, idle = holding(gpus=gpus), holding(hours=quarters / 4)

    before = cost_per_million(used, [busy], NOON, NOON + 12 * HOUR).pools[BASE]
    after = cost_per_million(used, [busy, idle], NOON, NOON + 12 * HOUR).pools[BASE]

    assert before.money is not None
    assert after.money is not None
    assert after.money.amount >= before.money.amount
    if before.per_million is not None:
        assert after.per_million is not None
        assert after.per_million >= before.per_million


@given(usages, holdings)
def test_a_line_says_nothing_that_it_does_not_know(used: list[TokenUsage], held: list[Holding]) -> None:
    table = cost_per_million(used, held, NOON - 2 * HOUR, NOON + 2 * HOUR)

    for line in (table.total, table.burst, *table.pools.values()):
        assert line.state is CostState.ESTIMATED
        assert (line.money is None) == (len(line.amounts) != 1 or line.unpriced_gpu_hours > 0)
        assert line.per_million is None or line.money is not None
