"""What the agent watches and runs on its host, as plain values that its adapters share."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from tidegate.model.fleet import ReplicaState
from tidegate.model.reading import EngineName
from tidegate.model.vocabulary import EngineKind, TrafficClass


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
    kind: EngineKind | None = None
    """Whose dialect the page is read in; None: whose series are in it."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """More request headers, a password among them; never logged."""
    ca_file: str = ""
    """The authorities that its certificate may come from; empty: those that the system trusts."""
    verify: bool = True
    """False: any certificate is taken."""
    timeout: timedelta | None = None
    """The whole of one scrape, in real time; None: as for every engine."""
    min_interval: timedelta = timedelta()
    """It is scraped no more often than this, in clock time."""
    traffic: TrafficClass = TrafficClass.PRODUCTION


class EngineSource(StrEnum):
    """Where engines come from besides the configuration and the controller."""

    FILE = "file"
    PROCESSES = "processes"


@dataclass(frozen=True, slots=True)
class Found:
    """What one look at a source of engines gave."""

    targets: tuple[EngineTarget, ...] = ()
    problems: tuple[str, ...] = ()
    """What is wrong with the source, in words; the targets may then be older."""


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
    main_pid: int = 0
    """Its first process, leader of a session of its own; 0 where it is not known or not one."""
    control_group: str = ""
    """That of all its processes; empty where it is not known."""
