"""The prices that decisions go by: read from the ledger of costs at the first tick, then whenever it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tidegate.cost.effective_price import Lessons, effective_prices, with_prices
from tidegate.model.policy import FleetPolicy
from tidegate.model.price import FlavourPrice


@dataclass(slots=True)
class LearnedPrices:
    """Keeps what bills taught between two looks at the ledger, so that a tick asks the database but once."""

    read: Callable[[], Lessons]
    _kept: Lessons | None = None

    def refresh(self) -> None:
        """Read again; raises Transient while the store is away, and keeps what was known."""
        self._lessons()

    def govern(self, policy: FleetPolicy, now: datetime) -> tuple[FleetPolicy, tuple[FlavourPrice, ...]]:
        """The policy with learned prices, and where each price comes from; raises Transient at the first time only."""
        lessons = self._kept or self._lessons()
        prices = effective_prices(policy, lessons, now)
        return with_prices(policy, prices), prices

    def _lessons(self) -> Lessons:
        self._kept = self.read()
        return self._kept
