"""Run a controller as a service: serve, tick, reload on SIGHUP, end in order on SIGTERM."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import structlog

from tidegate.controller.jobs import Jobs
from tidegate.controller.readiness import TICK
from tidegate.controller.running_config import RunningConfig
from tidegate.controller.state import State
from tidegate.controller.tick import Tick
from tidegate.runtime.clock import Clock
from tidegate.runtime.lifecycle import Lifecycle
from tidegate.runtime.loop import Loop
from tidegate.runtime.serve import HttpServer

_log = structlog.get_logger()

_HUNG_SECONDS = 120.0
"""Real seconds that a tick may take before the watchdog takes it for one that never ends."""


@dataclass(frozen=True, slots=True)
class Controller:
    """Everything of one controller, not yet running."""

    clock: Clock
    current: RunningConfig
    state: State
    tick: Tick
    jobs: Jobs
    loop: Loop
    server: HttpServer
    end_polls: Callable[[], None]
    """Answers every agent that waits for a command, so that the server can stop at once."""


def serve(controller: Controller, lifecycle: Lifecycle) -> None:
    """Serve and tick until a stop is asked for, then stop in the reverse order; raises Permanent for a taken port."""
    clock, current, loop = controller.clock, controller.current, controller.loop
    settings = current.settings.controller

    def tick() -> None:
        controller.tick(clock.now())
        lifecycle.status(controller.state.summary())

    def reload() -> None:
        current.reload(clock.now())

    with ExitStack() as stack:
        stack.callback(loop.stop)
        controller.server.start()
        stack.callback(controller.server.stop)
        stack.callback(controller.end_polls)
        loop.every(TICK, settings.tick, tick)
        controller.jobs.schedule(loop)
        loop.start()
        lifecycle.on_reload = reload
        hung = max(_HUNG_SECONDS, 4 * clock.real_seconds(settings.tick))
        lifecycle.watchdog(lambda: loop.ended_within(TICK, hung))
        address = f"http://{settings.listen.host}:{controller.server.port}/"
        _log.info("controller serves", address=address, pools=len(current.settings.fleet.pools))
        lifecycle.ready(f"serving on {address}")
        lifecycle.wait()
        _log.info("controller stops")
