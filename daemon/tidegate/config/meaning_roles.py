"""What the two daemons' own tables mean: the controller's, the agent's, and what the short form says of them."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tidegate.config.addresses import dsn_problem, host_of, is_loopback
from tidegate.config.credentials import HOST_TOKEN, read_credential
from tidegate.config.lines import KeyPath
from tidegate.config.meaning_engines import engine_settings, exporter_address
from tidegate.config.meaning_templates import template_settings
from tidegate.config.problem import ConfigProblems
from tidegate.config.scope import Scope
from tidegate.config.settings import AgentSettings, ControllerSettings, GpuSource, Listen
from tidegate.config.tables import Entry
from tidegate.config.web_file import read_web_file
from tidegate.model.fleet import PoolName
from tidegate.model.policy import Mode, PoolPolicy
from tidegate.model.records import Levels
from tidegate.runtime.errors import ConfigError

_ONLY_AN_AGENT_READS = frozenset({"agent", "engine", "template"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/-]{0,252}")
_SAMPLES = 4
"""A window that was not given is at least so many intervals long."""


def controller_settings(scope: Scope) -> ControllerSettings:
    """The `[controller]` table; `[elastic] poll_interval_seconds` is its tick."""
    entry = scope.tables.controller
    table = entry.table
    tick = _interval(scope, entry, "tick_seconds")
    return ControllerSettings(
        listen=table.listen,
        state_dir=scope.path(table.state_dir),
        database=_database(scope),
        source=table.source,
        tick=tick,
        view_window=_window(scope, entry, "view_window_seconds"),
        stale_after=_window(scope, entry, "stale_after_seconds"),
        retention=table.retention_days,
        levels=Levels(table.reports_hours, table.minutes_days, table.rollups_days),
        minute_series=frozenset(table.minute_series),
        history=table.history_days,
        roll_up=table.roll_up_seconds,
        alert_interval=table.alert_interval_seconds,
        notify_interval=table.notify_interval_seconds,
        lease=table.lease_seconds,
    )


def fleet_mode(scope: Scope) -> Mode:
    """`[controller] mode`, or what `[elastic] enable` says: true acts, false only advises."""
    controller, elastic = scope.tables.controller, scope.tables.elastic
    if elastic.table.enable is None:
        return controller.table.mode
    if controller.has("mode"):
        _both(scope, elastic.at("enable"), controller.at("mode"), "[controller] mode")
    return Mode.ACT if elastic.table.enable else Mode.ADVISE


def agent_settings(scope: Scope, pools: dict[PoolName, PoolPolicy]) -> AgentSettings | None:
    """The `[agent]` table with its engines and templates; None when nothing in the file is for an agent."""
    if not _has_agent(scope):
        return None
    entry = scope.tables.agent
    table = entry.table
    interval = _interval(scope, entry, "interval_seconds")
    agent = AgentSettings(
        name=_name(scope),
        listen=_agent_listen(scope),
        controllers=_controllers(scope),
        token=scope.secret(_token_file(scope), entry.at("token_file"), "host's token"),
        interval=interval,
        scrape_timeout=_timeout(scope, "scrape_timeout_seconds", interval),
        nvml_timeout=_timeout(scope, "nvml_timeout_seconds", interval),
        window=_window(scope, entry, "window_seconds"),
        state_dir=scope.path(table.state_dir),
        spool_age=table.spool_hours,
        spool_bytes=table.spool_mib * 1024 * 1024,
        model_store=None if table.model_store is None else scope.path(table.model_store),
        gpu_source=table.gpu_source,
        gpu_url=_gpu_url(scope),
        export_metrics=_exports(scope),
        web_config=_web_config(scope),
        engine_files=tuple(scope.path(path) for path in table.engine_files),
        discover=table.discover,
    )
    return replace(agent, engines=engine_settings(scope, pools, interval), templates=template_settings(scope))


def _has_agent(scope: Scope) -> bool:
    return bool(
        _ONLY_AN_AGENT_READS & scope.tables.present
        or scope.foreign.engines
        or exporter_address(scope)
        or scope.tables.observability.has("metrics_port")
    )


def _both(scope: Scope, short: KeyPath, long: KeyPath, what: str) -> None:
    line = scope.findings.line(long)
    scope.findings.problem(short, f"says the same as {what} in line {line}: keep one of the two forms", also=[long])


def _interval(scope: Scope, entry: Entry[Any], key: str) -> timedelta:
    poll = scope.tables.elastic.table.poll_interval_seconds
    if poll is not None and entry.has(key):
        _both(scope, scope.tables.elastic.at("poll_interval_seconds"), entry.at(key), f"[{entry.path[0]}] {key}")
    written: timedelta = getattr(entry.table, key)
    return written if poll is None else poll


def _window(scope: Scope, entry: Entry[Any], key: str) -> timedelta:
    """A window that can hold two samples, since every rate needs two; one not given is widened to hold four."""
    agent, elastic = scope.tables.agent, scope.tables.elastic
    interval = elastic.table.poll_interval_seconds or agent.table.interval_seconds
    window: timedelta = getattr(entry.table, key)
    if not entry.has(key):
        return max(window, _SAMPLES * interval)
    if window < 2 * interval and ("agent" in scope.tables.present or elastic.has("poll_interval_seconds")):
        scope.findings.problem(
            entry.at(key),
            f"must be at least {2 * interval.total_seconds():g}, two of the agent's intervals: rates take two samples",
            also=[agent.at("interval_seconds"), elastic.at("poll_interval_seconds")],
        )
    return window


def _timeout(scope: Scope, key: str, interval: timedelta) -> timedelta:
    entry = scope.tables.agent
    timeout: timedelta = getattr(entry.table, key)
    if entry.has(key) and timeout > interval:
        scope.findings.problem(
            entry.at(key),
            f"must be at most the interval between two readings, {interval.total_seconds():g} seconds",
            also=[entry.at("interval_seconds")],
        )
    return min(timeout, interval)


def _database(scope: Scope) -> str:
    entry = scope.tables.controller
    file = entry.table.database_file
    if file is None:
        return entry.table.database
    if entry.has("database"):
        scope.findings.problem(entry.at("database_file"), "says the same as database: keep one of the two")
    address = scope.secret(file, entry.at("database_file"), "database's address")
    problem = dsn_problem(address) if address else ""
    if problem:
        scope.findings.problem(entry.at("database_file"), f"the address in that file {problem}")
    return address


def _name(scope: Scope) -> str:
    entry = scope.tables.agent
    name = entry.table.name or scope.host
    if not _NAME.fullmatch(name):
        scope.findings.problem(entry.at("name"), "is missing, and this machine's own name cannot stand for it: set it")
    hosts = scope.tables.named["host"]
    if entry.table.name and hosts and name not in hosts:
        scope.findings.note(entry.at("name"), f"no [[host]] is called {name}: the controller starts nothing there")
    return name


def _agent_listen(scope: Scope) -> Listen:
    agent, seen = scope.tables.agent, scope.tables.observability
    if not seen.has("metrics_port"):
        return agent.table.listen
    if agent.has("listen"):
        _both(scope, seen.at("metrics_port"), agent.at("listen"), "[agent] listen")
    return Listen(agent.table.listen.host, seen.table.metrics_port)


def _exports(scope: Scope) -> bool:
    seen = scope.tables.observability
    if not seen.table.enable:
        scope.findings.note(seen.at("enable"), "is false: the agent exports no metrics (it still reports)")
    return seen.table.enable and seen.table.export_metrics


def _web_config(scope: Scope) -> Path | None:
    """The file of TLS and passwords, read once to find its problems: it is read again whenever it changes."""
    entry = scope.tables.agent
    written = entry.table.web_config
    if written is None:
        return None
    if scope.present(written, entry.at("web_config")):
        try:
            read_web_file(scope.path(written))
        except ConfigProblems as refused:
            scope.findings.adopt(refused.problems)
        except ConfigError as error:
            scope.findings.problem(entry.at("web_config"), str(error))
    return scope.path(written)


def _token_file(scope: Scope) -> Path | None:
    """Where the host's token is: as written, else the credential of the usual name where systemd hands one over."""
    entry = scope.tables.agent
    if entry.table.token_file is not None or not entry.table.controllers:
        return entry.table.token_file
    try:
        found = read_credential(scope.secrets, HOST_TOKEN)
    except (OSError, UnicodeDecodeError):
        return None
    if found is None:
        scope.findings.note(entry.at("controllers"), f"no token_file: the credential {HOST_TOKEN} must be there")
    return Path(f"credential:{HOST_TOKEN}")


def _controllers(scope: Scope) -> tuple[str, ...]:
    entry = scope.tables.agent
    addresses = tuple(address.rstrip("/") for address in entry.table.controllers)
    for position, address in enumerate(addresses):
        place = (*entry.at("controllers"), position)
        if address in addresses[:position]:
            scope.findings.problem(place, "this address stands twice in the list")
        elif address.startswith("http://") and not is_loopback(host_of(address)):
            scope.findings.problem(
                place, "must be https:// beyond loopback: the host's token would cross the network in the clear"
            )
    if addresses and _token_file(scope) is None:
        scope.findings.problem(
            entry.at("token_file"),
            "is required and missing: the controller asks every host for its token"
            " (`tidegate host enroll NAME` prints it once)",
        )
    if entry.table.token_file is not None and not addresses and not scope.findings.doubted(entry.at("controllers")):
        scope.findings.note(entry.at("token_file"), "is not used: no controllers are named")
    return addresses


def _gpu_url(scope: Scope) -> str:
    entry = scope.tables.agent
    url, source = entry.table.gpu_url, entry.table.gpu_source
    if source is GpuSource.HTTP and url is None:
        scope.findings.problem(entry.at("gpu_url"), 'is required and missing: gpu_source is "http"')
    if source is not GpuSource.HTTP and url is not None:
        scope.findings.problem(
            entry.at("gpu_url"), f'is read only with gpu_source = "http", not "{source}"', also=[entry.at("gpu_source")]
        )
    return url or ""
