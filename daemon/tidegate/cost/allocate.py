"""Charges to lines: every atom of every row ends in exactly one line, whatever the order in which rows come.

Rows of one host, hour and kind are added up first and shared out once, by the GPU time of that hour. Estimates are
made elsewhere (`cost/estimate.py`), for hosts and days of which no bill speaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from tidegate.cost.atoms import amount, split
from tidegate.cost.cells import CellBook
from tidegate.cost.hosts import HostNames
from tidegate.cost.keys import SpreadBook
from tidegate.cost.route import Route, Router, Way
from tidegate.cost.slices import DAY, HOUR, Amounts, alive, amounts_of, micros, slices
from tidegate.model.activity import Activity, PoolFacts
from tidegate.model.allocation import CostPolicy, Line, LineKind, Place
from tidegate.model.charge import Charge, ServiceClass

BilledCharge = tuple[Charge, bool]
"""A charge, and whether the billed ledger stands in for an effective one that cannot be used."""
_NOTHING = PoolFacts(side="")


class _Group(NamedTuple):
    """Charges that are shared out together."""

    route: Route
    number: int
    """The hour for a host's, the day for all others, since 1970."""
    charge: str
    category: str
    currency: str
    billing: date
    account: str


@dataclass(slots=True)
class Sums:
    """Amounts by place, in atoms, with the GPU time of the same places."""

    activity: Activity
    found: dict[Place, list[int | None]] = field(default_factory=dict)
    time: dict[Place, int] = field(default_factory=dict)

    def add(self, place: Place, amounts: Amounts) -> None:
        """Add to what is there."""
        if (sums := self.found.get(place)) is None:
            self.found[place] = list(amounts)
            return
        for index, each in enumerate(amounts):
            if each is not None:
                sums[index] = each + (sums[index] or 0)

    def pool(self, pool: str) -> PoolFacts:
        """What a pool is."""
        return self.activity.pools.get(pool, PoolFacts() if pool else _NOTHING)

    def lines(self) -> tuple[Line, ...]:
        """Every line, by place."""
        money = [
            Line(place, None if one is None else amount(one), None if two is None else amount(two))
            for place, (one, two) in self.found.items()
        ]
        time = [Line(place, None, None, Decimal(spent).scaleb(-3)) for place, spent in self.time.items() if spent]
        return tuple(sorted([*money, *time], key=_order))


def allocate(
    charges: Iterable[BilledCharge],
    activity: Activity,
    policy: CostPolicy,
    book: CellBook | None = None,
) -> tuple[Line, ...]:
    """The lines of what falls into the activity's span, GPU time included; equal inputs give equal lines."""
    return share_out(charges, activity, policy, book or CellBook(activity)).sums.lines()


def share_out(charges: Iterable[BilledCharge], activity: Activity, policy: CostPolicy, book: CellBook) -> Work:
    """The same, with what was learned on the way."""
    work = Work(activity, policy, book)
    for charge, stand_in in charges:
        work.take(charge, stand_in=stand_in)
    work.share_out()
    return work


@dataclass(slots=True)
class Work:
    """One calculation under way."""

    activity: Activity
    policy: CostPolicy
    cells: CellBook
    sums: Sums = field(init=False)
    spread: SpreadBook = field(init=False)
    router: Router = field(init=False)
    groups: dict[_Group, list[int | None]] = field(default_factory=dict)
    span: tuple[int, int] = (0, 0)
    bought: dict[tuple[str, date], dict[tuple[str, ...], int]] = field(default_factory=dict)
    """By host and day: what was bought (provider, SKU, region, pricing category, currency), for how much."""
    strangers: set[str] = field(default_factory=set)
    """Resources that are machines of nobody's: their network and storage are theirs."""

    def __post_init__(self) -> None:
        self.sums, self.spread = Sums(self.activity), SpreadBook(self.activity, self.cells)
        self.router = Router(HostNames(self.cells.hosts, self.policy.hosts), self.policy)
        self.span = micros(self.activity.since), micros(self.activity.until)

    def take(self, charge: Charge, *, stand_in: bool) -> None:
        """Put one charge where it belongs, cut by hours or days."""
        route, amounts = self.router.route(charge), amounts_of(charge, stand_in=stand_in)
        if route.kind is LineKind.UNATTRIBUTED_HOST:
            self.strangers.add(route.resource)
        parts: Iterable[tuple[int, Amounts]] | None = None
        if route.way is Way.HOST and len(route.hosts) == 1:
            parts = alive(charge, amounts, route.hosts[0], self.activity)
        width = HOUR if route.way is Way.HOST else DAY
        billing = charge.billing_start.date()
        machine = route.way is Way.HOST and charge.service is ServiceClass.COMPUTE
        for number, part in parts if parts is not None else slices(charge, amounts, self.span, width):
            group = _Group(
                route, number, charge.service.value, charge.category.value, charge.currency, billing, charge.account
            )
            if machine:
                self._bought(route.hosts, day_of(number // 24), charge, part)
            if (sums := self.groups.get(group)) is None:
                self.groups[group] = list(part)
                continue
            for index, each in enumerate(part):
                if each is not None:
                    sums[index] = each + (sums[index] or 0)

    def _bought(self, hosts: Sequence[str], day: date, charge: Charge, part: Amounts) -> None:
        what = (charge.provider, charge.sku, charge.region, charge.pricing_category, charge.currency)
        for host in hosts:
            found = self.bought.setdefault((host, day), {})
            found[what] = found.get(what, 0) + abs(part[1] if part[1] is not None else part[0] or 0)

    def share_out(self) -> None:
        """Share every group out, and say what the GPU time was."""
        for group, sums in self.groups.items():
            amounts = (sums[0], sums[1])
            if group.route.way is Way.HOST:
                self._hosts(group, amounts)
            elif group.route.way is Way.SPREAD:
                self._spread(group, amounts)
            else:
                self._plain(group, amounts, group.route)
        self._time()

    def _plain(self, group: _Group, amounts: Amounts, route: Route) -> None:
        side = "base" if route.kind is LineKind.COMMITMENT else ""
        place = _place(group, day_of(group.number), route.kind)
        self.sums.add(place._replace(side=side, resource=route.resource, method=route.method), amounts)

    def _spread(self, group: _Group, amounts: Amounts) -> None:
        route = group.route
        if route.resource in self.strangers:
            self._plain(group, amounts, Route(Way.PLAIN, LineKind.UNATTRIBUTED_HOST, resource=route.resource))
            return
        weights, method = self.spread.weights(group.number, route.key)
        if not weights:
            self._plain(group, amounts, Route(Way.PLAIN, LineKind.UNATTRIBUTED_CHARGE, resource=route.resource))
            return
        place = _place(group, day_of(group.number), LineKind.SHARED)._replace(method=method)
        for (pool, _), part in zip(weights, _parts(amounts, [weight for _, weight in weights]), strict=True):
            self.sums.add(self._of_pool(place, pool), part)

    def _hosts(self, group: _Group, amounts: Amounts) -> None:
        hosts = group.route.hosts
        if len(hosts) == 1:
            self._host(group, hosts[0], amounts)
            return
        for host, part in zip(hosts, _parts(amounts, [self.cells.gpus(host) or 1 for host in hosts]), strict=True):
            self._host(group, host, part)

    def _host(self, group: _Group, host: str, amounts: Amounts) -> None:
        day = day_of(group.number // 24)
        place = _place(group, day, LineKind.UNOBSERVED)._replace(host=host, method=group.route.method)
        if group.charge == ServiceClass.NETWORK and (weights := self.spread.of_host(host, group.number // 24)):
            shared = place._replace(kind=LineKind.SHARED)
            for (pool, _), part in zip(weights, _parts(amounts, [weight for _, weight in weights]), strict=True):
                self.sums.add(self._of_pool(shared, pool), part)
            return
        cells = self.cells.hour(host, group.number).cells
        if not cells:
            self.sums.add(place._replace(side=self._side_of(host)), amounts)
            return
        for (cell, _), part in zip(cells, _parts(amounts, [weight for _, weight in cells]), strict=True):
            self.sums.add(self._of_cell(place._replace(kind=cell.kind), cell.pool), part)

    def _of_pool(self, place: Place, pool: str) -> Place:
        facts = self.sums.pool(pool)
        return place._replace(pool=pool, service=facts.service, model=facts.model, side=facts.side)

    def _of_cell(self, place: Place, pool: str) -> Place:
        return self._of_pool(place, pool) if pool else place._replace(side=self._side_of(place.host))

    def _side_of(self, host: str) -> str:
        """A host that burst pools alone list is burst; every other one is base."""
        sides = {facts.side for facts in self.activity.pools.values() if host in facts.hosts}
        return "burst" if sides == {"burst"} else "base"

    def _time(self) -> None:
        """GPU time by host, pool and kind; what is held beyond a host is a negative time of its own."""
        first, last = self.span[0] // HOUR, -(-self.span[1] // HOUR)
        time, hosts = self.sums.time, sorted(self.cells.hosts)
        for hour in range(first, last):
            day = day_of(hour // 24)
            for host in hosts:
                found = self.cells.hour(host, hour)
                for cell, spent in found.cells:
                    key = Place(day, cell.kind, estimated=False, currency="", billing=None, host=host, pool=cell.pool)
                    time[key] = time.get(key, 0) + spent
                if found.over:
                    key = Place(day, LineKind.OVER_ALLOCATION, estimated=False, currency="", billing=None, host=host)
                    time[key] = time.get(key, 0) - found.over
        self.sums.time = {self._of_cell(key, key.pool): spent for key, spent in time.items()}


@lru_cache(maxsize=8192)
def day_of(number: int) -> date:
    """A day since 1970."""
    return datetime.fromtimestamp(number * 86_400, UTC).date()


def _place(group: _Group, day: date, kind: LineKind) -> Place:
    return Place(
        day,
        kind,
        estimated=False,
        currency=group.currency,
        billing=group.billing,
        account=group.account,
        charge=group.charge,
        category=group.category,
    )


def _parts(amounts: Amounts, weights: Sequence[int]) -> Iterable[Amounts]:
    billed, effective = amounts
    first = [None] * len(weights) if billed is None else split(billed, weights)
    if billed == effective:
        return zip(first, first, strict=True)
    second = [None] * len(weights) if effective is None else split(effective, weights)
    return zip(first, second, strict=True)


def _order(line: Line) -> tuple[object, ...]:
    place = line.place
    return (place.day, place.billing or date.min, *(str(part) for part in place))
