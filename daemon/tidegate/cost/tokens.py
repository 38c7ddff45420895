"""Token sums over usage buckets, exact: floats become the Decimals that they are, and absence stays absence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from tidegate.model.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class Tokens:
    """What some buckets add up to; all None when there is not one good bucket."""

    prompt: Decimal | None
    cached: Decimal | None
    generated: Decimal | None

    @property
    def delivered(self) -> Decimal | None:
        """Prompt tokens, cached ones included, and generated ones."""
        return None if self.prompt is None or self.generated is None else self.prompt + self.generated


def good(usage: TokenUsage) -> bool:
    """True when every token count is a finite number and none is negative."""
    counts = (usage.prompt_tokens, usage.cached_prompt_tokens, usage.generation_tokens)
    return all(math.isfinite(count) and count >= 0 for count in counts)


def tokens_of(usages: Sequence[TokenUsage]) -> Tokens:
    """Sum good buckets, under the caller's decimal context."""
    if not usages:
        return Tokens(None, None, None)
    return Tokens(
        prompt=sum((Decimal(usage.prompt_tokens) for usage in usages), Decimal(0)),
        cached=sum((Decimal(usage.cached_prompt_tokens) for usage in usages), Decimal(0)),
        generated=sum((Decimal(usage.generation_tokens) for usage in usages), Decimal(0)),
    )
