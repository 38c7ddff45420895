"""Figures as rules over a window: tiers, bases, ranks, means, saturation, and what each says when it is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.figures import TIERS, Figure, basis, figures, saturated
from tidegate.model.reading import (
    Basis,
    Counter,
    Distribution,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    Gap,
    Gauge,
    Histogram,
    Missing,
    Number,
    Rank,
)
from tidegate.model.window import EngineWindow, engine_window, quantile

_AT = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
R0, R1 = Rank("0"), Rank("1")
NOT_SUPPORTED = Missing(Gap.NOT_SUPPORTED)


def reading(
    step: int,
    counters: Mapping[Counter, float] | None = None,
    gauges: Mapping[Gauge, Number] | None = None,
    histograms: Mapping[Distribution, Histogram] | None = None,
) -> EngineReading:
    """A reading of one rank at the step-th scrape, ten seconds apart."""
    return EngineReading(
        EngineName("e"),
        EngineKind.VLLM,
        EngineState.READY,
        _AT + timedelta(seconds=10 * step),
        {(name, R0): value for name, value in (gauges or {}).items()},
        {(name, R0): value for name, value in (counters or {}).items()},
        {(name, R0): value for name, value in (histograms or {}).items()},
    )


def between(before: Mapping[Counter, float], after: Mapping[Counter, float]) -> dict[Figure, Number]:
    return figures([reading(0, before), reading(1, after)])


_LOOKUPS = {Counter.CACHE_QUERIES: 0.0, Counter.CACHE_HITS: 0.0} | dict.fromkeys(TIERS.values(), 0.0)


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4), st.integers(1, 1000))
def test_the_tiers_are_shares_of_the_same_lookups(hits: list[int], missed: int) -> None:
    """So hot, warm and cold add up to no more than all."""
    total = float(sum(hits) + missed)
    after = {Counter.CACHE_QUERIES: total, Counter.CACHE_HITS: float(sum(hits))}
    after |= {counter: float(count) for counter, count in zip(TIERS.values(), hits, strict=True)}
    found = between(_LOOKUPS, after)

    assert [found[figure] for figure in TIERS] == [count / total for count in hits]
    assert found[Figure.KV_CACHE_HIT_RATE] == sum(hits) / total


@pytest.mark.parametrize(
    ("counters", "gauges", "value", "counted_in"),
    [
        ({Counter.CACHE_QUERIES: 4.0, Counter.CACHE_HITS: 1.0}, {Gauge.CACHE_HIT_RATE: 0.9}, 0.25, Basis.TOKENS),
        ({Counter.CACHE_BLOCK_QUERIES: 4.0, Counter.CACHE_BLOCK_HITS: 2.0}, {}, 0.5, Basis.BLOCKS),
        ({Counter.STEPS: 1.0}, {Gauge.CACHE_HIT_RATE: 0.9}, 0.9, Basis.LIFETIME),
        ({Counter.STEPS: 1.0}, {}, NOT_SUPPORTED, None),
    ],
)
def test_a_hit_rate_has_the_best_basis_there_is(
    counters: dict[Counter, float], gauges: dict[Gauge, Number], value: Number, counted_in: Basis | None
) -> None:
    """Tokens, else blocks, else what the engine says of its lifetime; the bases are never mixed."""
    last = reading(1, counters, gauges)

    assert figures([reading(0, dict.fromkeys(counters, 0.0)), last])[Figure.KV_CACHE_HIT_RATE] == value
    assert basis(Figure.KV_CACHE_HIT_RATE, last) is counted_in


def test_lifetime_shares_of_several_ranks_have_no_mean() -> None:
    """A mean of ratios is no ratio."""
    last = reading(0)
    gauges = {(Gauge.CACHE_HIT_RATE, R0): 0.1, (Gauge.CACHE_HIT_RATE, R1): 0.9}
    both = EngineReading(last.engine, last.kind, last.state, last.at, gauges)

    assert figures([both])[Figure.KV_CACHE_HIT_RATE] == NOT_SUPPORTED


def ranks(step: int, *tokens: float) -> EngineReading:
    counters = {(Counter.GENERATION_TOKENS, Rank(str(n))): total for n, total in enumerate(tokens)}
    last = reading(step)
    return EngineReading(last.engine, last.kind, last.state, last.at, counters=counters)


@pytest.mark.parametrize(
    ("work", "imbalance"),
    [((10.0, 10.0), 1.0), ((30.0, 10.0), 1.5), ((40.0, 0.0), 2.0), ((0.0, 0.0), Missing(Gap.NO_TRAFFIC))],
)
def test_imbalance_is_the_busiest_rank_over_the_mean(work: tuple[float, float], imbalance: Number) -> None:
    """1 is even; as many as there are ranks means that one does it all."""
    assert figures([ranks(0, 0.0, 0.0), ranks(1, *work)])[Figure.RANK_IMBALANCE] == imbalance


def test_one_rank_cannot_be_out_of_balance() -> None:
    assert figures([ranks(0, 0.0), ranks(1, 5.0)])[Figure.RANK_IMBALANCE] == NOT_SUPPORTED


def test_a_mean_needs_no_buckets() -> None:
    """Triton and llama.cpp give sums and counts."""
    nothing, some = Histogram((math.inf,), (0.0,), 0.0, 0.0), Histogram((math.inf,), (4.0,), 2.0, 4.0)
    found = figures(
        [reading(n, {Counter.STEPS: n}, histograms={Distribution.E2E: h}) for n, h in enumerate((nothing, some))]
    )

    assert found[Figure.E2E_MEAN] == 0.5
    assert found[Figure.E2E_P95] == NOT_SUPPORTED


def test_the_mean_time_per_token_prefers_counted_decode() -> None:
    """The histogram has one observation a request, whatever its length."""
    nothing, some = Histogram((1.0, math.inf), (0.0, 0.0), 0.0, 0.0), Histogram((1.0, math.inf), (2.0, 2.0), 1.0, 2.0)
    plain = [reading(n, {Counter.STEPS: n}, histograms={Distribution.TPOT: h}) for n, h in enumerate((nothing, some))]
    counted = [
        reading(n, {Counter.DECODE_SECONDS: 3.0 * n, Counter.DECODE_TOKENS: 30.0 * n}, histograms=dict(histograms))
        for n, histograms in enumerate(({Distribution.TPOT: nothing}, {Distribution.TPOT: some}))
    ]

    assert figures(plain)[Figure.TPOT_MEAN] == 0.5
    assert figures(counted)[Figure.TPOT_MEAN] == 0.1


_counts = st.lists(st.integers(0, 50), min_size=3, max_size=3).map(
    lambda steps: [sum(steps[: n + 1]) for n in range(3)]
)


@given(_counts)
def test_a_saturated_quantile_is_the_last_finite_bound(counts: list[int]) -> None:
    """And one that is not saturated lies within the buckets that hold it."""
    bounds = (0.1, 1.0, math.inf)
    histogram = Histogram(bounds, tuple(map(float, counts)), 0.0, float(counts[-1]))
    window = EngineWindow(1.0, {}, {Distribution.TTFT: histogram}, partial=False, progressing=True)
    beyond = saturated(window)

    for figure, q in ((Figure.TTFT_P50, 0.5), (Figure.TTFT_P90, 0.9), (Figure.TTFT_P99, 0.99)):
        value = quantile(histogram, q)
        assert (figure in beyond) == (counts[-1] > 0 and counts[1] < q * counts[-1])
        assert figure not in beyond or value == 1.0


def test_what_an_engine_does_not_have_is_not_stale() -> None:
    """A rank that stands still makes its gauges stale, not those that were never there, nor those of its web server."""
    page = {Gauge.RUNNING: 3.0, Gauge.HELD: 3.0}
    found = figures([reading(n, {Counter.STEPS: 7.0}, page) for n in range(2)])

    assert found[Figure.RUNNING] == Missing(Gap.STALE)
    assert found[Figure.HELD] == 3.0
    assert found[Figure.WAITING_DEFERRED] == NOT_SUPPORTED


def test_a_rare_event_that_shows_up_leaves_the_others_whole() -> None:
    """Its series begins with it: that one has no increase yet, and nothing else was lost."""
    readings = [reading(0, {Counter.STEPS: 1.0}), reading(1, {Counter.STEPS: 5.0, Counter.HTTP_ERRORS: 2.0})]
    window = engine_window(readings)

    assert isinstance(window, EngineWindow)
    assert (window.partial, window.notes) == (False, ())
    assert figures(readings)[Figure.HTTP_ERRORS] == Missing(Gap.ONE_SCRAPE)


@given(
    st.dictionaries(st.sampled_from(Counter), st.floats(0, 1e9), max_size=8),
    st.dictionaries(st.sampled_from(Counter), st.floats(0, 1e9), max_size=8),
    st.dictionaries(st.sampled_from(Gauge), st.floats(0, 1e9) | st.sampled_from(Gap).map(Missing), max_size=6),
)
def test_every_figure_is_a_finite_number_not_below_zero_or_a_reason(
    before: dict[Counter, float], after: dict[Counter, float], gauges: dict[Gauge, Number]
) -> None:
    """Whatever an engine counts, restarts, forgets."""
    found = figures([reading(0, before), reading(1, after, gauges)])

    assert found.keys() == set(Figure)
    assert all(isinstance(value, Missing) or (math.isfinite(value) and value >= 0) for value in found.values())
