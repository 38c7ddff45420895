"""The recent past in memory: bounded, in order, the same moment once."""

from __future__ import annotations

from datetime import datetime, timedelta

from fakes.controller_world import H1, H2, reading
from hypothesis import given
from hypothesis import strategies as st

from tidegate.controller.head import Head, most_readings

NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
QUARTER = timedelta(minutes=15)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_readings_come_back_in_order_whatever_order_they_came_in() -> None:
    """A backlog may arrive after the newest report."""
    head = Head(QUARTER)

    assert head.add([reading(H1, at(-10)), reading(H1, at(-40)), reading(H1, at(-25))], NOON) == 3

    assert [found.at for found in head.since(at(-60), NOON)[H1]] == [at(-40), at(-25), at(-10)]


def test_the_same_moment_is_one_reading() -> None:
    """A batch delivered twice does not count twice."""
    head = Head(QUARTER)

    head.add([reading(H1, at(-10))], NOON)

    assert head.add([reading(H1, at(-10))], NOON) == 0
    assert len(head) == 1


def test_a_span_excludes_its_beginning_and_includes_its_end() -> None:
    """Two windows side by side share no reading."""
    head = Head(QUARTER)
    head.add([reading(H1, at(-60)), reading(H1, NOON)], NOON)

    assert [found.at for found in head.since(at(-60), NOON)[H1]] == [NOON]


def test_what_is_older_than_the_span_is_not_kept_and_what_grows_old_is_let_go() -> None:
    """A spooled report of yesterday belongs to the store alone."""
    head = Head(timedelta(minutes=1))

    assert head.add([reading(H1, at(-120)), reading(H2, at(-30))], NOON) == 1
    head.add([], at(60))

    assert len(head) == 0
    assert head.since(at(-3600), at(3600)) == {}


def test_a_clock_that_is_far_ahead_pushes_no_true_reading_out() -> None:
    """Its readings are in the store; here they would be the newest for as long as it is wrong."""
    head = Head(QUARTER, 2)
    head.add([reading(H1, at(-20)), reading(H1, at(-10))], NOON)

    assert head.add([reading(H1, at(86_400 + age)) for age in range(3)], NOON) == 0

    assert [found.at for found in head.since(at(-60), at(90_000))[H1]] == [at(-20), at(-10)]


def test_a_long_window_is_held_whole() -> None:
    """A reading a second, for as long as the view is."""
    assert most_readings(timedelta(minutes=1)) == 1000
    assert most_readings(timedelta(hours=2)) == 7200


@given(st.lists(st.integers(-2000, 0), max_size=60), st.integers(1, 20))
def test_never_more_than_the_bound_per_host_and_always_the_newest(ages: list[int], bound: int) -> None:
    """Whatever a host sends, the memory is bounded and holds its newest readings."""
    head = Head(QUARTER, bound)
    for age in ages:
        head.add([reading(H1, at(age))], NOON)

    kept = [found.at for found in head.since(at(-10_000), NOON).get(H1, ())]

    recent = sorted({at(age) for age in ages if age >= -900})
    assert len(kept) <= bound
    assert kept == recent[-bound:] if len(recent) <= bound else kept[-1] == recent[-1]
