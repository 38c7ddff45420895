"""What a span of time cost, and what a report of it says: kept days where bills speak, estimates where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

from tidegate.controller.cost_activity import pools_of
from tidegate.controller.cost_ledger import CostLedger, stands_in
from tidegate.cost.billing_gap import not_shared_out
from tidegate.cost.calibration import age
from tidegate.cost.day_status import together, touches
from tidegate.cost.estimate import estimate
from tidegate.cost.idle import distribute
from tidegate.cost.line import CostLine
from tidegate.cost.period import Period
from tidegate.cost.report import report
from tidegate.cost.table import Spent, cost_table
from tidegate.cost.traffic import by_traffic, tokens_by_traffic
from tidegate.model.activity import TrafficShare
from tidegate.model.allocation import Allocation, DayStatus, Line, PoolTokens, StoredDay
from tidegate.model.cost_report import BY_TRAFFIC, Ask, CostAnswer, Span
from tidegate.model.fleet import PoolKind
from tidegate.model.money import CostState
from tidegate.model.overview import CostOverview, CostsOverview
from tidegate.model.policy import FleetPolicy
from tidegate.model.usage import bucket_of

TRAILING = timedelta(hours=1)
_PROPORTION = ("tokens of a class or tenant are in their pool's proportion of input and output",)
DAY = timedelta(days=1)


def trailing_hour(now: datetime) -> tuple[datetime, datetime]:
    """The last hour of whole buckets: tokens are counted by bucket, so GPU hours are taken over the same span."""
    until = bucket_of(now)
    return until - TRAILING, until


@dataclass(frozen=True, slots=True)
class Costs:
    """Reads days, holdings and usage, and lets `cost/` do the sums."""

    ledger: CostLedger
    traffic: Callable[[Path], Sequence[TrafficShare]] | None = None
    """Reads what a gateway counted by class and tenant; raises Permanent when that cannot be read."""

    def between(self, since: datetime, until: datetime, policy: FleetPolicy) -> CostsOverview:
        """What was spent and served from `since` (inclusive) to `until` (exclusive), pool by pool."""
        telemetry, days = self.ledger.telemetry, self.ledger.days
        kept = {each.status.day: each for each in self._kept(since, until)}
        lines = [line for day in kept for line in days.lines(day, day + DAY)]
        unpriced: dict[str, Decimal] = {}
        states = [each.status.state for each in kept.values()]
        for start, end in _others(since, until, kept):
            activity = telemetry.lightly(start, end, policy).activity
            made = estimate(activity, self.ledger.prices(activity))
            lines += made.lines
            states.append(CostState.ESTIMATED)
            for pool, hours in made.unpriced.items():
                unpriced[pool] = unpriced.get(pool, Decimal(0)) + hours
        burst = [name for name, pool in policy.pools.items() if pool.kind is PoolKind.BURST]
        notes = tuple(dict.fromkeys(note for each in kept.values() for note in each.status.notes))
        table = cost_table(
            Spent(lines, unpriced, together(set(states)), notes),
            telemetry.usage.between(since, until),
            telemetry.replicas.holdings(since, until, policy),
            Period(since, until),
            burst,
        )
        return CostsOverview(
            since=since,
            until=until,
            pools=tuple(_overview(line, policy) for _, line in sorted(table.pools.items())),
            total=_overview(table.total, policy),
            burst=_overview(table.burst, policy),
            others={(kind.value, currency): cost for (kind, currency), cost in sorted(table.others.items())},
        )

    def last_billed(self, policy: FleetPolicy) -> CostsOverview | None:
        """The last days that a bill speaks of, a week at most; None while there is no bill."""
        newest = self.ledger.days.newest()
        if newest is None:
            return None
        kept = {each.status.day for each in self.ledger.days.days(newest - 6 * DAY, newest + DAY)}
        first = newest
        while first - DAY in kept:
            first -= DAY
        return self.between(_start(first), _start(newest + DAY), policy)

    def answer(self, span: Span, ask: Ask) -> CostAnswer:
        """A report over a span."""
        made, days, notes = self._everything(span)
        policy = self.ledger.policy()
        fleet = self.ledger.current.settings.fleet
        lines = distribute(made.lines, span.idle or policy.idle, pools_of(fleet))
        tokens = made.tokens
        if BY_TRAFFIC & set(ask.by):
            shares = self._traffic()
            lines, tokens = by_traffic(lines, shares, tokens), tokens_by_traffic(shares, tokens)
            notes = (*notes, *(_PROPORTION if shares else ()))
        found = report(lines, tokens, days, ask, policy)
        return CostAnswer(found, lines, days, tuple(dict.fromkeys((*found.notes, *notes))))

    def _traffic(self) -> Sequence[TrafficShare]:
        place = self.ledger.current.settings.traffic_file
        return self.traffic(place) if place is not None and self.traffic is not None else ()

    def _everything(self, span: Span) -> tuple[Allocation, tuple[DayStatus, ...], tuple[str, ...]]:
        if span.by_billing:
            return self._of_billing(span)
        since, until = span.since, span.until
        kept = {each.status.day: each for each in self._kept(since, until)}
        lines: list[Line] = []
        tokens: list[PoolTokens] = []
        notes: list[str] = list(self._learned())
        for day in kept:
            lines += self.ledger.days.lines(day, day + DAY)
            tokens += self.ledger.days.tokens(day, day + DAY)
        versions = self.ledger.bills.versions()
        statuses = [each.status for each in kept.values()]
        for start, end in _pieces(since, until, kept):
            day = start.date()
            touching = [version for version in versions if touches(version, day)]
            made, activity = self.ledger.compute(start, end, touching)
            lines, tokens = [*lines, *made.lines], [*tokens, *made.tokens]
            notes += made.notes
            if touching:  # kept in part of the span, too long ago to be kept, or imported a moment ago
                whole = [each.status for each in self.ledger.days.days(day, day + DAY)]
                statuses += whole or [self.ledger.status(day, touching, made, activity)]
        return Allocation(tuple(lines), tokens=tuple(tokens)), tuple(statuses), tuple(notes)

    def _of_billing(self, span: Span) -> tuple[Allocation, tuple[DayStatus, ...], tuple[str, ...]]:
        """What billing periods come to, whenever it was used: as far as it was used by now."""
        first, last = span.since.date(), span.until.date()
        lines = tuple(self.ledger.days.lines(first, last, by_billing=True))
        touched = sorted({line.place.day for line in lines})
        kept = self.ledger.days.days(touched[0], touched[-1] + DAY) if touched else ()
        statuses = tuple(each.status for each in kept if each.status.day in set(touched))
        versions = self.ledger.bills.versions()
        of_span = [
            (version, stands_in(version, versions)) for version in versions if first <= version.key.start.date() < last
        ]
        return Allocation(lines), statuses, not_shared_out(of_span, lines)

    def _learned(self) -> Iterator[str]:
        learned, today = self.ledger.calibration(), self.ledger.clock.now().date()
        for key, kappa in sorted(learned.kappas.items()):
            what = " ".join(part for part in key[:4] if part)
            yield (
                f"bills of {what} come to {kappa.factor:.4f} of the price (kappa), "
                f"learned from {kappa.days} days, the last {age(kappa, today)} days ago"
            )

    def _kept(self, since: datetime, until: datetime) -> Sequence[StoredDay]:
        """The days that are kept and lie wholly in the span."""
        found = self.ledger.days.days(since.date(), until.date() + DAY)
        return [each for each in found if since <= _start(each.status.day) and _start(each.status.day + DAY) <= until]


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _pieces(since: datetime, until: datetime, kept: dict[date, StoredDay]) -> Iterator[tuple[datetime, datetime]]:
    """The span day by day, without the days that are kept."""
    start = since
    while start < until:
        end = min(_start(start.astimezone(UTC).date() + DAY), until)
        if start.date() not in kept or end - start < DAY:
            yield start, end
        start = end


def _others(since: datetime, until: datetime, kept: dict[date, StoredDay]) -> Iterator[tuple[datetime, datetime]]:
    """The same in pieces as long as can be."""
    begun: datetime | None = None
    last = since
    for start, end in _pieces(since, until, kept):
        if begun is not None and start != last:
            yield begun, last
            begun = None
        begun, last = begun or start, end
    if begun is not None:
        yield begun, last


def _overview(line: CostLine, policy: FleetPolicy) -> CostOverview:
    pool = policy.pools.get(line.pool) if line.pool is not None else None
    return CostOverview(
        pool=line.pool or "",
        service=pool.service if pool else "",
        state=line.state,
        currency=line.money.currency if line.money else "",
        gpu_hours=line.gpu_hours,
        amount=line.money.amount if line.money else None,
        tokens=line.delivered_tokens,
        per_million=line.per_million,
        per_million_generated=line.per_million_generated,
        partial=line.partial,
        notes=line.notes,
    )
