"""What the store keeps and the controller reads, as plain values (the ports speak in them)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegate.model.decision import Decision
from tidegate.model.fleet import PoolName, ReplicaId, ReplicaState, Want
from tidegate.model.reading import HostName


@dataclass(frozen=True, slots=True)
class ReplicaRecord:
    """A replica as the store knows it; stopped ones stay for the bill."""

    id: ReplicaId
    pool: PoolName
    host: HostName
    template: str
    slot: int | None
    gpus: tuple[int, ...]
    gpu_count: int
    port: int
    want: Want
    state: ReplicaState
    since: datetime
    requested_at: datetime
    ready_at: datetime | None = None
    stopped_at: datetime | None = None
    deadline: datetime | None = None
    managed: bool = True
    cut_requests: int = 0
    why: str = ""
    flavour: str = ""
    """The flavour it was started as; empty: its pool's first, or none of ours."""


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """One pool at one tick, for boards and the status page; None is missing, never zero."""

    at: datetime
    pool: PoolName
    service: str
    ready: int
    starting: int
    leaving: int
    target: int
    gpus: int = 0
    """GPUs of the replicas that serve, leaving ones included: what tokens per GPU are taken over."""
    running: float | None = None
    queue_depth: float | None = None
    gpu_utilization: float | None = None
    kv_cache_usage: float | None = None
    kv_cache_hit_rate: float | None = None
    prompt_tokens_per_second: float | None = None
    generation_tokens_per_second: float | None = None
    tokens_per_gpu_per_second: float | None = None
    ttft_p95_seconds: float | None = None
    tpot_p95_seconds: float | None = None
    e2e_p99_seconds: float | None = None
    cost_per_million_tokens: float | None = None
    """Over the trailing hour, in the configuration's currency; an estimate."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an action when it was carried out."""

    action_id: int
    outcome: str
    """"applied" or "failed: WHY"."""


@dataclass(frozen=True, slots=True)
class Levels:
    """How long samples are kept at each level, beside the samples themselves and the hourly rollup."""

    reports: timedelta = timedelta(hours=6)
    """Reports whose samples lie in chunks."""
    minutes: timedelta = timedelta(days=3)
    """The rollup by the minute."""
    rollups: timedelta = timedelta(days=400)
    """The rollup by five minutes."""


LEVELS = Levels()


@dataclass(frozen=True, slots=True)
class Pruned:
    """What retention forgot in one go."""

    days: tuple[str, ...] = ()
    """Days of reports, dropped whole."""
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Compacted:
    """What one go of compaction did."""

    windows: int = 0
    """Two hours of one host each."""
    samples: int = 0
    merged: int = 0
    """Cold rows' worth of windows, eight hours of one host each."""
    left_out: Mapping[HostName, int] = field(default_factory=dict)
    """Series that are not kept, of each host of a window: those of one that shows too many new ones in a day."""

    def __add__(self, other: Compacted) -> Compacted:
        """Both together."""
        return Compacted(
            self.windows + other.windows,
            self.samples + other.samples,
            self.merged + other.merged,
            {**self.left_out, **other.left_out},
        )


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision with its number in the log."""

    id: int
    decision: Decision
