"""Run an agent as a service: serve, collect, reload on SIGHUP, end in order on SIGTERM."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import structlog

from tidegate.agent.daemon import Agent
from tidegate.agent.wiring import Wired
from tidegate.config.settings import AgentSettings
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import ConfigError, TidegateError
from tidegate.runtime.lifecycle import Lifecycle
from tidegate.runtime.loop import Loop

_log = structlog.get_logger()

_END_SECONDS = 6.0
"""For the collection under way: a scrape's time-out and a little."""
_LAST_WORD_SECONDS = 3.0
_WEB_SECONDS = 5.0
_PROCESSES_SECONDS = 60.0
"""Real seconds both: files and processes know no played clock."""


def serve(wired: Wired, load: Callable[[], AgentSettings], clock: Clock) -> None:
    """Run until a signal ends it; `load` reads the configuration anew. Raises Permanent when the port is taken."""
    lifecycle = Lifecycle()
    lifecycle.install()
    agent, loop, control_loop = wired.agent, Loop(clock), Loop(clock)
    lifecycle.on_reload = lambda: _reload(wired, load, loop)
    wired.server.start()
    agent.schedule(loop, control_loop)
    control_loop.every("web configuration", _really(_WEB_SECONDS, clock), wired.look_at_web)
    control_loop.every("processes", _really(_PROCESSES_SECONDS, clock), agent.look_around, timedelta(seconds=1))
    loop.start()
    control_loop.start()
    lifecycle.watchdog(lambda: agent.collecting(loop))
    _log.info("agent serves", port=wired.server.port)
    lifecycle.ready(f"metrics on port {wired.server.port}")
    lifecycle.wait()
    _end(agent, loop, control_loop)
    wired.server.stop()
    wired.close()
    _log.info("agent ended", units="left running")


def _really(seconds: float, clock: Clock) -> timedelta:
    """So many real seconds, in the clock's time."""
    return timedelta(seconds=seconds / clock.real_seconds(timedelta(seconds=1)))


def _reload(wired: Wired, load: Callable[[], AgentSettings], loop: Loop) -> None:
    try:
        wired.reload(load())
    except ConfigError as error:
        wired.agent.reload_failed()
        _log.error("reload failed, the running configuration stays", error=str(error))
        return
    wired.look_at_web()
    wired.agent.schedule_collections(loop)
    _log.info("configuration reloaded")


def _end(agent: Agent, loop: Loop, control_loop: Loop) -> None:
    """Collections first, then one short try to deliver what they saw; the long poll is left hanging."""
    agent.wind_down()
    control_loop.stop(timeout_seconds=0.0)
    if not loop.stop(timeout_seconds=_END_SECONDS):
        _log.warning("a collection or a delivery still hangs, not waited for")
        return
    word = threading.Thread(target=_last_word, args=(agent,), name="last report", daemon=True)
    word.start()
    word.join(_LAST_WORD_SECONDS)


def _last_word(agent: Agent) -> None:
    try:
        agent.last_word()
    except TidegateError as error:
        _log.warning("last report not delivered, it waits in the spool", error=str(error))
