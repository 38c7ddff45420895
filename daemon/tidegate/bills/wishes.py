"""What the operator says about the files of an import."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.model.bill import Expected
from tidegate.model.price import Prices

AUTO = "auto"
"""The format is told by the columns."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the files are taken for."""

    source: str = AUTO
    account: str = ""
    """Of files that name none; of those that do, the one that they must be of."""
    currency: str = ""
    shard: str = ""
    prices: Prices = field(default_factory=Prices)
    expected: Expected | None = None
    """What all rows together should bill."""
