"""A tick's view of 200 pools and 2,000 replicas, on 250 hosts of eight engines: how long it takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from tidegate.controller.engine_views import AHEAD, EngineViews
from tidegate.controller.gather import gather
from tidegate.controller.head import Head
from tidegate.controller.hostview import Freshness, Sources
from tidegate.model.fleet import PoolKind, PoolName, ServiceName
from tidegate.model.policy import FleetPolicy, PoolPolicy, ServicePolicy
from tidegate.model.reading import (
    Counter,
    Distribution,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    Gauge,
    GpuFigure,
    GpuReading,
    GpuSurvey,
    GpuUuid,
    Histogram,
    HostName,
    HostReading,
    Rank,
)
from tidegate.wire import EngineStatus, GpuState, HostRecord, HostState

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
POOLS, HOSTS, ENGINES, ROUNDS = 200, 250, 8, 8
INTERVAL, WINDOW = timedelta(seconds=15), timedelta(seconds=60)
_BOUNDS = (*(round(0.001 * 1.7**power, 6) for power in range(21)), float("inf"))
_COUNTERS = (Counter.PROMPT_TOKENS, Counter.GENERATION_TOKENS, Counter.CACHE_QUERIES, Counter.CACHE_HITS)
_R0 = Rank("0")


def tick_view(times: int = 9) -> float:
    """Milliseconds of CPU of one look at the fleet, the median of some: from memory, no stored sample is read."""
    head, views = Head(2 * WINDOW), EngineViews()
    hosts = [_record(number) for number in range(HOSTS)]
    for number, host in enumerate(hosts):
        assert host.last_seen is not None
        head.add(_readings(host.name, number, host.last_seen), NOW)
        views(host.name, head.of(host.name, host.last_seen + AHEAD - WINDOW))  # as intake does when a report comes
    policy, freshness = _policy(), Freshness(WINDOW, WINDOW)
    first = Sources(hosts, head.since(NOW - WINDOW, NOW), (), {}, views_of=views)
    known = gather(first, policy, freshness, NOW).records
    assert len(known) == HOSTS * ENGINES
    took = []
    for _ in range(times):
        began = time.process_time()
        readings = head.since(NOW - WINDOW, NOW)
        gather(Sources(hosts, readings, known, {}, views_of=views), policy, freshness, NOW)
        took.append(1000 * (time.process_time() - began))
    return sorted(took)[times // 2]


def _policy() -> FleetPolicy:
    services = {ServiceName(f"s-{n:03d}"): ServicePolicy(ServiceName(f"s-{n:03d}")) for n in range(POOLS)}
    names = [(PoolName(f"pool-{n:03d}"), ServiceName(f"s-{n:03d}")) for n in range(POOLS)]
    pools = {name: PoolPolicy(name, service, PoolKind.BASE, min=1, max=20) for name, service in names}
    return FleetPolicy(services=services, pools=pools, hosts={})


def _record(number: int) -> HostRecord:
    engines = []
    for engine in range(ENGINES):
        pool = (number * ENGINES + engine) % POOLS
        engines.append(
            EngineStatus(
                name=f"vllm-{engine}",
                url=f"http://127.0.0.1:{8000 + engine}/metrics",
                state="ready",
                kind="vllm",
                pool=f"pool-{pool:03d}",
                service=f"s-{pool:03d}",
                gpu_indices=[engine],
            )
        )
    gpus = [GpuState(index=index, uuid=f"GPU-{number}-{index}") for index in range(ENGINES)]
    state = HostState(gpus=gpus, nvml_up=True, engines=engines)
    return HostRecord(HostName(f"gpu-{number:04d}"), NOW - timedelta(seconds=1 + number % 14), state, revoked=False)


def _readings(host: HostName, number: int, last: datetime) -> Iterator[HostReading]:
    for place in range(ROUNDS):
        at = last - INTERVAL * (ROUNDS - 1 - place)
        figures = {GpuFigure.UTILIZATION: 0.5, GpuFigure.POWER: 300.0}
        gpus = tuple(
            GpuReading(GpuUuid(f"GPU-{number}-{index}"), index, "H100", up=True, figures=figures)
            for index in range(ENGINES)
        )
        engines = tuple(_engine(f"vllm-{engine}", at, place + 1) for engine in range(ENGINES))
        yield HostReading(host, at, GpuSurvey(up=True, why="", at=at, gpus=gpus), engines)


def _engine(name: str, at: datetime, number: int) -> EngineReading:
    counts = tuple(float(min(3 * number, 3 * number * (place + 1) / 20)) for place in range(22))
    histogram = Histogram(_BOUNDS, counts, sum=float(number), count=3.0 * number)
    gauges = {(Gauge.RUNNING, _R0): 3.0, (Gauge.QUEUE_DEPTH, _R0): 1.0, (Gauge.KV_CACHE_USAGE, _R0): 0.5}
    counters = {(counter, _R0): 100.0 * number for counter in _COUNTERS}
    histograms = {(which, _R0): histogram for which in (Distribution.TTFT, Distribution.TPOT, Distribution.E2E)}
    return EngineReading(EngineName(name), EngineKind.VLLM, EngineState.READY, at, gauges, counters, histograms)
