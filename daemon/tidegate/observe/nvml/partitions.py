"""The partitions (MIG) of a GPU: the places that are taken, and what each of them holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.model.gpu import GpuFigure, GpuInstance
from tidegate.model.missing import Missing, Number
from tidegate.observe.nvml.gpm import Activity
from tidegate.observe.nvml.library import Library, NVMLError, costly
from tidegate.observe.nvml.plain import memory_sizes


def partitions(library: Library, handle: Any, activity: Activity) -> tuple[GpuInstance, ...]:
    """Every GPU instance with the compute instances in it. Raises NVMLError when the GPU or NVML itself is gone."""
    found: dict[int, GpuInstance] = {}
    for device in _devices(library, handle):
        number = library.figure("nvmlDeviceGetGpuInstanceId", device)
        if isinstance(number, Missing):
            continue
        known = found.get(int(number)) or _instance(library, device, int(number), activity)
        uuid = library.words("nvmlDeviceGetUUID", device)
        found[int(number)] = GpuInstance(known.number, known.name, (*known.uuids, uuid), known.figures)
    activity.keep(set(found))
    return tuple(found[number] for number in sorted(found))


def _devices(library: Library, handle: Any) -> Iterator[Any]:
    """The compute instances; the places between them may be free."""
    most = library.figure("nvmlDeviceGetMaxMigDeviceCount", handle)
    for place in range(0 if isinstance(most, Missing) else int(most)):
        try:
            yield library("nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
        except NVMLError as error:
            if costly(error):
                raise


def _instance(library: Library, device: Any, number: int, activity: Activity) -> GpuInstance:
    """A GPU instance as its first compute instance shows it: they share the memory."""
    used, total, _ = memory_sizes(library, device)
    figures: dict[GpuFigure, Number] = {GpuFigure.MEMORY_USED: used, GpuFigure.MEMORY_TOTAL: total}
    return GpuInstance(
        number,
        library.words("nvmlDeviceGetName", device),
        figures={**figures, **activity.partition(number)},
    )
