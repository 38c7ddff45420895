"""A survey of the GPUs as metric families: a loop over the declared figures."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.expose.exposition import Exposition
from tidegate.expose.gpu_families import INSTANCE_FIGURES, family_name, instance_family_name
from tidegate.model.gpu import (
    ClockEvent,
    GpuFault,
    GpuFigure,
    GpuInstance,
    GpuReading,
    GpuSurvey,
    XidClass,
    XidEvents,
    clock_events,
    xid_class,
)
from tidegate.model.missing import Missing, Number


def add_gpus(out: Exposition, survey: GpuSurvey) -> None:
    """Add everything that the survey says."""
    reason = "" if survey.up else (survey.fault or GpuFault.UNKNOWN).value
    out.add("tidegate_nvml_up", {"reason": reason}, float(survey.up))
    out.add("tidegate_gpu_survey_timestamp_seconds", {}, survey.at.timestamp())
    if not survey.up:
        return
    out.add("tidegate_gpus", {}, len(survey.gpus))
    out.add("tidegate_gpu_driver_calls", {}, survey.calls or None)
    if survey.driver:
        versions = {"driver": survey.driver, "library": survey.library, "cuda": survey.cuda}
        out.add("tidegate_gpu_driver_info", versions, 1.0)
    for gpu in survey.gpus:
        _gpu(out, gpu, {"uuid": gpu.uuid})


def _gpu(out: Exposition, gpu: GpuReading, labels: Mapping[str, str]) -> None:
    place = {"index": str(gpu.index), "name": gpu.name, "bus_id": gpu.bus_id, "memory_type": gpu.memory_type.value}
    out.add("tidegate_gpu_up", labels, float(gpu.up))
    out.add("tidegate_gpu_info", {**labels, **place}, 1.0)
    _xids(out, gpu.xids, labels)
    if not gpu.up:
        return
    for figure, value in gpu.figures.items():
        if isinstance(value, Missing):
            why = {"figure": figure.value, "reason": value.why.value}
            out.add("tidegate_gpu_figure_missing", {**labels, **why}, 1.0)
        elif figure is GpuFigure.CLOCK_EVENTS:
            _clock_events(out, value, labels)
        else:
            out.add(family_name(figure), labels, value)
    for instance in gpu.instances:
        _instance(out, instance, {**labels, "gpu_instance": str(instance.number)})


def _clock_events(out: Exposition, bits: float, labels: Mapping[str, str]) -> None:
    present = clock_events(bits)
    for event in ClockEvent:
        out.add(family_name(GpuFigure.CLOCK_EVENTS), {**labels, "event": event.value}, float(event in present))


def _xids(out: Exposition, xids: Mapping[int, XidEvents], labels: Mapping[str, str]) -> None:
    """Every class from the start, so that a rate sees the first event too."""
    for kind in XidClass:
        total = sum(seen.count for code, seen in xids.items() if xid_class(code) is kind)
        out.add("tidegate_gpu_xid_events_total", {**labels, "class": kind.value}, total)
    for code, seen in sorted(xids.items()):
        about = {**labels, "xid": str(code), "class": xid_class(code).value}
        out.add("tidegate_gpu_xid_last_timestamp_seconds", about, seen.last_at.timestamp())


def _instance(out: Exposition, instance: GpuInstance, labels: Mapping[str, str]) -> None:
    for mig_uuid in instance.uuids or ("",):
        out.add("tidegate_gpu_instance_info", {**labels, "name": instance.name, "mig_uuid": mig_uuid}, 1.0)
    for figure in INSTANCE_FIGURES:
        value: Number | None = instance.figures.get(figure)
        out.add(instance_family_name(figure), labels, value)
