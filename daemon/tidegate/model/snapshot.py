"""What an agent knows at one moment: the value that its `/metrics`, its pages and its log line are rendered from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.model.figures import Figure
from tidegate.model.fleet import ReplicaState
from tidegate.model.reading import EngineName, GpuCountSource, HostReading, Number
from tidegate.model.target import EngineSource
from tidegate.model.vocabulary import TrafficClass
from tidegate.model.window import EngineWindow


@dataclass(frozen=True, slots=True)
class EngineLabels:
    """Where an engine belongs, for its metric labels."""

    pool: str = ""
    service: str = ""
    replica: str = ""
    gpus: int = 1
    url: str = ""
    gpus_source: GpuCountSource = GpuCountSource.CONFIGURATION
    """Who says so: the configuration, unless the engine or its processes tell more."""
    traffic: TrafficClass = TrafficClass.PRODUCTION


@dataclass(frozen=True, slots=True)
class SpoolState:
    """How much waits for the controller."""

    reports: int = 0
    size_bytes: int = 0
    oldest_at: datetime | None = None
    dropped: int = 0
    """Reports given up because the spool was full or they were too old, since its creation."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """How a source of engines does."""

    ok: bool = True
    engines: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkState:
    """How the connection to the controllers does."""

    configured: bool = False
    last_success: datetime | None = None
    failures: int = 0
    error: str = ""
    clock_offset_seconds: float | None = None
    """How far the controller's clock is ahead of ours, at the least that explains its last answer."""


@dataclass(frozen=True, slots=True)
class AgentSnapshot:
    """One collection and everything derived from it."""

    version: str
    reading: HostReading
    collected_at: datetime
    collect_seconds: float
    collections: int
    engines: Mapping[EngineName, EngineLabels] = field(default_factory=dict)
    windows: Mapping[EngineName, EngineWindow] = field(default_factory=dict)
    figures: Mapping[EngineName, Mapping[Figure, Number]] = field(default_factory=dict)
    last_success: Mapping[EngineName, datetime] = field(default_factory=dict)
    """When each engine last gave usable figures; without an entry, now if it does."""
    replicas: Mapping[str, ReplicaState] = field(default_factory=dict)
    spool: SpoolState = SpoolState()
    link: LinkState = LinkState()
    sources: Mapping[EngineSource, SourceState] = field(default_factory=dict)
    """Where engines come from besides the configuration and the controller."""
    config_loaded_at: datetime | None = None
    config_reload_ok: bool = True
