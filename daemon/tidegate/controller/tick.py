"""One tick: gather, view, decide, record, act, settle, show. A crash anywhere is harmless: the next looks again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tidegate.controller.act import Actor
from tidegate.controller.figures import pool_reports
from tidegate.controller.gather import gather
from tidegate.controller.governed import governed
from tidegate.controller.hostview import Freshness
from tidegate.controller.learned_prices import LearnedPrices
from tidegate.controller.observer import Observer
from tidegate.controller.ports import Decisions, Replicas
from tidegate.controller.running_config import RunningConfig
from tidegate.controller.state import State
from tidegate.model.decision import Plan
from tidegate.model.fleet import Fleet
from tidegate.model.memory import Memory
from tidegate.model.policy import FleetPolicy
from tidegate.runtime.errors import Transient

Planner = Callable[[Fleet, FleetPolicy, Memory, datetime], Plan]


@dataclass(frozen=True, slots=True)
class Tick:
    """The seven steps of the design and nothing else."""

    current: RunningConfig
    observer: Observer
    plan: Planner
    replicas: Replicas
    decisions: Decisions
    actor: Actor
    state: State
    prices: LearnedPrices

    def __call__(self, now: datetime) -> None:
        """Run the steps for `now`; raises Transient when the store is away, having looked as far as memory goes."""
        try:
            self._run(now)
        except Transient as error:
            self.look(now, str(error))
            raise

    def look(self, now: datetime, why: str) -> None:
        """Show what hosts say now over what was last known: nothing is decided, recorded or changed."""
        settings = self.current.settings
        freshness = Freshness(settings.controller.view_window, settings.controller.stale_after)
        sources = self.observer.remembered(freshness, now)
        if sources is None:
            return
        policy = governed(settings.fleet, sources.commands, now)
        gathered = gather(sources, policy, freshness, now)
        self.state.show_unrecorded(gathered, sources, pool_reports(gathered, (), policy, self.state.costs, now), why)

    def _run(self, now: datetime) -> None:
        settings = self.current.settings
        freshness = Freshness(settings.controller.view_window, settings.controller.stale_after)
        sources = self.observer.sources(freshness, now)
        policy = governed(settings.fleet, sources.commands, now)
        gathered = gather(sources, policy, freshness, now)
        self.replicas.observe(gathered.changed)
        policy, self.state.prices = self.prices.govern(policy, now)
        plan = self.plan(gathered.fleet, policy, self.observer.memory(), now)
        ids = self.decisions.record(plan)
        outcomes = self.actor.act(plan.actions, ids, policy, now)
        reports = pool_reports(gathered, plan.decisions, policy, self.state.costs, now)
        self.decisions.settle(outcomes, plan.memory, [report.figures for report in reports])
        self.state.show(gathered, sources, plan, outcomes, reports)
