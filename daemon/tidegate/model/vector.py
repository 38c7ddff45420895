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
_GAPS = tuple(Gap)
_CODES = {gap: _GAP_BASE + position + 1 for position, gap in enumerate(_GAPS)}


def encode(values: Sequence[Number]) -> bytes:
    """Pack values in layout order; a non-finite number is stored as `Missing(NOT_FINITE)`."""
    words = bytearray()
    for value in values:
        if isinstance(value, Missing):
            words += struct.pack("<Q", _CODES[value.why])
        elif math.isfinite(value):
            words += struct.pack("<d", value)
        else:
            words += struct.pack("<Q", _CODES[Gap.NOT_FINITE])
    return bytes(words)


def decode(data: bytes) -> tuple[Number, ...]:
    """Unpack what `encode` packed; raises ValueError when the length is not a multiple of eight."""
    if len(data) % 8:
        raise ValueError(f"a vector of {len(data)} bytes is not a whole number of float64 values")
    count = len(data) // 8
    floats = struct.unpack(f"<{count}d", data)
    words = struct.unpack(f"<{count}Q", data)
    return tuple(_number(value, word) for value, word in zip(floats, words, strict=True))


def _number(value: float, word: int) -> Number:
    if math.isfinite(value):
        return value
    position = word - _GAP_BASE - 1
    return Missing(_GAPS[position]) if 0 <= position < len(_GAPS) else Missing(Gap.NOT_FINITE)
