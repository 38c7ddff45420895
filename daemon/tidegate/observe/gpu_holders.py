"""Look up which GPUs each local engine holds: /proc and control groups around the pids that the driver names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tidegate.model.gpu import GpuReading
from tidegate.model.holders import Holder, HostProcess, gpus_held
from tidegate.model.missing import Missing
from tidegate.model.reading import EngineName
from tidegate.model.target import EngineTarget, UnitStatus
from tidegate.observe.host_processes import HostProcesses
from tidegate.observe.proc_text import Listener

_LOCAL = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(slots=True)
class GpuHolders:
    """Remembers whose a socket is, so that descriptors are searched once. For one thread."""

    host: HostProcesses
    _owners: dict[int, int] = field(default_factory=dict)
    """The pid that holds a listening socket, by the socket's inode."""

    def look(
        self, targets: Sequence[EngineTarget], units: Sequence[UnitStatus], gpus: Sequence[GpuReading]
    ) -> dict[EngineName, tuple[int, ...]]:
        """The indices of the GPUs that each engine computes on; engines of which nothing is known are absent."""
        users = {gpu.index: _pids(gpu) for gpu in gpus}
        pids = {pid for each in users.values() for pid in each}
        if not pids:
            return {}
        listening = self.host.listeners()
        processes = self.host.family(pids)
        by_replica = {unit.replica_id: unit for unit in units}
        holders = {
            target.name: self._holder(target, by_replica.get(target.replica_id), listening, processes)
            for target in targets
        }
        owners = {pid for holder in holders.values() for pid in holder.owners}
        return gpus_held(holders, processes | self.host.family(owners), users)

    def _holder(
        self,
        target: EngineTarget,
        unit: UnitStatus | None,
        listening: Sequence[Listener],
        processes: Mapping[int, HostProcess],
    ) -> Holder:
        if unit is not None and unit.control_group:
            return Holder(members=frozenset(self.host.group_members(unit.control_group)))
        if unit is not None and unit.main_pid:
            return Holder(owners=frozenset({unit.main_pid}))
        inodes = {each.inode for each in listening if _answers(each, target)}
        return Holder(owners=frozenset(pid for inode in inodes if (pid := self._owner(inode, processes))))

    def _owner(self, inode: int, processes: Mapping[int, HostProcess]) -> int:
        """The process that listens there: looked for around the GPUs first, then everywhere; 0 where it is hidden."""
        known = self._owners.get(inode, 0)
        if known and inode in self.host.sockets(known):
            return known
        for pid in (*sorted(processes), *self.host.pids()):
            if inode in self.host.sockets(pid):
                self._owners[inode] = pid
                return pid
        self._owners.pop(inode, None)
        return 0


def _pids(gpu: GpuReading) -> frozenset[int]:
    return frozenset() if isinstance(gpu.processes, Missing) else frozenset(each.pid for each in gpu.processes)


def _answers(listener: Listener, target: EngineTarget) -> bool:
    """Whether a scrape of the target reaches this socket."""
    parts = urlsplit(target.url)
    host = (parts.hostname or "").lower()
    if listener.port != (parts.port or {"http": 80, "https": 443}.get(parts.scheme)):
        return False
    return host == listener.address or host in _LOCAL
