"""A report's vector as it lies on disk: bytes of equal weight side by side, then zstandard.

Half the size of the bare float64 values, since neighbours in a vector share their exponents (a NaN keeps its payload:
nothing is read as a number here).
"""

from __future__ import annotations

import numpy as np
import zstandard
from numpy.typing import NDArray

_LEVEL = 1


def pack(vector: bytes) -> bytes:
    """Compress a vector of float64 values."""
    shuffled = b"".join(vector[place::8] for place in range(8))
    return zstandard.ZstdCompressor(level=_LEVEL).compress(shuffled)


def columns(packed: bytes, places: NDArray[np.intp]) -> NDArray[np.float64]:
    """Some values of the vector, without making the others; raises ValueError as `unpack` does."""
    shuffled = _decompressed(packed)
    weights = np.frombuffer(shuffled, np.uint8).reshape(8, -1)
    return np.ascontiguousarray(weights[:, places].T).view("<f8")[:, 0]


def _decompressed(packed: bytes) -> bytes:
    try:
        return zstandard.ZstdDecompressor().decompress(packed)
    except zstandard.ZstdError as error:
        raise ValueError(f"a stored vector is damaged: {error}") from error


def unpack(packed: bytes) -> bytes:
    """The vector that `pack` was given; raises ValueError when the bytes are not its work."""
    shuffled = _decompressed(packed)
    count = len(shuffled) // 8
    vector = bytearray(len(shuffled))
    for place in range(8):
        vector[place::8] = shuffled[place * count : (place + 1) * count]
    return bytes(vector)
