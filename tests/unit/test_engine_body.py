"""One body of a metrics page: vLLM's dialect with its synonyms and oddities, and a named state for everything else."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    Rank,
)
from tidegate.observe.body import body_parser, read_body
from tidegate.observe.textformat import Limits

_AT = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
_CAPTURES = Path(__file__).parents[1] / "captures"
R0, R1 = Rank("0"), Rank("1")


def read(text: str, content_type: str = "text/plain") -> EngineReading:
    return read_body(EngineName("e"), text.encode(), _AT, content_type)


# vLLM's dialect


@pytest.mark.parametrize(
    ("older", "newer", "gauge"),
    [("vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc", Gauge.KV_CACHE_USAGE)],
)
def test_synonyms_are_never_added(older: str, newer: str, gauge: Gauge) -> None:
    """Releases in between have both names; the newer one is read, whichever comes first."""
    both = f'{older}{{engine="0"}} 0.75\n{newer}{{engine="0"}} 0.5\n'

    assert read(both).gauges[gauge, R0] == 0.5
    assert read(f'{older}{{engine="0"}} 0.75\n').gauges[gauge, R0] == 0.75


def test_hits_and_queries_are_read_as_a_pair() -> None:
    """The older pair may count blocks and the newer one tokens: one of each has no ratio."""
    old = "vllm:gpu_prefix_cache_queries_total 10\nvllm:gpu_prefix_cache_hits_total 5\n"
    new = "vllm:prefix_cache_queries_total 160\nvllm:prefix_cache_hits_total 80\n"
    half = "vllm:prefix_cache_queries_total 160\n"
    prompts = "vllm:prompt_tokens_total 12\n"

    assert _lookups(old + prompts) == {Counter.CACHE_QUERIES: 10.0, Counter.CACHE_HITS: 5.0}
    assert _lookups(old + new + prompts) == {Counter.CACHE_QUERIES: 160.0, Counter.CACHE_HITS: 80.0}
    assert _lookups(old + half + prompts) == {}


def test_lookups_far_below_the_prompt_tokens_are_blocks() -> None:
    """0.7.3 to 0.8.5 counted blocks of 16 tokens under the name that counts tokens since 0.9.0."""
    lookups = "vllm:gpu_prefix_cache_queries_total 10\nvllm:gpu_prefix_cache_hits_total 5\n"

    assert _lookups(lookups + "vllm:prompt_tokens_total 165\n") == {
        Counter.CACHE_BLOCK_QUERIES: 10.0,
        Counter.CACHE_BLOCK_HITS: 5.0,
    }
    assert _lookups(lookups) == {}  # no prompt is through yet: either is possible


def _lookups(text: str) -> dict[Counter, float]:
    names = (Counter.CACHE_QUERIES, Counter.CACHE_HITS, Counter.CACHE_BLOCK_QUERIES, Counter.CACHE_BLOCK_HITS)
    return {counter: total for (counter, _), total in read(text).counters.items() if counter in names}


def test_inter_token_latency_under_its_older_name() -> None:
    """`time_per_output_token_seconds` was that, and stood beside the new name for two releases."""
    old = _histogram("vllm:time_per_output_token_seconds", 3)
    new = _histogram("vllm:inter_token_latency_seconds", 7)

    assert read(old).histograms[Distribution.ITL, R0].count == 3.0
    assert read(old + new).histograms[Distribution.ITL, R0].count == 7.0


def _histogram(name: str, count: int, labels: str = "") -> str:
    return (
        f'{name}_bucket{{{labels}le="0.1"}} 1\n{name}_bucket{{{labels}le="+Inf"}} {count}\n'
        f"{name}_sum{{{labels}}} 0.5\n{name}_count{{{labels}}} {count}\n"
    )


def test_how_requests_end() -> None:
    """The family called success counts aborts and errors too; a reason of a later release is an end like the others."""
    body = "".join(
        f'vllm:request_success_total{{engine="0",finished_reason="{reason}"}} {count}\n'
        for reason, count in (("stop", 10), ("length", 20), ("repetition", 30), ("abort", 2), ("error", 3), ("new", 40))
    )

    assert read(body).counters == {(Counter.FINISHED, R0): 100.0, (Counter.ABORTED, R0): 2.0, (Counter.ERRORS, R0): 3.0}


def test_requests_turned_away_are_errors() -> None:
    """They carry no rank, so the first rank has them."""
    body = (
        'vllm:request_success_total{engine="3",finished_reason="error"} 1\n'
        'vllm:admission_rejections_total{reason="max_num_queued_reqs"} 5\n'
        'vllm:admission_rejections_total{reason="max_num_queued_tokens"} 7\n'
    )

    assert read(body).counters == {(Counter.ERRORS, Rank("3")): 13.0, (Counter.ADMISSION_REJECTIONS, R0): 12.0}


def test_an_engine_that_counts_no_errors_does_not_have_zero_errors() -> None:
    """The label came with 0.13."""
    assert read('vllm:request_success_total{finished_reason="stop"} 1\n').counters == {(Counter.FINISHED, R0): 1.0}


def test_the_steps_are_a_histograms_count() -> None:
    """`iteration_tokens_total` is a histogram, in spite of its name."""
    assert read(_histogram("vllm:iteration_tokens_total", 9)).counters == {(Counter.STEPS, R0): 9.0}


def test_a_gauge_of_several_processes_is_their_highest() -> None:
    """A process that is gone leaves its last value behind under its `pid`."""
    body = 'vllm:num_requests_running{engine="0",pid="11"} 4\nvllm:num_requests_running{engine="0",pid="12"} 9\n'

    assert read(body).gauges == {(Gauge.RUNNING, R0): 9.0}


def test_several_model_names_add_up_and_are_said() -> None:
    """Requests are requests; the cache is as full as its fullest."""
    body = "".join(
        f'vllm:num_requests_running{{engine="0",model_name="{model}"}} 2\n'
        f'vllm:kv_cache_usage_perc{{engine="0",model_name="{model}"}} {usage}\n'
        f'vllm:generation_tokens_total{{engine="0",model_name="{model}"}} 100\n'
        + _histogram("vllm:e2e_request_latency_seconds", 2, f'model_name="{model}",')
        for model, usage in (("a", 0.2), ("b", 0.3))
    )

    found = read(body)

    assert found.gauges == {(Gauge.RUNNING, R0): 4.0, (Gauge.KV_CACHE_USAGE, R0): 0.3}
    assert found.counters == {(Counter.GENERATION_TOKENS, R0): 200.0}
    assert found.histograms[Distribution.E2E, R0].counts == (2.0, 4.0)
    assert found.model == "a"
    assert found.problems == ("several model names (a, b): their series are added up",)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("vllm:num_requests_running NaN", Gap.NOT_FINITE),
        ("vllm:num_requests_running +Inf", Gap.NOT_FINITE),
        ("vllm:num_requests_running -1", Gap.MALFORMED),
        ("vllm:num_requests_running one", Gap.MALFORMED),
    ],
)
def test_a_gauge_that_is_no_number_is_missing(line: str, why: Gap) -> None:
    """And said, with its name."""
    found = read(f"{line}\n")

    assert found.gauges == {(Gauge.RUNNING, R0): Missing(why)}
    assert any("vllm_num_requests_running" in problem for problem in found.problems)


def test_one_bad_series_spoils_its_ranks_sum() -> None:
    """Whichever of a rank's series it is; the other rank stays."""
    models = ('engine="0",model_name="a"', 'engine="0",model_name="b"', 'engine="1",model_name="a"')
    for order in ("NaN", "1"), ("1", "NaN"):
        body = "".join(f"vllm:num_requests_running{{{m}}} {v}\n" for m, v in zip(models, (*order, "7"), strict=True))
        assert read(body).gauges == {_RUNNING: Missing(Gap.NOT_FINITE), (Gauge.RUNNING, R1): 7.0}


_RUNNING = (Gauge.RUNNING, R0)


def test_a_share_over_one_is_missing() -> None:
    """Shims are known that say percent (66.7) under this name."""
    assert read("vllm:kv_cache_usage_perc 66.7\n").gauges == {(Gauge.KV_CACHE_USAGE, R0): Missing(Gap.MALFORMED)}


def test_a_counter_that_cannot_be_is_absent() -> None:
    """With all of its ranks: the engine's total without one of them would look like one that fell, and rose again."""
    body = (
        'vllm:generation_tokens_total{engine="0",model_name="a"} NaN\n'
        'vllm:generation_tokens_total{engine="0",model_name="b"} 5\n'
        'vllm:generation_tokens_total{engine="1",model_name="a"} 7\n'
        "vllm:prompt_tokens_total -3\n"
    )

    found = read(body)

    assert found.counters == {}
    assert "vllm_generation_tokens_total is nan: a counter is finite and not below zero" in found.problems
    assert "vllm_prompt_tokens_total is -3: a counter is finite and not below zero" in found.problems


@pytest.mark.parametrize(
    "cut",
    ['vllm:e2e_request_latency_seconds_bucket{le="+Inf"} 5\n', "vllm:e2e_request_latency_seconds_sum{} 0.5\n"],
)
def test_an_incomplete_histogram_is_absent(cut: str) -> None:
    """Without its last bucket or its sum it may be any part of the truth."""
    whole = _histogram("vllm:e2e_request_latency_seconds", 5)
    assert cut in whole

    found = read(whole.replace(cut, ""))

    assert found.histograms == {}
    incomplete = "vllm_e2e_request_latency_seconds is incomplete: a bucket, the sum or the count is not there"
    assert incomplete in found.problems


def test_a_bound_spelt_twice_counts_once() -> None:
    """1 and 1.0 are one bucket; a bound that is no number spoils the histogram."""
    whole = _histogram("vllm:e2e_request_latency_seconds", 5)
    twice = 'vllm:e2e_request_latency_seconds_bucket{le="0.10"} 1\n'
    wrong = 'vllm:e2e_request_latency_seconds_bucket{le="low"} 1\n'

    assert read(whole + twice).histograms[Distribution.E2E, R0].bounds == (0.1, float("inf"))
    assert read(whole + wrong).histograms == {}


def test_models_with_different_buckets_are_not_mixed() -> None:
    """The first stands, and it is said."""
    name = "vllm:e2e_request_latency_seconds"
    other = _histogram(name, 9, 'model_name="b",').replace('le="0.1"', 'le="0.2"')

    found = read(_histogram(name, 5, 'model_name="a",') + other)

    assert found.histograms[Distribution.E2E, R0].count == 5.0
    assert any("different bounds" in problem for problem in found.problems)


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (("num_requests_running", "kv_cache_usage_perc", "num_requests_waiting_by_reason"), "vLLM >= 0.22"),
        (("num_requests_running", "kv_cache_usage_perc"), "vLLM >= 0.9.2"),
        (("num_requests_running", "num_requests_swapped"), "vLLM with the V0 engine"),
    ],
)
def test_families_hint_at_the_release(names: tuple[str, ...], hint: str) -> None:
    """The newest that is proven."""
    assert read("".join(f"vllm:{name} 0\n" for name in names)).hints == (hint,)


def test_the_start_is_the_processs_or_the_oldest_counters() -> None:
    """Neither exists with several API servers."""
    tokens = "vllm:generation_tokens_total 5\n"
    created = 'vllm:generation_tokens_created{engine="0"} 1.8e9\nvllm:generation_tokens_created{engine="1"} 1.7e9\n'

    assert read(tokens).started is None
    assert read(tokens + created).started == 1.7e9
    assert read(tokens + created + "process_start_time_seconds 1.6e9\n").started == 1.6e9


def test_vllm_without_a_figure_says_so() -> None:
    """Some 0.8 releases logged nothing of their engine."""
    found = read("vllm:cache_config_info 1\n")

    assert (found.kind, found.state, found.gauges) == (EngineKind.VLLM, EngineState.READY, {})
    assert found.problems == ("vLLM shows none of the figures read here",)


# Named states

_SERVER = "python_info 1\nprocess_start_time_seconds 1.7e9\nhttp_requests_total 4\n"


@pytest.mark.parametrize(
    ("text", "content_type", "state", "word"),
    [
        ("", None, EngineState.EMPTY, "empty"),
        (" \n\n", "text/plain", EngineState.EMPTY, "empty"),
        ("# HELP vllm:x y\n# TYPE vllm:x gauge\n", None, EngineState.EMPTY, "not one sample"),
        ("<html><body>Not here</body></html>", None, EngineState.MALFORMED, "HTML"),
        ("\n <!doctype html>", "text/html", EngineState.MALFORMED, "HTML"),
        ('{"error":{"code":501,"message":"Start it with `--metrics`"}}', None, EngineState.DISABLED, "--metrics"),
        ("{}", "application/json", EngineState.MALFORMED, "JSON"),
        ('"x"', "application/json", EngineState.MALFORMED, "JSON"),
        ("1 2 3\n", None, EngineState.MALFORMED, "not in the Prometheus text format"),
        ("Internal Server Error\n", None, EngineState.MALFORMED, "no engine recognised"),
        ("node_load1 0.5\n", None, EngineState.MALFORMED, "no engine recognised"),
        (_SERVER, None, EngineState.DISABLED, "--disable-log-stats"),
        ("vllm:num_requests_running 3", None, EngineState.TRUNCATED, "cut"),
        ("vllm:num_requests_running 3\nvllm:num_req", None, EngineState.TRUNCATED, "cut"),
        ("vllm_num_requests_running 3\n", "application/openmetrics-text", EngineState.TRUNCATED, "cut"),
        ("sgl_router_requests_total 3\n", None, EngineState.UNSUPPORTED, "sglang-router before 0.3"),
        ("vllm:current_qps 3\nvllm:num_requests_running 3\n", None, EngineState.UNSUPPORTED, "behind it"),
        ("tidegate_nvml_up 1\n", None, EngineState.UNSUPPORTED, "Tidegate's own"),
    ],
)
def test_what_is_no_engines_page_has_a_name(text: str, content_type: str | None, state: EngineState, word: str) -> None:
    """Each with a state, words and not one figure."""
    found = read_body(EngineName("e"), text.encode(), _AT, content_type)

    assert found.state is state
    assert word in found.problems[0]
    assert (found.gauges, found.counters, found.histograms) == ({}, {}, {})


def test_an_engine_behind_another_page_is_recognised() -> None:
    """Dynamo and Triton pass vLLM's series on beside their own."""
    found = read("dynamo_component_requests_total 1\nvllm:num_requests_running 2\n")

    assert (found.kind, found.gauges) == (EngineKind.VLLM, {(Gauge.RUNNING, R0): 2.0})


def test_words_of_a_body_are_fit_for_a_log_line() -> None:
    """No control characters, and not all of it."""
    found = read("<\x1b[31m\n" + "x" * 5000)

    assert found.problems[0].isprintable()
    assert len(found.problems[0]) < 250


def test_a_models_name_carries_no_control_codes() -> None:
    """Whoever names a model writes to the terminal and the page of whoever looks at it; any script is kept."""
    page = 'vllm:num_requests_running{model_name="%s"} 1\n'
    one = read(page % "模型\x1b[31m\x00\\n7b")
    several = read(page % "a\x1b]0;title\x07" + page % ("b" * 5000))

    assert one.model == "模型 [31m  7b"
    assert all(text.isprintable() for text in (several.model or "", *several.problems))
    assert max(map(len, several.problems)) < 600


def test_a_body_over_the_limit_is_not_read() -> None:
    """22 MB were seen, of one label."""
    found = read_body(EngineName("e"), b"vllm:num_requests_running 3\n", _AT, parser=body_parser(Limits(body_bytes=10)))

    assert (found.state, found.gauges) == (EngineState.MALFORMED, {})
    assert "over 10 bytes" in found.problems[0]


def test_bad_lines_are_counted_in_words() -> None:
    """With the reason."""
    found = read("vllm:num_requests_running 3\nvllm:prompt_tokens_total{x} 1\n1 2\n")

    assert found.state is EngineState.READY
    assert found.problems == ("skipped: labels out of form (1 times)", "skipped: no metric name (1 times)")


# Anything at all


@given(st.binary(max_size=300) | st.text(st.sampled_from('vllm:num_requests_running{}="1\n #0.5'), max_size=80))
def test_any_body_has_a_state(body: bytes | str) -> None:
    """Nothing raises, and a state without words is READY."""
    found = read_body(EngineName("e"), body.encode() if isinstance(body, str) else body, _AT)

    assert (found.state is EngineState.READY) or found.problems


@pytest.mark.parametrize("name", ["two-ranks-b.prom", "openmetrics.prom"])
def test_every_prefix_has_a_state_and_no_number_of_its_own(name: str) -> None:
    """What a prefix gives is what the whole gives, or missing; a cut in the middle of a line is noticed."""
    whole = (_CAPTURES / name).read_bytes()
    full = read_body(EngineName("e"), whole, _AT)

    for end in range(len(whole)):
        body = whole[:end]
        found = read_body(EngineName("e"), body, _AT)
        given = {key: value for key, value in found.gauges.items() if not isinstance(value, Missing)}
        assert given.items() <= full.gauges.items(), end
        assert found.counters.items() <= full.counters.items(), end
        assert found.histograms.items() <= full.histograms.items(), end
        if found.state is EngineState.READY:
            assert body.endswith((b"\n", b"# EOF")), end
        else:
            assert found.state in _CUT, end
            assert (found.gauges, found.counters) == ({}, {}), end


_CUT = (EngineState.EMPTY, EngineState.TRUNCATED, EngineState.MALFORMED, EngineState.DISABLED)


def test_a_rank_that_a_cut_file_lacks_is_not_taken_for_idle() -> None:
    """The sum of the ranks that are there would be zero; over HTTP the length vouches for the end."""
    cut = b'vllm:num_requests_waiting{engine="0"} 2\nvllm:num_requests_running{engine="0"} 0\n'

    file = read_body(EngineName("e"), cut, _AT)

    assert file.gauges == {(Gauge.QUEUE_DEPTH, R0): 2.0, (Gauge.RUNNING, R0): Missing(Gap.MALFORMED)}
    assert "may be cut" in file.problems[0]
    assert read(cut.decode()).gauges[Gauge.RUNNING, R0] == 0.0


def test_an_openmetrics_body_that_was_cut_at_a_line_is_noticed() -> None:
    """By the TYPE lines of its counters, where the server did not say what it sends."""
    whole = (_CAPTURES / "openmetrics.prom").read_bytes()

    assert read_body(EngineName("e"), whole.removesuffix(b"# EOF\n"), _AT).state is EngineState.TRUNCATED


def test_both_formats_say_the_same() -> None:
    """The hand-written pages agree where they overlap."""
    text = read_body(EngineName("e"), (_CAPTURES / "two-ranks-b.prom").read_bytes(), _AT)
    openmetrics = read_body(EngineName("e"), (_CAPTURES / "openmetrics.prom").read_bytes(), _AT)

    assert openmetrics.state is EngineState.READY
    assert openmetrics.problems == ()
    assert openmetrics.gauges.items() <= text.gauges.items()
    assert openmetrics.counters.items() <= text.counters.items()
    assert openmetrics.histograms.items() <= text.histograms.items()
    assert openmetrics.histograms[Distribution.TTFT, R0] == Histogram(
        (0.1, 1.0, float("inf")), (11.0, 18.0, 18.0), 5.0, 18.0
    )
