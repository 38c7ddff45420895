"""What may still be bought: GPUs and money per hour of the fleet, GPUs of a flavour. Never more, at any instant.

Everything that is there counts: starting, ready and draining replicas alike, and what was lost until it is gone. What
a plan lets go is not spent again by the same plan: its GPUs are free once they were seen to be. What a price is
missing for cannot be bought while money is limited: an unknown cost is no small one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

from tidegate.decide.supply import Supply
from tidegate.model.decision import Limit
from tidegate.model.fleet import PoolName, ReplicaState
from tidegate.model.policy import Budget, Flavour, PoolPolicy


class Purse:
    """The budget of one plan; `pay` takes out of it."""

    def __init__(self, budget: Budget, supplies: Iterable[Supply]) -> None:
        self._budget = budget
        self._gpus = 0
        self._per_hour: Decimal | None = Decimal(0)
        """None: something runs whose price is not known."""
        self._held: Counter[tuple[PoolName, str]] = Counter()
        for supply in supplies:
            for replica in supply.in_sight:
                if replica.state is not ReplicaState.FAILED:
                    self._add(supply.pool, supply.pool.flavour_of(replica.flavour), replica.gpus)

    @property
    def gpus_left(self) -> int | None:
        """GPUs that the budget still allows; None: without limit."""
        return None if self._budget.gpus is None else max(0, self._budget.gpus - self._gpus)

    def refuses(self, pool: PoolPolicy, flavour: Flavour) -> Limit | None:
        """What keeps one more replica of this flavour from being bought; None when nothing does."""
        gpus, limit = pool.gpus_per_replica, flavour.gpu_limit
        if limit is not None and self._held[pool.name, flavour.name] + gpus > limit:
            return Limit.NO_CAPACITY
        if self._budget.gpus is not None and self._gpus + gpus > self._budget.gpus:
            return Limit.BUDGET
        return self._too_dear(flavour, gpus)

    def pay(self, pool: PoolPolicy, flavour: Flavour) -> None:
        """Take one replica's worth."""
        self._add(pool, flavour, pool.gpus_per_replica)

    def _too_dear(self, flavour: Flavour, gpus: int) -> Limit | None:
        most, price = self._budget.per_hour, flavour.price_per_gpu_hour
        if most is None:
            return None
        known = price is not None and self._per_hour is not None
        return None if known and self._per_hour + price * gpus <= most else Limit.BUDGET  # type: ignore[operator]

    def _add(self, pool: PoolPolicy, flavour: Flavour, gpus: int) -> None:
        self._gpus += gpus
        self._held[pool.name, flavour.name] += gpus
        if self._per_hour is not None:
            price = flavour.price_per_gpu_hour
            self._per_hour = None if price is None else self._per_hour + price * gpus
