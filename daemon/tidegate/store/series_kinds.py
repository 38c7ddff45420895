"""What the values of a series are, by its name: what may be summed up how."""

from __future__ import annotations

from enum import StrEnum

from tidegate.model.history import METRICS, Kind
from tidegate.model.series import SeriesKey

_MOMENTS = frozenset({"at", "started", "xid_last_at"})
_COUNTERS = frozenset((metric.scope.value, metric.name) for metric in METRICS.values() if metric.kind is Kind.COUNTER)
_KNOWN = frozenset((metric.scope.value, metric.name) for metric in METRICS.values())
_ENDINGS = ("_bucket", "_sum", "_count", "_total")


class SeriesKind(StrEnum):
    """As the column `series_block.kind` has it; blocks lie in this order."""

    GAUGE = "gauge"
    COUNTER = "counter"
    MOMENT = "moment"


def kind_of(key: SeriesKey) -> SeriesKind:
    """The kind of a series; a name that only a newer agent knows is told by its ending."""
    word = (key.scope, key.name)
    if word in _COUNTERS or (word not in _KNOWN and key.name.endswith(_ENDINGS)):
        return SeriesKind.COUNTER
    return SeriesKind.MOMENT if key.name in _MOMENTS else SeriesKind.GAUGE
