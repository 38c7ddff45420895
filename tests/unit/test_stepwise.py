"""Counters by steps: the increases add up to what the samples say, through restarts and holes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.controller.stepwise import CounterSteps, aligned, either, fallen, increases, together
from tidegate.model.history import Across

Samples = list[list[float]]


def seen(steps: Sequence[Sequence[float]]) -> CounterSteps:
    """What a Prometheus says of the samples in each step."""

    def falls(values: Sequence[float]) -> float:
        return float(sum(later < earlier for earlier, later in pairwise(values)))

    return CounterSteps(
        last=[values[-1] if values else None for values in steps],
        low=[min(values) if values else None for values in steps],
        count=[float(len(values)) if values else None for values in steps],
        falls=[falls(values) if values else None for values in steps],
    )


def told(steps: Samples, *, summed: bool = False) -> list[float | None]:
    counter = seen(steps)
    return increases(counter, {place: steps[place] for place in fallen(counter)}, summed=summed)


@given(st.lists(st.lists(st.integers(0, 50).map(float), max_size=4), max_size=12))
def test_increases_are_those_of_the_samples_in_a_row(steps: Samples) -> None:
    flat = [value for values in steps for value in values]
    expected = sum(later - earlier if later >= earlier else later for earlier, later in pairwise(flat))
    assert sum(value or 0.0 for value in told(steps)) == pytest.approx(expected)
    assert all(value is None or value >= 0 for value in told(steps))


def test_a_step_without_a_sample_is_missing_and_what_follows_counts_all_since() -> None:
    assert told([[10.0, 20.0], [], [50.0]]) == [10.0, None, 30.0]


def test_a_single_sample_has_nothing_to_be_compared_with() -> None:
    assert told([[10.0], [12.0]]) == [None, 2.0]


def test_a_fall_counts_from_zero_but_in_a_sum_over_ranks() -> None:
    steps = [[100.0, 110.0], [60.0, 70.0]]
    assert told(steps) == [10.0, 70.0]
    assert told(steps, summed=True) == [10.0, 10.0]


def test_without_its_samples_a_fall_is_a_lower_bound() -> None:
    counter = seen([[100.0], [110.0, 5.0, 9.0]])
    assert fallen(counter) == [1]
    assert increases(counter, {}, summed=False) == [None, 9.0]


def test_a_step_that_ends_in_a_nan_needs_its_samples() -> None:
    counter = CounterSteps([10.0, None, 30.0], [10.0, 12.0, 25.0], [1.0, 3.0, 2.0], [0.0, 0.0, 0.0])
    assert fallen(counter) == [1]
    assert increases(counter, {1: [12.0, 17.0]}, summed=False) == [None, 7.0, 13.0]
    assert increases(counter, {}, summed=False) == [None, None, 20.0]


def test_series_are_put_together_over_those_that_have_a_value() -> None:
    series: list[list[float | None]] = [[1.0, None, 3.0], [5.0, None, None]]
    assert together(series, Across.SUM) == [6.0, None, 3.0]
    assert together(series, Across.AVG) == [3.0, None, 3.0]
    assert together(series, Across.MIN) == [1.0, None, 3.0]
    assert together(series, Across.MAX) == [5.0, None, 3.0]
    assert either(series) == [1.0, None, 3.0]


def test_points_are_laid_on_the_grid_and_what_is_no_number_is_missing() -> None:
    points = [(10.0, 1.0), (20.0, float("nan")), (30.0, float("inf"))]
    assert aligned(points, [10.0, 20.0, 30.0, 40.0]) == [1.0, None, None, None]
