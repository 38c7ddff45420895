"""The agent's look at the processes of its host: which are engines, and whose GPUs are whose."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime

from tidegate.model.gpu import GpuReading
from tidegate.model.reading import EngineName
from tidegate.model.target import EngineTarget, Found, UnitStatus
from tidegate.observe.engine_finder import EngineFinder, Probe
from tidegate.observe.gpu_holders import GpuHolders
from tidegate.observe.host_processes import HostProcesses


class ProcessLook:
    """The `EngineProcesses` over /proc. For one thread, which /proc may hold up."""

    def __init__(self, probe: Probe, host: HostProcesses | None = None) -> None:
        host = host or HostProcesses()
        self._finder, self._holders = EngineFinder(host, probe), GpuHolders(host)

    def engines(self, now: datetime, taken: Set[int]) -> Found:
        """Engines that listen on a port that nobody named."""
        return self._finder.look(now, taken)

    def held(
        self, targets: Sequence[EngineTarget], units: Sequence[UnitStatus], gpus: Sequence[GpuReading]
    ) -> dict[EngineName, tuple[int, ...]]:
        """The indices of the GPUs that each engine computes on, where that can be seen."""
        return self._holders.look(targets, units, gpus)
