"""Turn what a collection saw into what is exported and what is reported. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tidegate import __version__
from tidegate.agent.collect import Look
from tidegate.agent.history import trimmed
from tidegate.agent.ports import EngineTarget
from tidegate.model.figures import figures
from tidegate.model.fleet import ReplicaState
from tidegate.model.reading import EngineName, EngineReading, GpuCountSource, GpuReading, HostReading
from tidegate.model.series import SeriesKey, flatten, layout_id
from tidegate.model.snapshot import AgentSnapshot, EngineLabels, LinkState, SourceState, SpoolState
from tidegate.model.target import EngineSource
from tidegate.model.vector import encode
from tidegate.model.vocabulary import TrafficClass
from tidegate.model.window import EngineWindow, engine_window
from tidegate.wire import MAX_SERIES, EngineStatus, GpuState, HostState, Layout, ReplicaStatus, Report

_PROBLEMS = 5
_PROBLEM_LENGTH = 300
_LONGEST_PART = 256
"""As wire.Layout bounds the parts of a key."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a snapshot tells besides the collection."""

    collections: int = 1
    replicas: Mapping[str, ReplicaState] = field(default_factory=dict)
    spool: SpoolState = field(default_factory=SpoolState)
    link: LinkState = field(default_factory=LinkState)
    config_loaded_at: datetime | None = None
    config_reload_ok: bool = True
    sources: Mapping[EngineSource, SourceState] = field(default_factory=dict)


def pack(reading: HostReading, boot_id: str, sequence: int) -> tuple[Report, Layout]:
    """A reading as the wire carries it; series that it cannot carry are left out, and `uncarried` counts them."""
    pairs = [pair for pair in zip(*flatten(reading), strict=True) if _carried(pair[0])][:MAX_SERIES]
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    layout = Layout(id=layout_id(keys), series=[key.row() for key in keys])
    at = reading.at.timestamp()
    return Report(boot_id=boot_id, sequence=sequence, at=at, layout=layout.id, values=encode(values)), layout


def uncarried(reading: HostReading, layout: Layout) -> int:
    """How many series of the reading the layout leaves out."""
    return len(flatten(reading)[0]) - len(layout.series)


def _carried(key: SeriesKey) -> bool:
    """An engine's own label becomes part of a key: none may make the whole report unacceptable."""
    return all(len(part) <= _LONGEST_PART and part.isprintable() for part in key.row())


def snapshot(look: Look, window: timedelta, around: Around) -> AgentSnapshot:
    """Everything that is exported of one collection: rates and ratios over `window`."""
    recent = {engine.engine: _recent(look, engine, window) for engine in look.reading.engines}
    windows = {name: engine_window(readings) for name, readings in recent.items()}
    return AgentSnapshot(
        version=__version__,
        reading=look.reading,
        collected_at=look.reading.at + timedelta(seconds=look.seconds),
        collect_seconds=look.seconds,
        collections=around.collections,
        engines=_labels(look),
        windows={name: found for name, found in windows.items() if isinstance(found, EngineWindow)},
        figures={name: figures(readings, windows[name]) for name, readings in recent.items()},
        last_success=look.last_success,
        replicas=around.replicas,
        spool=around.spool,
        link=around.link,
        sources=around.sources,
        config_loaded_at=around.config_loaded_at,
        config_reload_ok=around.config_reload_ok,
    )


def _recent(look: Look, told: EngineReading, window: timedelta) -> Sequence[EngineReading]:
    history = look.histories.get(told.engine, ())
    return (*trimmed(history, told.at, window)[:-1], told)


def _labels(look: Look) -> dict[EngineName, EngineLabels]:
    readings = {reading.engine: reading for reading in look.reading.engines}
    return {target.name: labels(target, readings.get(target.name)) for target in look.targets}


def _is_gateway(target: EngineTarget, reading: EngineReading | None) -> bool:
    kind = reading.kind if reading is not None and reading.kind is not None else target.kind
    return kind is not None and kind.is_gateway and not target.replica_id


def _seated(target: EngineTarget, reading: EngineReading | None) -> EngineTarget:
    """The target with the GPUs that the reading counts; a gateway without pool and GPUs.

    What stands in front of replicas is never one of them, whatever pool the configuration gives it.
    """
    if _is_gateway(target, reading):
        return replace(target, pool="", gpus=0, gpu_indices=())
    return target if reading is None or reading.gpus is None else replace(target, gpus=reading.gpus)


def labels(target: EngineTarget, reading: EngineReading | None = None) -> EngineLabels:
    """Where an engine belongs, for its metric labels; its GPUs as the reading counts them, where it does."""
    source = GpuCountSource.CONFIGURATION
    if reading is not None and reading.gpus is not None and not _is_gateway(target, reading):
        source = reading.gpus_source or GpuCountSource.ENGINE
    seat = _seated(target, reading)
    return EngineLabels(
        seat.pool, seat.service, seat.replica_id, seat.gpus, seat.url, gpus_source=source, traffic=seat.traffic
    )


def host_state(
    look: Look, replicas: Sequence[ReplicaStatus], position: tuple[int, int], spool: SpoolState
) -> HostState:
    """What the host is now, for the controller."""
    targets = {target.name: target for target in look.targets}
    return HostState(
        gpus=[_gpu(gpu) for gpu in look.reading.gpus.gpus],
        nvml_up=look.reading.gpus.up,
        nvml_why=_printable(look.reading.gpus.why),
        engines=[_engine(engine, targets[engine.engine]) for engine in look.reading.engines],
        replicas=list(replicas),
        desired_epoch=position[0],
        desired_revision=position[1],
        spool_reports=spool.reports,
        spool_dropped=spool.dropped,
        agent_version=__version__,
    )


def _gpu(gpu: GpuReading) -> GpuState:
    return GpuState(index=gpu.index, uuid=gpu.uuid, name=_printable(gpu.name), up=gpu.up, why=_printable(gpu.why))


def _engine(reading: EngineReading, target: EngineTarget) -> EngineStatus:
    seat = _seated(target, reading)
    kind = reading.kind or target.kind
    return EngineStatus(
        name=reading.engine,
        url=seat.url,
        state=reading.state.value,
        kind=kind.value if kind else "",
        # Test traffic enters no pool's figures and no cost; the GPUs are taken all the same.
        pool=seat.pool if seat.traffic is TrafficClass.PRODUCTION else "",
        service=seat.service,
        model=_printable(reading.model or ""),
        gpus=seat.gpus,
        gpu_indices=list(seat.gpu_indices),
        replica_id=seat.replica_id,
        problems=[_printable(problem) for problem in reading.problems[:_PROBLEMS]],
    )


def _printable(text: str) -> str:
    """Foreign words, bounded and without control characters, which no controller stores."""
    return "".join(character if character.isprintable() else " " for character in text[:_PROBLEM_LENGTH])


def in_view(look: Look | None) -> Mapping[EngineName, Sequence[EngineReading]]:
    """The readings by engine that the replicas' loop decides from; none before the first collection."""
    return look.histories if look is not None else {}
