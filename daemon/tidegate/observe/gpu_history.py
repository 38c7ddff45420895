"""What a reader process forgets at its end: the names of lost GPUs, their error events, the energy counted before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.model.gpu import GpuFigure, GpuReading, GpuSurvey, GpuUuid, XidEvents
from tidegate.model.missing import Missing
from tidegate.observe.gpu_energy import Energy, believed
from tidegate.observe.gpu_json import is_nameless

_Events = dict[GpuUuid, Mapping[int, XidEvents]]


class GpuHistory:
    """Remembers across reader processes; `told` is for one thread."""

    def __init__(self) -> None:
        self._known: dict[int, GpuReading] = {}
        self._energy: dict[GpuUuid, Energy] = {}
        self._pid = 0
        self._events: _Events = {}
        """Of the process that reads now, as it last said."""
        self._past: _Events = {}
        """Of all that read before."""

    def told(self, survey: GpuSurvey, pid: int) -> GpuSurvey:
        """The survey of a reader process, with what is known from before."""
        if pid != self._pid:
            for uuid, events in self._events.items():
                self._past[uuid] = _added(self._past.get(uuid, {}), events)
            self._pid, self._events = pid, {}
        present = {gpu.uuid for gpu in survey.gpus}
        named = [self._named(gpu, present) for gpu in survey.gpus]
        self._known.update({gpu.index: gpu for gpu in named if gpu.up})
        gpus = tuple(self._with_events(self._with_energy(gpu, survey)) for gpu in named)
        return replace(survey, gpus=gpus)

    def _named(self, gpu: GpuReading, present: set[GpuUuid]) -> GpuReading:
        """Give a lost GPU, which cannot say who it is, the name that its index had before."""
        known = self._known.get(gpu.index)
        if is_nameless(gpu.uuid) and known is not None and known.uuid not in present:
            return replace(gpu, uuid=known.uuid, name=known.name, bus_id=known.bus_id)
        return gpu

    def _with_energy(self, gpu: GpuReading, survey: GpuSurvey) -> GpuReading:
        joules = gpu.figure(GpuFigure.ENERGY)
        if not gpu.up or isinstance(joules, Missing):
            return gpu
        limit = gpu.figure(GpuFigure.POWER_LIMIT)
        self._energy[gpu.uuid], value = believed(self._energy.get(gpu.uuid), joules, survey.at, limit)
        return replace(gpu, figures={**gpu.figures, GpuFigure.ENERGY: value})

    def _with_events(self, gpu: GpuReading) -> GpuReading:
        if gpu.xids:
            self._events[gpu.uuid] = gpu.xids
        events = _added(self._past.get(gpu.uuid, {}), self._events.get(gpu.uuid, {}))
        return replace(gpu, xids=events)


def _added(past: Mapping[int, XidEvents], present: Mapping[int, XidEvents]) -> dict[int, XidEvents]:
    """Both together, the later time of each."""
    both = dict(past)
    for code, seen in present.items():
        before = both.get(code)
        both[code] = seen if before is None else XidEvents(before.count + seen.count, max(before.last_at, seen.last_at))
    return dict(sorted(both.items()))
