"""GPU surveys as JSON, both ways: what the NVML child writes, and what any other vendor's reader serves over HTTP.

    {"driver": "550.54.15", "gpus": [{"uuid": "GPU-...", "index": 0, "name": "...", "up": true, "utilization": 0.87}]}

Figures carry the names of `GpuFigure`; of the basic ones an absent or null one is missing, and
`{"missing": "not_supported"}` says why. A whole survey may be `{"up": false, "why": "..."}`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set
from datetime import datetime, timedelta

from tidegate.model.gpu import (
    BASIC_FIGURES,
    SHARES,
    SIGNED,
    GpuFault,
    GpuFigure,
    GpuInstance,
    GpuProcess,
    GpuReading,
    GpuSurvey,
    GpuUuid,
    MemoryType,
    XidEvents,
)
from tidegate.model.missing import Gap, Missing, Number
from tidegate.observe.gpu_json_values import entries, member, number, plain, text, whole

FIGURES = tuple(figure.value for figure in BASIC_FIGURES)
_NAMELESS = "unknown-gpu-"
_NO_REASON = "the reader gives no reason"
_LONGEST_AGE_SECONDS = 1e9


def is_nameless(uuid: GpuUuid) -> bool:
    """True for the name that stands in where a GPU's own is not known."""
    return uuid.startswith(_NAMELESS)


def encode(survey: GpuSurvey) -> dict[str, object]:
    """The survey as JSON values; times become ages, for what time it is is the receiver's business."""
    return {
        "up": survey.up,
        "why": survey.why,
        "fault": survey.fault,
        "driver": survey.driver,
        "library": survey.library,
        "cuda": survey.cuda,
        "calls": survey.calls,
        "gpus": [_encode_gpu(gpu, survey.at) for gpu in survey.gpus],
    }


def _encode_gpu(gpu: GpuReading, at: datetime) -> dict[str, object]:
    processes = gpu.processes
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "name": gpu.name,
        "up": gpu.up,
        "why": gpu.why,
        "bus_id": gpu.bus_id,
        "memory_type": gpu.memory_type,
        **_encode_figures(gpu.figures),
        "instances": [_encode_instance(instance) for instance in gpu.instances],
        "compute_processes": (
            plain(processes) if isinstance(processes, Missing) else [_encode_process(one) for one in processes]
        ),
        "xids": [
            {"code": code, "count": seen.count, "seconds_ago": (at - seen.last_at).total_seconds()}
            for code, seen in gpu.xids.items()
        ],
    }


def _encode_figures(figures: Mapping[GpuFigure, Number]) -> dict[str, object]:
    return {figure.value: plain(value) for figure, value in figures.items()}


def _encode_instance(instance: GpuInstance) -> dict[str, object]:
    named = {"number": instance.number, "name": instance.name, "uuids": list(instance.uuids)}
    return {**named, **_encode_figures(instance.figures)}


def _encode_process(process: GpuProcess) -> dict[str, object]:
    return {"pid": process.pid, "used_bytes": plain(process.used_bytes), "gpu_instance": process.gpu_instance}


def decode(document: object, at: datetime, source: str) -> GpuSurvey:
    """The survey that the document describes; never raises.

    A wrong figure costs that figure, a wrong GPU that GPU (it is listed as not up, with why), a wrong document all.
    """
    if not isinstance(document, Mapping):
        return _malformed("the answer is not a JSON object", at, source)
    if document.get("up", True) is not True:
        why = text(document.get("why")) or _NO_REASON
        return GpuSurvey(up=False, why=why, at=at, source=source, fault=_fault(document.get("fault")))
    listed = document.get("gpus")
    if not isinstance(listed, list):
        return _malformed('the answer has no list "gpus"', at, source)
    gpus: list[GpuReading] = []
    for position, entry in enumerate(listed):
        gpus.append(_decode_gpu(entry, position, {gpu.uuid for gpu in gpus}, at))
    return GpuSurvey(
        up=True,
        why="",
        at=at,
        driver=text(document.get("driver")),
        gpus=tuple(gpus),
        source=source,
        library=text(document.get("library")),
        cuda=text(document.get("cuda")),
        calls=whole(document.get("calls")) or 0,
    )


def _malformed(why: str, at: datetime, source: str) -> GpuSurvey:
    return GpuSurvey(up=False, why=why, at=at, source=source, fault=GpuFault.MALFORMED)


def _fault(value: object) -> GpuFault:
    return member(GpuFault, value) or GpuFault.UNKNOWN


def _decode_gpu(entry: object, position: int, taken: Set[GpuUuid], at: datetime) -> GpuReading:
    nameless = GpuUuid(f"{_NAMELESS}{position}")
    if not isinstance(entry, Mapping):
        return GpuReading(nameless, position, "", up=False, why="the entry is not a JSON object")
    told = whole(entry.get("index"))
    index, name = position if told is None else told, text(entry.get("name"))
    uuid = GpuUuid(text(entry.get("uuid")))
    if uuid in taken:
        return GpuReading(nameless, index, name, up=False, why=f"the uuid {uuid} is listed twice")
    why, up = text(entry.get("why")), entry.get("up", True) is True
    gpu = GpuReading(
        uuid or nameless,
        index,
        name,
        up=up,
        why=why if up else why or _NO_REASON,
        bus_id=text(entry.get("bus_id")),
        memory_type=member(MemoryType, entry.get("memory_type")) or MemoryType.UNKNOWN,
        xids=_xids(entry, at),
    )
    if not up:
        return gpu
    return dataclasses.replace(
        gpu,
        figures=plausible({**dict.fromkeys(BASIC_FIGURES, Missing(Gap.NOT_REPORTED)), **_figures(entry)}),
        instances=_instances(entry),
        processes=_processes(entry),
    )


def _figures(entry: Mapping[object, object]) -> dict[GpuFigure, Number]:
    """Every figure that the entry names, in the order of the declaration."""
    named = [figure for figure in GpuFigure if figure.value in entry]
    return {figure: number(entry[figure.value], signed=figure in SIGNED) for figure in named}


def plausible(figures: Mapping[GpuFigure, Number]) -> dict[GpuFigure, Number]:
    """The figures less those that cannot be: a share above 1 (percent?), more memory used than fitted."""
    kept = dict(figures)
    for figure in SHARES & figures.keys():
        value = figures[figure]
        if isinstance(value, float) and value > 1:
            kept[figure] = Missing(Gap.MALFORMED)
    used, total = figures.get(GpuFigure.MEMORY_USED), figures.get(GpuFigure.MEMORY_TOTAL)
    if isinstance(used, float) and isinstance(total, float) and used > total:
        kept[GpuFigure.MEMORY_USED] = Missing(Gap.MALFORMED)
    return kept


def _instances(entry: Mapping[object, object]) -> tuple[GpuInstance, ...]:
    found: dict[int, GpuInstance] = {}
    for one in entries(entry.get("instances")):
        known = whole(one.get("number"))
        uuids = one.get("uuids")
        if known is not None:
            names = tuple(map(text, uuids)) if isinstance(uuids, list) else ()
            found[known] = GpuInstance(known, text(one.get("name")), names, plausible(_figures(one)))
    return tuple(found[known] for known in sorted(found))


def _processes(entry: Mapping[object, object]) -> tuple[GpuProcess, ...] | Missing:
    listed = entry.get("compute_processes")
    if not isinstance(listed, list):
        why = number(listed)
        return why if isinstance(why, Missing) else Missing(Gap.MALFORMED)
    found = []
    for one in entries(listed):
        pid = whole(one.get("pid"))
        if pid:
            found.append(GpuProcess(pid, number(one.get("used_bytes")), whole(one.get("gpu_instance"))))
    return tuple(found)


def _xids(entry: Mapping[object, object], at: datetime) -> dict[int, XidEvents]:
    found = {}
    for one in entries(entry.get("xids")):
        code, count, ago = whole(one.get("code")), whole(one.get("count")), number(one.get("seconds_ago"))
        if code is not None and count is not None:
            known = 0.0 if isinstance(ago, Missing) else min(ago, _LONGEST_AGE_SECONDS)
            found[code] = XidEvents(count, at - timedelta(seconds=known))
    return found
