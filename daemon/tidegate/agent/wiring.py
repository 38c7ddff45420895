"""Put the agent together: the one place that names its adapters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from tidegate.act.fill import fill_url
from tidegate.act.host_units import HostUnits
from tidegate.act.process_units import ProcessTemplate, ProcessUnits
from tidegate.act.systemd_units import SystemdTemplate, SystemdUnits
from tidegate.agent.collect import Collector, Pace
from tidegate.agent.daemon import Agent, Control, Course
from tidegate.agent.desired_state import KeptFile
from tidegate.agent.ports import EngineTarget, GpuReader
from tidegate.agent.report import DesiredPoll, Listeners, Reporter
from tidegate.agent.spool import Spool, SpoolLimits
from tidegate.agent.surroundings import Surroundings
from tidegate.agent.units import Manners, Replicas
from tidegate.agent.web import Doors, WebWatch
from tidegate.config.settings import AgentSettings, EngineSettings, GpuSource, TemplateKind
from tidegate.expose.agent_metrics import AgentCollector, render
from tidegate.expose.agent_pages import AgentPages
from tidegate.model.reading import EngineName, HostName
from tidegate.observe.engine_processes import ProcessLook
from tidegate.observe.gpu_child import NvmlGpuReader
from tidegate.observe.gpu_off import NoGpuReader
from tidegate.observe.host import HostFigures
from tidegate.observe.scrape import EngineScraper
from tidegate.observe.target_files import TargetFiles
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import ConfigError, Permanent
from tidegate.runtime.files import claim
from tidegate.runtime.guard import Guard
from tidegate.runtime.serve import HttpServer, tcp
from tidegate.wire import DesiredReplica

if TYPE_CHECKING:
    from tidegate.link.report_client import HttpControllerLink

_log = structlog.get_logger()

_STALE_INTERVALS = 3
_LONGER_THAN_AN_INTERVAL = 4
_AT_START_ONLY = frozenset(
    {"name", "listen", "state_dir", "spool_age", "spool_bytes", "model_store", "gpu_source", "gpu_url"}
    | {"export_metrics"}
)


@dataclass(frozen=True, slots=True)
class Wired:
    """An agent, its HTTP server, and what a reload does."""

    agent: Agent
    server: HttpServer
    reload: Callable[[AgentSettings], None]
    """Take on other settings while running; raises ConfigError, changing nothing, when they cannot be honoured."""
    look_at_web: Callable[[], None]
    """Apply the web configuration file where it changed."""
    close: Callable[[], None]


def build(settings: AgentSettings, clock: Clock) -> Wired:
    """The agent that the settings describe, not yet started.

    Raises ConfigError when they cannot be honoured here, Permanent when another agent uses the state folder.
    """
    adapters = _Adapters(settings, clock)
    course = adapters.course(settings)
    machine = HostFigures(settings.model_store)
    gpus = _gpu_reader(settings, clock)
    collector = Collector(HostName(settings.name), gpus, adapters.scraper, clock, _pace(settings), machine)
    surroundings = adapters.surroundings(settings)
    agent = Agent(collector, adapters.control(course), course, clock, surroundings)
    pages = AgentPages(agent.snapshot, clock, _STALE_INTERVALS * settings.interval)
    agent.on_collected = pages.prepare
    guard = Guard(pages.app(export_metrics=settings.export_metrics))
    server = HttpServer(guard, tcp(settings.listen.host, settings.listen.port), "tidegate agent")
    web = WebWatch(settings.web_config, Doors(server.renew, guard.use))
    web.begin()

    def look_at_web() -> None:
        web.look()
        agent.note_web(ok=web.ok)

    def reload(fresh: AgentSettings) -> None:
        adapters.check_reload(fresh)
        before = adapters.links
        agent.steer(adapters.course(fresh))
        surroundings.use(fresh.engine_files, discover=fresh.discover)
        web.use(fresh.web_config)
        for link in before:
            link.close()

    def close() -> None:
        agent.close()
        adapters.close()
        guard.close()

    return Wired(agent, server, reload, look_at_web, close)


def exposition(agent: Agent) -> str:
    """The agent's metrics as text, as a Prometheus scrape would get them."""
    return render(AgentCollector(agent.snapshot), "")[0].decode()


class _Adapters:
    """The adapters that live as long as the process, and the settings that they were made from."""

    def __init__(self, settings: AgentSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        keep_alive = max(timedelta(seconds=120), _LONGER_THAN_AN_INTERVAL * settings.interval)
        self.scraper = EngineScraper(settings.scrape_timeout, clock, keep_alive)
        self._claim = claim(settings.state_dir, "[agent] state_dir") if settings.controllers else None
        folder = settings.state_dir / "units"
        self._processes = ProcessUnits({}, folder, clock)
        self._systemd = SystemdUnits({}, folder, clock)
        self.links: tuple[HttpControllerLink, ...] = ()

    def course(self, settings: AgentSettings) -> Course:
        """What the settings say of the running; replaces links and templates. Raises ConfigError before it does."""
        links = _links(settings, self._clock)
        self._settings, self.links = settings, links
        self._processes.use(_process_templates(settings))
        self._systemd.use(_systemd_templates(settings))
        own = tuple(_own_target(engine) for engine in settings.engines)
        return Course(_pace(settings), own, links, _manners(settings), self._clock.now())

    def control(self, course: Course) -> Control | None:
        """Everything that needs a controller; None without one."""
        settings, clock = self._settings, self._clock
        if not settings.controllers:
            return None
        spool = Spool(settings.state_dir / "spool.db", SpoolLimits(settings.spool_age, settings.spool_bytes))
        units = HostUnits((self._processes, self._systemd))
        replicas = Replicas(units, KeptFile(settings.state_dir / "desired.json"), course.manners, clock)
        listeners = Listeners(replicas.offer, replicas.clock_offset)
        reporter = Reporter(settings.name, course.links, spool, listeners, clock)
        return Control(spool, reporter, DesiredPoll(course.links, replicas.offer), replicas)

    def surroundings(self, settings: AgentSettings) -> Surroundings:
        """What finds engines beside the configuration, and whose GPUs are whose."""
        return Surroundings(TargetFiles(settings.engine_files), ProcessLook(self.scraper.read), settings.discover)

    def check_reload(self, fresh: AgentSettings) -> None:
        """Say what only a restart would change; raises ConfigError where going on without it would mislead."""
        if bool(fresh.controllers) != bool(self._settings.controllers):
            raise ConfigError("[agent] controllers: a first controller, or none any more, needs a restart of the agent")
        names = {field.name for field in fields(AgentSettings)} & _AT_START_ONLY
        changed = sorted(name for name in names if getattr(fresh, name) != getattr(self._settings, name))
        if changed:
            _log.warning("settings need a restart", settings=changed)

    def close(self) -> None:
        """Let go of connections and of the state folder."""
        self.scraper.close()
        for link in self.links:
            link.close()
        if self._claim is not None:
            self._claim.close()


def _pace(settings: AgentSettings) -> Pace:
    return Pace(settings.interval, settings.window, settings.scrape_timeout, settings.nvml_timeout)


def _gpu_reader(settings: AgentSettings, clock: Clock) -> GpuReader:
    match settings.gpu_source:
        case GpuSource.NVML:
            return NvmlGpuReader(settings.nvml_timeout, clock=clock)
        case GpuSource.HTTP:
            from tidegate.observe.gpu_http import HttpGpuReader

            return HttpGpuReader(settings.gpu_url, settings.nvml_timeout)
        case GpuSource.NONE:
            return NoGpuReader()


def _links(settings: AgentSettings, clock: Clock) -> tuple[HttpControllerLink, ...]:
    if not settings.controllers:
        return ()
    from tidegate.link.report_client import HttpControllerLink  # its HTTP client is 2 MB that an exporter need not hold

    try:
        return tuple(HttpControllerLink(url, settings.token, settings.name, clock) for url in settings.controllers)
    except Permanent as error:
        raise ConfigError(str(error)) from error


def _process_templates(settings: AgentSettings) -> dict[str, ProcessTemplate]:
    return {
        template.name: ProcessTemplate(template.command, template.environment, template.stop_timeout)
        for template in settings.templates
        if template.kind is TemplateKind.PROCESS
    }


def _systemd_templates(settings: AgentSettings) -> dict[str, SystemdTemplate]:
    return {
        template.name: SystemdTemplate(template.unit, template.environment)
        for template in settings.templates
        if template.kind is TemplateKind.SYSTEMD
    }


def _manners(settings: AgentSettings) -> Manners:
    urls = {template.name: template.metrics_url for template in settings.templates}

    def target(replica: DesiredReplica) -> EngineTarget | None:
        url = urls.get(replica.template)
        if url is None:
            return None
        return EngineTarget(
            name=EngineName(replica.replica_id),
            url=fill_url(url, replica),
            pool=replica.pool,
            service=replica.service,
            gpus=len(replica.gpus),
            gpu_indices=tuple(replica.gpus),
            replica_id=replica.replica_id,
        )

    return Manners(target, {template.name: template.drain_grace for template in settings.templates})


def _own_target(engine: EngineSettings) -> EngineTarget:
    return EngineTarget(
        name=EngineName(engine.name),
        url=engine.url,
        pool=engine.pool,
        service=engine.service,
        gpus=engine.gpus,
        gpu_indices=engine.gpu_indices,
        token=engine.token,
        kind=engine.kind,
        headers=engine.headers,
        ca_file=engine.ca_file,
        verify=engine.verify,
        timeout=engine.timeout,
        min_interval=engine.min_interval,
        traffic=engine.traffic,
    )
