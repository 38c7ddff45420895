"""Two windows side by side: by how much more a GPU hour serves, and by how much less a token costs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Window:
    """One window: what was spent, held and served in it."""

    since: datetime
    until: datetime
    cost: Decimal | None
    """What the unit price is taken over, on the basis of the comparison."""
    currency: str
    gpu_hours: Decimal
    """Held by replicas."""
    tokens: Decimal | None
    """Delivered."""
    priced: Decimal | None
    """The tokens that the unit price is taken over: delivered, or good ones."""

    @property
    def per_gpu_hour(self) -> Fraction | None:
        """Tokens an hour of a GPU."""
        return None if self.tokens is None or not self.gpu_hours else Fraction(self.tokens) / Fraction(self.gpu_hours)

    @property
    def per_million(self) -> Fraction | None:
        """The blended price."""
        if self.cost is None or not self.priced:
            return None
        return Fraction(self.cost) * 1_000_000 / Fraction(self.priced)


@dataclass(frozen=True, slots=True)
class Change:
    """From one window to the next; None where one of them has no such figure."""

    before: Window
    after: Window
    gpu_hours_saved: Fraction | None
    """1 - T1/T2: the share of GPU hours that the same tokens need no more, T being tokens a GPU hour."""
    cost_saved: Fraction | None
    """1 - c2/c1: the share by which a token costs less."""


def change(before: Window, after: Window) -> Change:
    """Compare; costs in different currencies are not compared."""
    first, second = before.per_gpu_hour, after.per_gpu_hour
    hours = None if first is None or not second else 1 - first / second
    old, new = before.per_million, after.per_million
    same = before.currency == after.currency
    cost = None if not old or new is None or not same else 1 - new / old
    return Change(before, after, hours, cost)
