"""Kappa: by how much prices are wrong, learned from days that bills speak of, and used before the next bill.

kappa = sum(effective) / sum(price x GPU hours) per provider, SKU, region and pricing category, over the trailing days.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, localcontext

from tidegate.cost.atoms import EXACT
from tidegate.cost.estimate import HostPrice
from tidegate.model.allocation import Kappa, Reconciled
from tidegate.model.price import Prices

KappaKey = tuple[str, str, str, str, str]
"""Provider, SKU, region, pricing category, currency."""
WINDOW = timedelta(days=30)
"""Of days with a bill, before the newest: where bills stop coming the last good factor stays, with its age."""
LEAST_GPU_HOURS = Decimal(24)
_FACTOR = Decimal("1e-9")


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was learned, and which host it is for."""

    kappas: Mapping[KappaKey, Kappa]
    hosts: Mapping[str, KappaKey]
    """What each host was billed as last."""

    def of(self, host: str) -> Kappa | None:
        """The factor for a host; None: nothing was learned."""
        key = self.hosts.get(host)
        return self.kappas.get(key) if key else None


def calibrate(days: Iterable[Reconciled]) -> Calibration:
    """Learn from reconciled host days; too small a sample teaches nothing."""
    rows = sorted(days, key=lambda each: (each.day, each.host, key_of(each)))
    hosts = {each.host: key_of(each) for each in rows}
    by_key: dict[KappaKey, list[Reconciled]] = {}
    for each in rows:
        if each.listed is not None:
            by_key.setdefault(key_of(each), []).append(each)
    found = {key: kappa for key, mine in by_key.items() if (kappa := _learn(mine)) is not None}
    return Calibration(found, hosts)


def key_of(each: Reconciled) -> KappaKey:
    """What a factor is learned for."""
    return each.provider, each.sku, each.region, each.pricing, each.currency


def _learn(rows: list[Reconciled]) -> Kappa | None:
    last = rows[-1].day
    used = [each for each in rows if each.day > last - WINDOW]
    with localcontext(EXACT):
        listed = sum((each.listed or Decimal(0) for each in used), Decimal(0))
        effective = sum((each.effective for each in used), Decimal(0))
        hours = sum((each.gpu_hours for each in used), Decimal(0))
        if listed <= 0 or effective <= 0 or hours < LEAST_GPU_HOURS:
            return None
        return Kappa((effective / listed).quantize(_FACTOR), len({each.day for each in used}), hours, last)


def priced(host: str, price: HostPrice, calibration: Calibration) -> HostPrice:
    """A price with what was learned, where it was learned in the price's currency."""
    kappa, key = calibration.of(host), calibration.hosts.get(host)
    if kappa is None or key is None or key[-1] != price.currency:
        return price
    return HostPrice(EXACT.multiply(price.per_gpu_hour, kappa.factor), price.currency, "price x kappa")


def listed(prices: Prices, key: KappaKey, at: datetime) -> HostPrice | None:
    """A GPU hour's price from the price file, where it says how many GPUs an hour of the SKU is."""
    provider, sku, region, _, _ = key
    price = prices.find(provider, sku, region, at)
    if price is None or not price.gpus or not price.unit.casefold().startswith("hour"):
        return None
    return HostPrice(price.amount / price.gpus, price.currency, "price")


def age(kappa: Kappa, today: date) -> int:
    """How many days old the newest thing is that a factor rests on."""
    return (today - kappa.last).days
