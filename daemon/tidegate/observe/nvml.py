"""The process that talks to NVML: answers each request line on stdin with one line of JSON on stdout.

It is a process of its own because an NVML call can hang where no signal reaches it, and because a loaded driver
library is never replaced within a process: after a driver upgrade only a fresh one works. So it initialises once,
keeps the handles, and when NVML as a whole fails it says why and exits; `observe/gpu_child.py` starts another.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any

from tidegate.model.reading import Gap, GpuFault, GpuFigure, GpuReading, GpuSurvey, GpuUuid, Missing, Number
from tidegate.observe.gpu_json import encode

try:
    import pynvml  # from the nvidia-ml-py distribution; the one named pynvml only warns and forwards
except ImportError:
    pynvml = None

_LIFECYCLE = frozenset({1, 9, 12, 18})
"""UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, LIB_RM_VERSION_MISMATCH: all of NVML is gone."""
_DEVICE = frozenset({15, 16, 28, 999})
"""GPU_IS_LOST, RESET_REQUIRED, GPU_NOT_FOUND, UNKNOWN: this GPU is gone, its neighbours are not."""
_GAPS = {
    2: Gap.NOT_SUPPORTED,  # INVALID_ARGUMENT
    3: Gap.NOT_SUPPORTED,
    4: Gap.UNAUTHORIZED,  # NO_PERMISSION
    6: Gap.NOT_SUPPORTED,  # NOT_FOUND
    13: Gap.NOT_SUPPORTED,  # FUNCTION_NOT_FOUND: a driver older than the call
    21: Gap.NOT_SUPPORTED,
    25: Gap.NOT_SUPPORTED,  # ARGUMENT_VERSION_MISMATCH
    26: Gap.NOT_SUPPORTED,  # DEPRECATED
    27: Gap.STARTING,  # NOT_READY
}
"""Field-level errors: that one figure is missing. Any other code is, too, as UNREACHABLE."""

_NOT_AVAILABLE = frozenset({2**32 - 1, 2**64 - 1})
"""What NVML puts into a field that it cannot fill."""

_SICK_SURVEYS = 20
"""After so many surveys in a row with a sick GPU, exit: one that was reset comes back only in a fresh process."""

_WORDS = {
    4: (GpuFault.NO_PERMISSION, "no permission for the NVIDIA devices: give the service access to /dev/nvidia*"),
    9: (GpuFault.DRIVER_NOT_LOADED, "the NVIDIA kernel driver is not loaded: try `modprobe nvidia`, then see `dmesg`"),
    12: (GpuFault.NO_LIBRARY, "no NVIDIA driver library (libnvidia-ml.so.1) on this machine"),
    13: (GpuFault.VERSION_MISMATCH, "the NVIDIA driver library is too old to be read: upgrade the driver"),
    18: (
        GpuFault.VERSION_MISMATCH,
        "the NVIDIA library and the loaded kernel driver differ in version (a driver upgrade?): reload it or reboot",
    ),
    999: (
        GpuFault.UNKNOWN,
        "NVML answers Unknown Error: see `dmesg`; in a container that lost its GPUs, restart the container",
    ),
}
_NO_BINDING = "the nvidia-ml-py package is not installed: install tidegate[agent]"


@dataclass(frozen=True, slots=True)
class _Device:
    """An opened GPU: its handle and who it is."""

    handle: Any
    uuid: str
    name: str


class Nvml:
    """NVML, initialised at the first survey and kept open; `finished` once a fresh process is wanted."""

    def __init__(self) -> None:
        self.finished = False
        self._driver: str | None = None
        self._devices: dict[int, _Device] = {}
        self._sick_surveys = 0

    def survey(self, at: datetime) -> GpuSurvey:
        """All GPUs, or why NVML as a whole does not answer; the latter sets `finished`."""
        if pynvml is None:
            return self._failed(GpuFault.NO_LIBRARY, _NO_BINDING, at)
        try:
            if self._driver is None:
                pynvml.nvmlInit()
                self._driver = _words(pynvml.nvmlSystemGetDriverVersion)
            gpus = tuple(self._gpu(index) for index in range(pynvml.nvmlDeviceGetCount()))
        except pynvml.NVMLError as error:
            fault, why = _WORDS.get(error.value, (GpuFault.UNKNOWN, f"NVML answers: {error}"))
            return self._failed(fault, why, at)
        self._sick_surveys = 0 if all(gpu.up for gpu in gpus) else self._sick_surveys + 1
        self.finished = self._sick_surveys >= _SICK_SURVEYS
        return GpuSurvey(up=True, why="", at=at, driver=self._driver, gpus=gpus)

    def _failed(self, fault: GpuFault, why: str, at: datetime) -> GpuSurvey:
        self.finished = True
        return GpuSurvey(up=False, why=why, at=at, fault=fault)

    def _gpu(self, index: int) -> GpuReading:
        """One GPU; an error of its own marks it alone. The uuid is empty when it was never told."""
        try:
            device = self._devices.get(index) or _open(index)
            self._devices[index] = device
            return _read(index, device)
        except pynvml.NVMLError as error:
            if error.value in _LIFECYCLE:
                raise
            known = self._devices.get(index)
            uuid, name = (known.uuid, known.name) if known else ("", "")
            return GpuReading(GpuUuid(uuid), index, name, up=False, why=f"NVML answers: {error}")


def _open(index: int) -> _Device:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return _Device(
        handle,
        _words(lambda: pynvml.nvmlDeviceGetUUID(handle)),
        _words(lambda: pynvml.nvmlDeviceGetName(handle)),
    )


def _read(index: int, device: _Device) -> GpuReading:
    handle = device.handle
    used, total, reserved = _memory(handle)
    figures = {
        GpuFigure.UTILIZATION: _figure(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu, 100),
        GpuFigure.MEMORY_USED: used,
        GpuFigure.MEMORY_TOTAL: total,
        GpuFigure.MEMORY_RESERVED: reserved,
        GpuFigure.POWER: _figure(lambda: pynvml.nvmlDeviceGetPowerUsage(handle), 1000),
        GpuFigure.ENERGY: _figure(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), 1000),
        GpuFigure.TEMPERATURE: _figure(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
    }
    return GpuReading(GpuUuid(device.uuid), index, device.name, up=True, figures=figures)


def _memory(handle: Any) -> tuple[Number, Number, Number]:
    """Used, total, reserved. Before version 2 of the call, `used` contains what the driver reserves for itself."""
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except pynvml.NVMLError as error:
        if error.value in _DEVICE | _LIFECYCLE:
            raise
        return (
            _figure(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).used),
            _figure(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total),
            Missing(Gap.NOT_SUPPORTED),
        )
    return float(memory.used), float(memory.total), float(memory.reserved)


def _figure(call: Callable[[], int], per_unit: int = 1) -> Number:
    """The figure in base units, or why it is missing; raises NVMLError when the GPU or NVML itself is gone."""
    try:
        value = call()
    except pynvml.NVMLError as error:
        if error.value in _DEVICE | _LIFECYCLE:
            raise
        return Missing(_GAPS.get(error.value, Gap.UNREACHABLE))
    return Missing(Gap.NOT_SUPPORTED) if value in _NOT_AVAILABLE else value / per_unit


def _words(call: Callable[[], str | bytes]) -> str:
    """A name from the driver, empty when it has none; older bindings answer bytes."""
    try:
        text = call()
    except UnicodeDecodeError:
        return ""
    except pynvml.NVMLError as error:
        if error.value in _DEVICE | _LIFECYCLE:
            raise
        return ""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer request lines (a number each) until their end, or until a fresh process is wanted."""
    nvml = Nvml()
    for line in requests:
        survey = nvml.survey(datetime.fromtimestamp(0, UTC))  # the asker knows the time
        answers.write(json.dumps({"request": line.strip(), "last": nvml.finished, **encode(survey)}) + "\n")
        answers.flush()
        if nvml.finished:
            return


def main() -> None:
    """Serve on stdin and stdout; whatever a library prints goes to stderr instead."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
