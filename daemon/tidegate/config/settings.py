"""What a checked configuration file means: frozen settings for both roles, made by `config/load.py` alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from tidegate.config.settings_bills import BillSettings
from tidegate.model.allocation import CostPolicy
from tidegate.model.policy import Channel, FleetPolicy, HitRateRule
from tidegate.model.records import LEVELS, Levels
from tidegate.model.scrape import PrometheusPlace, Source
from tidegate.model.vocabulary import EngineKind, TrafficClass


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen: loopback unless the operator says otherwise."""

    host: str
    port: int


EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The `[controller]` table."""

    listen: Listen = Listen("127.0.0.1", 9092)
    state_dir: Path = Path("/var/lib/tidegate")
    database: str = EMBEDDED
    """"embedded" or a DSN; `database_file` in the file reads it from a file of its own."""
    source: Source = Source.AGENTS
    tick: timedelta = timedelta(seconds=15)
    view_window: timedelta = timedelta(seconds=60)
    """Over how much of the recent past the tick's rates are taken."""
    stale_after: timedelta = timedelta(seconds=60)
    """A host silent for longer is missing."""
    retention: timedelta = timedelta(days=15)
    """How long samples are kept, and with them what every tick adds."""
    levels: Levels = LEVELS
    """How long what lies beside the samples is kept."""
    minute_series: frozenset[str] = frozenset({"generation_tokens", "kv_cache_usage", "queue_depth", "running"})
    """Names of series, as on the wire, that are rolled up by the minute as well."""
    history: timedelta = timedelta(days=400)
    """How long usage, changes with their reasons and stopped replicas are kept: a year, and its comparison."""
    roll_up: timedelta = timedelta(seconds=60)
    """How often token usage is brought up to date."""
    alert_interval: timedelta = timedelta(seconds=60)
    notify_interval: timedelta = timedelta(seconds=5)
    lease: timedelta = timedelta(seconds=15)
    """Of two controllers on a database the other takes over when the leader was silent for so long; real time."""


class GpuSource(StrEnum):
    """Where GPU figures come from."""

    NVML = "nvml"
    NONE = "none"
    HTTP = "http"
    """Another reader's JSON at `gpu_url` (docs/configure.md); the demo's simulated GPUs use it."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """One `[[engine]]`: an engine that the operator runs himself."""

    name: str
    url: str
    pool: str = ""
    service: str = ""
    gpus: int = 1
    gpu_indices: tuple[int, ...] = ()
    token: str = field(default="", repr=False)
    kind: EngineKind | None = None
    """None: found out from the page."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """More request headers, secrets among them; never logged."""
    ca_file: str = ""
    verify: bool = True
    timeout: timedelta | None = None
    min_interval: timedelta = timedelta()
    traffic: TrafficClass = TrafficClass.PRODUCTION


class TemplateKind(StrEnum):
    """How a unit is run."""

    SYSTEMD = "systemd"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class TemplateSettings:
    """One `[[template]]`: how this host starts a replica.

    In `unit`, `command`, `environment` values and `metrics_url` the words {replica_id} {slot} {port} {gpus} {pool}
    {service} are replaced ({gpus} as "0,1").
    """

    name: str
    kind: TemplateKind
    metrics_url: str = "http://127.0.0.1:{port}/metrics"
    unit: str = ""
    """systemd: the unit's name, such as "vllm@{slot}.service"."""
    command: tuple[str, ...] = ()
    """process: the command line."""
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_timeout: timedelta = timedelta(seconds=30)
    """process: how long after SIGTERM a SIGKILL follows."""
    drain_grace: timedelta = timedelta(seconds=10)
    """How long after a cordon a router may still send; an idle engine is not stopped earlier."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The `[agent]` table with its engines and templates."""

    name: str
    listen: Listen = Listen("127.0.0.1", 9091)
    controllers: tuple[str, ...] = ()
    """Base addresses; empty: an exporter without a controller."""
    token: str = ""
    """The host's token, read from `token_file`; never logged."""
    interval: timedelta = timedelta(seconds=15)
    scrape_timeout: timedelta = timedelta(seconds=5)
    nvml_timeout: timedelta = timedelta(seconds=5)
    window: timedelta = timedelta(seconds=60)
    """Over how much of the recent past the exported rates and ratios are taken."""
    state_dir: Path = Path("/var/lib/tidegate-agent")
    spool_age: timedelta = timedelta(hours=72)
    spool_bytes: int = 512 * 1024 * 1024
    model_store: Path | None = None
    """The folder of the models: its file system's size and room are exported."""
    gpu_source: GpuSource = GpuSource.NVML
    gpu_url: str = ""
    engines: tuple[EngineSettings, ...] = ()
    templates: tuple[TemplateSettings, ...] = ()
    export_metrics: bool = True
    web_config: Path | None = None
    """Who may read `/metrics`, as a web configuration file of Prometheus' exporter-toolkit; None: everybody."""
    engine_files: tuple[Path, ...] = ()
    """More engines, in Prometheus' `file_sd` format; the last part of a path may be a pattern."""
    discover: bool = False
    """Whether engines are looked for among the processes of this host."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole configuration file, checked."""

    path: Path
    fleet: FleetPolicy
    controller: ControllerSettings = ControllerSettings()
    prometheus: PrometheusPlace = field(default_factory=PrometheusPlace)
    """Where samples are read when `controller.source` says so."""
    agent: AgentSettings | None = None
    """None when the file has neither `[agent]` nor anything that only an agent reads."""
    alerts: tuple[HitRateRule, ...] = ()
    channels: tuple[Channel, ...] = ()
    bills: BillSettings = field(default_factory=BillSettings)
    costs: CostPolicy = field(default_factory=CostPolicy)
    traffic_file: Path | None = None
    """What the gateway counted by traffic class and tenant."""
    currency: str = "USD"
    log_level: str = "info"
    figures: tuple[str, ...] = ()
    """`[observability] metrics`: the figures that the boards and the review put first."""
    notes: tuple[str, ...] = ()
    """What was read but is not ours, and what was assumed; printed by `config check`."""
