"""Activity from the hardware's own counters (GPM: Hopper and later): what happened between two samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tidegate.model.gpu import GpuFigure
from tidegate.model.missing import Gap, Missing, Number
from tidegate.observe.nvml.library import UNKNOWN, Library, NVMLError, costly, missing, structure
from tidegate.runtime.clock import Clock

_METRICS: Mapping[GpuFigure, tuple[int, float]] = {
    GpuFigure.SM_ACTIVITY: (2, 100.0),
    GpuFigure.SM_OCCUPANCY: (3, 100.0),
    GpuFigure.TENSOR_ACTIVITY: (5, 100.0),
    GpuFigure.DRAM_ACTIVITY: (10, 100.0),
    GpuFigure.PCIE_TRANSMIT_RATE: (20, 2.0**-20),
    GpuFigure.PCIE_RECEIVE_RATE: (21, 2.0**-20),
}
"""By metric number and divisor: NVML says percent and MiB per second."""
_SHORTEST_SECONDS = 0.1
"""Samples closer together say nothing, says NVML's documentation."""
_ALL = -1
_VERSION = 1


class _Samples:
    """Two samples of one GPU or partition, used by turns."""

    def __init__(self, library: Library) -> None:
        self.older, self.newer = library("nvmlGpmSampleAlloc"), library("nvmlGpmSampleAlloc")
        self.at: float | None = None


class Activity:
    """The activity of one GPU and its partitions since the survey before; `close` gives the samples back."""

    def __init__(self, library: Library, handle: Any, clock: Clock) -> None:
        self._library, self._handle, self._clock = library, handle, clock
        self._supported: bool | None = None
        self._samples: dict[int, _Samples] = {}

    def forget(self) -> None:
        """Find out anew whether the GPU can do it."""
        self._supported = None

    def whole(self) -> dict[GpuFigure, Number]:
        """Of the whole GPU; a GPU that is split into partitions has none. Raises NVMLError when it is gone."""
        return self._read(_ALL)

    def partition(self, number: int) -> dict[GpuFigure, Number]:
        """Of one partition. Raises NVMLError when the GPU is gone."""
        return self._read(number)

    def keep(self, numbers: set[int]) -> None:
        """Give back the samples of partitions that are no more."""
        for number in self._samples.keys() - numbers - {_ALL}:
            self._free(number)

    def close(self) -> None:
        """Give back every sample. Raises NVMLError."""
        for number in list(self._samples):
            self._free(number)

    def _free(self, number: int) -> None:
        samples = self._samples.pop(number)
        for sample in (samples.older, samples.newer):
            self._library("nvmlGpmSampleFree", sample)

    def _read(self, number: int) -> dict[GpuFigure, Number]:
        try:
            if self._supported is None:
                self._supported = bool(self._library("nvmlGpmQueryDeviceSupport", self._handle).isSupportedDevice)
            if not self._supported:
                return _every(Missing(Gap.NOT_SUPPORTED))
            return self._between(number)
        except NVMLError as error:
            if costly(error) and error.value != UNKNOWN:  # which another profiler's work can cause
                raise
            if self._supported is None:
                self._supported = False
            return _every(missing(error.value))

    def _between(self, number: int) -> dict[GpuFigure, Number]:
        samples = self._samples.get(number) or _Samples(self._library)
        self._samples[number] = samples
        now = self._clock.monotonic()
        if samples.at is not None and now - samples.at < _SHORTEST_SECONDS:
            return _every(Missing(Gap.ONE_SCRAPE))
        if number == _ALL:
            self._library("nvmlGpmSampleGet", self._handle, samples.older)
        else:
            self._library("nvmlGpmMigSampleGet", self._handle, number, samples.older)
        first = samples.at is None
        samples.older, samples.newer, samples.at = samples.newer, samples.older, now
        return _every(Missing(Gap.ONE_SCRAPE)) if first else self._compare(samples)

    def _compare(self, samples: _Samples) -> dict[GpuFigure, Number]:
        question = structure("c_nvmlGpmMetricsGet_t")
        question.version, question.numMetrics = _VERSION, len(_METRICS)
        question.sample1, question.sample2 = samples.older, samples.newer
        for place, (metric, _) in enumerate(_METRICS.values()):
            question.metrics[place].metricId = metric
        answers = self._library("nvmlGpmMetricsGet", question).metrics
        return {name: _value(answers[place], by) for place, (name, (_, by)) in enumerate(_METRICS.items())}


def _every(value: Missing) -> dict[GpuFigure, Number]:
    return dict.fromkeys(_METRICS, value)


def _value(answer: Any, over: float) -> Number:
    if answer.nvmlReturn != 0:
        return missing(answer.nvmlReturn)
    return answer.value / over if math.isfinite(answer.value) else Missing(Gap.NOT_FINITE)
