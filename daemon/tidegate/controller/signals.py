"""What a policy may look at in one replica: a value with its age, idle, or missing with the reason. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from tidegate.controller.hostview import EngineView, Freshness, HostView
from tidegate.model.fleet import Idle, Signal, SignalName, Value
from tidegate.model.reading import Gap, Gauge, HostReading, Missing, Number
from tidegate.model.records import ReplicaRecord
from tidegate.model.window import gauge

_GAUGES = {
    SignalName.RUNNING: Gauge.RUNNING,
    SignalName.WAITING: Gauge.QUEUE_DEPTH,
    SignalName.KV_CACHE_USAGE: Gauge.KV_CACHE_USAGE,
}


def replica_signals(
    record: ReplicaRecord, view: HostView | None, freshness: Freshness, now: datetime
) -> Mapping[SignalName, Signal]:
    """Every signal of the replica; the newest reading says whether a signal is good.

    Requests are those of the newest reading, not the window's mean: after a scale-out they move from one replica to
    another, and a sum of means over unequal pasts would count them twice. Utilisation is a share, so its mean is safe.
    """
    if view is None or not view.heard:
        return dict.fromkeys(SignalName, Missing(Gap.STALE))
    if not view.readings or now - view.readings[-1].at > freshness.stale_after:
        return dict.fromkeys(SignalName, Missing(Gap.STALE if view.readings else Gap.NOT_REPORTED))
    age = max(timedelta(), now - view.readings[-1].at)
    signals: dict[SignalName, Signal] = dict(_engine_signals(view.engine(record), age))
    signals[SignalName.GPU_UTILIZATION] = _signal(gpu_mean(view.readings, gpu_indices(record, view)), age)
    return signals


def _engine_signals(engine: EngineView, age: timedelta) -> Mapping[SignalName, Signal]:
    if engine.gap is not None:
        return dict.fromkeys(_GAUGES, Missing(engine.gap))
    signals = {name: _signal(gauge(engine.readings[-1], which), age) for name, which in _GAUGES.items()}
    if _idle(engine):
        signals[SignalName.RUNNING] = signals[SignalName.WAITING] = Idle(age)
    return signals


def _idle(engine: EngineView) -> bool:
    """Nothing ran, nothing waited and no counter moved in the whole window."""
    if isinstance(engine.window, Missing) or any(increase > 0 for increase in engine.window.increases.values()):
        return False
    asked = [gauge(reading, which) for reading in engine.readings for which in (Gauge.RUNNING, Gauge.QUEUE_DEPTH)]
    return all(value == 0.0 for value in asked)


def gpu_indices(record: ReplicaRecord, view: HostView) -> tuple[int, ...]:
    """The replica's GPUs; an engine that names none has the whole host when it has as many as the host."""
    if record.gpus:
        return record.gpus
    present = tuple(gpu.index for gpu in view.state.gpus)
    return present if len(present) == record.gpu_count else ()


def gpu_mean(readings: Sequence[HostReading], indices: tuple[int, ...]) -> Number:
    """Mean utilisation (0..1) over the GPUs and the window; missing when any of them is missing in the newest."""
    if not indices:
        return Missing(Gap.NOT_REPORTED)
    cells = [_utilization(reading, index) for reading in readings for index in indices]
    for cell in cells[-len(indices) :]:
        if isinstance(cell, Missing):
            return cell
    values = [cell for cell in cells if isinstance(cell, float)]
    return sum(values) / len(values)


def _utilization(reading: HostReading, index: int) -> Number:
    for gpu in reading.gpus.gpus:
        if gpu.index == index:
            return gpu.utilization if gpu.up else Missing(Gap.UNREACHABLE)
    return Missing(Gap.NOT_REPORTED)


def _signal(number: Number, age: timedelta) -> Signal:
    return number if isinstance(number, Missing) else Value(number, age)
