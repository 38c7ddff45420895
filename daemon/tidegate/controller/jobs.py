"""What runs beside the tick: usage, cost, alerts, notices, retention, and what the page shows of the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import structlog

from tidegate.alert.evaluate import end_orphans, evaluate, orphans, reach_of
from tidegate.controller.boards import RECORD_EVERY, Boards
from tidegate.controller.costs import Costs, trailing_hour
from tidegate.controller.delivery import Delivery
from tidegate.controller.leader import Leader
from tidegate.controller.learned_prices import LearnedPrices
from tidegate.controller.ports import Alerts, Compaction, Decisions, Retention, Usage
from tidegate.controller.running_config import RunningConfig
from tidegate.controller.state import State
from tidegate.model.alert import AlertPhase, AlertState
from tidegate.model.fleet import PoolName
from tidegate.model.overview import CostOverview
from tidegate.model.reading import Gap, Missing
from tidegate.runtime.clock import Clock
from tidegate.runtime.loop import Loop

_log = structlog.get_logger()

SHOWN_CHANGES = 20
PRUNE_EVERY = timedelta(hours=1)
COMPACT_EVERY = timedelta(seconds=30)
_SAID = frozenset({AlertPhase.FIRING, AlertPhase.RESOLVED})


@dataclass(frozen=True, slots=True)
class Jobs:
    """Every job beside the tick; each is safe to run again after any failure."""

    clock: Clock
    current: RunningConfig
    state: State
    usage: Usage
    costs: Costs
    prices: LearnedPrices
    alerts: Alerts
    decisions: Decisions
    delivery: Delivery
    compaction: Compaction
    retention: Retention
    boards: Boards
    poll: Callable[[datetime], None] | None = None
    """Asks the source of samples, where it has to be asked."""
    bills: Callable[[], None] | None = None
    """Imports bills that have arrived by themselves."""

    def schedule(self, loop: Loop, leader: Leader) -> None:
        """Put them into the loop at the configured intervals; but for the page's log only the leader does them."""
        settings = self.current.settings.controller

        def led(name: str, interval: timedelta, job: Callable[[], None], first_after: timedelta = timedelta()) -> None:
            loop.every(name, interval, leader.led(job), first_after, only_if=leader.leads)

        if self.bills is not None:
            led("bills", self.current.settings.bills.poll, self.bills, settings.tick)
        if self.poll is not None:
            # Half-way between two ticks: the next one finds samples that came in time, and waits for none.
            led("samples", settings.tick, self.read_samples, first_after=settings.tick / 2)
        # Each at another place between two ticks: all of them at once would hold up reports, and each other.
        part = settings.tick / 8
        led("roll_up", settings.roll_up, self.roll_up, first_after=settings.roll_up + 2 * part)
        led("costs", settings.roll_up, self.reconcile_costs, first_after=settings.roll_up + 6 * part)
        led("alerts", settings.alert_interval, self.evaluate_alerts, first_after=settings.alert_interval + 7 * part)
        led("notify", settings.notify_interval, self.notify, first_after=part)
        led("figures", RECORD_EVERY, self.boards.record, first_after=settings.tick + 5 * part)
        led("compact", COMPACT_EVERY, self.compact, first_after=settings.tick + 3 * part)
        led("prune", PRUNE_EVERY, self.drop_old, first_after=settings.tick)
        loop.every("changes", settings.tick, self.read_changes, first_after=4 * part)

    def read_samples(self) -> None:
        """Ask for the recent past, so that the next tick finds it."""
        if self.poll is not None:
            self.poll(self.clock.now())

    def roll_up(self) -> None:
        """Bring token usage up to date, then the cost of the trailing hour."""
        now = self.clock.now()
        self.usage.roll_up(now)
        self.boards.figures.roll_up(now)
        since, until = trailing_hour(now)
        cost = self.costs.between(since, until, self.current.settings.fleet)
        self.state.cost = cost
        self.state.costs = {PoolName(line.pool): _per_million(line) for line in cost.pools}

    def reconcile_costs(self) -> None:
        """Share out bills that are new, and days whose telemetry has changed since."""
        self.costs.ledger.reconcile()
        self.prices.refresh()
        self.state.billed = self.costs.last_billed(self.current.settings.fleet)

    def evaluate_alerts(self) -> None:
        """Take every rule one step, and owe people what changed."""
        now, rules = self.clock.now(), self.current.settings.alerts
        states = self.alerts.states()
        usages = self.usage.between(now - reach_of(rules), now) if rules else ()
        after, notices = evaluate(rules, usages, states, now)
        without_rule = orphans(rules, states)
        told = {state.fingerprint: self.alerts.told(state.fingerprint) for state in without_rule}
        ended, last_words = end_orphans(without_rule, told, now)
        after = tuple(sorted((*(one for one in after if one.fingerprint not in told), *ended), key=_fingerprint))
        known = {state.fingerprint: state for state in states}
        changed = [state for state in after if known.get(state.fingerprint) != state]
        if changed or notices or last_words:
            self.alerts.save(changed, [*notices, *last_words])
        _log_turns(changed, known)
        self.state.alerts = after

    def notify(self) -> None:
        """Deliver what is due."""
        self.delivery.run(self.clock.now())

    def read_changes(self) -> None:
        """Fetch the last decisions that did something, for the page."""
        self.state.changes = self.decisions.latest(SHOWN_CHANGES, changes_only=True)

    def compact(self) -> None:
        """Make chunks and rollups of what was reported; say whose series are more than can be kept."""
        now, settings = self.clock.now(), self.current.settings.controller
        done = self.compaction.compact(now, settings.minute_series)
        for host, number in done.left_out.items():
            if number and not self.state.left_out.get(host):
                _log.warning(
                    "a host shows too many new series in a day: the newest are not kept",
                    host=host,
                    series=number,
                    remedy="find the label whose value changes with every scrape; known series are not affected",
                )
        self.state.left_out |= done.left_out

    def drop_old(self) -> None:
        """Forget what is older than the configuration wants to keep."""
        settings = self.current.settings.controller
        now = self.clock.now()
        pruned = self.retention.prune(now, settings.retention, settings.history, settings.levels)
        days = [*pruned.days, *self.boards.figures.prune(now, settings.history)]
        if days or pruned.rows:
            _log.info("old data dropped", days=days, rows=pruned.rows)


def _fingerprint(state: AlertState) -> str:
    return state.fingerprint


def _log_turns(changed: Sequence[AlertState], known: Mapping[str, AlertState]) -> None:
    """One line for each alert that fires or resolves, whether it has channels or not."""
    for state in changed:
        before = known.get(state.fingerprint)
        if state.phase in _SAID and (before is None or before.phase is not state.phase):
            _log.warning("alert", phase=state.phase.value, rule=state.rule, **state.annotations)


def _per_million(line: CostOverview) -> Decimal | Missing:
    return Missing(Gap.NO_TRAFFIC) if line.per_million is None else line.per_million
