"""The ledger of costs, brought up to date when a bill, telemetry or a status changes: a day at a time.

What a final day cost is not worked out again once its telemetry has settled, whatever hosts and pools are called later;
only another bill, or a reopened one, changes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

import structlog

from tidegate.controller.cost_activity import Telemetry
from tidegate.controller.cost_ports import BilledCharges, CostDays
from tidegate.controller.running_config import RunningConfig
from tidegate.cost.calibration import WINDOW, Calibration, calibrate, listed, priced
from tidegate.cost.day_status import DayFacts, day_status, touches
from tidegate.cost.effective_price import Lessons
from tidegate.cost.estimate import HostPrice
from tidegate.cost.reconcile import billed_hosts, held_seconds, observed, reconcile
from tidegate.model.activity import Activity
from tidegate.model.allocation import Allocation, CostPolicy, DayStatus, StoredDay
from tidegate.model.bill import SnapshotVersion
from tidegate.model.charge import account_name
from tidegate.model.money import CostState
from tidegate.model.price import Prices
from tidegate.runtime.clock import Clock

_log = structlog.get_logger()
DAY = timedelta(days=1)
SETTLED_AFTER = timedelta(days=4)
"""Agents' spools hold three days: until then telemetry may still come in."""
REACH = timedelta(days=400)
"""How far back days are shared out; what a longer charge says of earlier ones is in no question about days."""
_AT_ONCE = 31
_LEARNED_IN = 3 * WINDOW


@dataclass(frozen=True, slots=True)
class CostLedger:
    """Keeps the days."""

    clock: Clock
    current: RunningConfig
    telemetry: Telemetry
    bills: BilledCharges
    days: CostDays

    def reconcile(self) -> int:
        """Bring up to date what has changed, the newest days first; returns how many days were. Bounded per call."""
        now = self.clock.now()
        versions = self.bills.versions()
        kept = {each.status.day: each for each in self.days.days((now - REACH).date(), (now + DAY).date())}
        wanted = _touched(versions, now)
        self.days.drop(day for day in kept if day not in wanted)
        done = 0
        for day in sorted(wanted, reverse=True):
            if done >= _AT_ONCE:
                break
            done += self._one(day, wanted[day], kept.get(day), now)
        if done:
            _log.info("costs reconciled", days=done)
        return done

    def compute(
        self, since: datetime, until: datetime, versions: Sequence[SnapshotVersion]
    ) -> tuple[Allocation, Activity]:
        """What a span of at most a day cost: by the bills of these versions, estimated where they say nothing."""
        fleet, policy = self.current.settings.fleet, self.policy()
        seen = self.telemetry.between(since, until, fleet)
        standing = {version.id: stands_in(version, versions) for version in versions}
        charges = ((charge, standing.get(version, False)) for version, charge in self.bills.charges(since, until))
        closed = bool(versions) and all(version.closed for version in versions)
        made = reconcile(
            charges if versions else (), seen.activity, policy, self.prices(seen.activity), estimating=not closed
        )
        return replace(made, tokens=seen.tokens), seen.activity

    def status(self, day: date, versions: Sequence[SnapshotVersion], made: Allocation, activity: Activity) -> DayStatus:
        """How far what was computed of a day is known."""
        over = self.clock.now() >= datetime.combine(day, time(), UTC) + DAY
        seen, observable = observed(activity)
        facts = DayFacts(held_seconds(activity), billed_hosts(made), seen, observable, over=over)
        status = day_status(day, versions, facts)
        return replace(status, notes=(*status.notes, *made.notes))

    def policy(self) -> CostPolicy:
        """What the configuration says of costs."""
        settings = self.current.settings
        return replace(settings.costs, hosts=settings.bills.hosts)

    def calibration(self) -> Calibration:
        """What prices have learned from bills."""
        newest = self.days.newest()
        return calibrate(self.days.reconciled(newest - _LEARNED_IN) if newest else ())

    def lessons(self) -> Lessons:
        """What bills and price files have taught, for the prices that decisions go by."""
        return Lessons(self.calibration(), Prices(self.bills.prices()))

    def prices(self, activity: Activity) -> dict[str, HostPrice]:
        """The price of a GPU hour on hosts that bills have spoken of, after what was learned."""
        learned = self.calibration()
        prices, found = Prices(self.bills.prices()), {}
        for holding in activity.holdings:
            key = learned.hosts.get(holding.host)
            if key is None or holding.host in found:
                continue
            price = listed(prices, key, activity.since)
            if price is None and holding.price_per_gpu_hour is not None:
                price = HostPrice(holding.price_per_gpu_hour, holding.currency, "price")
            if price is not None:
                found[holding.host] = priced(holding.host, price, learned)
        return found

    def _one(self, day: date, versions: Sequence[SnapshotVersion], kept: StoredDay | None, now: datetime) -> int:
        start = datetime.combine(day, time(), UTC)
        billed = _digest([(each.id, each.closed, each.effective_usable) for each in versions])
        settled = now > start + DAY + SETTLED_AFTER
        if kept and kept.status.state is CostState.FINAL and settled and kept.signature.startswith(billed):
            return 0
        signature = f"{billed} {self._fingerprint(start, settled=settled)}"
        if kept and kept.signature == signature:
            return 0
        until = min(start + DAY, max(now, start + timedelta(minutes=5)))
        made, activity = self.compute(start, start + DAY, versions)
        status = self.status(day, versions, made, activity)
        self.days.put(StoredDay(status, signature, now), made)
        if kept and kept.status.state is CostState.FINAL and status.state is not CostState.FINAL:
            _log.warning("a final cost is not final any more", day=str(day), state=status.state.value)
        return int(until > start)

    def _fingerprint(self, start: datetime, *, settled: bool) -> str:
        """Of everything beside bills that a day rests on."""
        policy = self.policy()
        parts: list[object] = [sorted(asdict(policy).items(), key=str)]
        fleet = self.current.settings.fleet
        parts.append([(name, pool.service, pool.kind, pool.first_flavour.hosts) for name, pool in fleet.pools.items()])
        parts.append(sorted((str(name), host.gpus) for name, host in fleet.hosts.items()))
        if not settled:
            usage = self.telemetry.usage.between(start, start + DAY)
            parts.append([(each.pool, each.bucket, each.prompt_tokens, each.generation_tokens) for each in usage])
            held = self.telemetry.replicas.holdings(start, start + DAY, fleet)
            parts.append([(each.replica, each.start, each.end) for each in held])
        return _digest(parts)


def _touched(versions: Sequence[SnapshotVersion], now: datetime) -> dict[date, list[SnapshotVersion]]:
    """The days up to today that bills speak of, each with its versions."""
    found: dict[date, list[SnapshotVersion]] = {}
    oldest, today = (now - REACH).date(), now.astimezone(UTC).date()
    for version in versions:
        if version.sums.first is None or version.sums.last is None:
            continue
        day = max(version.sums.first.astimezone(UTC).date(), oldest)
        while day <= min(version.sums.last.astimezone(UTC).date(), today):
            if touches(version, day):
                found.setdefault(day, []).append(version)
            day += DAY
    return found


def stands_in(version: SnapshotVersion, versions: Sequence[SnapshotVersion]) -> bool:
    """Whether the billed ledger stands in: it does not where another export of the account fills the effective one.

    Pieces of the same export (shards) are other money, and fill nothing for each other.
    """
    if version.effective_usable:
        return False
    return not any(
        other.key.source != version.key.source
        and account_name(other.key.account) == account_name(version.key.account)
        and other.effective_usable
        and other.key.start < version.key.end
        and version.key.start < other.key.end
        for other in versions
    )


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:32]
