"""The step model keeps its own laws: nothing is lost, nothing is left over, and a step costs what the formula says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.simulate.engine import Calibration, Engine, Request
from tidegate.simulate.tally import TTFT_BOUNDS, quantile

ROOMY = Calibration()
CRAMPED = Calibration(kv_tokens=3000, batch_limit=8)
"""So little cache that sequences are preempted."""

requests = st.lists(
    st.tuples(st.floats(0, 20), st.integers(1, 2500), st.integers(1, 400)), min_size=1, max_size=30
).map(sorted)


def played(rows: list[tuple[float, int, int]], calibration: Calibration, stride: float) -> tuple[Engine, list[Request]]:
    engine, made, at = Engine(calibration, 0.0), [], 0.0
    for arrival, prompt, out in rows:
        while at + stride < arrival:
            at += stride
            engine.advance(at)
        engine.advance(arrival)
        made.append(Request(arrival, prompt, out))
        engine.add(made[-1], arrival)
    engine.advance(1e6)
    return engine, made


@given(requests, st.sampled_from([ROOMY, CRAMPED]))
def test_every_request_ends_and_leaves_nothing_behind(
    rows: list[tuple[float, int, int]], calibration: Calibration
) -> None:
    engine, made = played(rows, calibration, 100.0)
    assert all(request.at < request.first <= request.end < math.inf for request in made)
    assert engine.tally.finished == len(made) == len(engine.finished)
    assert engine.tally.generated == sum(request.out for request in made)
    assert engine.tally.prompt == sum(request.prompt for request in made)
    assert (engine.in_flight, engine.outstanding, engine.kv_usage) == (0, 0, 0.0)


@given(requests)
@settings(max_examples=30)
def test_looking_more_often_changes_next_to_nothing(rows: list[tuple[float, int, int]]) -> None:
    """Runs of decode steps are taken in closed form; single steps come to the same."""
    _, rarely = played(rows, ROOMY, 100.0)
    _, often = played(rows, ROOMY, 0.25)
    for one, other in zip(rarely, often, strict=True):
        assert one.end == pytest.approx(other.end, abs=0.05)


def test_one_request_alone_takes_what_the_formula_says() -> None:
    engine = Engine(ROOMY, 0.0)
    request = Request(0.0, 1000, 3)
    engine.add(request, 0.0)
    engine.advance(100.0)
    attention = 384 * 384 + 384 * 768 + 232 * 1000
    assert request.first == pytest.approx(3 * 0.018 + 1000 * 85e-6 + attention * 1e-9)
    decode = sum(0.018 + 0.15e-3 + kv * 50e-9 for kv in (1001, 1002))
    assert request.end - request.first == pytest.approx(decode)


def test_time_per_token_at_a_steady_load_is_t0_over_one_minus_the_work() -> None:
    engine, made = Engine(ROOMY, 0.0), []
    for index in range(1200):
        at = index / 4
        engine.advance(at)
        made.append(Request(at, 800, 150))
        engine.add(made[-1], at)
    engine.advance(1e5)
    work = 4 * (800 * 85e-6 + 150 * (0.15e-3 + 875 * 50e-9))
    steady = [request.tpot for request in made[200:1000]]
    assert sum(steady) / len(steady) == pytest.approx(0.018 / (1 - work), rel=0.05)


def test_a_cached_prompt_costs_its_rest_alone() -> None:
    engine = Engine(ROOMY, 0.0)
    request = Request(0.0, 1000, 1, cached=900)
    engine.add(request, 0.0)
    engine.advance(10.0)
    assert request.first == pytest.approx(0.018 + 100 * 85e-6 + 100 * 1000 * 1e-9)
    assert (engine.tally.prompt, engine.tally.cached) == (1000, 900)


def test_a_stop_hands_over_what_is_unfinished() -> None:
    engine, made = Engine(ROOMY, 0.0), [Request(0.0, 500, 1000) for _ in range(5)]
    for request in made:
        engine.add(request, 0.0)
    engine.advance(1.0)
    assert set(engine.take_all()) == set(made)
    assert engine.in_flight == 0
    assert made[0].tpot == math.inf


def test_quantiles_are_those_of_a_histogram() -> None:
    before = [0] * (len(TTFT_BOUNDS) + 1)
    after = list(before)
    after[9] = 100  # between 0.25 and 0.5 s
    assert quantile(TTFT_BOUNDS, before, after, 0.95) == pytest.approx(0.25 + 0.25 * 0.95 * 100 / 100, abs=0.26)
    assert quantile(TTFT_BOUNDS, after, after, 0.95) is None
    after[-1] = 10_000
    assert quantile(TTFT_BOUNDS, before, after, 0.95) == TTFT_BOUNDS[-1]
