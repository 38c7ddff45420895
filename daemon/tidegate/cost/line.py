"""What a cost calculation answers: one line a pool, their total, and the burst pools together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from tidegate.model.allocation import LineKind
from tidegate.model.fleet import PoolName
from tidegate.model.money import CostState, Money


@dataclass(frozen=True, slots=True)
class CostLine:
    """What GPUs cost and what they served in a period. None is unknown, never zero."""

    pool: PoolName | None
    """None for a line over several pools."""
    money: Money | None
    """None when a price is unknown or when there is more than one currency; `amounts` has the parts."""
    amounts: tuple[Money, ...]
    """What is known of the cost, one amount a currency, by currency."""
    gpu_hours: Decimal
    unpriced_gpu_hours: Decimal
    """Of `gpu_hours`, those whose price is unknown."""
    prompt_tokens: Decimal | None
    """Cached ones included."""
    cached_prompt_tokens: Decimal | None
    generation_tokens: Decimal | None
    delivered_tokens: Decimal | None
    """Prompt and generated ones together: what `per_million` is taken over."""
    per_million: Decimal | None
    """Cost of a million tokens delivered: prompt (cached ones included) and generated ones together."""
    per_million_generated: Decimal | None
    """The same cost over generated tokens alone. The two share one cost and must not be added."""
    state: CostState
    partial: bool
    """The tokens are lower bounds: a counter fell, or buckets in which GPUs were held have no token data."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CostTable:
    """The lines of one period."""

    pools: Mapping[PoolName, CostLine]
    """By name; a pool that held no GPU and served nothing is not in it."""
    total: CostLine
    burst: CostLine
    """The burst pools alone: what the last tokens cost at the margin."""
    others: Mapping[tuple[LineKind, str], Decimal] = field(default_factory=dict)
    """What is of no pool, by kind and currency; in the total too."""
