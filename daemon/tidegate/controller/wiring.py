"""Put the controller together and run it: the one place that names its adapters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta

import structlog

from tidegate import __version__
from tidegate.config.settings import EMBEDDED, Settings
from tidegate.controller.act import Actor
from tidegate.controller.api import Api
from tidegate.controller.costs import Costs
from tidegate.controller.counts import Counts
from tidegate.controller.delivery import Delivery
from tidegate.controller.first_token import ensure_operator_token
from tidegate.controller.head import AHEAD, Head
from tidegate.controller.intake import Intake
from tidegate.controller.jobs import Jobs
from tidegate.controller.observer import Observer
from tidegate.controller.readiness import TICK, longest_silence, readiness
from tidegate.controller.running_config import RunningConfig
from tidegate.controller.state import State
from tidegate.controller.tick import Tick
from tidegate.decide.plan import plan
from tidegate.expose.controller_pages import ControllerPages
from tidegate.link.bell import Bell
from tidegate.link.report_endpoint import build_app
from tidegate.model.overview import JobOverview, Overview
from tidegate.notify.webhook import Webhook
from tidegate.runtime.clock import Clock, SystemClock
from tidegate.runtime.errors import Permanent, Transient
from tidegate.runtime.lifecycle import Lifecycle
from tidegate.runtime.loop import JobHealth, Loop
from tidegate.runtime.retry import Stopped, patiently
from tidegate.runtime.serve import HttpServer
from tidegate.store import migrate
from tidegate.store.database import Database, open_database
from tidegate.store.embedded import EmbeddedPostgres
from tidegate.store.store import Store

_log = structlog.get_logger()

_WATCH_EVERY = timedelta(seconds=5)
"""How often the embedded database is looked after; real time, whatever clock is played."""
_HUNG_SECONDS = 120.0
"""Real seconds that a tick may take before the watchdog takes it for one that never ends."""
_VIEWS_KEPT = 2
"""How many view windows of readings stay in memory: one, and what comes in while a tick looks at it."""


def run(settings: Settings, read: Callable[[], Settings], clock: Clock, lifecycle: Lifecycle) -> None:
    """Run until a stop is asked for; raises Permanent with the remedy when the controller cannot start here."""
    with ExitStack() as stack:
        try:
            store = _open_store(settings, lifecycle, stack)
            current = RunningConfig(settings, read, clock.now())
            controller = patiently(lambda: _build(current, store, clock), lifecycle)
        except Stopped:
            return
        _serve(controller, lifecycle, stack)


# --- the database


def _open_store(settings: Settings, lifecycle: Lifecycle, stack: ExitStack) -> Store:
    dsn = settings.controller.database
    server: EmbeddedPostgres | None = None
    if dsn == EMBEDDED:
        server = EmbeddedPostgres(settings.controller.state_dir, stopping=lifecycle.stopping)
        stack.callback(server.stop)
        patiently(server.start, lifecycle)
        dsn = server.dsn
    database = open_database(dsn)
    stack.callback(database.close)
    if server is not None:
        patiently(lambda: migrate.upgrade(database), lifecycle)
        _watch(server, dsn, lifecycle, stack)
    else:
        patiently(lambda: _check_revision(database), lifecycle)
    _log.info("database ready", place=str(database.place), version=database.ping())
    return Store(database)


def _check_revision(database: Database) -> None:
    """Wait for a person to migrate: then this controller goes on by itself, and nothing has to be started again."""
    database.ping()
    try:
        migrate.require_current(database)
    except Permanent as error:
        raise Transient(str(error)) from error


def _watch(server: EmbeddedPostgres, dsn: str, lifecycle: Lifecycle, stack: ExitStack) -> None:
    """Bring the embedded database up again when it dies, on a loop of its own that starts before the others."""

    def look_after() -> None:
        if server.alive() or lifecycle.stopping.is_set():
            return
        _log.error("the embedded database is gone, starting it again")
        server.start()
        if server.dsn != dsn:  # its socket had to move: every connection would go to the old place
            _log.error("the embedded database has moved, stopping to be started anew")
            lifecycle.stop()

    loop = Loop(SystemClock())
    loop.every("database", _WATCH_EVERY, look_after, first_after=_WATCH_EVERY)
    loop.start()
    stack.callback(loop.stop)


# --- the controller


@dataclass(frozen=True, slots=True)
class _Controller:
    clock: Clock
    current: RunningConfig
    state: State
    tick: Tick
    jobs: Jobs
    loop: Loop
    bell: Bell
    server: HttpServer


def _build(current: RunningConfig, store: Store, clock: Clock) -> _Controller:
    """Everything over the store, not yet running; raises Transient while the database is away."""
    now, settings = clock.now(), current.settings
    ensure_operator_token(settings.controller.state_dir, store.users, now)
    span = _VIEWS_KEPT * settings.controller.view_window
    head = Head(span)
    kept = head.add(store.reports.readings(now - span, now + AHEAD), now)
    epoch = store.replicas.new_epoch(now)
    _log.info("recent past read", readings=kept, epoch=epoch)
    state = State(Overview(__version__, now, epoch=epoch), current, Counts())
    state.alerts = store.alerts.states()  # what fires goes on firing on the page until the alerts are judged again
    loop, bell = Loop(clock), Bell()
    state.jobs = lambda: tuple(_job(name, health) for name, health in loop.health().items())
    observer = Observer(head, store.hosts, store.replicas, store.decisions, now, epoch)
    actor = Actor(store.replicas, bell.ring)
    tick = Tick(current, observer, plan, store.replicas, store.decisions, actor, state)
    costs = Costs(store.usage, store.replicas)
    longest = longest_silence(settings.controller.tick, clock)

    def ready() -> tuple[bool, str]:
        return readiness(loop.health().get(TICK), longest, clock.now())

    intake = Intake(store.reports, store.hosts, store.replicas, head, state)
    api = Api(clock, current, state, intake, store.hosts, store.users, store.replicas, store.decisions, costs, ready)
    listen = settings.controller.listen
    server = HttpServer(build_app(api, ControllerPages(clock, ready), bell), listen.host, listen.port, "controller")
    return _Controller(clock, current, state, tick, _jobs(store, current, state, costs, clock), loop, bell, server)


def _jobs(store: Store, current: RunningConfig, state: State, costs: Costs, clock: Clock) -> Jobs:
    listen = current.settings.controller.listen
    webhook = Webhook(
        lambda: {channel.name: channel for channel in current.settings.channels},
        f"http://{listen.host}:{listen.port}/",
    )
    delivery = Delivery(store.alerts, webhook, state.counts)
    return Jobs(clock, current, state, store.usage, costs, store.alerts, store.decisions, delivery, store.retention)


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


# --- its life


def _serve(controller: _Controller, lifecycle: Lifecycle, stack: ExitStack) -> None:
    """Serve and tick until a stop is asked for; the stack then stops everything in the reverse order."""
    clock, current, loop = controller.clock, controller.current, controller.loop
    stack.callback(loop.stop)
    controller.server.start()
    stack.callback(controller.server.stop)
    stack.callback(controller.bell.close)
    settings = current.settings.controller

    def tick() -> None:
        controller.tick(clock.now())
        lifecycle.status(controller.state.summary())

    loop.every(TICK, settings.tick, tick)
    controller.jobs.schedule(loop)
    loop.start()

    def reload() -> None:
        current.reload(clock.now())

    lifecycle.on_reload = reload
    hung = max(_HUNG_SECONDS, 4 * clock.real_seconds(settings.tick))
    lifecycle.watchdog(lambda: loop.ended_within(TICK, hung))
    address = f"http://{settings.listen.host}:{controller.server.port}/"
    _log.info("controller serves", address=address, pools=len(current.settings.fleet.pools))
    lifecycle.ready(f"serving on {address}")
    lifecycle.wait()
    _log.info("controller stops")
