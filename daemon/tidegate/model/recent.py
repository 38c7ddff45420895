"""The newest figures of engines and GPUs, side by side: what boards show of one host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.model.reading import HostName


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """One engine at a moment; a figure that is not known is None or absent."""

    at: datetime
    host: HostName
    engine: str
    pool: str
    service: str
    state: str
    gpus: int
    figures: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """One GPU at a moment; engine, pool and service are those of the engine that holds it, empty when none does."""

    at: datetime
    host: HostName
    gpu: str
    index: int
    engine: str
    pool: str
    service: str
    up: bool
    figures: Mapping[str, float | None] = field(default_factory=dict)
