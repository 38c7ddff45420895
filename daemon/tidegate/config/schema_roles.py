"""What a user may write for the two daemons and what they read. Defaults are those of config/settings.py."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field, Strict

from tidegate.config.addresses import Database, ListenAddress, Url
from tidegate.config.engine_fields import EngineFiles, KindWord
from tidegate.config.fields import Between, Duration, FilePath, OneOf, Pattern, Text, Whole
from tidegate.config.schema_base import GpuCount, LongName, PlainName, Port, Share, Table
from tidegate.config.settings import (
    AgentSettings,
    ControllerSettings,
    EngineSettings,
    GpuSource,
    Listen,
    TemplateKind,
    TemplateSettings,
)
from tidegate.model.policy import FleetPolicy, Mode
from tidegate.model.scrape import Source
from tidegate.model.vocabulary import EngineKind, TrafficClass

_CONTROLLER = ControllerSettings()
_AGENT = AgentSettings(name="host")
_ENGINE = EngineSettings(name="engine", url="")
_TEMPLATE = TemplateSettings(name="template", kind=TemplateKind.SYSTEMD)
_FLEET = FleetPolicy(services={}, pools={})
_MIB = 1024 * 1024

Flag = Annotated[bool, Strict()]
Address = Annotated[str, Url()]
SecretFile = Annotated[Path, FilePath()]
ListenText = Annotated[Listen, ListenAddress()]
UnitName = Annotated[
    str, Pattern(r"[A-Za-z0-9:_.{][A-Za-z0-9:_.@{}-]*\.service", "the name of a unit, such as vllm@{slot}.service")
]
HeaderName = Annotated[str, Pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "the name of an HTTP header", 128)]
Variable = Annotated[str, Pattern(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable", secret=True)]


class ControllerTable(Table):
    """`[controller]`."""

    listen: ListenText = _CONTROLLER.listen
    state_dir: Annotated[Path, FilePath()] = _CONTROLLER.state_dir
    database: Annotated[str, Database()] = _CONTROLLER.database
    database_file: SecretFile | None = None
    source: Annotated[Source, OneOf(Source)] = _CONTROLLER.source
    mode: Annotated[Mode, OneOf(Mode)] = _FLEET.mode
    tick_seconds: Annotated[timedelta, Duration("seconds", 1, 3600)] = _CONTROLLER.tick
    view_window_seconds: Annotated[timedelta, Duration("seconds", 2, 86400)] = _CONTROLLER.view_window
    stale_after_seconds: Annotated[timedelta, Duration("seconds", 2, 86400)] = _CONTROLLER.stale_after
    silent_share: Annotated[float, Between(0, 0.9)] = _FLEET.silent_share
    restart_grace_seconds: Annotated[timedelta, Duration("seconds", 0, 86400)] = _FLEET.restart_grace
    roll_up_seconds: Annotated[timedelta, Duration("seconds", 1, 3600)] = _CONTROLLER.roll_up
    alert_interval_seconds: Annotated[timedelta, Duration("seconds", 1, 3600)] = _CONTROLLER.alert_interval
    notify_interval_seconds: Annotated[timedelta, Duration("seconds", 1, 3600)] = _CONTROLLER.notify_interval
    lease_seconds: Annotated[timedelta, Duration("seconds", 2, 600)] = _CONTROLLER.lease
    retention_days: Annotated[timedelta, Duration("days", 1, 3650)] = _CONTROLLER.retention
    reports_hours: Annotated[timedelta, Duration("hours", 3, 8760)] = _CONTROLLER.levels.reports
    minutes_days: Annotated[timedelta, Duration("days", 1, 3650)] = _CONTROLLER.levels.minutes
    rollups_days: Annotated[timedelta, Duration("days", 1, 3650)] = _CONTROLLER.levels.rollups
    minute_series: tuple[PlainName, ...] = tuple(sorted(_CONTROLLER.minute_series))
    history_days: Annotated[timedelta, Duration("days", 31, 3650)] = _CONTROLLER.history


class AgentTable(Table):
    """`[agent]`."""

    name: LongName | None = None
    listen: ListenText = _AGENT.listen
    controllers: tuple[Address, ...] = ()
    token_file: SecretFile | None = None
    interval_seconds: Annotated[timedelta, Duration("seconds", 1, 3600)] = _AGENT.interval
    scrape_timeout_seconds: Annotated[timedelta, Duration("seconds", 0.1, 300)] = _AGENT.scrape_timeout
    nvml_timeout_seconds: Annotated[timedelta, Duration("seconds", 0.1, 300)] = _AGENT.nvml_timeout
    window_seconds: Annotated[timedelta, Duration("seconds", 2, 86400)] = _AGENT.window
    state_dir: Annotated[Path, FilePath()] = _AGENT.state_dir
    spool_hours: Annotated[timedelta, Duration("hours", 1, 8760)] = _AGENT.spool_age
    spool_mib: Annotated[int, Whole(1, 1024 * 1024)] = _AGENT.spool_bytes // _MIB
    model_store: Annotated[Path, FilePath()] | None = None
    gpu_source: Annotated[GpuSource, OneOf(GpuSource)] = _AGENT.gpu_source
    gpu_url: Address | None = None
    web_config: Annotated[Path, FilePath()] | None = None
    engine_files: tuple[Annotated[Path, EngineFiles()], ...] = ()
    discover: Flag = _AGENT.discover


class EngineTable(Table):
    """`[[engine]]`: an engine that the operator runs himself."""

    name: LongName
    url: Address
    path: Annotated[str, Pattern(r"/[!-~]*", "a path that begins with /", 1024)] | None = None
    kind: Annotated[EngineKind | None, KindWord()] = _ENGINE.kind
    traffic: Annotated[TrafficClass, OneOf(TrafficClass)] = _ENGINE.traffic
    pool: PlainName | None = None
    service: LongName | None = None
    gpus: GpuCount = _ENGINE.gpus
    gpu_indices: tuple[Annotated[int, Whole(0, 127)], ...] = ()
    timeout_seconds: Annotated[timedelta, Duration("seconds", 0.1, 300)] | None = _ENGINE.timeout
    min_interval_seconds: Annotated[timedelta, Duration("seconds", 0, 3600)] = _ENGINE.min_interval
    token_file: SecretFile | None = None
    username: Annotated[str, Pattern(r"[^:\x00-\x1f\x7f]+", "a name without a colon", 255)] | None = None
    password_file: SecretFile | None = None
    header_files: dict[HeaderName, SecretFile] = Field(default_factory=dict)
    ca_file: Annotated[Path, FilePath()] | None = None
    insecure_skip_verify: Flag = False


class TemplateTable(Table):
    """`[[template]]`: how this host starts a replica."""

    name: PlainName
    kind: Annotated[TemplateKind, OneOf(TemplateKind)]
    metrics_url: Annotated[str, Url(placeholders=True)] = _TEMPLATE.metrics_url
    unit: UnitName = ""
    command: tuple[Text, ...] = ()
    environment: dict[Annotated[str, Pattern(r"[A-Za-z_][A-Za-z0-9_]*", "a variable's name")], Text] = Field(
        default_factory=dict
    )
    stop_timeout_seconds: Annotated[timedelta, Duration("seconds", 0, 86400)] = _TEMPLATE.stop_timeout
    drain_grace_seconds: Annotated[timedelta, Duration("seconds", 0, 86400)] = _TEMPLATE.drain_grace


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class ObservabilityTable(Table):
    """`[observability]`."""

    enable: Flag = True
    metrics: tuple[Text, ...] = ()
    log_level: Annotated[LogLevel, OneOf(LogLevel)] = LogLevel.INFO
    export_metrics: Flag = _AGENT.export_metrics
    metrics_port: Port = _AGENT.listen.port


class ElasticTable(Table):
    """`[elastic]`: the short form of a base and a burst pool, as many teams copy it."""

    enable: Flag | None = None
    base_pool_min_replicas: Annotated[int, Whole(0, 10_000)] | None = None
    base_pool_max_replicas: Annotated[int, Whole(0, 10_000)] | None = None
    burst_pool_min_replicas: Annotated[int, Whole(0, 10_000)] | None = None
    burst_pool_max_replicas: Annotated[int, Whole(0, 10_000)] | None = None
    scale_out_threshold_gpu_util: Share | None = None
    scale_in_threshold_gpu_util: Share | None = None
    cooldown_seconds: Annotated[timedelta, Duration("seconds", 0, 86400)] | None = None
    metrics_endpoint: Address | None = None
    poll_interval_seconds: Annotated[timedelta, Duration("seconds", 1, 3600)] | None = None


class PdSeparationTable(Table):
    """`[pd_separation]`: the short form of a prefill and a decode pool of fixed sizes."""

    enable: Flag = True
    prefill_pool: PlainName = "prefill"
    decode_pool: PlainName = "decode"
    prefill_replicas: Annotated[int, Whole(1, 10_000)] = 1
    decode_replicas: Annotated[int, Whole(1, 10_000)] = 1
    coordinator: Text = ""
