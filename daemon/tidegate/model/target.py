"""What the agent watches and runs on its host, as plain values that its adapters share."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.model.fleet import ReplicaState
from tidegate.model.reading import EngineName


@dataclass(frozen=True, slots=True)
class EngineTarget:
    """One local engine to scrape."""

    name: EngineName
    url: str
    """The full address of its metrics page."""
    pool: str = ""
    service: str = ""
    gpus: int = 1
    gpu_indices: tuple[int, ...] = ()
    replica_id: str = ""
    token: str = field(default="", repr=False)
    """Bearer token; never logged."""


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """What the host says of one unit that we started."""

    replica_id: str
    state: ReplicaState
    """BOOTING while it starts, LOADING once its process lives, DRAINING once it was told to stop, STOPPED or FAILED;
    READY is for the engine to say."""
    why: str = ""
    template: str = ""
    slot: int = -1
    gpus: tuple[int, ...] = ()
