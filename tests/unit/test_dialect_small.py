"""TGI, LMDeploy and llama.cpp: what each one calls what, and what none of them has."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fakes.engine_pages import AT, capture, counters, gauges, json, text

from tidegate.model.reading import Basis, Counter, Distribution, EngineKind, EngineState, Gauge, Missing, Rank
from tidegate.model.window import EngineWindow, engine_window

R0, R1 = Rank("0"), Rank("1")


# TGI


def test_tgi() -> None:
    """Counters without `_total`, tokens as sums of histograms, steps over both methods."""
    reading = capture("tgi/load.prom")

    assert (reading.kind, reading.model, reading.problems) == (EngineKind.TGI, None, ())
    assert gauges(reading) == {Gauge.RUNNING: 7.0, Gauge.QUEUE_DEPTH: 4.0}
    assert counters(reading) == {
        Counter.REQUESTS: 60.0,
        Counter.FINISHED: 50.0,
        Counter.ABORTED: 3.0,
        Counter.ADMISSION_REJECTIONS: 5.0,
        Counter.ERRORS: 7.0,
        Counter.PROMPT_TOKENS: 10000.0,
        Counter.GENERATION_TOKENS: 5000.0,
        Counter.STEPS: 2040.0,
    }


def test_tgi_has_no_first_token_no_cache_and_no_hit_rate() -> None:
    """They stay missing: nothing is pieced together from other histograms."""
    reading = capture("tgi/load.prom")

    assert {which for which, _ in reading.histograms} == {Distribution.E2E, Distribution.TPOT}
    assert reading.histograms[Distribution.E2E, R0].sum == 75.0


def test_tgi_before_the_first_failure() -> None:
    """The family appears with it: no error is not known, so it is not 0."""
    assert counters(text("tgi_request_success 3\n")) == {Counter.FINISHED: 3.0}


# LMDeploy


def test_lmdeploy_counts_both_queues() -> None:
    """Requests that wait for a handle are in front of the engine, which knows nothing of them."""
    reading = capture("lmdeploy/0.18.prom")

    assert (reading.kind, reading.model, reading.kv_usage_basis) == (EngineKind.LMDEPLOY, "m", Basis.BLOCKS)
    assert reading.gauges == {
        (Gauge.RUNNING, R0): 3.0,
        (Gauge.RUNNING, R1): 2.0,
        (Gauge.QUEUE_DEPTH, R0): 6.0,
        (Gauge.QUEUE_DEPTH, R1): 2.0,
        (Gauge.KV_CACHE_USAGE, R0): 0.5,
        (Gauge.KV_CACHE_USAGE, R1): 0.25,
    }


def test_lmdeploys_gauges_that_are_totals() -> None:
    """`num_requests_succeeded` and `_failed` are declared gauges and only ever rise."""
    found = capture("lmdeploy/0.18.prom").counters

    assert (found[Counter.FINISHED, R0], found[Counter.FINISHED, R1]) == (40.0, 44.0)
    assert (found[Counter.ERRORS, R0], found[Counter.ERRORS, R1]) == (1.0, 0.0)


def test_lmdeploys_tokens_and_times() -> None:
    """Hits of prompt tokens; the first token of each answer is not decoded."""
    reading = capture("lmdeploy/0.18.prom")
    found = reading.counters

    assert (found[Counter.CACHE_QUERIES, R1], found[Counter.CACHE_HITS, R1]) == (3000.0, 900.0)
    assert (found[Counter.DECODE_TOKENS, R0], found[Counter.DECODE_SECONDS, R0]) == (440.0, 22.0)
    assert found[Counter.STEPS, R0] == 700.0
    assert {which for which, _ in reading.histograms} == {Distribution.ITL, Distribution.TPOT}
    assert not any(gauge is Gauge.CACHE_HIT_RATE for gauge, _ in reading.gauges)


def test_lmdeploy_before_it_counted_cached_tokens() -> None:
    """Only then is its own share since the start read; `num_requests_finished` is the older name."""
    reading = text(
        "lmdeploy:prefix_cache_hit_rate 0.4\nlmdeploy:num_requests_finished 5\nlmdeploy:num_requests_waiting 1\n"
    )

    assert gauges(reading) == {Gauge.QUEUE_DEPTH: 1.0, Gauge.CACHE_HIT_RATE: 0.4}
    assert counters(reading) == {Counter.FINISHED: 5.0}


# llama.cpp


def test_llama_cpp_reads_no_average_and_no_watermark() -> None:
    """The queue is `requests_deferred`; two gauges are averages since anybody's last look."""
    page = (
        "llamacpp:prompt_tokens_total 100\nllamacpp:prompt_tokens_cached_total 300\nllamacpp:prompt_seconds_total 2\n"
        "llamacpp:tokens_predicted_total 50\nllamacpp:tokens_predicted_seconds_total 5\nllamacpp:n_decode_total 60\n"
        "llamacpp:n_tokens_max 900\nllamacpp:prompt_tokens_seconds 777\nllamacpp:predicted_tokens_seconds 888\n"
        "llamacpp:requests_processing 4\nllamacpp:requests_deferred 46\nllamacpp:n_busy_slots_per_decode 3.9\n"
    )
    reading = text(page)

    assert gauges(reading) == {Gauge.RUNNING: 4.0, Gauge.QUEUE_DEPTH: 46.0}
    assert counters(reading) == {
        Counter.PROMPT_TOKENS: 100.0,
        Counter.COMPUTED_PROMPT_TOKENS: 100.0,
        Counter.CACHED_PROMPT_TOKENS: 300.0,
        Counter.CACHE_QUERIES: 400.0,
        Counter.CACHE_HITS: 300.0,
        Counter.GENERATION_TOKENS: 50.0,
        Counter.DECODE_TOKENS: 50.0,
        Counter.PREFILL_SECONDS: 2.0,
        Counter.DECODE_SECONDS: 5.0,
        Counter.STEPS: 60.0,
    }
    assert (reading.histograms, reading.model) == ({}, None)


def test_llama_cpp_six_digits_hide_small_movements() -> None:
    """Said, and a step counter that stands still for minutes does not make a busy server look dead."""
    readings = [capture("llamacpp/long-lived.prom", seconds) for seconds in (0.0, 60.0)]
    window = engine_window(readings)

    assert readings[0].problems == (
        "prompt_tokens has six digits and moves by 1,000: rates are as coarse",
        "generation_tokens has six digits and moves by 10,000: rates are as coarse",
    )
    assert Counter.STEPS not in counters(readings[0])
    assert isinstance(window, EngineWindow)
    assert window.progressing


def test_llama_cpp_that_does_not_decode_is_not_progressing() -> None:
    """Slots are busy and not one call of the model in a minute."""
    page = "llamacpp:requests_processing 2\nllamacpp:n_decode_total 60\nllamacpp:tokens_predicted_total 5\n"
    window = engine_window([text(page), text(page, 60.0)])

    assert isinstance(window, EngineWindow)
    assert not window.progressing


@pytest.mark.parametrize(
    ("code", "state", "words"),
    [
        (501, EngineState.DISABLED, "start llama.cpp with --metrics"),
        (503, EngineState.STARTING, "loading its model"),
        (400, EngineState.MALFORMED, "?model=NAME"),
        (418, EngineState.MALFORMED, "JSON, not metrics"),
    ],
)
def test_llama_cpps_refusals(code: int, state: EngineState, words: str) -> None:
    """The JSON of its errors has the code in it."""
    reading = json(f'{{"error":{{"code":{code},"message":"no","type":"x"}}}}')

    assert reading.state is state
    assert words in reading.problems[0]


@pytest.mark.parametrize("page", ['{"error":"x"}', '{"error":{"code":"501"}}', '{"error":{"code":[501]}}', "{}"])
def test_other_errors_in_json_are_nobodys(page: str) -> None:
    """Another server's words do not pass for llama.cpp's."""
    assert json(page).state is EngineState.MALFORMED


def test_nothing_is_zero_because_it_is_not_there() -> None:
    """One family each, and nothing else comes of it."""
    for page in ("tgi_queue_size 0\n", "lmdeploy:num_requests_running 0\n", "llamacpp:requests_deferred 0\n"):
        reading = text(page)
        assert (list(reading.gauges.values()), reading.counters, reading.histograms) == ([0.0], {}, {})
        assert reading.at == AT + timedelta()
        assert not any(isinstance(value, Missing) for value in reading.gauges.values())
