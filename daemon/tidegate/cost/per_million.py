"""Cost per million tokens from holdings and token usage: an estimate from configured prices, never from a bill.

No sum is rounded: the parts of any partition of a period add up to the whole to the last digit. Only the ratios are
rounded, to nine decimals. The denominator is what was delivered: prompt tokens, those served from the KV cache
included, and generated tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Context, Decimal, localcontext

from tidegate.cost.line import CostLine, CostTable
from tidegate.cost.period import Period, bucket_number
from tidegate.cost.tokens import good, tokens_of
from tidegate.model.fleet import PoolName
from tidegate.model.money import CostState, Money
from tidegate.model.usage import Holding, TokenUsage

_MILLION = Decimal(1_000_000)
_RATIO = Decimal("1e-9")
_EXACT = Context(prec=2_000)  # more digits than any sum of finite floats and prices has


def cost_per_million(
    usages: Sequence[TokenUsage],
    holdings: Sequence[Holding],
    since: datetime,
    until: datetime,
    burst: Collection[PoolName] = (),
) -> CostTable:
    """What was held and served from `since` (inclusive) to `until` (exclusive): per pool, in total, burst alone.

    A holding counts for its part within the period, a token bucket when it starts within it. `burst` names the pools
    of the burst line.
    """
    period = Period(since, until)
    held = [holding for holding in holdings if holding.start < until and holding.end > since]
    used = [usage for usage in usages if since <= usage.bucket < until]
    names = sorted({holding.pool for holding in held} | {usage.pool for usage in used})
    with localcontext(_EXACT):
        return CostTable(
            pools={name: _line(name, [name], used, held, period) for name in names},
            total=_line(None, names, used, held, period),
            burst=_line(None, burst, used, held, period),
        )


def _line(
    pool: PoolName | None,
    names: Collection[PoolName],
    used: Sequence[TokenUsage],
    held: Sequence[Holding],
    period: Period,
) -> CostLine:
    holdings = [holding for holding in held if holding.pool in names]
    usages = [usage for usage in used if usage.pool in names]
    counted = [usage for usage in usages if good(usage)]
    tokens = tokens_of(counted)
    amounts, hours, unpriced = _cost(holdings, period)
    money = amounts[0] if len(amounts) == 1 and not unpriced else None
    gaps, notes = _gaps(names, counted, holdings, period), []
    if len(usages) > len(counted):
        notes.append(f"{len(usages) - len(counted)} buckets without a usable token count are left out")
    notes += _notes(tokens.delivered, hours, unpriced, amounts, gaps)
    return CostLine(
        pool=pool,
        money=money,
        amounts=amounts,
        gpu_hours=hours,
        unpriced_gpu_hours=unpriced,
        prompt_tokens=tokens.prompt,
        cached_prompt_tokens=tokens.cached,
        generation_tokens=tokens.generated,
        delivered_tokens=tokens.delivered,
        per_million=_ratio(money, tokens.delivered),
        per_million_generated=_ratio(money, tokens.generated),
        state=CostState.ESTIMATED,
        partial=any(usage.partial for usage in counted) or len(usages) > len(counted) or gaps > 0,
        notes=tuple(notes),
    )


def _cost(holdings: Sequence[Holding], period: Period) -> tuple[tuple[Money, ...], Decimal, Decimal]:
    """The amounts by currency, the GPU hours, and those of them that have no price."""
    amounts: dict[str, Money] = {}
    hours = unpriced = Decimal(0)
    for holding in holdings:
        gpu_hours = holding.gpus * period.hours_of(holding)
        hours += gpu_hours
        if holding.price_per_gpu_hour is None:
            unpriced += gpu_hours
        else:
            money = Money(gpu_hours * holding.price_per_gpu_hour, holding.currency)
            amounts[holding.currency] = amounts.get(holding.currency, Money(Decimal(0), holding.currency)) + money
    return tuple(amounts[currency] for currency in sorted(amounts)), hours, unpriced


def _gaps(
    names: Collection[PoolName], counted: Sequence[TokenUsage], holdings: Sequence[Holding], period: Period
) -> int:
    """In how many whole buckets, summed over pools, GPUs were held and nothing is known of tokens."""
    gaps = 0
    for name in names:
        present = {bucket_number(usage.bucket) for usage in counted if usage.pool == name}
        gaps += len(period.buckets_of(holding for holding in holdings if holding.pool == name) - present)
    return gaps


def _notes(
    delivered: Decimal | None, hours: Decimal, unpriced: Decimal, amounts: Sequence[Money], gaps: int
) -> list[str]:
    notes: list[str] = []
    if unpriced:
        notes.append(f"{unpriced.normalize():.6f} GPU hours have no price: set price_per_gpu_hour of the pool")
    if len(amounts) > 1:
        notes.append(f"{' and '.join(money.currency for money in amounts)} are never added")
    if gaps:
        notes.append(f"{gaps} five-minute buckets with GPUs held have no token data (not reported, or still starting)")
    if delivered == 0 and hours:
        notes.append("no token was served: the whole cost is idle")
    return notes


def _ratio(money: Money | None, tokens: Decimal | None) -> Decimal | None:
    if money is None or not tokens:
        return None
    return (money.amount * _MILLION / tokens).quantize(_RATIO)
