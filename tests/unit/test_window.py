"""Figures over a window: increases by rank with restarts in any place, quantiles as PromQL's, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.figures import Figure, figures
from tidegate.model.increase import Increases, _Run, _runs, increases
from tidegate.model.reading import (
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
from tidegate.model.window import EngineWindow, engine_window, gauge, hit_rate, quantile, ratio

_AT = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
R0, R1 = Rank("0"), Rank("1")
TOKENS = Counter.GENERATION_TOKENS
Totals = Mapping[tuple[Counter, Rank], float]


def reading(
    step: int,
    counters: Totals | None = None,
    *,
    gauges: Mapping[tuple[Gauge, Rank], Number] | None = None,
    histograms: Mapping[tuple[Distribution, Rank], Histogram] | None = None,
    started: float | None = None,
    state: EngineState = EngineState.READY,
) -> EngineReading:
    """A reading at the step-th scrape, ten seconds apart."""
    return EngineReading(
        EngineName("e"),
        EngineKind.VLLM,
        state,
        _AT + timedelta(seconds=10 * step),
        gauges or {},
        counters or {},
        histograms or {},
        started,
    )


def window(readings: Sequence[EngineReading]) -> EngineWindow:
    found = engine_window(readings)
    assert isinstance(found, EngineWindow)
    return found


def one_rank(*totals: float | None, starts: Sequence[float | None] = ()) -> list[EngineReading]:
    """Readings of one rank's generated tokens; None is a scrape that failed."""
    return [
        reading(step, {} if total is None else {(TOKENS, R0): total}, started=starts[step] if starts else None)
        for step, total in enumerate(totals)
    ]


def histogram(*counts: float, bounds: Sequence[float] = (0.1, 1.0, math.inf)) -> Histogram:
    return Histogram(tuple(bounds), counts, counts[-1] / 4, counts[-1])


# Increases


def test_an_increase_is_the_sum_of_the_steps() -> None:
    """Nothing lost, nothing doubted."""
    found = window(one_rank(100, 150, 180))

    assert (found.increases[TOKENS], found.seconds, found.partial, found.notes) == (80.0, 20.0, False, ())


def test_a_failed_scrape_in_the_middle_costs_nothing() -> None:
    """A counter keeps counting while nobody looks."""
    found = window(one_rank(100, None, 180))

    assert (found.increases[TOKENS], found.partial) == (80.0, False)


def test_a_fall_is_a_restart_counted_from_zero() -> None:
    """What was counted between the last scrape and the restart nobody saw: a lower bound."""
    found = window(one_rank(100, 150, 30, 40))

    assert (found.increases[TOKENS], found.partial) == (50.0 + 30.0 + 10.0, True)
    assert found.notes == ("lower bounds: rank 0 restarted",)


def test_a_fall_of_a_sum_over_ranks_counts_nothing_of_the_others_past() -> None:
    """Two ranks at a million each, one of them restarts: the other's million was not made in this window."""
    totals = [2_000_000.0, 2_000_100.0, 1_000_060.0, 1_000_160.0]
    looks = [replace(reading(step, {(TOKENS, R0): total}), summed=True) for step, total in enumerate(totals)]
    found = window(looks)
    assert (found.increases[TOKENS], found.partial) == (200.0, True)


def test_a_new_process_counts_from_zero_in_a_sum_too() -> None:
    looks = [reading(0, {(TOKENS, R0): 500.0}, started=1.0), reading(1, {(TOKENS, R0): 40.0}, started=90.0)]
    found = window([replace(look, summed=True) for look in looks])
    assert (found.increases[TOKENS], found.partial) == (40.0, True)


def test_a_changed_start_is_a_restart_though_the_counter_is_higher() -> None:
    """The new process has overtaken the old one: all of its total belongs to the window."""
    found = window(one_rank(100, 130, starts=[1e9, 1e9 + 60]))

    assert (found.increases[TOKENS], found.partial) == (130.0, True)
    assert found.notes == ("lower bounds: the engine restarted",)


def test_the_clocks_jitter_is_no_restart() -> None:
    """Some kernels compute a process' start anew at each reading."""
    assert not window(one_rank(100, 130, starts=[1e9, 1e9 + 0.4])).partial


def test_only_the_rank_that_fell_began_again() -> None:
    """The other rank's lifetime is not counted a second time."""
    found = window(
        [
            reading(0, {(TOKENS, R0): 1000.0, (TOKENS, R1): 500.0}),
            reading(1, {(TOKENS, R0): 1010.0, (TOKENS, R1): 20.0}),
        ]
    )

    assert (found.increases[TOKENS], found.partial) == (10.0 + 20.0, True)


def test_all_counters_of_a_fallen_rank_began_again() -> None:
    """One that is higher than before by now was zero as well: a ratio of the two stays a ratio of one life."""
    hits, queries = Counter.CACHE_HITS, Counter.CACHE_QUERIES
    before = reading(0, {(hits, R0): 90.0, (queries, R0): 100.0})
    after = reading(1, {(hits, R0): 55.0, (queries, R0): 110.0})

    assert hit_rate(ratio(*(window([before, after]).increases[name] for name in (hits, queries)))) == 0.5


def test_a_rank_absent_in_the_middle_is_compared_with_its_last_sight() -> None:
    """Nothing is lost, and its lifetime is not counted when it is back."""
    both = {(TOKENS, R0): 100.0, (TOKENS, R1): 900.0}
    found = window(
        [
            reading(0, both),
            reading(1, {(TOKENS, R0): 110.0}),
            reading(2, {(TOKENS, R0): 120.0, (TOKENS, R1): 905.0}),
        ]
    )

    assert (found.increases[TOKENS], found.partial) == (25.0, False)


def test_a_rank_that_appears_adds_nothing_at_first() -> None:
    """How much of its total belongs to the window nobody knows."""
    found = window(
        [
            reading(0, {(TOKENS, R0): 100.0}),
            reading(1, {(TOKENS, R0): 110.0, (TOKENS, R1): 900.0}),
            reading(2, {(TOKENS, R0): 120.0, (TOKENS, R1): 907.0}),
        ]
    )

    assert found.increases[TOKENS] == 27.0
    assert found.notes == ("lower bounds: generation_tokens of rank 1 appeared inside the window",)


def test_a_rank_that_appears_after_a_restart_began_in_the_window() -> None:
    """The process that counts it is younger than the window."""
    found = window(
        [
            reading(0, {(TOKENS, R0): 100.0}, started=1e9),
            reading(1, {(TOKENS, R0): 5.0}, started=1e9 + 5),
            reading(2, {(TOKENS, R0): 6.0, (TOKENS, R1): 7.0}, started=1e9 + 5),
        ]
    )

    assert found.increases[TOKENS] == 13.0


def test_a_rank_that_is_gone_makes_the_window_partial() -> None:
    """What it did after its last sight is lost."""
    found = window([reading(0, {(TOKENS, R0): 1.0, (TOKENS, R1): 1.0}), reading(1, {(TOKENS, R0): 2.0})])

    assert found.notes == ("lower bounds: generation_tokens of rank 1 is missing at the end",)
    assert found.partial


def test_processes_that_answer_in_turn_are_not_restarts() -> None:
    """Their lifetimes would be counted again at each change."""
    found = window(one_rank(1000, 5000, 1010, 5020, starts=[1e9, 1e9 + 50, 1e9, 1e9 + 50]))

    assert (found.increases[TOKENS], found.partial) == (30.0, True)


def test_one_scrape_gives_no_window() -> None:
    """However many failed beside it."""
    assert engine_window(one_rank(100, None)) == Missing(Gap.ONE_SCRAPE)
    assert engine_window([]) == Missing(Gap.ONE_SCRAPE)


_lives = st.lists(st.lists(st.integers(0, 1000), min_size=1, max_size=6), min_size=1, max_size=4)


@given(_lives, st.booleans())
def test_restarts_in_any_place_never_invent_and_lose_only_what_nobody_saw(lives: list[list[int]], told: bool) -> None:
    """Increases stay between what was seen to happen and what happened, and never below zero.

    `told` is whether the engine says when it started.
    """
    totals: list[float] = []
    starts: list[float | None] = []
    for number, steps in enumerate(lives):
        total = 0
        for step in steps:
            total += step
            totals.append(float(total))
            starts.append(1e9 + 60 * number if told else None)
    happened = sum(map(sum, lives))

    found = engine_window(one_rank(*totals, starts=starts))

    if isinstance(found, Missing):
        return
    first = totals[0]
    assert 0 <= found.increases[TOKENS] <= happened - first
    if told or len(lives) == 1:
        assert found.increases[TOKENS] == happened - first
    assert found.partial >= (told and len(lives) > 1)


@given(
    st.lists(
        st.dictionaries(st.sampled_from([R0, R1]), st.floats(0, 1e9), min_size=1),
        min_size=2,
        max_size=8,
    )
)
def test_whatever_ranks_do_no_increase_is_negative(scrapes: list[dict[Rank, float]]) -> None:
    """Ranks come, go, restart and come back."""
    readings = [
        reading(
            step,
            {(name, rank): total for rank, total in ranks.items() for name in (TOKENS, Counter.STEPS)},
            histograms={(Distribution.TTFT, rank): histogram(total, total, total) for rank, total in ranks.items()},
        )
        for step, ranks in enumerate(scrapes)
    ]

    found = window(readings)

    assert all(increase >= 0 for increase in found.increases.values())
    assert all(min(step.counts) >= 0 <= step.sum for step in found.distributions.values())


# Histograms


def test_histograms_are_increases_summed_over_ranks() -> None:
    """Bucket by bucket."""
    ttft = Distribution.TTFT
    found = window(
        [
            reading(
                0, {(TOKENS, R0): 1.0}, histograms={(ttft, R0): histogram(1, 2, 3), (ttft, R1): histogram(0, 0, 1)}
            ),
            reading(
                1, {(TOKENS, R0): 1.0}, histograms={(ttft, R0): histogram(2, 4, 5), (ttft, R1): histogram(0, 1, 2)}
            ),
        ]
    )

    assert found.distributions[ttft].counts == (1.0, 3.0, 3.0)
    assert found.distributions[ttft].count == 3.0


def test_a_histogram_that_fell_is_a_restart_of_its_rank() -> None:
    """Of its counters too, though they are higher by now."""
    key = (Distribution.E2E, R0)
    found = window(
        [
            reading(0, {(TOKENS, R0): 10.0}, histograms={key: histogram(5, 9, 9)}),
            reading(1, {(TOKENS, R0): 12.0}, histograms={key: histogram(1, 2, 2)}),
        ]
    )

    assert found.distributions[Distribution.E2E].counts == (1.0, 2.0, 2.0)
    assert found.increases[TOKENS] == 12.0


def test_changed_buckets_are_left_out_and_said() -> None:
    """A histogram with other bounds has no increase over the earlier one."""
    key = (Distribution.E2E, R0)
    counters = {(TOKENS, R0): 10.0}
    found = window(
        [
            reading(0, counters, histograms={key: histogram(5, 9, 9)}),
            reading(1, counters, histograms={key: histogram(6, 10, 10, bounds=(0.2, 1.0, math.inf))}),
        ]
    )

    assert found.distributions == {}
    assert found.notes == ("lower bounds: the buckets of e2e of rank 0 changed",)


def test_a_rank_with_other_buckets_is_left_out_and_said() -> None:
    """Buckets of different bounds are never added."""
    counters = {(TOKENS, R0): 10.0}
    other = (0.2, 1.0, math.inf)

    def at(step: int, count: float) -> EngineReading:
        both = {
            (Distribution.E2E, R0): histogram(count, count, count),
            (Distribution.E2E, R1): histogram(count, count, count, bounds=other),
        }
        return reading(step, counters, histograms=both)

    found = window([at(0, 1), at(1, 3)])

    assert found.distributions[Distribution.E2E].counts == (2.0, 2.0, 2.0)
    assert found.notes == ("lower bounds: e2e of rank 1 has other buckets and is left out",)


def test_buckets_written_one_after_the_other_stay_monotone() -> None:
    """A scrape between two writes may show a bucket ahead of the next one."""
    assert histogram(4, 5, 9).minus(histogram(1, 4, 6)).counts == (3.0, 3.0, 3.0)


def test_histograms_of_different_bounds_do_not_mix() -> None:
    """Neither way."""
    one, other = histogram(1, 1, 1), histogram(1, 1, bounds=(1.0, math.inf))
    with pytest.raises(ValueError, match="bounds"):
        one.plus(other)
    with pytest.raises(ValueError, match="bounds"):
        one.minus(other)


# Quantiles and ratios


def promql(bounds: Sequence[float], counts: Sequence[float], q: float) -> float:
    """PromQL's bucketQuantile, step by step as in promql/quantile.go; NaN where it says NaN."""
    if not math.isinf(bounds[-1]) or len(bounds) < 2 or counts[-1] == 0:
        return math.nan
    rank = q * counts[-1]
    b = next((i for i in range(len(counts) - 1) if counts[i] >= rank), len(counts) - 1)
    if b == len(counts) - 1:
        return bounds[-2]
    if b == 0 and bounds[0] <= 0:
        return bounds[0]
    start, count = 0.0, counts[b]
    if b > 0:
        start, count, rank = bounds[b - 1], count - counts[b - 1], rank - counts[b - 1]
    return start + (bounds[b] - start) * (rank / count)


@st.composite
def _increases(draw: st.DrawFn) -> Histogram:
    bounds = [*sorted(draw(st.sets(st.floats(0.001, 100), min_size=1, max_size=6))), math.inf]
    steps = draw(st.lists(st.integers(0, 50), min_size=len(bounds), max_size=len(bounds)))
    counts = [float(sum(steps[: i + 1])) for i in range(len(steps))]
    return Histogram(tuple(bounds), tuple(counts), 1.0, counts[-1])


@given(_increases(), st.floats(0.001, 1))
def test_a_quantile_is_promqls(found: Histogram, q: float) -> None:
    """To the last digits; no traffic has no quantile."""
    ours, theirs = quantile(found, q), promql(found.bounds, found.counts, q)

    if isinstance(ours, Missing):
        assert (ours.why, math.isnan(theirs)) == (Gap.NO_TRAFFIC, True)
    else:
        assert ours == pytest.approx(theirs, rel=1e-9)


@given(_increases(), st.floats(0, 1), st.floats(0, 1))
def test_a_quantile_is_monotone_and_within_the_bounds(found: Histogram, one: float, other: float) -> None:
    """A higher share is never a shorter time; nothing is above the highest finite bound."""
    low, high = quantile(found, min(one, other)), quantile(found, max(one, other))

    if not isinstance(low, Missing) and not isinstance(high, Missing):
        assert 0 <= low <= high * (1 + 1e-12)
        assert high <= found.bounds[-2] * (1 + 1e-12)


def test_a_histogram_without_bounds_has_no_quantile() -> None:
    """One bucket up to infinity tells a count, no time."""
    assert quantile(Histogram((math.inf,), (5.0,), 1.0, 5.0), 0.5) == Missing(Gap.NOT_SUPPORTED)
    assert quantile(Histogram((), (), 0.0, 0.0), 0.5) == Missing(Gap.NOT_SUPPORTED)


@given(st.floats(0, 1e12), st.floats(0, 1e12))
def test_a_hit_rate_is_between_zero_and_one_or_unknown(hits: float, queries: float) -> None:
    """Even where the engine counts a hit more often than its query."""
    rate = hit_rate(ratio(hits, queries))

    assert rate == Missing(Gap.NO_TRAFFIC) if queries == 0 else 0 <= rate <= 1  # type: ignore[operator]


def test_a_ratio_needs_both_sides() -> None:
    """A counter that is not exported gives no ratio; neither does no traffic."""
    assert ratio(1.0, None) == ratio(None, 1.0) == Missing(Gap.NOT_SUPPORTED)
    assert ratio(0.0, 0.0) == Missing(Gap.NO_TRAFFIC)
    assert ratio(1.0, 4.0) == 0.25


# Progress and gauges

_BUSY = {(Gauge.RUNNING, R0): 5.0, (Gauge.QUEUE_DEPTH, R0): 10.0}


def test_standing_still_with_requests_is_not_progress() -> None:
    """A frozen engine answers as before: its gauges are stale, and that nothing was done is known."""
    frozen = [reading(step, {(TOKENS, R0): 50.0, (Counter.STEPS, R0): 9.0}, gauges=_BUSY) for step in (0, 1)]

    found, seen = window(frozen), figures(frozen)

    assert not found.progressing
    assert found.notes == ("not progressing: rank 0 has requests and did nothing for 10 s",)
    assert seen[Figure.RUNNING] == seen[Figure.QUEUE_DEPTH] == Missing(Gap.STALE)
    assert seen[Figure.GENERATION_TOKENS_PER_SECOND] == 0.0


def test_turning_requests_away_is_no_progress() -> None:
    """The front end counts errors and aborts without the engine's core."""
    found = window(
        [reading(step, {(Counter.STEPS, R0): 9.0, (Counter.ERRORS, R0): float(step)}, gauges=_BUSY) for step in (0, 1)]
    )

    assert not found.progressing


def test_one_stuck_rank_is_named() -> None:
    """The others' work does not vouch for its gauges."""
    busy = {(Gauge.RUNNING, rank): 5.0 for rank in (R0, R1)}
    found = window(
        [
            reading(0, {(Counter.STEPS, R0): 1.0, (Counter.STEPS, R1): 1.0}, gauges=busy),
            reading(1, {(Counter.STEPS, R0): 9.0, (Counter.STEPS, R1): 1.0}, gauges=busy),
        ]
    )

    assert not found.progressing
    assert "rank 1 " in found.notes[0]


@pytest.mark.parametrize("increase", [0.0, 1.0])
def test_counters_without_ranks_speak_for_all_ranks(increase: float) -> None:
    """Some releases label their gauges by rank and not their counters."""
    busy_rank = {(Gauge.RUNNING, R1): 5.0}
    first = reading(0, {(TOKENS, R0): 9.0}, gauges=busy_rank)
    last = reading(1, {(TOKENS, R0): 9.0 + increase}, gauges=busy_rank)

    assert window([first, last]).progressing is (increase > 0)


@pytest.mark.parametrize(("first", "last"), [({}, {}), (_BUSY, {}), ({}, _BUSY)])
def test_an_idle_end_is_no_standstill(
    first: Mapping[tuple[Gauge, Rank], Number], last: Mapping[tuple[Gauge, Rank], Number]
) -> None:
    """Nothing to do, just arrived, or just done."""
    counters = {(Counter.STEPS, R0): 9.0}

    assert window([reading(0, counters, gauges=first), reading(1, counters, gauges=last)]).progressing


def test_the_same_moment_twice_is_no_standstill() -> None:
    """A reading that reached us on two ways says nothing about progress."""
    same = reading(0, {(Counter.STEPS, R0): 9.0}, gauges=_BUSY)

    assert window([same, same]).progressing
    assert figures([same, same])[Figure.RUNNING] == 5.0


def test_gauges_add_up_over_ranks_but_the_fullest_cache_counts() -> None:
    """A request waits where its rank is full."""
    found = reading(
        0,
        gauges={
            (Gauge.RUNNING, R0): 2.0,
            (Gauge.RUNNING, R1): 3.0,
            (Gauge.KV_CACHE_USAGE, R0): 0.2,
            (Gauge.KV_CACHE_USAGE, R1): 0.9,
        },
    )

    assert gauge(found, Gauge.RUNNING) == 5.0
    assert gauge(found, Gauge.KV_CACHE_USAGE) == 0.9
    assert gauge(found, Gauge.QUEUE_DEPTH) == Missing(Gap.NOT_SUPPORTED)


def test_a_gauge_with_one_rank_missing_is_missing() -> None:
    """A sum of the rest would be too low."""
    found = reading(0, gauges={(Gauge.RUNNING, R0): 2.0, (Gauge.RUNNING, R1): Missing(Gap.NOT_FINITE)})

    assert gauge(found, Gauge.RUNNING) == Missing(Gap.NOT_FINITE)


# All figures


@pytest.mark.parametrize("state", [state for state in EngineState if state is not EngineState.READY])
def test_an_engine_that_is_not_ready_has_no_figure(state: EngineState) -> None:
    """Each is missing, with the reason."""
    seen = figures([reading(0, {(TOKENS, R0): 1.0}), reading(1, state=state)])

    assert seen.keys() == set(Figure)
    assert all(isinstance(value, Missing) for value in seen.values())


def test_one_reading_gives_gauges_and_asks_for_another() -> None:
    """Idle zeros are zeros; what the engine does not export stays apart from what needs a second look."""
    seen = figures([reading(0, {(TOKENS, R0): 0.0}, gauges={(Gauge.RUNNING, R0): 0.0})])

    assert seen[Figure.RUNNING] == 0.0
    assert seen[Figure.GENERATION_TOKENS_PER_SECOND] == Missing(Gap.ONE_SCRAPE)
    assert seen[Figure.PROMPT_TOKENS_PER_SECOND] == Missing(Gap.NOT_SUPPORTED)
    assert seen[Figure.TTFT_P95] == Missing(Gap.NOT_SUPPORTED)


def test_nothing_to_compare_with_is_not_zero() -> None:
    """A series that is new has no increase yet; one of another process none that counts."""
    new = [reading(0, {(TOKENS, R0): 1.0}), reading(1, {(TOKENS, R0): 1.0, (Counter.FINISHED, R0): 7.0})]
    back = one_rank(100, 200, starts=[1e9 + 60, 1e9])

    assert figures(new)[Figure.FINISHED] == Missing(Gap.RESET)
    assert figures(back)[Figure.GENERATION_TOKENS_PER_SECOND] == Missing(Gap.RESET)


def test_no_time_between_readings_gives_no_rate() -> None:
    """A clock that was set back gives none either; counts stay counts."""
    counters = {(TOKENS, R0): 5.0, (Counter.FINISHED, R0): 1.0}
    seen = figures([reading(1, counters), reading(0, {key: total + 2 for key, total in counters.items()})])

    assert seen[Figure.GENERATION_TOKENS_PER_SECOND] == Missing(Gap.ONE_SCRAPE)
    assert seen[Figure.FINISHED] == 2.0


_rounds = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), min_size=3, max_size=3), st.sampled_from([None, 100.0, 500.0]), st.integers(1, 7)
    ),
    min_size=1,
    max_size=5,
)


@given(_rounds)
def test_readings_without_a_disturbance_are_summed_up_as_all_others_are(
    rounds: list[tuple[list[int], float | None, int]],
) -> None:
    """The short way gives what the long way gives; `shown` is a bit for each of three series."""
    totals, readings = [0, 0, 0], []
    for place, (steps, started, shown) in enumerate(rounds):
        totals = [total + step if step < 3 else 0 for total, step in zip(totals, steps, strict=True)]  # 3: a restart
        named = ((Counter.STEPS, R0), (TOKENS, R0), (TOKENS, R1))
        seen = {key: float(totals[at]) for at, key in enumerate(named) if shown >> at & 1}
        buckets = Histogram((1.0, math.inf), (float(totals[0]), float(totals[0])), 1.0, float(totals[0]))
        histograms = {(Distribution.TTFT, R0): buckets} if shown & 1 else {}
        readings.append(reading(place, seen, histograms=histograms, started=started))
    long = Increases()
    for run in _runs(readings, long):
        _Run(run[0], long).follow(run)
    short = increases(readings)
    assert (short.counters, list(short.losses)) == (long.counters, list(long.losses))
    assert short.histograms == long.histograms
