"""The guard of the energy counter: what it lets through never runs faster than the power limit allows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.missing import Gap, Missing, Number
from tidegate.observe.gpu_energy import HIGHEST_WATTS, Energy, believed

START = datetime(2026, 11, 25, tzinfo=UTC)
STEP = timedelta(seconds=15)
LIMIT = 700.0
STEPS = st.lists(st.sampled_from([0.0, 100.0, LIMIT * 15, 1e9, 1e12, -1e9]) | st.floats(0, LIMIT * 20), max_size=30)


def told(*counters: float, limit: Number = LIMIT) -> list[Number]:
    state: Energy | None = None
    values = []
    for place, joules in enumerate(counters):
        state, value = believed(state, joules, START + place * STEP, limit)
        values.append(value)
    return values


@given(st.floats(0, 1e6), STEPS)
def test_no_increase_is_beyond_what_the_limit_allows(first: float, steps: list[float]) -> None:
    counters = [first]
    for step in steps:
        counters.append(max(0.0, counters[-1] + step))
    values = told(*counters)

    assert len(values) == len(counters)
    last, since = values[0], 0
    for place, (raw, before, value) in enumerate(zip(counters[1:], counters, values[1:], strict=False), 1):
        if isinstance(value, Missing):
            continue
        assert not isinstance(last, Missing)
        seconds = (place - since) * STEP.total_seconds()
        started_afresh = raw < before or value < last
        assert started_afresh or value - last <= LIMIT * 1.5 * (seconds + 10) + 1.0
        last, since = value, place


def test_a_plain_counter_stands_as_it_is() -> None:
    assert told(10.0, 4000.0, 9000.0) == [10.0, 4000.0, 9000.0]


def test_a_jump_that_comes_back_was_never_there() -> None:
    assert told(10.0, 1e12, 4000.0) == [10.0, Missing(Gap.MALFORMED), 4000.0]


def test_a_jump_that_stays_is_taken_off_from_then_on() -> None:
    assert told(10.0, 1e9, 1e9 + 500, 1e9 + 800) == [10.0, Missing(Gap.MALFORMED), 510.0, 810.0]


def test_a_counter_that_starts_afresh_is_a_reset_and_drops_what_was_taken_off() -> None:
    assert told(10.0, 1e9, 1e9 + 500, 3.0, 5.0)[-2:] == [3.0, 5.0]


def test_after_a_long_silence_much_may_have_been_used() -> None:
    state, _ = believed(None, 0.0, START, LIMIT)
    _, value = believed(state, LIMIT * 3600, START + timedelta(hours=1), LIMIT)

    assert value == LIMIT * 3600


def test_without_a_limit_the_highest_of_all_gpus_holds() -> None:
    most = HIGHEST_WATTS * 15
    assert told(0.0, most, limit=Missing(Gap.NOT_SUPPORTED)) == [0.0, most]
    assert told(0.0, 10 * most, limit=Missing(Gap.NOT_SUPPORTED))[1] == Missing(Gap.MALFORMED)
