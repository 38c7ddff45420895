"""A day as a whole: what bills say, estimates for what they do not say yet, and what prices learn from it. Pure.

The same versions of bills, telemetry and policy give the same rows, in whatever order the bills came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal, localcontext

from tidegate.cost.allocate import BilledCharge, Work, share_out
from tidegate.cost.atoms import EXACT
from tidegate.cost.cells import CellBook
from tidegate.cost.estimate import HostPrice, estimate, price_of
from tidegate.cost.slices import HOUR, micros
from tidegate.model.activity import Activity
from tidegate.model.allocation import Allocation, CostPolicy, Line, Reconciled
from tidegate.model.charge import ServiceClass

_HOURS = Decimal("1e-9")


def reconcile(
    charges: Iterable[BilledCharge],
    activity: Activity,
    policy: CostPolicy,
    prices: Mapping[str, HostPrice],
    *,
    estimating: bool,
) -> Allocation:
    """The lines of an activity's span. `estimating` is False where bills are final: what they lack costs nothing."""
    book = CellBook(activity)
    work = share_out(charges, activity, policy, book)
    lines = work.sums.lines()
    made = estimate(activity, prices, work.bought.keys(), book) if estimating else None
    notes = tuple(
        f"{hours:.2f} GPU hours of {pool} are in no bill and have no price"
        for pool, hours in (made.unpriced if made else {}).items()
    )
    return Allocation(
        lines + (made.lines if made else ()),
        reconciled=tuple(_learned(work, lines, activity)),
        unpriced=made.unpriced if made else {},
        notes=notes,
    )


def billed_hosts(made: Allocation) -> frozenset[str]:
    """Hosts of which a bill speaks."""
    return frozenset(each.host for each in made.reconciled)


def held_seconds(activity: Activity) -> dict[str, Decimal]:
    """GPU seconds held, by host."""
    found: dict[str, Decimal] = {}
    for holding in activity.holdings:
        start, end = max(holding.start, activity.since), min(holding.end, activity.until)
        if start < end:
            seconds = Decimal(micros(end) - micros(start)) / 1_000_000 * holding.gpus
            found[holding.host] = found.get(holding.host, Decimal(0)) + seconds
    return found


def _learned(work: Work, lines: Sequence[Line], activity: Activity) -> Iterable[Reconciled]:
    """For each host and day of a bill: what held GPUs came to, and what prices alone would have said."""
    costs: dict[tuple[str, date, str], Decimal] = {}
    with localcontext(EXACT):
        for line in lines:
            place, cost = line.place, line.effective if line.effective is not None else line.billed
            if place.host and place.pool and place.charge == ServiceClass.COMPUTE and cost is not None:
                key = place.host, place.day, place.currency
                costs[key] = costs.get(key, Decimal(0)) + cost
    hours, listed = _listed(activity, work)
    for (host, day), bought in sorted(work.bought.items()):
        provider, sku, region, pricing, currency = min(bought, key=lambda what: (-bought[what], what))
        mine = (host, day)
        yield Reconciled(
            day, provider, sku, region, pricing, currency, host, hours.get(mine, Decimal(0)),
            costs.get((host, day, currency), Decimal(0)), listed.get((host, day, currency)),
        )  # fmt: skip


def _listed(
    activity: Activity, work: Work
) -> tuple[dict[tuple[str, date], Decimal], dict[tuple[str, date, str], Decimal]]:
    hours: dict[tuple[str, date], Decimal] = {}
    listed: dict[tuple[str, date, str], Decimal] = {}
    for holding in activity.holdings:
        start, end = max(holding.start, activity.since), min(holding.end, activity.until)
        mine = holding.host, start.date()
        if start >= end or mine not in work.bought:
            continue
        time = (Decimal(micros(end) - micros(start)) / HOUR * holding.gpus).quantize(_HOURS)
        hours[mine] = hours.get(mine, Decimal(0)) + time
        if (price := price_of(holding, {})) is not None:
            key = *mine, price.currency
            listed[key] = listed.get(key, Decimal(0)) + time * price.per_gpu_hour
    return hours, listed


def observed(activity: Activity) -> tuple[Decimal, Decimal]:
    """(slots seen, slots that there were) of all hosts that are known."""
    hosts = set(activity.gpus) | {host for host, _ in activity.seen}
    hours = (micros(activity.until) - micros(activity.since)) // HOUR
    return Decimal(sum(each.bit_count() for each in activity.seen.values())), Decimal(12 * hours * len(hosts))
