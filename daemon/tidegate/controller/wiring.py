"""Put the controller together: the one place that names its adapters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegate import __version__
from tidegate.bills.traffic_file import read_traffic
from tidegate.config.settings import EMBEDDED, Settings
from tidegate.controller.act import Actor
from tidegate.controller.api import Api
from tidegate.controller.boards import Boards
from tidegate.controller.candidate import candidate
from tidegate.controller.cost_activity import Telemetry
from tidegate.controller.cost_ledger import CostLedger
from tidegate.controller.costs import Costs
from tidegate.controller.counts import Counts
from tidegate.controller.delivery import Delivery
from tidegate.controller.engine_views import AHEAD, EngineViews
from tidegate.controller.first_token import ensure_operator_token
from tidegate.controller.front import Front, FrontSetup
from tidegate.controller.head import Head
from tidegate.controller.hearing import Hearing
from tidegate.controller.jobs import Jobs
from tidegate.controller.leader import Leader
from tidegate.controller.learned_prices import LearnedPrices
from tidegate.controller.observer import Observer
from tidegate.controller.queries import Queries
from tidegate.controller.readiness import TICK, longest_silence, readiness
from tidegate.controller.recent_past import RecentPast
from tidegate.controller.roster import Roster
from tidegate.controller.running_config import RunningConfig
from tidegate.controller.service import Controller, serve
from tidegate.controller.state import State
from tidegate.controller.tick import Tick
from tidegate.controller.wiring_bills import bill_side
from tidegate.controller.wiring_source import MetricSource, metric_source
from tidegate.decide.plan import plan
from tidegate.expose.controller_pages import ControllerPages
from tidegate.link.application import build_app
from tidegate.model.overview import JobOverview, Overview
from tidegate.model.reading import HostName
from tidegate.notify.webhook import Webhook
from tidegate.runtime.clock import Clock
from tidegate.runtime.files import claim
from tidegate.runtime.lifecycle import Lifecycle
from tidegate.runtime.loop import JobHealth, Loop
from tidegate.runtime.pace import Pace
from tidegate.runtime.retry import Stopped, patiently
from tidegate.runtime.serve import HttpServer, tcp, unseen
from tidegate.store.fence import Fence
from tidegate.store.housekeeping import Housekeeping
from tidegate.store.leadership import StoredLeadership
from tidegate.store.opening import kept_open
from tidegate.store.store import Store

_STANDS_BACK = 10
"""How much nicer ticks and jobs are than the front, which takes reports."""
_PEOPLE_STAND_BACK = 5
"""How much nicer pages and questions are."""
_VIEWS_KEPT = 2
"""How many view windows of readings stay in memory: one, and what comes in while a tick looks at it."""


def run(settings: Settings, read: Callable[[], Settings], clock: Clock, lifecycle: Lifecycle) -> None:
    """Run until a stop is asked for; raises Permanent with the remedy when the controller cannot start here."""
    place = settings.controller
    dsn = None if place.database == EMBEDDED else place.database
    try:
        with kept_open(dsn, place.state_dir, lifecycle) as database, claim(place.state_dir, "state_dir"):
            store, current = Store(database, Fence(), Pace()), RunningConfig(settings, read, clock.now())
            with (
                closing(StoredLeadership(database)) as leaderships,
                closing(Housekeeping(store, database.dsn)) as house,
            ):
                leader = Leader(
                    leaderships,
                    candidate(place.state_dir, place.listen.host, place.listen.port),
                    store.fence.under,
                    clock,
                    place.lease,
                )
                serve(patiently(lambda: _build(current, store, house, leader, clock), lifecycle), lifecycle)
    except Stopped:
        return


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the rest is put together from."""

    current: RunningConfig
    store: Store
    house: Housekeeping
    leader: Leader
    clock: Clock
    head: Head
    state: State
    source: MetricSource
    roster: Roster
    front: Front
    loop: Loop


def _parts(current: RunningConfig, store: Store, house: Housekeeping, leader: Leader, clock: Clock) -> _Parts:
    head = Head(_VIEWS_KEPT * current.settings.controller.view_window)
    state = State(Overview(__version__, clock.now()), current, Counts())
    state.leadership = leader.view
    state.alerts = store.alerts.states()  # what fires goes on firing on the page until the alerts are judged again
    loop = Loop(clock, back=_STANDS_BACK)
    state.jobs = lambda: tuple(_job(name, health) for name, health in loop.health().items())
    source = metric_source(current, store, house.usage, state, head)
    front = _front(current, store.database.dsn, leader, clock, head.span)
    return _Parts(current, store, house, leader, clock, head, state, source, Roster(store.hosts), front, loop)


def _front(current: RunningConfig, dsn: str, leader: Leader, clock: Clock, recent: timedelta) -> Front:
    place, level = current.settings.controller, current.settings.log_level

    def epoch() -> int:
        return leader.view().epoch

    def setup(listening: int, inner: bytes) -> FrontSetup:
        return FrontSetup(dsn, listening, inner, clock, place.source, recent, epoch(), level)

    return Front(tcp(place.listen.host, place.listen.port), setup, epoch, clock)


def _observing(parts: _Parts) -> tuple[Hearing, RecentPast, Observer]:
    """Who remembers what hosts report, who completes that from the store, and who looks at it."""
    views_of, source = EngineViews(), parts.source

    def prepare(host: HostName, at: datetime) -> None:
        views_of(host, parts.head.of(host, at + AHEAD - parts.current.settings.controller.view_window))

    hearing = Hearing(source.reports, parts.roster, parts.head, parts.state, prepare)
    past = RecentPast(parts.head, source.reports, hearing.heard, parts.leader.began_at)
    hearing.missed = past.missed
    observer = Observer(
        source.recent,
        parts.roster,
        parts.store.replicas,
        parts.store.decisions,
        past,
        parts.leader.began_at,
        parts.store.commands,
        silent=source.silent,
        views_of=views_of,
    )
    return hearing, past, observer


def _api(parts: _Parts, costs: Costs, ready: Callable[[], tuple[bool, str]]) -> Api:
    store = parts.store
    return Api(
        parts.clock,
        parts.current,
        parts.state,
        parts.roster,
        store.users,
        store.replicas,
        store.decisions,
        costs,
        ready,
        Queries(parts.source.histories),
        store.commands,
        parts.front.distrust,
    )


def _build(current: RunningConfig, store: Store, house: Housekeeping, leader: Leader, clock: Clock) -> Controller:
    """Everything over the store, not yet running; raises Transient while the database is away."""
    settings = current.settings
    ensure_operator_token(settings.controller.state_dir, store.users, clock.now())
    leader.stand()
    parts = _parts(current, store, house, leader, clock)
    state, loop = parts.state, parts.loop
    hearing, past, observer = _observing(parts)
    actor = Actor(store.replicas, parts.front.changed)
    costs = _costs(parts)
    prices = LearnedPrices(costs.ledger.lessons)
    tick = Tick(current, observer, plan, store.replicas, store.decisions, actor, state, prices)
    longest = longest_silence(settings.controller.tick, clock)

    def ready() -> tuple[bool, str]:
        if not leader.leads():
            return leader.standing_by()
        return readiness(loop.health().get(TICK), longest, leader.began_at(), clock.now())

    def note_jobs() -> None:
        store.job_runs.note(state.jobs(), leader.name, clock.now())

    bills = bill_side(store.bills, current, clock)
    app = build_app(_api(parts, costs, ready), ControllerPages(clock, ready), bills.door)
    inner = HttpServer(app, unseen, "controller", back=_PEOPLE_STAND_BACK)
    jobs = replace(_jobs(parts, costs, prices), bills=bills.watch)
    return Controller(
        clock, current, state, leader, parts.roster, tick, note_jobs, jobs, loop, inner, parts.front, hearing, past
    )


def _costs(parts: _Parts) -> Costs:
    telemetry = Telemetry(
        parts.source.usage,
        parts.store.replicas,
        parts.source.histories,
        lambda: parts.current.settings.controller.stale_after,
    )
    ledger = CostLedger(parts.clock, parts.current, telemetry, parts.store.bills, parts.store.costs)
    return Costs(ledger, read_traffic)


def _jobs(parts: _Parts, costs: Costs, prices: LearnedPrices) -> Jobs:
    store, source, current, state = parts.store, parts.source, parts.current, parts.state
    listen = current.settings.controller.listen
    webhook = Webhook(
        lambda: {channel.name: channel for channel in current.settings.channels},
        f"http://{listen.host}:{listen.port}/",
    )
    delivery = Delivery(store.alerts, webhook, state.counts, store.fence.carried)
    return Jobs(
        parts.clock,
        current,
        state,
        source.usage,
        costs,
        prices,
        store.alerts,
        store.decisions,
        delivery,
        parts.house.compaction,
        parts.house.retention,
        Boards(parts.house.figures, state),
        source.poll,
    )


def _job(name: str, health: JobHealth) -> JobOverview:
    return JobOverview(
        name=name,
        last_success=health.last_success,
        runs=health.runs,
        failures=health.failures,
        consecutive_failures=health.consecutive_failures,
        seconds=health.seconds,
        error=health.error,
    )
