"""A host as its agent may see it: engines good, silent and loading; GPUs good, lost and without an energy counter."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from tidegate.model.figures import figures
from tidegate.model.fleet import ReplicaState
from tidegate.model.gpu import SHARES
from tidegate.model.machine import BY_DEVICE, Machine, MachineFigure
from tidegate.model.reading import (
    Basis,
    Counter,
    Distribution,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    Gap,
    Gauge,
    GpuFigure,
    GpuInstance,
    GpuProcess,
    GpuReading,
    GpuSurvey,
    GpuUuid,
    Histogram,
    HostName,
    HostReading,
    MemoryType,
    Missing,
    Number,
    Rank,
    XidEvents,
)
from tidegate.model.snapshot import AgentSnapshot, EngineLabels, LinkState, SourceState, SpoolState
from tidegate.model.target import EngineSource
from tidegate.model.window import EngineWindow, engine_window

NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
R0, R1 = Rank("0"), Rank("1")


def histogram(*counts: float, total: float) -> Histogram:
    """Cumulative counts under the bounds 0.1 s, 1 s and infinity."""
    return Histogram((0.1, 1.0, math.inf), counts, total, counts[-1])


def good_engine(at: datetime, tokens: float) -> EngineReading:
    """An engine with two ranks that has made so many tokens on each of them."""
    counters = {
        Counter.PROMPT_TOKENS: 10 * tokens,
        Counter.CACHED_PROMPT_TOKENS: 4 * tokens,
        Counter.GENERATION_TOKENS: tokens,
        Counter.CACHE_QUERIES: 10 * tokens,
        Counter.CACHE_HITS: 4 * tokens,
        Counter.PREEMPTIONS: 1.0,
        Counter.FINISHED: tokens / 100,
        Counter.ABORTED: 2.0,
        Counter.ERRORS: 0.0,
        Counter.RETRIES: tokens / 1000,
        Counter.STEPS: tokens / 8,
    }
    for place, name in enumerate(name for name in Counter if name not in (*counters, *WORKER_COUNTERS)):
        counters[name] = (place + 1) * tokens / 100
    n = tokens / 100
    histograms = {(name, rank): histogram(n / 2, n, n, total=n / 4) for name in Distribution for rank in (R0, R1)}
    histograms[Distribution.QUEUE_TIME, R0] = histogram(n / 2, n / 2, n, total=n)
    queues = {name: float(place) for place, name in enumerate(Gauge) if name not in (*OWN_GAUGES, *WORKER_GAUGES)}
    return EngineReading(
        EngineName("vllm-a"),
        EngineKind.VLLM,
        EngineState.READY,
        at,
        gauges={
            (Gauge.RUNNING, R0): 5.0,
            (Gauge.RUNNING, R1): 7.0,
            (Gauge.QUEUE_DEPTH, R0): 0.0,
            (Gauge.QUEUE_DEPTH, R1): 2.0,
            (Gauge.KV_CACHE_USAGE, R0): 0.25,
            (Gauge.KV_CACHE_USAGE, R1): 0.5,
            (Gauge.SLEEP_LEVEL, R0): 0.0,
            (Gauge.SLEEP_LEVEL, R1): 0.0,
            **{(name, R0): value for name, value in queues.items()},
        },
        counters={(name, rank): value for name, value in counters.items() for rank in (R0, R1)},
        histograms=histograms,
        started=1.0e9,
        model='Qwen/Qwen3-8B "fp8"\\n',
        hints=("vLLM >= 0.22",),
        problems=("2 lines were no samples",),
        duration_seconds=0.0125,
        kv_usage_basis=Basis.BLOCKS,
    )


OWN_GAUGES = (Gauge.RUNNING, Gauge.QUEUE_DEPTH, Gauge.KV_CACHE_USAGE, Gauge.SLEEP_LEVEL)
WORKER_GAUGES = (Gauge.WORKER_UP, Gauge.WORKER_RUNNING)
WORKER_COUNTERS = (Counter.WORKER_REQUESTS, Counter.WORKER_ERRORS)


def gateway() -> EngineReading:
    """A router with one good worker and one that is down."""
    workers = (Rank("http://127.0.0.1:8000"), Rank("http://127.0.0.1:8001"))
    return EngineReading(
        EngineName("router"),
        EngineKind.VLLM_ROUTER,
        EngineState.READY,
        NOON,
        gauges={(name, worker): float(1 - place) for place, worker in enumerate(workers) for name in WORKER_GAUGES},
        counters={(name, worker): 3.0 + place for place, worker in enumerate(workers) for name in WORKER_COUNTERS},
    )


GPU_FIGURES: dict[GpuFigure, Number] = {
    GpuFigure.UTILIZATION: 0.87,
    GpuFigure.MEMORY_USED: 72477573120.0,
    GpuFigure.MEMORY_TOTAL: 85520809984.0,
    GpuFigure.MEMORY_RESERVED: 576716800.0,
    GpuFigure.POWER: 512.345,
    GpuFigure.ENERGY: 123456789.012,
    GpuFigure.TEMPERATURE: 61.0,
}
PARTITION: dict[GpuFigure, Number] = {
    GpuFigure.MEMORY_USED: 5368709120.0,
    GpuFigure.MEMORY_TOTAL: 21474836480.0,
    GpuFigure.SM_ACTIVITY: 0.5,
    GpuFigure.SM_OCCUPANCY: 0.25,
    GpuFigure.TENSOR_ACTIVITY: 0.125,
    GpuFigure.DRAM_ACTIVITY: 0.75,
}


def full_gpu() -> GpuReading:
    """A GPU with every figure that is declared, each a number of its own."""
    rest = {figure: float(place) for place, figure in enumerate(GpuFigure) if figure not in GPU_FIGURES}
    shares = {figure: rest[figure] / 100 for figure in SHARES & rest.keys()}
    return GpuReading(
        GpuUuid("GPU-8f6d2a31-0000"),
        0,
        "NVIDIA H100 80GB HBM3",
        up=True,
        figures={**GPU_FIGURES, **rest, **shares},
        bus_id="00000000:1B:00.0",
        memory_type=MemoryType.DEVICE,
        instances=(GpuInstance(2, "MIG 2g.20gb", ("MIG-1", "MIG-2"), PARTITION),),
        processes=(GpuProcess(4711, 72477573120.0), GpuProcess(4712, Missing(Gap.NOT_REPORTED), 2)),
        xids={31: XidEvents(3, NOON - MINUTE), 79: XidEvents(1, NOON)},
    )


def survey() -> GpuSurvey:
    """Three GPUs: one good, one lost, one without an energy counter."""
    lost = GpuReading(
        GpuUuid("GPU-8f6d2a31-0001"), 1, "NVIDIA H100 80GB HBM3", up=False, why="NVML answers: GPU is lost"
    )
    figures = {**GPU_FIGURES, GpuFigure.ENERGY: Missing(Gap.NOT_SUPPORTED)}
    plain = GpuReading(GpuUuid("GPU-8f6d2a31-0002"), 2, "NVIDIA H100 80GB HBM3", up=True, figures=figures)
    gpus = (full_gpu(), lost, plain)
    return GpuSurvey(
        up=True, why="", at=NOON, driver="550.54.15", gpus=gpus, library="12.550.54.15", cuda="12.4", calls=42
    )


def machine() -> Machine:
    """Every figure of a host, one of them missing."""
    names = [figure for figure in MachineFigure if figure not in BY_DEVICE]
    figures: dict[tuple[MachineFigure, str], Number] = {(name, ""): float(place) for place, name in enumerate(names)}
    figures.update({(name, device): 1e9 for name in BY_DEVICE for device in ("eth0", "eth1")})
    return Machine({**figures, (MachineFigure.NETWORK_RECEIVED, "eth2"): Missing(Gap.MALFORMED)}, "f00d-cafe")


def busy_host() -> AgentSnapshot:
    """The snapshot that the golden files are rendered from: every family of the agent has a sample in it."""
    before, after = good_engine(NOON - MINUTE, 1000.0), good_engine(NOON, 7000.0)
    silent = EngineReading(EngineName("vllm-b"), None, EngineState.UNREACHABLE, NOON, problems=("connection refused",))
    loading = EngineReading(EngineName("burst-3"), None, EngineState.STARTING, NOON)
    window = engine_window((before, after))
    assert isinstance(window, EngineWindow)
    return AgentSnapshot(
        version="0.1.0",
        reading=HostReading(HostName("gpu-7"), NOON, survey(), (after, silent, loading, gateway()), machine()),
        collected_at=NOON,
        collect_seconds=0.25,
        collections=240,
        engines={
            EngineName("vllm-a"): EngineLabels("chat-base", "chat", "", 2, "http://127.0.0.1:8000/metrics"),
            EngineName("burst-3"): EngineLabels("chat-burst", "chat", "burst-3", 1, "http://127.0.0.1:8103/metrics"),
        },
        windows={EngineName("vllm-a"): window},
        figures={
            EngineName("vllm-a"): figures((before, after)),
            EngineName("vllm-b"): figures((silent,)),
            EngineName("burst-3"): figures((loading,)),
            EngineName("router"): figures((gateway(),)),
        },
        last_success={EngineName("vllm-a"): NOON, EngineName("vllm-b"): NOON - 5 * MINUTE},
        replicas={"burst-3": ReplicaState.LOADING},
        spool=SpoolState(3, 8192, NOON - MINUTE, 1),
        link=LinkState(
            configured=True,
            last_success=NOON - MINUTE,
            failures=2,
            error="connection refused",
            clock_offset_seconds=-1.5,
        ),
        sources={EngineSource.FILE: SourceState(ok=False, engines=2, problems=("engines.yml: line 3: is not YAML",))},
        config_loaded_at=NOON - 60 * MINUTE,
    )
