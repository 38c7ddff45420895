"""The store's pure parts: packing, runs of sequence numbers, buckets, and values as JSON and back."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from fakes.store_batches import engine, reading
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.fleet import PoolName, ReplicaId, ServiceName
from tidegate.model.memory import MEMORY_VERSION, BackOff, Memory, PoolMemory, ServiceMemory
from tidegate.model.memory_json import memory_from, memory_json
from tidegate.model.reading import Counter, EngineName, Gap, Missing
from tidegate.model.series import SeriesKey
from tidegate.model.usage import BUCKET, bucket_of
from tidegate.model.vector import decode, encode
from tidegate.store.admission import moment, ranges, read_layout
from tidegate.store.buckets import HOLE, Border, fill, touched
from tidegate.store.pack import pack, unpack

moments = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds
numbers = st.one_of(st.floats(), st.sampled_from([Missing(gap) for gap in Gap]))


@given(st.lists(numbers, max_size=300))
def test_a_packed_vector_comes_back_bit_for_bit(values: list[float | Missing]) -> None:
    """Reasons ride in NaN payloads: not even those may change."""
    vector = encode(values)
    assert unpack(pack(vector)) == vector
    assert decode(unpack(pack(vector))) == decode(vector)


@given(st.binary(max_size=64).map(lambda data: data[: len(data) // 8 * 8]))
def test_any_vector_comes_back(vector: bytes) -> None:
    assert unpack(pack(vector)) == vector


def test_damage_is_told() -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpack(b"no such thing")


def test_counters_that_move_as_counters_do_take_half_the_room() -> None:
    vector = struct.pack("<1000d", *(1e6 + 13.0 * number for number in range(1000)))
    assert len(pack(vector)) < len(vector) / 2


@given(st.sets(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 40))))
def test_runs_name_exactly_the_numbers_given(places: set[tuple[str, int]]) -> None:
    found = ranges(places)
    named = [(run.boot_id, number) for run in found for number in range(run.first, run.last + 1)]
    assert sorted(named) == sorted(places)
    ends = {(run.boot_id, run.last + 1) for run in found}
    assert ends.isdisjoint(places), "runs that touch are one run"


@given(moments)
def test_a_bucket_begins_at_or_before_its_moments(at: datetime) -> None:
    bucket = bucket_of(at)
    assert bucket <= at < bucket + BUCKET
    assert bucket.minute % 5 == bucket.second == bucket.microsecond == 0
    assert bucket in touched(at) <= {bucket - BUCKET, bucket, bucket + BUCKET}


@given(moments, st.floats(0, 1e10))
def test_a_report_is_never_stored_under_an_impossible_time(received_at: datetime, seconds: float) -> None:
    at, stamped = moment(seconds, received_at)
    assert received_at - timedelta(days=30) <= at <= received_at + timedelta(minutes=5)
    assert stamped == (at != datetime.fromtimestamp(seconds, UTC)) or math.isclose(seconds, received_at.timestamp())


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=60), st.lists(st.integers(1, 80), min_size=60, max_size=60))
def test_buckets_add_up_to_what_was_counted(steps: Sequence[float], gaps: Sequence[int]) -> None:
    """Whatever the borders and the holes: nothing is counted twice, nothing falls between two buckets."""
    at, total, looks = datetime(2026, 11, 25, 12, tzinfo=UTC), 1000.0, []
    for step, gap in zip(steps, gaps, strict=False):
        looks.append(reading(at, engine(at, generation_tokens=total)))
        at, total = at + timedelta(seconds=gap), total + step
    now, counted, border = at, 0.0, Border(None, None, {})
    for bucket in sorted({bucket_of(look.at) for look in looks}):
        inside = [look for look in looks if bucket_of(look.at) == bucket]
        later = [look.at for look in looks if look.at >= bucket + BUCKET]
        (share,) = fill(bucket, inside, Border(border.before, min(later, default=None), border.tails), now).values()
        assert share.tail is not None
        counted += share.increases.get(Counter.GENERATION_TOKENS, 0.0)
        border = Border(inside[-1].at, None, {EngineName("vllm-0"): share.tail})
    assert counted == pytest.approx(sum(steps[: len(looks) - 1]))


@given(st.integers(1, 300))
def test_a_hole_is_a_hole_from_its_length_on(seconds: int) -> None:
    bucket = datetime(2026, 11, 25, 12, tzinfo=UTC)
    first, second = bucket, bucket + timedelta(seconds=min(seconds, 299))
    looks = [reading(at, engine(at, generation_tokens=1.0)) for at in (first, second)]
    (share,) = fill(bucket, looks, Border(None, second + timedelta(seconds=1), {}), second).values()
    assert share.partial == (second - first > HOLE)


@pytest.mark.parametrize(("spacing", "silence", "holed"), [(180, 180, False), (180, 541, True), (15, 180, True)])
def test_a_host_that_samples_rarely_leaves_no_hole_by_that_alone(spacing: int, silence: int, holed: bool) -> None:
    """Three of its own spacings are a hole, never its own pace."""
    bucket = datetime(2026, 11, 25, 12, tzinfo=UTC)
    moments = [bucket - timedelta(seconds=silence), bucket, bucket + timedelta(seconds=spacing)]
    looks = [reading(at, engine(at, generation_tokens=1.0)) for at in moments[1:]]
    after = moments[-1] + timedelta(seconds=spacing)
    (share,) = fill(bucket, looks, Border(moments[0], after, {}), after).values()
    assert share.partial == holed


@given(
    st.builds(
        Memory,
        started_at=st.none() | moments,
        services=st.dictionaries(
            st.text(max_size=5).map(ServiceName),
            st.builds(
                ServiceMemory,
                wishes=st.lists(st.tuples(moments, st.integers(0, 9)), max_size=3).map(tuple),
                last_out=st.none() | moments,
                last_in=st.none() | moments,
            ),
            max_size=2,
        ),
        pools=st.dictionaries(
            st.text(max_size=5).map(PoolName),
            st.builds(
                PoolMemory,
                next_serial=st.integers(1, 99),
                back_offs=st.dictionaries(
                    st.text(max_size=5), st.builds(BackOff, moments, st.integers(0, 9)), max_size=2
                ),
                counted=st.lists(st.text(max_size=5).map(ReplicaId), max_size=2).map(tuple),
            ),
            max_size=2,
        ),
    )
)
def test_memory_survives_json(memory: Memory) -> None:
    assert memory_from(memory_json(memory)) == memory


def test_memory_of_another_version_is_not_guessed_at() -> None:
    assert memory_from({**memory_json(Memory()), "version": MEMORY_VERSION + 1}) is None


def test_an_upgrade_carries_over_what_the_first_version_remembered() -> None:
    at = datetime(2026, 11, 25, 12, tzinfo=UTC)
    old = {
        "version": 1,
        "started_at": at.isoformat(),
        "services": {"chat": {"wishes": [[at.isoformat(), 3]], "last_out": at.isoformat(), "last_in": None}},
        "pools": {
            "base": {"next_serial": 4, "failed_until": at.isoformat(), "failures": 2, "failed_why": "x", "counted": []},
            "burst": {"next_serial": 7, "failed_until": None, "failures": 0, "counted": ["burst-6"]},
        },
    }
    assert memory_from(old) == Memory(
        started_at=at,
        services={ServiceName("chat"): ServiceMemory(wishes=((at, 3),), last_out=at)},
        pools={
            PoolName("base"): PoolMemory(next_serial=4, back_offs={"default": BackOff(at, 2, why="x")}),
            PoolName("burst"): PoolMemory(next_serial=7, counted=(ReplicaId("burst-6"),)),
        },
    )


def test_a_layout_of_which_no_reading_can_be_made_is_refused() -> None:
    """It would break every later read of the host."""
    from fakes.store_batches import HOST, layout_of

    keys = [SeriesKey("engine", "vllm-0", "ttft_bucket", "0", "wide")]
    with pytest.raises(ValueError, match="cannot be read"):
        read_layout(HOST, layout_of(keys))
    twice = [SeriesKey("engine", "vllm-0", "state"), SeriesKey("engine", "vllm-0", "state")]
    with pytest.raises(ValueError, match="names a series twice"):
        read_layout(HOST, layout_of(twice))
