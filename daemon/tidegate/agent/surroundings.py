"""What is known of a host's engines beside the configuration: those in files and among processes, and their GPUs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from tidegate.agent.collect import Look
from tidegate.agent.ports import EngineFiles, EngineProcesses, EngineTarget, UnitStatus
from tidegate.model.reading import EngineName, EngineReading, GpuCountSource
from tidegate.model.snapshot import SourceState
from tidegate.model.target import EngineSource, Found

_LOOPBACK = {"localhost": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::1": "127.0.0.1", "::": "127.0.0.1"}  # noqa: S104
_PORTS = {"http": 80, "https": 443}


@dataclass(slots=True)
class Surroundings:
    """Files are looked at with every collection, processes on a thread of their own: /proc may hang."""

    files: EngineFiles | None = None
    processes: EngineProcesses | None = None
    discover: bool = False
    _in_files: Found = field(default_factory=Found)
    _among_processes: Found = field(default_factory=Found)
    _held: Mapping[EngineName, tuple[int, ...]] = field(default_factory=dict)
    _named: tuple[EngineTarget, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def use(self, patterns: Sequence[Path], *, discover: bool) -> None:
        """Take on a reloaded configuration."""
        if self.files is not None:
            self.files.use(patterns)
        with self._lock:
            self.discover = discover
            if not discover:
                self._among_processes = Found()

    def targets(self, own: Sequence[EngineTarget], managed: Sequence[EngineTarget]) -> list[EngineTarget]:
        """Every engine once: the operator's own first, then the controller's, then files, then processes."""
        if self.files is not None:
            self._in_files = self.files.look()
        named = one_a_name(own, managed)
        named += strangers(self._in_files.targets, named)
        with self._lock:
            self._named = tuple(named)
            return [*named, *strangers(self._among_processes.targets, named)]

    def look(self, seen: Look | None, units: Sequence[UnitStatus], now: datetime) -> None:
        """Look at the processes of this host; for a thread that nothing waits for."""
        if self.processes is None:
            return
        with self._lock:
            named, discover = self._named, self.discover
        found = self.processes.engines(now, frozenset(map(port, named))) if discover else Found()
        gpus = seen.reading.gpus.gpus if seen is not None else ()
        targets = [*named, *found.targets]
        held = self.processes.held(targets, units, gpus)
        present = {target.name for target in targets}
        with self._lock:
            self._among_processes = found if self.discover else Found()
            # An engine that restarts computes on nothing for a while, and still holds what it held.
            kept = {name: indices for name, indices in self._held.items() if name in present}
            self._held = {**kept, **held}

    def counted(self, look: Look) -> Look:
        """The collection with the GPUs that the processes tell of, where the engine itself does not."""
        with self._lock:
            held = self._held
        if not held:
            return look
        engines = tuple(_with_count(reading, held.get(reading.engine)) for reading in look.reading.engines)
        targets = tuple(
            target
            if target.gpu_indices or not held.get(target.name)
            else replace(target, gpu_indices=held[target.name])
            for target in look.targets
        )
        return replace(look, reading=replace(look.reading, engines=engines), targets=targets)

    def sources(self) -> dict[EngineSource, SourceState]:
        """How each source that is in use does."""
        states = {}
        if self.files is not None and self.files.watched:
            states[EngineSource.FILE] = _state(self._in_files)
        with self._lock:
            if self.processes is not None and self.discover:
                states[EngineSource.PROCESSES] = _state(self._among_processes)
        return states


def _state(found: Found) -> SourceState:
    return SourceState(not found.problems, len(found.targets), found.problems)


def _with_count(reading: EngineReading, indices: tuple[int, ...] | None) -> EngineReading:
    if reading.gpus is not None or not indices:
        return reading
    return replace(reading, gpus=len(indices), gpus_source=GpuCountSource.PROCESSES)


def one_a_name(own: Sequence[EngineTarget], managed: Sequence[EngineTarget]) -> list[EngineTarget]:
    """Every target once; the operator's own where a name is used twice."""
    return list({target.name: target for target in (*managed, *own)}.values())


def strangers(found: Sequence[EngineTarget], named: Sequence[EngineTarget]) -> list[EngineTarget]:
    """Those of `found` whose name and whose address nobody in `named` has."""
    names, places = {target.name for target in named}, {place(target) for target in named}
    return [target for target in found if target.name not in names and place(target) not in places]


def place(target: EngineTarget) -> tuple[str, int]:
    """The host and port that a scrape of the target reaches, loopback under one name."""
    host = (urlsplit(target.url).hostname or "").lower()
    return _LOOPBACK.get(host, host), port(target)


def port(target: EngineTarget) -> int:
    """The port that a scrape of the target reaches."""
    parts = urlsplit(target.url)
    return parts.port or _PORTS.get(parts.scheme, 0)
