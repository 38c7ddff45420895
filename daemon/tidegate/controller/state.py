"""What the page, `/metrics` and `/v1/status` render: one value, swapped whole at the end of each tick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

import structlog

from tidegate.controller.counts import Counts
from tidegate.controller.figures import PoolReport
from tidegate.controller.gather import Gathered
from tidegate.controller.governed import mode_of
from tidegate.controller.hostview import HostView, Sources
from tidegate.controller.learned import learned_of
from tidegate.controller.running_config import RunningConfig
from tidegate.controller.twins import Twins
from tidegate.model.alert import AlertState
from tidegate.model.decision import Decision, Plan
from tidegate.model.fleet import PoolName
from tidegate.model.leadership import Leadership, Part
from tidegate.model.overview import CostsOverview, HostOverview, JobOverview, Learned, Overview, PoolOverview
from tidegate.model.policy import FleetPolicy, ServicePolicy
from tidegate.model.price import FlavourPrice
from tidegate.model.reading import HostName, Missing
from tidegate.model.records import DecisionRecord, Outcome
from tidegate.model.scrape import SourceState
from tidegate.wire import HostRecord, HostState

_log = structlog.get_logger()

NOTHING = HostState()
_SHOWN_PROBLEMS = 20


class State:
    """The last tick's overview, with what the jobs beside the tick found since."""

    def __init__(self, first: Overview, current: RunningConfig, counts: Counts) -> None:
        self._overview, self._current = first, current
        self.counts = counts
        self.costs: Mapping[PoolName, Decimal | Missing] = {}
        """Cost per million tokens of each pool over the trailing hour; replaced by a job."""
        self.cost: CostsOverview | None = None
        self.billed: CostsOverview | None = None
        self.prices: Sequence[FlavourPrice] = ()
        """The prices that the last tick decided by."""
        self.seen: tuple[datetime | None, Mapping[HostName, HostView]] = (None, {})
        """When the last tick looked, and what it saw of each host."""
        self.alerts: Sequence[AlertState] = ()
        self.changes: Sequence[DecisionRecord] = ()
        self.offsets: dict[HostName, float] = {}
        """Seconds by which a host's clock was off, for the hosts where that mattered."""
        self.left_out: dict[HostName, int] = {}
        """Series of a host that are not kept, since it shows too many new ones in a day."""
        self.twins = Twins()
        self.jobs: Callable[[], tuple[JobOverview, ...]] = tuple
        self.leadership: Callable[[], Leadership] = Leadership
        self.source: Callable[[], SourceState | None] = lambda: None
        """How the Prometheus that is read does; None where agents report instead."""

    def overview(self) -> Overview:
        """The fleet as last seen, with live counts; where another controller leads, nothing that we saw earlier."""
        leadership = self.leadership()
        seen = self._overview
        if leadership.part is Part.STANDS_BY:
            seen = Overview(seen.version, seen.started_at)
        source = self.source() if leadership.part is not Part.STANDS_BY else None
        return replace(
            seen,
            source=source,
            notes=(*(source.notes if source else ()), *seen.notes),
            leadership=leadership,
            mode=mode_of(self._current.settings.fleet.mode, seen.commands),
            currency=self._current.settings.currency,
            view_window=self._current.settings.controller.view_window,
            decisions=tuple(self.changes),
            alerts=tuple(self.alerts) if leadership.part is not Part.STANDS_BY else (),
            cost=self.cost if leadership.part is not Part.STANDS_BY else None,
            billed=self.billed if leadership.part is not Part.STANDS_BY else None,
            jobs=self.jobs(),
            tally=self.counts.tally(),
            config_loaded_at=self._current.loaded_at,
            config_reload_ok=self._current.reload_ok,
        )

    def summary(self) -> str:
        """The fleet in one line, for systemd."""
        pools = self._overview.pools
        return ", ".join(f"{p.policy.name} {p.figures.ready}/{p.figures.target}" for p in pools) or "no pools"

    def show(
        self,
        gathered: Gathered,
        sources: Sources,
        plan: Plan,
        outcomes: Sequence[Outcome],
        reports: Sequence[PoolReport],
    ) -> None:
        """Swap the overview and say the tick in one line."""
        decisions = {decision.pool: decision for decision in plan.decisions}
        policy, now = self._current.settings.fleet, gathered.fleet.at
        lessons = learned_of(plan.memory, policy, now)
        notes = (*self.twins.notes(now), *gathered.notes)
        self._overview = replace(
            self._overview,
            at=now,
            unrecorded="",
            pools=tuple(
                replace(
                    _pool(policy, report, decisions, lessons),
                    prices=tuple(price for price in self.prices if price.pool == report.figures.pool),
                )
                for report in reports
                if report.figures.pool in policy.pools
            ),
            commands=tuple(command for command in sources.commands if command.stands(now)),
            replicas=gathered.records,
            hosts=tuple(self._host(host, gathered.views.get(host.name)) for host in sources.hosts),
            notes=notes,
        )
        self.seen = (gathered.fleet.at, gathered.views)
        self.counts.observed(gathered.changed)
        self.counts.planned(plan.decisions)
        self.counts.acted(plan.actions, outcomes)
        sizes = " ".join(f"{pool}={d.current}/{d.target}" for pool, d in sorted(decisions.items()))
        _log.info("tick", pools=sizes, actions=len(plan.actions), hosts=len(sources.hosts), notes=len(notes))

    def show_unrecorded(self, gathered: Gathered, sources: Sources, reports: Sequence[PoolReport], why: str) -> None:
        """Swap in live figures while the database is away; targets, decisions and replicas stay those of before."""
        before = {pool.policy.name: pool for pool in self._overview.pools}
        pools = []
        for report in reports:
            if (known := before.get(report.figures.pool)) is not None:
                figures = replace(report.figures, target=known.figures.target)
                pools.append(replace(known, figures=figures, gaps=report.gaps))
        self._overview = replace(
            self._overview,
            at=gathered.fleet.at,
            unrecorded=why,
            pools=tuple(pools),
            replicas=gathered.records,
            hosts=tuple(self._host(host, gathered.views.get(host.name)) for host in sources.hosts),
        )

    def _host(self, record: HostRecord, view: HostView | None) -> HostOverview:
        """What the host's record says, and what intake and jobs found about it."""
        offset, left_out = self.offsets.get(record.name, 0.0), self.left_out.get(record.name, 0)
        return replace(_host(record, view), clock_offset_seconds=offset, series_left_out=left_out)


def _pool(
    policy: FleetPolicy,
    report: PoolReport,
    decisions: Mapping[PoolName, Decision],
    lessons: Mapping[PoolName, Learned],
) -> PoolOverview:
    pool = policy.pools[report.figures.pool]
    service = policy.services.get(pool.service, ServicePolicy(pool.service))
    return PoolOverview(
        policy=pool,
        figures=report.figures,
        gaps=report.gaps,
        decision=decisions.get(pool.name),
        sized_by=service.policy,
        learned=lessons.get(pool.name, Learned()),
    )


def _host(record: HostRecord, view: HostView | None) -> HostOverview:
    state = record.state or NOTHING
    problems = [f"{engine.name}: {problem}" for engine in state.engines for problem in engine.problems]
    return HostOverview(
        name=record.name,
        heard=view is not None and view.heard,
        last_seen=record.last_seen,
        revoked=record.revoked,
        nvml_up=state.nvml_up,
        nvml_why=state.nvml_why,
        gpus_up=sum(gpu.up for gpu in state.gpus),
        gpus=len(state.gpus),
        spool_reports=state.spool_reports,
        spool_dropped=state.spool_dropped,
        agent_version=state.agent_version,
        problems=_some(problems),
    )


def _some(problems: Sequence[str]) -> tuple[str, ...]:
    left = len(problems) - _SHOWN_PROBLEMS
    return (*problems[:_SHOWN_PROBLEMS], *([f"{left} more: see the agent's own page"] if left > 0 else ()))
