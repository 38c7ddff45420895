"""One look at every GPU through NVML, which is opened once and kept open."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

from tidegate.model.gpu import GpuFault, GpuFigure, GpuReading, GpuSurvey, GpuUuid
from tidegate.model.missing import Missing
from tidegate.observe.nvml.gpm import Activity
from tidegate.observe.nvml.library import LIFECYCLE, Library, NVMLError, costly, is_installed
from tidegate.observe.nvml.partitions import partitions
from tidegate.observe.nvml.plain import PlainFigures
from tidegate.observe.nvml.processes import processes
from tidegate.observe.nvml.xid import XidWatch
from tidegate.runtime.clock import Clock

_SICK_SURVEYS = 20
"""After so many surveys in a row with a sick GPU, end: one that was reset comes back only in a fresh process."""
_FORGET_SURVEYS = 100
"""After so many surveys a GPU is asked again for what it said it does not support."""
NO_GPU = -1
LEFT_ALONE = "a call about it hung before; it is left alone for a while, see `dmesg`"

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


class Nvml:
    """NVML, initialised at the first survey and kept open; `finished` once a fresh process is wanted."""

    def __init__(self, clock: Clock, progress: Callable[[int], object] = lambda _: None) -> None:
        """`progress` is told the index of each GPU before it is asked, and NO_GPU after the last."""
        self.finished = False
        self._clock, self._progress = clock, progress
        self._library = Library()
        self._versions: tuple[str, str, str] | None = None
        self._devices: dict[int, _Device] = {}
        self._xids = XidWatch(clock)
        self._surveys = self._sick_surveys = 0

    def survey(self, at: datetime, leave_alone: Collection[int] = ()) -> GpuSurvey:
        """All GPUs, or why NVML as a whole does not answer; the latter sets `finished`. `at` is now."""
        if not is_installed():
            return self._failed(GpuFault.NO_LIBRARY, _NO_BINDING, at)
        self._library.calls = 0
        try:
            versions = self._versions or self._open()
            count = self._library("nvmlDeviceGetCount")
            gpus = tuple(self._told(index, at, leave_alone) for index in range(count))
            self._progress(NO_GPU)
        except NVMLError as error:
            fault, why = _WORDS.get(error.value, (GpuFault.UNKNOWN, f"NVML answers: {error}"))
            return self._failed(fault, why, at)
        if not self._surveys:
            self._xids.start(self._library, [(device.handle, device.uuid) for device in self._devices.values()])
        self._surveys += 1
        if self._surveys % _FORGET_SURVEYS == 0:
            self._forget()
        sick = any(not gpu.up for gpu in gpus if gpu.index not in leave_alone)
        self._sick_surveys = self._sick_surveys + 1 if sick else 0
        self.finished = self._sick_surveys >= _SICK_SURVEYS
        driver, library, cuda = versions
        return GpuSurvey(
            up=True, why="", at=at, driver=driver, gpus=gpus, library=library, cuda=cuda, calls=self._library.calls
        )

    def close(self) -> None:
        """Give everything back to the driver; what cannot be given is left to the end of the process, which is near."""
        quiet = self._xids.stop()
        if self._versions is None:
            return
        try:
            for device in self._devices.values():
                device.activity.close()
            if quiet:
                self._library("nvmlShutdown")
        except NVMLError:
            return

    def _open(self) -> tuple[str, str, str]:
        library = self._library
        library("nvmlInit")
        cuda = library.figure("nvmlSystemGetCudaDriverVersion_v2")
        whole = 0 if isinstance(cuda, Missing) else int(cuda)
        self._versions = (
            library.words("nvmlSystemGetDriverVersion"),
            library.words("nvmlSystemGetNVMLVersion"),
            f"{whole // 1000}.{whole % 1000 // 10}" if whole else "",
        )
        return self._versions

    def _failed(self, fault: GpuFault, why: str, at: datetime) -> GpuSurvey:
        self.finished = True
        return GpuSurvey(up=False, why=why, at=at, fault=fault)

    def _forget(self) -> None:
        for device in self._devices.values():
            device.forget()

    def _told(self, index: int, at: datetime, leave_alone: Collection[int]) -> GpuReading:
        """One GPU with its events, which a sick one has more of than others."""
        reading = self._gpu(index, leave_alone)
        return replace(reading, xids=self._xids.seen(reading.uuid, at)) if reading.uuid else reading

    def _gpu(self, index: int, leave_alone: Collection[int]) -> GpuReading:
        """One GPU; an error of its own marks it alone. The uuid is empty when it was never told."""
        known = self._devices.get(index)
        if index in leave_alone:
            return self._down(index, known, LEFT_ALONE)
        self._progress(index)
        try:
            if known is None:
                known = self._devices[index] = _Device(self._library, index, self._clock)
            return known.read()
        except NVMLError as error:
            if error.value in LIFECYCLE:
                raise
            return self._down(index, known, f"NVML answers: {error}")

    @staticmethod
    def _down(index: int, known: _Device | None, why: str) -> GpuReading:
        if known is None:
            return GpuReading(GpuUuid(""), index, "", up=False, why=why)
        return GpuReading(GpuUuid(known.uuid), index, known.name, up=False, why=why, bus_id=known.bus_id)


class _Device:
    """An opened GPU: its handle, who it is, and what reads it. Raises NVMLError where it cannot be opened."""

    def __init__(self, library: Library, index: int, clock: Clock) -> None:
        self._library, self._index = library, index
        self.handle: Any = library("nvmlDeviceGetHandleByIndex", index)
        self.uuid = library.words("nvmlDeviceGetUUID", self.handle)
        self.name = library.words("nvmlDeviceGetName", self.handle)
        self.bus_id = self._bus_address()
        self.activity = Activity(library, self.handle, clock)
        self._plain = PlainFigures(library, self.handle, self.name)
        self._mig_mode: object = None

    def forget(self) -> None:
        """Ask for everything once more."""
        self._plain.forget()
        self.activity.forget()

    def read(self) -> GpuReading:
        """Everything about it; raises NVMLError when it, or NVML itself, is gone."""
        figures, memory_type = self._plain.read()
        mode = figures[GpuFigure.MIG_MODE]
        if mode != self._mig_mode and self._mig_mode is not None:
            self.forget()
        self._mig_mode = mode
        split = mode == 1.0
        running = processes(self._library, self.handle, figures[GpuFigure.MEMORY_TOTAL])
        figures.update(self.activity.whole())
        figures[GpuFigure.PROCESSES] = running if isinstance(running, Missing) else float(len(running))
        return GpuReading(
            GpuUuid(self.uuid),
            self._index,
            self.name,
            up=True,
            figures=figures,
            bus_id=self.bus_id,
            memory_type=memory_type,
            instances=partitions(self._library, self.handle, self.activity) if split else (),
            processes=running,
        )

    def _bus_address(self) -> str:
        """Where it sits, empty when the driver does not tell."""
        try:
            told = self._library("nvmlDeviceGetPciInfo", self.handle).busId
        except NVMLError as error:
            if costly(error):
                raise
            return ""
        return told.decode("ascii", "replace") if isinstance(told, bytes) else str(told)
