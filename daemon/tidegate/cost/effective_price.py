"""What a GPU hour of each flavour really costs, for the decision core: price x kappa of the hosts that it starts on.

effective = mean over the flavour's billed hosts, weighted by their GPUs, of (price x kappa). Each host's is kept
between `LEAST` and `MOST` times the configured price, so that a wrong bill can tilt a decision and not overturn it.
Where bills taught nothing, or speak in another currency, the configured price stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal, localcontext

from tidegate.cost.atoms import EXACT
from tidegate.cost.calibration import Calibration, listed
from tidegate.model.allocation import Kappa
from tidegate.model.policy import Flavour, FleetPolicy, PoolPolicy
from tidegate.model.price import FlavourPrice, Prices, PriceSource

LEAST, MOST = Decimal("0.2"), Decimal(5)
_PRICE = Decimal("1e-6")


@dataclass(frozen=True, slots=True)
class Lessons:
    """What bills and price files said when they were last read."""

    learned: Calibration
    prices: Prices


def effective_prices(policy: FleetPolicy, lessons: Lessons, now: datetime) -> tuple[FlavourPrice, ...]:
    """The price of every flavour of every pool that a decision goes by, with where it comes from."""
    return tuple(
        _effective(pool, flavour, _taught(policy, flavour, lessons, now))
        for pool in policy.pools.values()
        for flavour in pool.flavours
    )


def with_prices(policy: FleetPolicy, prices: Iterable[FlavourPrice]) -> FleetPolicy:
    """The policy with these prices in the place of the configured ones."""
    by_flavour = {(each.pool, each.flavour): each.per_gpu_hour for each in prices if each.source is PriceSource.BILLS}
    if not by_flavour:
        return policy
    pools = {
        name: replace(
            pool,
            flavours=tuple(
                replace(flavour, price_per_gpu_hour=by_flavour.get((name, flavour.name), flavour.price_per_gpu_hour))
                for flavour in pool.flavours
            ),
        )
        for name, pool in policy.pools.items()
    }
    return replace(policy, pools=pools)


@dataclass(frozen=True, slots=True)
class _Taught:
    """What the bills of one host say of a flavour."""

    gpus: int
    said: Decimal
    """Price x kappa, as it comes out."""
    kept: Decimal
    """The same within the bounds."""
    kappa: Kappa


def _taught(policy: FleetPolicy, flavour: Flavour, lessons: Lessons, now: datetime) -> list[_Taught]:
    found = []
    for host in flavour.hosts:
        key, kappa = lessons.learned.hosts.get(host), lessons.learned.of(host)
        if key is None or kappa is None or key[-1] != flavour.currency:
            continue
        file = listed(lessons.prices, key, now)
        price = file.per_gpu_hour if file is not None and file.currency == key[-1] else flavour.price_per_gpu_hour
        if price is None:
            continue
        measure = price if flavour.price_per_gpu_hour is None else flavour.price_per_gpu_hour
        said = EXACT.multiply(price, kappa.factor)
        low, high = EXACT.multiply(measure, LEAST), EXACT.multiply(measure, MOST)
        gpus = policy.hosts[host].gpus if host in policy.hosts else 1
        found.append(_Taught(max(gpus, 1), said, min(max(said, low), high), kappa))
    return found


def _effective(pool: PoolPolicy, flavour: Flavour, taught: Sequence[_Taught]) -> FlavourPrice:
    configured = flavour.price_per_gpu_hour
    if not taught:
        source = PriceSource.UNKNOWN if configured is None else PriceSource.CONFIGURED
        return FlavourPrice(pool.name, flavour.name, flavour.currency, configured, configured, source)
    return FlavourPrice(
        pool.name,
        flavour.name,
        flavour.currency,
        _mean([(each.gpus, each.kept) for each in taught]),
        configured,
        PriceSource.BILLS,
        billed=_mean([(each.gpus, each.said) for each in taught]),
        bounded=any(each.said != each.kept for each in taught),
        days=max(each.kappa.days for each in taught),
        last=max(each.kappa.last for each in taught),
    )


def _mean(weighted: Sequence[tuple[int, Decimal]]) -> Decimal:
    with localcontext(EXACT):
        total = sum((price * gpus for gpus, price in weighted), Decimal(0))
    return (total / sum(gpus for gpus, _ in weighted)).quantize(_PRICE)
