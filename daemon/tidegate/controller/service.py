"""Run a controller as a service: serve, tick, reload on SIGHUP, end in order on SIGTERM."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta

import structlog

from tidegate.controller.front import Front
from tidegate.controller.heard import Listener
from tidegate.controller.jobs import Jobs
from tidegate.controller.leader import Leader
from tidegate.controller.readiness import TICK
from tidegate.controller.recent_past import RecentPast
from tidegate.controller.roster import Roster
from tidegate.controller.running_config import RunningConfig
from tidegate.controller.state import State
from tidegate.controller.tick import Tick
from tidegate.runtime.clock import Clock, SystemClock
from tidegate.runtime.collector import EVERYTHING_EVERY, collect_everything, spare_the_old
from tidegate.runtime.errors import Transient
from tidegate.runtime.lifecycle import Lifecycle
from tidegate.runtime.loop import Loop
from tidegate.runtime.serve import HttpServer, raise_file_limit

_log = structlog.get_logger()

_SWITCH_SECONDS = 0.000_1
"""How long a thread may keep others from Python (usual: 5 ms): a large tick must not hold up the lease, nor people."""
_HUNG_SECONDS = 120.0
"""Real seconds that a tick may take before the watchdog takes it for one that never ends."""
FLUSH_HOSTS_EVERY = timedelta(seconds=0.25)
"""Real time: how much of what hosts said last a crash may take, until their next report. Few at a time: thousands of
hosts a minute held up reports when they were written by the second."""
NOTE_JOBS_EVERY = timedelta(seconds=30)
_APART = timedelta(seconds=0.125)
"""Jobs of whole seconds begin so far apart, that they do not all come at once with every one."""


@dataclass(frozen=True, slots=True)
class Controller:
    """Everything of one controller, not yet running."""

    clock: Clock
    current: RunningConfig
    state: State
    leader: Leader
    roster: Roster
    tick: Tick
    note_jobs: Callable[[], None]
    """Keeps how the jobs did where `tidegate db status` finds it."""
    jobs: Jobs
    loop: Loop
    inner: HttpServer
    """Answers everything but agents, which the front does."""
    front: Front
    hearing: Listener
    past: RecentPast


def serve(controller: Controller, lifecycle: Lifecycle) -> None:
    """Serve and tick until a stop is asked for, then stop in the reverse order; raises Permanent for a taken port."""
    clock, current, loop, leader = controller.clock, controller.current, controller.loop, controller.leader
    settings = current.settings.controller

    def tick() -> None:
        controller.tick(clock.now())
        lifecycle.status(controller.state.summary())

    def look_or_tick() -> None:
        if leader.leads():
            leader.led(tick)()
        else:
            why = leader.standing_by()[1]
            controller.tick.look(clock.now(), why)
            raise Transient(f"nothing is decided: {why}")

    def reload() -> None:
        current.reload(clock.now())

    raise_file_limit()
    sys.setswitchinterval(_SWITCH_SECONDS)
    spare_the_old()
    with ExitStack() as stack:
        steady = _in_real_time(controller)
        steady.start()
        stack.callback(_let_go, leader, controller.roster)
        stack.callback(steady.stop)
        stack.callback(loop.stop)
        controller.inner.start()
        stack.callback(controller.inner.stop)
        stack.callback(controller.front.stop)
        controller.front.start(controller.inner.address, controller.hearing, controller.past.missed)
        loop.every(TICK, settings.tick, look_or_tick, only_if=leader.may_look)
        controller.jobs.schedule(loop, leader)
        loop.start()
        lifecycle.on_reload = reload
        hung = max(_HUNG_SECONDS, 4 * clock.real_seconds(settings.tick))
        lifecycle.watchdog(lambda: loop.ended_within(TICK, hung))
        address = f"http://{settings.listen.host}:{controller.front.port}/"
        _log.info("controller serves", address=address, pools=len(current.settings.fleet.pools))
        lifecycle.ready(f"serving on {address}")
        lifecycle.wait()
        _log.info("controller stops")


def _in_real_time(controller: Controller) -> Loop:
    """The lease and what is as short has a loop of its own: real time, and no job that it could wait for."""
    leader, steady = controller.leader, Loop(SystemClock())
    steady.every("lease", leader.renewal, leader.stand, first_after=leader.renewal)
    steady.every("hosts", FLUSH_HOSTS_EVERY, controller.roster.flush)
    steady.every("garbage", EVERYTHING_EVERY, collect_everything, first_after=EVERYTHING_EVERY)
    steady.every("note_jobs", NOTE_JOBS_EVERY, leader.led(controller.note_jobs), 5 * _APART, leader.leads)
    return steady


def _let_go(leader: Leader, roster: Roster) -> None:
    with suppress(Transient):  # what hosts said comes again, and the lease runs out by itself
        roster.flush()
        leader.resign()
