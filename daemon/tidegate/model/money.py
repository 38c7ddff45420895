"""Money: a Decimal amount with its currency. Amounts of different currencies never meet."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class CostState(StrEnum):
    """How far a cost can be trusted; only evidence (a bill) moves it."""

    ESTIMATED = "estimated"
    PARTIAL = "partial"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class Money:
    """An amount in one currency (ISO 4217 code)."""

    amount: Decimal
    currency: str

    def __add__(self, other: Money) -> Money:
        """Add within a currency; raises ValueError across currencies."""
        if self.currency != other.currency:
            raise ValueError(f"cannot add {other.currency} to {self.currency}: no exchange rate is ever assumed")
        return Money(self.amount + other.amount, self.currency)
