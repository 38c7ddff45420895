"""`tidegate agent`: watch this host, export and report what is seen, run engine units."""

from __future__ import annotations

import math
import re
import socket
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.runtime.clock import Clock, SystemClock, clock_from_environment
from tidegate.runtime.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.config.settings import AgentSettings, Listen

_BETWEEN_SECONDS = 2.0
_SAMPLES = 4
"""A window holds at least so many collections, as it does where the file sets the interval."""


def agent(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", readable=False, help="The configuration file; without one, only GPUs are read."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Collect twice, print the metrics and exit; reports nothing.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            min=0.1, max=3600, help="Seconds between collections; with --once between its two (2 unless given)."
        ),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where to serve metrics, instead of what the file says.")
    ] = None,
) -> None:
    """Watch this host: export GPU and engine metrics, report to the controller, run engine units."""
    from tidegate.runtime.log import configure

    settings, log_level = _load(config, interval, listen)
    configure("warning" if once else log_level)
    if once:
        typer.echo(_once(settings, interval or _BETWEEN_SECONDS), nl=False)
        return
    from tidegate.agent.service import serve
    from tidegate.agent.wiring import build

    clock = clock_from_environment()
    serve(build(settings, clock), lambda: _load(config, interval, listen)[0], clock)


def _once(settings: AgentSettings, between_seconds: float) -> str:
    """Two collections, since every rate needs two; touches neither the state folder nor a controller."""
    from tidegate.agent.wiring import build, exposition

    clock: Clock = SystemClock()
    wired = build(replace(settings, controllers=(), interval=timedelta(seconds=between_seconds)), clock)
    try:
        wired.agent.collect()
        clock.wait(threading.Event(), timedelta(seconds=between_seconds))
        wired.agent.collect()
        return exposition(wired.agent)
    finally:
        wired.close()


def _load(config: Path | None, interval: float | None, listen: str | None) -> tuple[AgentSettings, str]:
    """The settings and the log level, with what the command line says instead; raises ConfigError."""
    settings, log_level = _from_file(config) if config is not None else (_without_file(), "info")
    if interval is not None:
        if math.isnan(interval):  # compares with no bound
            raise ConfigError("--interval: must be a number of seconds, 0.1 to 3600")
        span = timedelta(seconds=interval)
        settings = replace(settings, interval=span, window=max(settings.window, _SAMPLES * span))
    if listen is not None:
        settings = replace(settings, listen=_address(listen))
    return settings, log_level


def _from_file(config: Path) -> tuple[AgentSettings, str]:
    from tidegate.config.load import load

    whole = load(config)
    if whole.agent is None:
        raise ConfigError(f"{config}: nothing in it is for an agent; add an [agent] table")
    return whole.agent, whole.log_level


def _without_file() -> AgentSettings:
    from tidegate.config.settings import AgentSettings

    return AgentSettings(name=re.sub(r"[^A-Za-z0-9_.:@/-]", "-", socket.gethostname()).lstrip("-_.:@/") or "localhost")


def _address(text: str) -> Listen:
    from tidegate.config.settings import Listen

    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--listen: {text!r} is not HOST:PORT with a port of 0..65535")
    return Listen(host.strip("[]") or "127.0.0.1", int(port))
