"""Chunks and rollups as arrays: lossless, and equal to what a plain loop over the samples says."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.reading import Gap, Missing
from tidegate.model.vector import encode as encode_vector
from tidegate.store import rollup_codec
from tidegate.store.chunk_codec import ABSENT, decode, decode_clock, encode, encode_clock
from tidegate.store.pack import columns, pack, unpack, unpack_all

START = datetime(2026, 11, 25, 12, tzinfo=UTC)
STEP = timedelta(minutes=5)
MICRO = int(START.timestamp() * 1_000_000)

missing = st.sampled_from([np.frombuffer(encode_vector([Missing(gap)]), "<f8")[0] for gap in Gap])
whole = st.integers(-(2**53), 2**53).map(float)
numbers = st.one_of(whole, st.floats(allow_nan=False, allow_infinity=False), st.just(-0.0), missing)


@st.composite
def matrices(draw: st.DrawFn, values: st.SearchStrategy[float] = numbers) -> np.ndarray:
    rows, width = draw(st.integers(1, 5)), draw(st.integers(1, 30))
    calm = draw(st.booleans())
    one = whole if calm else values
    return np.array([draw(st.lists(one, min_size=width, max_size=width)) for _ in range(rows)])


def bits(values: np.ndarray) -> list[list[int]]:
    return np.ascontiguousarray(values).view(np.uint64).tolist()


@given(matrices())
def test_a_chunk_keeps_every_bit(values: np.ndarray) -> None:
    """Numbers, signs of zero, and the reasons of what is missing."""
    payload = encode(values)
    assert bits(decode(payload)) == bits(values)
    for row in range(len(values)):
        assert bits(decode(payload, [row])) == bits(values[row : row + 1])


def test_an_absent_series_is_told_from_a_missing_figure() -> None:
    reasons = {int(np.frombuffer(encode_vector([Missing(gap)]), "<u8")[0]) for gap in Gap}
    assert int(ABSENT) not in reasons
    assert np.isnan(np.array([ABSENT], np.uint64).view(np.float64)[0])


VERSION_1 = (
    "0104000000030011000000020000003900008002000000020004010010000000000000000000240011"
    "2170636f210300020104010603000000420000000000000000fa1700000000000000f82f000000000000000e60"
    "00000000000000f8ff009300000900"
)
"""What the version before this one wrote: whole numbers, fractions with a NaN, and a constant."""


def test_a_chunk_of_the_version_before_is_read() -> None:
    wanted = np.array([[1.0, 2.0, 3.0, 5.0], [0.5, 0.25, math.nan, 7.0], [9.0, 9.0, 9.0, 9.0]])
    payload = bytes.fromhex(VERSION_1)
    assert bits(decode(payload)) == bits(wanted)
    assert bits(decode(payload, [2, 1])) == bits(wanted[[2, 1]])


@pytest.mark.parametrize("scale", [1.0, 0.1])
@pytest.mark.parametrize("spoil", [lambda p: p[:5], lambda p: b"\x09" + p[1:], lambda p: p[:-3], lambda p: p[:30]])
def test_a_damaged_chunk_is_an_error_that_says_so(spoil: object, scale: float) -> None:
    """Of whole numbers and of fractions."""
    payload = encode(np.arange(40.0).reshape(2, 20) * scale)
    with pytest.raises(ValueError, match="stored chunk"):
        decode(spoil(payload))  # type: ignore[operator]


@given(st.lists(st.integers(0, 2**50), min_size=1, max_size=50))
def test_moments_keep_their_microseconds(moments: list[int]) -> None:
    assert decode_clock(encode_clock(np.array(moments))).tolist() == moments


@given(matrices())
def test_vectors_are_packed_and_unpacked_one_by_one_and_together(values: np.ndarray) -> None:
    packed = [pack(row.tobytes()) for row in values]
    assert [unpack(one) for one in packed] == [row.tobytes() for row in values]
    assert bits(unpack_all(packed, values.shape[1])) == bits(values.T)
    assert bits(columns(packed[0], np.array([0]))[None, :]) == bits(values[:1, :1])


# Rollups


@st.composite
def sampled(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Samples of counters or gauges at moments of half an hour, some of them missing."""
    seconds = sorted(draw(st.sets(st.integers(0, 1799), min_size=1, max_size=40)))
    value = st.one_of(st.integers(0, 1000).map(float), missing)
    rows = draw(st.integers(1, 3))
    values = [draw(st.lists(value, min_size=len(seconds), max_size=len(seconds))) for _ in range(rows)]
    return np.array(seconds, np.int64) * 1_000_000 + MICRO, np.array(values)


def in_buckets(moments: np.ndarray, row: np.ndarray) -> list[list[float]]:
    """The samples of each of the six buckets."""
    found: list[list[float]] = [[] for _ in range(6)]
    for at, value in zip(moments.tolist(), row.tolist(), strict=True):
        found[(at - MICRO) // 300_000_000].append(value)
    return found


def same(found: np.ndarray, wanted: list[list[float]]) -> None:
    np.testing.assert_allclose(found, np.array(wanted), rtol=1e-12)


@given(sampled())
def test_buckets_of_gauges(samples: tuple[np.ndarray, np.ndarray]) -> None:
    moments, values = samples
    found = rollup_codec.gauges(values, rollup_codec.edges(moments, START, STEP, 6))
    buckets = [[[v for v in one if not math.isnan(v)] for one in in_buckets(moments, row)] for row in values]
    same(found["count"], [[len(one) for one in row] for row in buckets])
    same(found["sum"], [[sum(one) if one else math.nan for one in row] for row in buckets])
    same(found["minimum"], [[min(one, default=math.nan) for one in row] for row in buckets])
    same(found["maximum"], [[max(one, default=math.nan) for one in row] for row in buckets])
    hours = rollup_codec.wider(found, 3)
    same(hours["count"], [[sum(len(one) for one in row[:3]), sum(len(one) for one in row[3:])] for row in buckets])
    halves = [[list(chain(*row[:3])), list(chain(*row[3:]))] for row in buckets]
    same(hours["sum"], [[sum(one) if one else math.nan for one in row] for row in halves])
    same(hours["maximum"], [[max(one, default=math.nan) for one in row] for row in halves])


@given(sampled(), st.one_of(st.just(math.nan), st.integers(0, 1000).map(float)))
def test_buckets_of_counters(samples: tuple[np.ndarray, np.ndarray], before: float) -> None:
    """A fall is a reset; what was added between two samples belongs to the later one's bucket."""
    moments, values = samples
    borders = rollup_codec.edges(moments, START, STEP, 6)
    found = rollup_codec.counters(values, np.full(len(values), before), borders)
    increases, lasts = [], []
    for row in values:
        total, increase, last = before, [], []
        for one in in_buckets(moments, row):
            added, pairs, newest = 0.0, 0, math.nan
            for value in one:
                if math.isnan(value):
                    continue
                if not math.isnan(total):
                    added, pairs = added + (value - total if value >= total else value), pairs + 1
                total = newest = value
            increase.append(added if pairs else math.nan)
            last.append(newest)
        increases.append(increase)
        lasts.append(last)
    same(found["increase"], increases)
    same(found["last"], lasts)
    hours = rollup_codec.wider(found, 6)
    known = [[one for one in row if not math.isnan(one)] for row in increases]
    same(hours["increase"], [[sum(one) if one else math.nan] for one in known])
    ends = [[one for one in row if not math.isnan(one)][-1:] or [math.nan] for row in lasts]
    same(hours["last"], ends)
