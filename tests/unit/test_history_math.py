"""Arrays of the past against the same rules written as loops."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.history import Across, Aggregate
from tidegate.model.reading import Histogram, Missing
from tidegate.model.window import quantile
from tidegate.store.history_math import PARTS, bucketed, grouped, increments, quantiles, values_of, widened

NAN = math.nan
Row = list[float]
numbers = st.one_of(st.just(NAN), st.integers(0, 50).map(float))
ALL = ("sum", "count", "minimum", "maximum", "last", "increase")


@st.composite
def sampled(draw: st.DrawFn) -> tuple[list[Row], list[int], int]:
    """Rows of samples, the bucket of each (some outside), and the number of buckets."""
    buckets = draw(st.integers(1, 6))
    places = sorted(draw(st.lists(st.integers(-2, buckets + 1), min_size=0, max_size=25)))
    rows = [draw(st.lists(numbers, min_size=len(places), max_size=len(places))) for _ in range(draw(st.integers(1, 3)))]
    return rows, places, buckets


def slow_increments(row: Row) -> Row:
    found, last = [], NAN
    for value in row:
        found.append(NAN if math.isnan(value) or math.isnan(last) else value - last if value >= last else value)
        last = last if math.isnan(value) else value
    return found


def slow_part(name: str, row: Row, places: list[int], bucket: int) -> float:
    taken = slow_increments(row) if name == "increase" else row
    inside = [value for value, place in zip(taken, places, strict=True) if place == bucket and not math.isnan(value)]
    if not inside:
        return NAN
    rules = {"count": len, "minimum": min, "maximum": max, "last": lambda found: found[-1]}
    return float(rules.get(name, sum)(inside))


def same(found: Sequence[Sequence[float]] | np.ndarray, wanted: Sequence[Sequence[float]]) -> bool:
    return np.array_equal(np.asarray(found, float), np.asarray(wanted, float), equal_nan=True)


@given(sampled())
def test_buckets_are_what_a_loop_over_their_samples_gives(case: tuple[list[Row], list[int], int]) -> None:
    rows, places, buckets = case
    values = np.array(rows).reshape(len(rows), len(places))

    parts = bucketed(ALL, values, np.array(places, np.intp), buckets)

    for name in ALL:
        wanted = [[slow_part(name, row, places, bucket) for bucket in range(buckets)] for row in rows]
        assert same(parts[name], wanted), name


@given(sampled(), st.integers(1, 4))
def test_wider_buckets_are_what_the_samples_give_at_once(case: tuple[list[Row], list[int], int], factor: int) -> None:
    rows, places, buckets = case
    values = np.array(rows).reshape(len(rows), len(places))
    inside = [place for place in places if place < buckets * factor]
    values = values[:, : len(inside)]

    fine = bucketed(ALL, values, np.array(inside, np.intp), buckets * factor)
    coarse = bucketed(ALL, values, np.array([place // factor for place in inside], np.intp), buckets)

    for name, wide in widened(fine, factor).items():
        assert same(wide, coarse[name]), name


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=30))
def test_increases_are_never_negative_and_add_up_to_all_that_was_counted(steps: list[int]) -> None:
    total, truth, row = 0, 0, [0.0]
    for step in steps:
        if step % 7 == 0:
            total = 0
        total += step
        truth += step
        row.append(float(total))

    grown = increments(np.array([row]))[0]

    assert math.isnan(grown[0])
    assert (grown[1:] >= 0).all()
    assert grown[1:].sum() <= truth


def test_a_missing_sample_does_not_hide_what_was_counted_over_it() -> None:
    assert same(increments(np.array([[5.0, NAN, 9.0, 2.0]])), [[NAN, NAN, 4.0, 2.0]])


@pytest.mark.parametrize(
    ("aggregate", "wanted"),
    [
        (Aggregate.AVG, [2.0, NAN]),
        (Aggregate.SUM, [4.0, NAN]),
        (Aggregate.COUNT, [2.0, NAN]),
        (Aggregate.RATE, [0.5, NAN]),
    ],
)
def test_a_step_without_a_sample_has_no_value(aggregate: Aggregate, wanted: Row) -> None:
    parts = {"sum": np.array([[4.0, 0.0]]), "count": np.array([[2.0, 0.0]]), "increase": np.array([[5.0, NAN]])}

    assert same(values_of(aggregate, {name: parts[name] for name in PARTS[aggregate]}, 10.0), [wanted])


@given(st.lists(st.tuples(st.integers(0, 2), numbers), min_size=3, max_size=12), st.sampled_from(Across))
def test_groups_leave_out_series_without_a_value(rows: list[tuple[int, float]], across: Across) -> None:
    groups = [0, 1, 2, *(group for group, _ in rows)]
    values = [NAN, NAN, NAN, *(value for _, value in rows)]
    rules = {Across.SUM: sum, Across.MIN: min, Across.MAX: max, Across.AVG: lambda found: sum(found) / len(found)}

    found = grouped(np.array(values)[:, None], groups, 3, across)

    for group in range(3):
        inside = [v for g, v in zip(groups, values, strict=True) if g == group and not math.isnan(v)]
        wanted = rules[across](inside) if inside else NAN
        assert same(found[group : group + 1], [[wanted]])


@given(st.lists(st.integers(0, 9), min_size=2, max_size=6), st.sampled_from([0.5, 0.95, 0.99]))
def test_quantiles_are_those_of_one_histogram(steps: list[int], q: float) -> None:
    bounds = (*(0.5 * (1 + place) for place in range(len(steps) - 1)), math.inf)
    counts = np.cumsum(steps).astype(float)

    found = quantiles(bounds, counts[:, None], q)[0]
    wanted = quantile(Histogram(bounds, tuple(counts), 0.0, counts[-1]), q)

    assert math.isnan(found) if isinstance(wanted, Missing) else found == pytest.approx(wanted)


def test_a_distribution_that_was_not_read_has_no_quantile() -> None:
    assert np.isnan(quantiles((0.5, math.inf), np.array([[3.0], [NAN]]), 0.95)).all()
