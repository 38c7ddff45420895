"""A report's values as bytes: float64 little endian, a missing one as a quiet NaN that carries its reason.

The same trick as Prometheus' stale markers: a reason costs no extra column, survives storage, and no reader that
treats NaN as NaN can mistake it for a number.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from tidegate.model.reading import Gap, Missing, Number

_GAP_BASE = 0x7FF8_7469_6465_0000  # quiet NaN, "tide" in the payload, the reason in the low 16 bits
_GAPS = tuple(Missing(gap) for gap in Gap)
_CODES = {missing.why: _GAP_BASE + position + 1 for position, missing in enumerate(_GAPS)}


def encode(values: Sequence[Number]) -> bytes:
    """Pack values in layout order; a non-finite number is stored as `Missing(NOT_FINITE)`."""
    gaps: dict[int, Gap] = {}
    floats = []
    for position, value in enumerate(values):
        if isinstance(value, Missing):
            gaps[position] = value.why
        elif not math.isfinite(value):
            gaps[position] = Gap.NOT_FINITE
        floats.append(0.0 if position in gaps else value)
    data = bytearray(struct.pack(f"<{len(floats)}d", *floats))
    for position, why in gaps.items():
        struct.pack_into("<Q", data, 8 * position, _CODES[why])
    return bytes(data)


def decode(data: bytes) -> tuple[Number, ...]:
    """Unpack what `encode` packed; raises ValueError when the length is not a multiple of eight.

    Anything that is not finite is missing, whatever put it there.
    """
    if len(data) % 8:
        raise ValueError(f"a vector of {len(data)} bytes is not a whole number of float64 values")
    floats = struct.unpack(f"<{len(data) // 8}d", data)
    if math.isfinite(sum(floats)):  # so each of them is
        return floats
    return tuple(value if math.isfinite(value) else _missing(data, position) for position, value in enumerate(floats))


def _missing(data: bytes, position: int) -> Missing:
    code: int = struct.unpack_from("<Q", data, 8 * position)[0] - _GAP_BASE - 1
    return _GAPS[code] if 0 <= code < len(_GAPS) else Missing(Gap.NOT_FINITE)
