"""What the agent needs of the world. Adapters live in observe/, act/, link/; only wiring.py names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from tidegate.model.machine import Machine
from tidegate.model.reading import EngineName, EngineReading, GpuReading, GpuSurvey
from tidegate.model.target import EngineTarget, Found, UnitStatus
from tidegate.wire import Answer, Batch, Desired, DesiredReplica

__all__ = [
    "ControllerLink",
    "EngineFiles",
    "EngineProcesses",
    "EngineReader",
    "EngineTarget",
    "GpuReader",
    "MachineReader",
    "UnitStatus",
    "Units",
]


class GpuReader(Protocol):
    """Reads every GPU of the host; never raises, never blocks beyond its deadline."""

    def read(self, now: datetime) -> GpuSurvey:
        """The survey, or one that says why there is none."""
        ...

    def close(self) -> None:
        """Let go of the driver."""
        ...


class MachineReader(Protocol):
    """Reads the host's own figures; never raises, never blocks for long."""

    def read(self) -> Machine:
        """The figures, each a number or the reason for its absence."""
        ...

    def close(self) -> None:
        """Let go of what hangs."""
        ...


class EngineReader(Protocol):
    """Scrapes one engine; never raises, never blocks beyond its deadline."""

    def read(self, target: EngineTarget, now: datetime) -> EngineReading:
        """The reading; its state says what went wrong."""
        ...


class EngineFiles(Protocol):
    """Engines that files list; never raises."""

    @property
    def watched(self) -> bool:
        """Whether any file is named."""
        ...

    def use(self, patterns: Sequence[Path]) -> None:
        """Watch these from now on."""
        ...

    def look(self) -> Found:
        """The engines of every file as it is now, or as it last was good."""
        ...


class EngineProcesses(Protocol):
    """The processes of this host, as far as they may be seen; never raises, but may be held up by the kernel."""

    def engines(self, now: datetime, taken: Set[int]) -> Found:
        """Engines that listen on a port that is not `taken`."""
        ...

    def held(
        self, targets: Sequence[EngineTarget], units: Sequence[UnitStatus], gpus: Sequence[GpuReading]
    ) -> Mapping[EngineName, tuple[int, ...]]:
        """The indices of the GPUs that each engine computes on; one of which nothing is known is absent."""
        ...


class Units(Protocol):
    """Starts and stops engine units on this host. Every call is idempotent."""

    def start(self, replica: DesiredReplica) -> None:
        """Start the replica's unit; raises Transient or Permanent with the reason."""
        ...

    def stop(self, replica_id: str, slot: int, template: str) -> None:
        """Ask the unit to stop (SIGTERM first); raises Transient or Permanent."""
        ...

    def statuses(self) -> Sequence[UnitStatus]:
        """Every unit of ours that the host knows, those started before this process's life too."""
        ...


class ControllerLink(Protocol):
    """The one connection that the agent opens."""

    def report(self, batch: Batch) -> Answer:
        """Deliver a batch; raises Transient (try again) or Permanent (this batch or token will never do)."""
        ...

    def desired(self, after_epoch: int, after_revision: int, wait: timedelta) -> Desired | None:
        """Long-poll for a newer desired state; None when nothing changed in time. Raises like `report`."""
        ...
