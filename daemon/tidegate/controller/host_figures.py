"""The newest figures of every engine and GPU, from what the last tick saw. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from tidegate.controller.hostview import EngineView, HostView
from tidegate.model.figures import Figure, figures
from tidegate.model.gpu import GpuReading
from tidegate.model.missing import Missing, Number
from tidegate.model.reading import HostName
from tidegate.model.recent import EngineFigures, GpuFigures
from tidegate.wire import EngineStatus

_SHOWN: Mapping[str, Figure] = {
    **{
        figure.value: figure
        for figure in (
            Figure.RUNNING,
            Figure.QUEUE_DEPTH,
            Figure.KV_CACHE_USAGE,
            Figure.KV_CACHE_HIT_RATE,
            Figure.PROMPT_TOKENS_PER_SECOND,
            Figure.CACHED_TOKENS_PER_SECOND,
            Figure.GENERATION_TOKENS_PER_SECOND,
            Figure.PREEMPTIONS,
        )
    },
    **{
        f"{figure.value}_seconds": figure
        for figure in (
            Figure.TTFT_P50,
            Figure.TTFT_P95,
            Figure.TTFT_P99,
            Figure.TPOT_P50,
            Figure.TPOT_P95,
            Figure.TPOT_P99,
            Figure.E2E_P95,
            Figure.E2E_P99,
            Figure.QUEUE_TIME_P95,
        )
    },
}
"""The figure behind each column of `v_engine_figures` that is one."""


def engine_figures(views: Mapping[HostName, HostView], at: datetime) -> Iterator[EngineFigures]:
    """Of every engine that a heard host reports, whatever its state."""
    for view in views.values():
        declared = {engine.name: engine for engine in view.state.engines}
        for name, engine in view.engines.items():
            if view.heard and name in declared:
                yield _engine(view.name, declared[name], engine, at)


def _engine(host: HostName, status: EngineStatus, view: EngineView, at: datetime) -> EngineFigures:
    found = figures(view.readings, view.window)
    shown = {column: _plain(found[figure]) for column, figure in _SHOWN.items()}
    prompt, generated = shown["prompt_tokens_per_second"], shown["generation_tokens_per_second"]
    if prompt is not None and generated is not None and status.gpus:
        shown["tokens_per_gpu_per_second"] = (prompt + generated) / status.gpus
    retries, finished = _plain(found[Figure.RETRIES]), _plain(found[Figure.FINISHED])
    if retries is not None and finished:
        shown["retry_rate"] = retries / finished
    state = view.readings[-1].state.value
    return EngineFigures(at, host, status.name, status.pool, status.service, state, status.gpus, shown)


def gpu_figures(views: Mapping[HostName, HostView], at: datetime) -> Iterator[GpuFigures]:
    """Of every GPU that a heard host reports."""
    for view in views.values():
        if not view.heard or not view.readings:
            continue
        holders = {index: engine for engine in reversed(view.state.engines) for index in engine.gpu_indices}
        for gpu in view.readings[-1].gpus.gpus:
            yield _gpu(view.name, gpu, holders.get(gpu.index), at)


def _gpu(host: HostName, gpu: GpuReading, holder: EngineStatus | None, at: datetime) -> GpuFigures:
    known = {figure.value: _plain(value) for figure, value in gpu.figures.items()}
    engine, pool, service = (holder.name, holder.pool, holder.service) if holder else ("", "", "")
    return GpuFigures(at, host, gpu.uuid, gpu.index, engine, pool, service, gpu.up, known)


def _plain(value: Number) -> float | None:
    return None if isinstance(value, Missing) else value
