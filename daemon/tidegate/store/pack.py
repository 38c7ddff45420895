"""A report's vector as it lies on disk: bytes of equal weight side by side, then zstandard.

Half the size of the bare float64 values, since neighbours in a vector share their exponents (a NaN keeps its payload:
nothing is read as a number here).
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import local

import numpy as np
import zstandard
from numpy.typing import NDArray

_LEVEL = -3
"""A third of level 1's time for a twentieth more bytes, which live for hours."""


class _Tools(local):
    """One of each for a thread: making one costs more than using it."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_tools = _Tools()


def pack(vector: bytes) -> bytes:
    """Compress a vector of float64 values."""
    return _tools.compressor.compress(np.frombuffer(vector, np.uint8).reshape(-1, 8).T.tobytes())


def unpack_all(packed: Sequence[bytes], length: int) -> NDArray[np.float64]:
    """Vectors of one layout: a row a series, a column a vector; raises ValueError as `unpack` does.

    Columns lie together in memory: take rows, which makes a copy the other way round.
    """
    shuffled = np.frombuffer(b"".join(map(_decompressed, packed)), np.uint8)
    if shuffled.size != len(packed) * 8 * length:
        raise ValueError(f"stored vectors are damaged: {len(packed)} of {length} values have {shuffled.size} bytes")
    shuffled = shuffled.reshape(-1, 8, length)
    vectors = np.empty((len(packed), length, 8), np.uint8)
    for weight in range(8):  # faster than to let numpy find out how to turn the whole
        vectors[:, :, weight] = shuffled[:, weight]
    return vectors.view("<f8")[:, :, 0].T


def columns(packed: bytes, places: NDArray[np.intp]) -> NDArray[np.float64]:
    """Some values of the vector, without making the others; raises ValueError as `unpack` does."""
    shuffled = _decompressed(packed)
    weights = np.frombuffer(shuffled, np.uint8).reshape(8, -1)
    return np.ascontiguousarray(weights[:, places].T).view("<f8")[:, 0]


def is_whole(packed: bytes, length: int) -> bool:
    """True when these are the bytes of a vector of so many values."""
    try:
        return len(_decompressed(packed)) == 8 * length
    except ValueError:
        return False


def _decompressed(packed: bytes) -> bytes:
    try:
        return _tools.decompressor.decompress(packed)
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
