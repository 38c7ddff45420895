"""What held GPUs cost by prices, for hosts and days of which no bill speaks: price x GPU hours x what was learned.

An estimate is exact arithmetic on a price that may be wrong; its lines say `estimated`, and none is made for a host
and day that a bill covers. A price that is not known stays unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

from tidegate.cost.allocate import Sums, day_of
from tidegate.cost.atoms import EXACT, atoms, between, split
from tidegate.cost.cells import CellBook
from tidegate.cost.period import hours_at
from tidegate.cost.slices import HOUR, micros
from tidegate.model.activity import Activity
from tidegate.model.allocation import Line, LineKind, Place
from tidegate.model.usage import Holding

HostDay = tuple[str, date]
_PRICE = Decimal("1e-12")


@dataclass(frozen=True, slots=True)
class HostPrice:
    """The price of a GPU hour on a host, after what was learned from its bills."""

    per_gpu_hour: Decimal
    currency: str
    method: str
    """`price`, or `price x kappa`."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """The lines, and what could not be estimated."""

    lines: tuple[Line, ...]
    unpriced: Mapping[str, Decimal] = field(default_factory=dict)
    """GPU hours without a price, by pool."""


def estimate(
    activity: Activity,
    prices: Mapping[str, HostPrice],
    billed: Collection[HostDay] = (),
    book: CellBook | None = None,
) -> Estimates:
    """What was held and is in no bill; `prices` by host win over the price of a holding's flavour."""
    work = _Work(activity, prices, frozenset(billed), book or CellBook(activity), Sums(activity))
    for holding in activity.holdings:
        work.take(holding)
    lines = tuple(line for line in work.sums.lines() if line.place.currency)
    return Estimates(lines, dict(sorted(work.unpriced.items())))


def price_of(holding: Holding, prices: Mapping[str, HostPrice]) -> HostPrice | None:
    """The price of a holding's GPU hour; None: nobody said one."""
    if (found := prices.get(holding.host)) is not None:
        return found
    if holding.price_per_gpu_hour is None:
        return None
    return HostPrice(holding.price_per_gpu_hour, holding.currency, "price")


@dataclass(slots=True)
class _Work:
    activity: Activity
    prices: Mapping[str, HostPrice]
    billed: frozenset[HostDay]
    cells: CellBook
    sums: Sums
    unpriced: dict[str, Decimal] = field(default_factory=dict)

    def take(self, holding: Holding) -> None:
        """Put one holding on its lines, hour by hour."""
        first, last = micros(self.activity.since), micros(self.activity.until)
        start, end = max(micros(holding.start), first), min(micros(holding.end), last)
        price = price_of(holding, self.prices)
        per_day = None if price is None else _per_day(price, holding.gpus)
        for hour in range(start // HOUR, -(-end // HOUR)) if end > start else ():
            if (holding.host, day_of(hour // 24)) in self.billed:
                continue
            begin, until = max(start, hour * HOUR), min(end, (hour + 1) * HOUR)
            if price is None or per_day is None:
                time = holding.gpus * (hours_at(until) - hours_at(begin))
                self.unpriced[holding.pool] = self.unpriced.get(holding.pool, Decimal(0)) + time
                continue
            # Since 1970, so that the parts of any partition of time add up, whatever a moment's amount rounds to.
            cost = _since(per_day, until) - _since(per_day, begin)
            self._share(holding, hour, cost, price)

    def _share(self, holding: Holding, hour: int, cost: int, price: HostPrice) -> None:
        mine = [each for each in self.cells.hour(holding.host, hour).cells if each[0].pool == holding.pool]
        kinds = [cell.kind for cell, _ in mine] or [LineKind.UNOBSERVED]
        parts = split(cost, [time for _, time in mine]) if mine else [cost]
        facts = self.sums.pool(holding.pool)
        for kind, part in zip(kinds, parts, strict=True):
            place = Place(
                day_of(hour // 24),
                kind,
                estimated=True,
                currency=price.currency,
                billing=None,
                host=holding.host,
                pool=holding.pool,
                service=facts.service,
                model=facts.model,
                side=facts.side,
                charge="compute",
                category="usage",
                method=price.method,
            )
            self.sums.add(place, (part, part))


_DAY_HOURS = 24
_DAY = _DAY_HOURS * HOUR


def _per_day(price: HostPrice, gpus: int) -> int:
    """What the GPUs cost in a day, in atoms."""
    hourly = price.per_gpu_hour.quantize(_PRICE, context=EXACT) if price.method != "price" else price.per_gpu_hour
    return atoms(EXACT.multiply(hourly, Decimal(gpus * _DAY_HOURS)))


def _since(per_day: int, at: int) -> int:
    days, rest = divmod(at, _DAY)
    return per_day * days + (between(per_day, 0, rest, _DAY) if rest else 0)
