"""GPU surveys as JSON, both ways: what the NVML child writes, and what any other vendor's reader serves over HTTP.

    {"driver": "550.54.15", "gpus": [{"uuid": "GPU-...", "index": 0, "name": "...", "up": true, "utilization": 0.87}]}

Figures carry the names of `GpuReading` (utilisation 0..1, base units); absent or null is missing, and
`{"missing": "not_supported"}` says why. A whole survey may be `{"up": false, "why": "..."}`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Set
from datetime import datetime

from tidegate.model.reading import Gap, GpuFault, GpuReading, GpuSurvey, GpuUuid, Missing, Number

FIGURES = (
    "utilization",
    "memory_used_bytes",
    "memory_total_bytes",
    "memory_reserved_bytes",
    "power_watts",
    "energy_joules",
    "temperature_celsius",
)
_TEXT_LIMIT = 256
_NAMELESS = "unknown-gpu-"
_NO_REASON = "the reader gives no reason"


def is_nameless(uuid: GpuUuid) -> bool:
    """True for the name that stands in where a GPU's own is not known."""
    return uuid.startswith(_NAMELESS)


def encode(survey: GpuSurvey) -> dict[str, object]:
    """The survey as JSON values; its time is the receiver's business."""
    return {
        "up": survey.up,
        "why": survey.why,
        "fault": survey.fault,
        "driver": survey.driver,
        "gpus": [_encode_gpu(gpu) for gpu in survey.gpus],
    }


def _encode_gpu(gpu: GpuReading) -> dict[str, object]:
    figures = {name: _encode_number(getattr(gpu, name)) for name in FIGURES}
    return {"uuid": gpu.uuid, "index": gpu.index, "name": gpu.name, "up": gpu.up, "why": gpu.why, **figures}


def _encode_number(value: Number) -> object:
    return {"missing": value.why.value} if isinstance(value, Missing) else value


def decode(document: object, at: datetime, source: str) -> GpuSurvey:
    """The survey that the document describes; never raises.

    A wrong figure costs that figure, a wrong GPU that GPU (it is listed as not up, with why), a wrong document all.
    """
    if not isinstance(document, Mapping):
        return _malformed("the answer is not a JSON object", at, source)
    if document.get("up", True) is not True:
        why = _text(document.get("why")) or _NO_REASON
        return GpuSurvey(up=False, why=why, at=at, source=source, fault=_fault(document.get("fault")))
    entries = document.get("gpus")
    if not isinstance(entries, list):
        return _malformed('the answer has no list "gpus"', at, source)
    gpus: list[GpuReading] = []
    for position, entry in enumerate(entries):
        gpus.append(_decode_gpu(entry, position, {gpu.uuid for gpu in gpus}))
    return GpuSurvey(up=True, why="", at=at, driver=_text(document.get("driver")), gpus=tuple(gpus), source=source)


def _malformed(why: str, at: datetime, source: str) -> GpuSurvey:
    return GpuSurvey(up=False, why=why, at=at, source=source, fault=GpuFault.MALFORMED)


def _fault(value: object) -> GpuFault:
    try:
        return GpuFault(str(value))
    except ValueError:
        return GpuFault.UNKNOWN


def _decode_gpu(entry: object, position: int, taken: Set[GpuUuid]) -> GpuReading:
    nameless = GpuUuid(f"{_NAMELESS}{position}")
    if not isinstance(entry, Mapping):
        return GpuReading(nameless, position, "", up=False, why="the entry is not a JSON object")
    index, name = _index(entry.get("index"), position), _text(entry.get("name"))
    uuid = GpuUuid(_text(entry.get("uuid")))
    if uuid in taken:
        return GpuReading(nameless, index, name, up=False, why=f"the uuid {uuid} is listed twice")
    why = _text(entry.get("why"))
    if entry.get("up", True) is not True:
        return GpuReading(uuid or nameless, index, name, up=False, why=why or _NO_REASON)
    figures = {figure: _number(entry.get(figure)) for figure in FIGURES}
    return _plausible(GpuReading(uuid or nameless, index, name, up=True, why=why, **figures))


def _index(value: object, position: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else position


def _text(value: object) -> str:
    return value[:_TEXT_LIMIT] if isinstance(value, str) else ""


def _number(value: object) -> Number:
    if value is None:
        return Missing(Gap.NOT_REPORTED)
    if isinstance(value, Mapping):
        return Missing(_gap(value.get("missing")))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Missing(Gap.MALFORMED)
    try:
        number = float(value)
    except OverflowError:
        return Missing(Gap.NOT_FINITE)
    if not math.isfinite(number):
        return Missing(Gap.NOT_FINITE)
    return number if number >= 0 else Missing(Gap.MALFORMED)


def _gap(value: object) -> Gap:
    try:
        return Gap(str(value))
    except ValueError:
        return Gap.NOT_REPORTED


def _plausible(gpu: GpuReading) -> GpuReading:
    """Drop figures that cannot be: a share above 1 (percent?), more memory used than fitted."""
    if isinstance(gpu.utilization, float) and gpu.utilization > 1:
        gpu = dataclasses.replace(gpu, utilization=Missing(Gap.MALFORMED))
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    if isinstance(used, float) and isinstance(total, float) and used > total:
        gpu = dataclasses.replace(gpu, memory_used_bytes=Missing(Gap.MALFORMED))
    return gpu
