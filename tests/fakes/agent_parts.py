"""The agent's surroundings in memory: a clock that the test moves, GPUs, engines, units, a controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event

from tidegate.model.fleet import ReplicaState, Want
from tidegate.model.reading import (
    Counter,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    Gauge,
    GpuFigure,
    GpuReading,
    GpuSurvey,
    GpuUuid,
    Rank,
)
from tidegate.model.target import EngineTarget, UnitStatus
from tidegate.model.vector import encode
from tidegate.wire import Answer, Batch, Desired, DesiredReplica, Layout, Range, Report

NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
R0 = Rank("0")


class ManualClock:
    """Stands still until it is moved; waiting moves it."""

    def __init__(self, at: datetime = NOON) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - NOON).total_seconds() + 1000.0

    def real_seconds(self, span: timedelta) -> float:
        return span.total_seconds()

    def wait(self, event: Event, span: timedelta) -> bool:
        self.pass_by(span)
        return event.is_set()

    def pass_by(self, span: timedelta) -> None:
        self.at += span


def reading(
    name: str, at: datetime, running: float = 0.0, tokens: float = 0.0, state: EngineState = EngineState.READY
) -> EngineReading:
    """One scrape: figures when the engine answers, none when it does not."""
    if state is not EngineState.READY:
        return EngineReading(EngineName(name), None, state, at)
    return EngineReading(
        EngineName(name),
        EngineKind.VLLM,
        state,
        at,
        gauges={(Gauge.RUNNING, R0): running, (Gauge.QUEUE_DEPTH, R0): 0.0},
        counters={(Counter.GENERATION_TOKENS, R0): tokens},
    )


def replica(name: str, want: Want = Want.RUN, slot: int = 0, deadline: datetime | None = None) -> DesiredReplica:
    """A replica of the burst pool on the GPU of its slot."""
    return DesiredReplica(
        replica_id=name,
        pool="burst",
        service="chat",
        template="vllm",
        slot=slot,
        gpus=[slot],
        port=8100 + slot,
        want=want,
        deadline=deadline.timestamp() if deadline else None,
    )


def desired(*replicas: DesiredReplica, epoch: int = 1, revision: int = 1) -> Desired:
    """A complete desired state."""
    return Desired(epoch=epoch, revision=revision, replicas=list(replicas))


def report(sequence: int, at: datetime = NOON, boot: str = "boot", layout: str = "0" * 32) -> Report:
    """A report of one value."""
    return Report(boot_id=boot, sequence=sequence, at=at.timestamp(), layout=layout, values=encode([1.0]))


def layout(name: str = "0" * 32) -> Layout:
    """A layout of one series."""
    return Layout(id=name, series=[["host", "", "nvml_up", "", ""]])


class FakeGpus:
    """One GPU, half used."""

    def read(self, now: datetime) -> GpuSurvey:
        gpu = GpuReading(GpuUuid("GPU-0"), 0, "H200", up=True, figures={GpuFigure.UTILIZATION: 0.5})
        return GpuSurvey(up=True, why="", at=now, gpus=(gpu,))

    def close(self) -> None:
        pass


class FakeEngines:
    """Engines whose next scrape the test decides; a hanging one waits until it is let go."""

    def __init__(self, answer: Callable[[EngineTarget, datetime], EngineReading]) -> None:
        self._answer = answer
        self.hanging: set[str] = set()
        self.let_go = Event()
        self.reads: list[str] = []

    def read(self, target: EngineTarget, now: datetime) -> EngineReading:
        self.reads.append(target.name)
        if target.name in self.hanging:
            self.let_go.wait(10.0)
        return self._answer(target, now)


class FakeUnits:
    """Units that do at once what they are told; the test may let one die or refuse."""

    def __init__(self) -> None:
        self.units: dict[str, UnitStatus] = {}
        self.started: list[str] = []
        self.stopped: list[str] = []
        self.refusal: Exception | None = None

    def start(self, replica: DesiredReplica) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.started.append(replica.replica_id)
        self.units[replica.replica_id] = UnitStatus(
            replica.replica_id, ReplicaState.LOADING, "", replica.template, replica.slot, tuple(replica.gpus)
        )

    def stop(self, replica_id: str, slot: int, template: str) -> None:
        self.stopped.append(replica_id)
        unit = self.units.get(replica_id)
        if unit is None or unit.state in (ReplicaState.STOPPED, ReplicaState.FAILED):
            self.units.pop(replica_id, None)
        else:
            self.units[replica_id] = replace(unit, state=ReplicaState.STOPPED)

    def statuses(self) -> Sequence[UnitStatus]:
        return list(self.units.values())

    def die(self, replica_id: str, why: str) -> None:
        self.units[replica_id] = replace(self.units[replica_id], state=ReplicaState.FAILED, why=why)


class FakeLink:
    """A controller in memory: stores reports by (boot, sequence), knows layouts, fails when told to."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, int], Report] = {}
        self.layouts: set[str] = set()
        self.batches: list[Batch] = []
        self.failure: Exception | None = None
        self.poison: Callable[[Report], bool] = lambda _: False
        self.refusal: Exception = ValueError("set me")
        self.answer_with: Desired | None = None
        self.offset = timedelta()

    def report(self, batch: Batch) -> Answer:
        if self.failure is not None:
            raise self.failure
        self.batches.append(batch)
        if any(self.poison(report) for report in batch.reports):
            raise self.refusal
        self.layouts |= {layout.id for layout in batch.layouts}
        known = [report for report in batch.reports if report.layout in self.layouts]
        self.stored |= {(report.boot_id, report.sequence): report for report in known}
        return Answer(
            now=batch.sent_at + self.offset.total_seconds(),
            acknowledged=[Range(boot_id=one.boot_id, first=one.sequence, last=one.sequence) for one in known],
            need_layouts=sorted({one.layout for one in batch.reports} - self.layouts),
            desired=self.answer_with,
        )

    def desired(self, after_epoch: int, after_revision: int, wait: timedelta) -> Desired | None:
        if self.failure is not None:
            raise self.failure
        return self.answer_with
