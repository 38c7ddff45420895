"""Prices by contract or list: what a unit costs, for bills that name quantities and for estimates before a bill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Price:
    """What one unit of a SKU costs while it holds."""

    provider: str
    """Lower case; empty: any."""
    sku: str
    """As the bill writes it, compared without case: an instance type, a meter, a SKU."""
    currency: str
    amount: Decimal
    """For one unit."""
    unit: str = "hour"
    region: str = ""
    """Empty: every region that has no price of its own."""
    gpus: int | None = None
    """How many GPUs one unit holds; None: not known."""
    since: datetime | None = None
    until: datetime | None = None
    """Half-open; None: without end."""


class PriceSource(StrEnum):
    """Where the price comes from that decisions go by."""

    CONFIGURED = "configured"
    BILLS = "bills"
    """Learned from what bills came to."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FlavourPrice:
    """The price of a GPU hour of one flavour of a pool that decisions go by."""

    pool: str
    flavour: str
    currency: str
    per_gpu_hour: Decimal | None
    """None: nobody said one."""
    configured: Decimal | None
    source: PriceSource
    billed: Decimal | None = None
    """What bills say, before it is kept within bounds of the configured price."""
    bounded: bool = False
    """Bills say more or less than decisions may go by."""
    days: int = 0
    """Days with a bill that it rests on."""
    last: date | None = None
    """The newest of them."""


class Prices:
    """Some prices, to be looked up; the most special one wins: its region named, then the latest `since`."""

    def __init__(self, prices: Sequence[Price] = ()) -> None:
        self._by_sku: dict[str, list[Price]] = {}
        for price in prices:
            self._by_sku.setdefault(price.sku.casefold(), []).append(price)

    def __len__(self) -> int:
        return sum(map(len, self._by_sku.values()))

    def find(self, provider: str, sku: str, region: str, at: datetime) -> Price | None:
        """The price that held then; None when nobody said one."""
        fitting = [price for price in self._by_sku.get(sku.casefold(), ()) if _fits(price, provider, region, at)]
        return max(fitting, key=_special, default=None)


def _fits(price: Price, provider: str, region: str, at: datetime) -> bool:
    return (
        price.provider in ("", provider)
        and (not price.region or price.region.casefold() == region.casefold())
        and (price.since is None or price.since <= at)
        and (price.until is None or at < price.until)
    )


def _special(price: Price) -> tuple[bool, bool, float]:
    return bool(price.region), bool(price.provider), price.since.timestamp() if price.since else 0.0
