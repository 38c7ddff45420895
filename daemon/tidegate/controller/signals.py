"""What a policy may look at in one replica: a value with its age, idle, or missing with the reason. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from tidegate.controller.hostview import EngineView, Freshness, HostView
from tidegate.model.fleet import Idle, Signal, SignalName, Value
from tidegate.model.reading import Counter, Distribution, Gap, Gauge, HostReading, Missing, Number
from tidegate.model.records import ReplicaRecord
from tidegate.model.window import EngineWindow, gauge, quantile

_GAUGES = {
    SignalName.RUNNING: Gauge.RUNNING,
    SignalName.WAITING: Gauge.QUEUE_DEPTH,
    SignalName.KV_CACHE_USAGE: Gauge.KV_CACHE_USAGE,
}
_RATES: Mapping[SignalName, Sequence[Counter]] = {
    SignalName.PROMPT_TOKENS: (Counter.PROMPT_TOKENS,),
    SignalName.GENERATION_TOKENS: (Counter.GENERATION_TOKENS,),
    SignalName.CACHED_TOKENS: (Counter.CACHED_PROMPT_TOKENS, Counter.CACHE_HITS),
    # What was taken in is what comes; what came to an end is the same rate later.
    SignalName.REQUEST_RATE: (Counter.REQUESTS, Counter.FINISHED),
}
"""Each from the first counter that an engine has."""
_LATENCIES = {SignalName.TTFT_P95: Distribution.TTFT, SignalName.TPOT_P95: Distribution.TPOT}
_P95 = 0.95
_OF_AN_ENGINE = (*_GAUGES, *_RATES, *_LATENCIES)


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
        return dict.fromkeys(SignalName, Missing(view.silence))
    age = max(timedelta(), now - view.readings[-1].at)
    signals: dict[SignalName, Signal] = dict(_engine_signals(view.engine(record), age))
    signals[SignalName.GPU_UTILIZATION] = _signal(gpu_mean(view.readings, gpu_indices(record, view)), age)
    return signals


def _engine_signals(engine: EngineView, age: timedelta) -> Mapping[SignalName, Signal]:
    if engine.gap is not None:
        return dict.fromkeys(_OF_AN_ENGINE, Missing(engine.gap))
    signals = {name: _signal(gauge(engine.readings[-1], which), age) for name, which in _GAUGES.items()}
    signals |= {name: _signal(number, age) for name, number in _windowed(engine.window).items()}
    if _idle(engine):
        signals |= dict.fromkeys((SignalName.RUNNING, SignalName.WAITING, *_RATES), Idle(age))
    return signals


def _windowed(window: EngineWindow | Missing) -> Mapping[SignalName, Number]:
    """What needs two readings: rates from increases, quantiles from the increases of buckets."""
    if isinstance(window, Missing):
        return dict.fromkeys((*_RATES, *_LATENCIES), window)
    found: dict[SignalName, Number] = {name: _rate(window, counters) for name, counters in _RATES.items()}
    for name, which in _LATENCIES.items():
        histogram = window.distributions.get(which)
        found[name] = Missing(Gap.NOT_SUPPORTED) if histogram is None else quantile(histogram, _P95)
    return found


def _rate(window: EngineWindow, counters: Sequence[Counter]) -> Number:
    """By the first of these counters that the engine has; a lower bound where the window lost something."""
    if window.seconds <= 0:
        return Missing(Gap.ONE_SCRAPE)
    found = [window.increases[counter] for counter in counters if counter in window.increases]
    return found[0] / window.seconds if found else Missing(Gap.NOT_SUPPORTED)


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
