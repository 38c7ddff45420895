"""The processes that compute on a GPU, as far as the driver's list can be believed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tidegate.model.gpu import GpuProcess
from tidegate.model.missing import Gap, Missing, Number
from tidegate.observe.nvml.library import FUNCTION_NOT_FOUND, Library, NVMLError, costly, is_blank, missing

_FUNCTIONS = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
_HIGHEST_PID = 1 << 22
"""The kernel's own limit: a larger one is another field of a structure that was read askew."""
_NO_INSTANCE = 2**32 - 1


def processes(library: Library, handle: Any, memory_total: Number) -> tuple[GpuProcess, ...] | Missing:
    """The processes that exist here; raises NVMLError when the GPU or NVML itself is gone.

    A list with impossible entries is dropped whole: with drivers that lay the structure out differently every entry
    is wrong. One in which no process exists on this host is from outside of this container.
    """
    try:
        listed = _listed(library, handle)
    except NVMLError as error:
        if costly(error):
            raise
        return missing(error.value)
    found = [_process(entry) for entry in listed]
    if not all(_possible(process, memory_total) for process in found):
        return Missing(Gap.MALFORMED)
    present = tuple(process for process in found if _exists(process.pid))
    return Missing(Gap.UNREACHABLE) if found and not present else present


def _listed(library: Library, handle: Any) -> Sequence[Any]:
    """By the newest version of the call that the driver has."""
    for function in _FUNCTIONS[:-1]:
        try:
            return list(library(function, handle))
        except NVMLError as error:
            if error.value != FUNCTION_NOT_FOUND:
                raise
    return list(library(_FUNCTIONS[-1], handle))


def _process(entry: Any) -> GpuProcess:
    used, instance = entry.usedGpuMemory, getattr(entry, "gpuInstanceId", _NO_INSTANCE)
    bytes_used = Missing(Gap.NOT_SUPPORTED) if used is None or is_blank(used) else float(used)
    return GpuProcess(int(entry.pid), bytes_used, None if instance == _NO_INSTANCE else int(instance))


def _possible(process: GpuProcess, memory_total: Number) -> bool:
    used = process.used_bytes
    fits = isinstance(used, Missing) or isinstance(memory_total, Missing) or used <= memory_total
    return 0 < process.pid <= _HIGHEST_PID and fits


def _exists(pid: int) -> bool:
    """Asked of the kernel, not of /proc, in which the hardened unit sees no process of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
