"""Cost per million tokens pool by pool, of what lines and token usage say, with what is missing in words.

No sum is rounded: the parts of any partition of a period add up to the whole to the last digit. Only the ratios are
rounded, to nine decimals. The denominator is what was delivered: prompt tokens, those served from the KV cache
included, and generated tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

from tidegate.cost.atoms import trimmed
from tidegate.cost.line import CostLine, CostTable
from tidegate.cost.period import Period, bucket_number
from tidegate.cost.tokens import good, tokens_of
from tidegate.model.allocation import Line, LineKind
from tidegate.model.fleet import PoolName
from tidegate.model.money import CostState, Money
from tidegate.model.usage import Holding, TokenUsage

_MILLION = Decimal(1_000_000)
_RATIO = Decimal("1e-9")
_EXACT = Context(prec=2_000)  # more digits than any sum of finite floats and prices has


@dataclass(frozen=True, slots=True)
class Spent:
    """What a span cost."""

    lines: Sequence[Line]
    unpriced: Mapping[str, Decimal]
    """GPU hours without a price, by pool."""
    state: CostState = CostState.ESTIMATED
    notes: tuple[str, ...] = ()


def cost_table(
    spent: Spent,
    usages: Sequence[TokenUsage],
    holdings: Sequence[Holding],
    period: Period,
    burst: Collection[PoolName] = (),
) -> CostTable:
    """What was spent, held and served from `since` (inclusive) to `until` (exclusive): per pool, in total, burst alone.

    A holding counts for its part within the period, a token bucket when it starts within it. `burst` names the pools
    of the burst line. The total has every line, those of no pool too: idle, unattributed, tax.
    """
    held = [holding for holding in holdings if holding.start < period.until and holding.end > period.since]
    used = [usage for usage in usages if period.since <= usage.bucket < period.until]
    billed = {PoolName(line.place.pool) for line in spent.lines if line.place.pool}
    names = sorted({holding.pool for holding in held} | {usage.pool for usage in used} | billed)
    work = _Work(spent, used, held, period)
    with localcontext(_EXACT):
        return CostTable(
            pools={name: work.line(name, [name]) for name in names},
            total=work.line(None, names, everything=True),
            burst=work.line(None, burst),
            others=work.others(),
        )


@dataclass(frozen=True, slots=True)
class _Work:
    spent: Spent
    used: Sequence[TokenUsage]
    held: Sequence[Holding]
    period: Period

    def line(self, pool: PoolName | None, names: Collection[PoolName], *, everything: bool = False) -> CostLine:
        """One line of the table."""
        holdings = [holding for holding in self.held if holding.pool in names]
        usages = [usage for usage in self.used if usage.pool in names]
        counted = [usage for usage in usages if good(usage)]
        tokens = tokens_of(counted)
        mine = [line for line in self.spent.lines if everything or line.place.pool in names]
        amounts = _amounts(mine)
        hours = sum((holding.gpus * self.period.hours_of(holding) for holding in holdings), Decimal(0))
        unpriced = sum((self.spent.unpriced.get(name, Decimal(0)) for name in names), Decimal(0))
        money = amounts[0] if len(amounts) == 1 and not unpriced else None
        gaps, notes = _gaps(names, counted, holdings, self.period), list(self.spent.notes if everything else ())
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
            state=self.spent.state,
            partial=any(usage.partial for usage in counted) or len(usages) > len(counted) or gaps > 0,
            notes=tuple(notes),
        )

    def others(self) -> Mapping[tuple[LineKind, str], Decimal]:
        """What is of no pool, by kind and currency."""
        found: dict[tuple[LineKind, str], Decimal] = {}
        for line in self.spent.lines:
            cost = cost_of(line)
            if not line.place.pool and line.place.currency and cost is not None:
                key = line.place.kind, line.place.currency
                found[key] = found.get(key, Decimal(0)) + cost
        return {key: trimmed(cost) for key, cost in found.items()}


def cost_of(line: Line) -> Decimal | None:
    """The effective amount, which is what tokens cost; where there is none the billed one."""
    return line.effective if line.effective is not None else line.billed


def _amounts(lines: Sequence[Line]) -> tuple[Money, ...]:
    amounts: dict[str, Decimal] = {}
    for line in lines:
        cost = cost_of(line)
        if line.place.currency and cost is not None:
            amounts[line.place.currency] = amounts.get(line.place.currency, Decimal(0)) + cost
    return tuple(Money(trimmed(amounts[currency]), currency) for currency in sorted(amounts))


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
