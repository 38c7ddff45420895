"""SGLang's dialect: ranks, queues, three sources of tokens, and the gauges that are not to be believed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.model.figures import Figure, basis, figures
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
    Missing,
    Rank,
)
from tidegate.model.window import EngineWindow, engine_window
from tidegate.observe.body import read_body

_AT = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
R0, R1 = Rank("0"), Rank("1")
_TOKENIZER = 'model_name="m",engine_type="unified"'


def read(text: str, seconds: float = 0.0, content_type: str = "text/plain") -> EngineReading:
    return read_body(EngineName("e"), text.encode(), _AT + timedelta(seconds=seconds), content_type)


def scheduler(dp: int | None = None, tp: int = 0, pp: int = 0, **more: str) -> str:
    """The labels of a scheduler's series."""
    labels = {"tp_rank": tp, "pp_rank": pp} | ({} if dp is None else {"dp_rank": dp}) | more
    return ",".join([_TOKENIZER, *(f'{name}="{value}"' for name, value in labels.items())])


def lines(labels: str, **values: float) -> str:
    return "".join(f"sglang:{name}{{{labels}}} {value}\n" for name, value in values.items())


def modes(name: str, labels: str, **values: float) -> str:
    return "".join(f'sglang:{name}{{{labels},mode="{mode}"}} {value}\n' for mode, value in values.items())


def histogram(name: str, count: float, labels: str = _TOKENIZER) -> str:
    return (
        f'sglang:{name}_bucket{{{labels},le="0.5"}} {count / 2}\nsglang:{name}_bucket{{{labels},le="+Inf"}} {count}\n'
        f"sglang:{name}_sum{{{labels}}} {count}\nsglang:{name}_count{{{labels}}} {count}\n"
    )


def seen(text: str) -> dict[Figure, float | Missing]:
    return figures([read(text)])


# Ranks


def test_one_scheduler_of_each_data_parallel_rank_is_read() -> None:
    """With metrics of all schedulers each figure comes tp times pp times."""
    page = "".join(
        lines(scheduler(dp, tp, pp, moe_ep_rank=str(tp)), num_running_reqs=4 + dp, token_usage=0.2 + dp / 10)
        for dp in (0, 1)
        for pp in (0, 1)
        for tp in (0, 1)
    )
    found = read(page)

    assert found.gauges[Gauge.RUNNING, R0] == 4.0
    assert found.gauges[Gauge.RUNNING, R1] == 5.0
    assert figures([found])[Figure.RUNNING] == 9.0
    assert figures([found])[Figure.KV_CACHE_USAGE] == pytest.approx(0.3)
    assert figures([found])[Figure.KV_CACHE_USAGE_MEAN] == pytest.approx(0.25)


def test_the_first_pipeline_stage_comes_before_the_first_tensor_rank() -> None:
    """Lowest `pp_rank`, then lowest `tp_rank`, as numbers: 10 is not before 2."""
    page = lines(scheduler(0, tp=0, pp=10), num_running_reqs=1) + lines(scheduler(0, tp=3, pp=2), num_running_reqs=7)

    assert seen(page)[Figure.RUNNING] == 7.0


def test_with_attention_parallelism_each_data_rank_has_another_tensor_rank() -> None:
    page = lines(scheduler(0, tp=0), num_queue_reqs=2) + lines(scheduler(1, tp=4), num_queue_reqs=3)

    assert seen(page)[Figure.QUEUE_DEPTH] == 5.0


def test_the_queue_time_of_every_tensor_rank_is_counted_once() -> None:
    """Each rank observes it, whatever the metrics flag says."""
    page = "".join(histogram("queue_time_seconds", 8, scheduler(0, tp)) for tp in range(4))

    assert read(page).histograms[Distribution.QUEUE_TIME, R0].count == 8.0


def test_workers_behind_a_router_keep_apart() -> None:
    """sglang-router passes their series on with underscores and `worker_addr`."""
    page = "".join(
        f'sglang_num_running_reqs{{model_name="m",worker_addr="{worker}",tp_rank="0"}} {running}\n'
        for worker, running in (("http://a", 2), ("http://b", 3))
    )

    assert {rank for _, rank in read(page).gauges} == {"http://a/0", "http://b/0"}
    assert seen(page)[Figure.RUNNING] == 5.0


def test_before_the_rank_labels_there_is_one_series() -> None:
    """Up to 0.4.9; before 0.4 the model's label was `name`."""
    found = read('sglang:num_running_reqs{name="old"} 3\nsglang:prompt_tokens_total{name="old"} 9\n')

    assert found.model == "old"
    assert found.gauges[Gauge.RUNNING, R0] == 3.0


# Queues


def test_the_depth_is_every_queue_and_each_queue_is_told() -> None:
    """What is being moved waits for nobody and is not in the depth."""
    found = seen(
        lines(scheduler(), num_queue_reqs=1, num_grammar_queue_reqs=2, num_prefill_bootstrap_queue_reqs=4)
        + lines(scheduler(), num_decode_prealloc_queue_reqs=8, num_decode_transfer_queue_reqs=16)
        + lines(scheduler(), num_prefill_inflight_queue_reqs=32, num_decode_host_receive_queue_reqs=64)
    )

    assert found[Figure.QUEUE_DEPTH] == 31.0
    assert [found[name] for name in _QUEUES] == [2.0, 4.0, 32.0, 8.0, 16.0, 64.0]


_QUEUES = (
    Figure.GRAMMAR_QUEUE,
    Figure.PREFILL_BOOTSTRAP_QUEUE,
    Figure.PREFILL_INFLIGHT_QUEUE,
    Figure.DECODE_PREALLOC_QUEUE,
    Figure.DECODE_TRANSFER_QUEUE,
    Figure.DECODE_RECEIVE_QUEUE,
)


def test_the_older_names_of_the_queues() -> None:
    """Prealloc became bootstrap in 0.5.12, and 0.4.10 spelt inflight without its l."""
    found = seen(lines(scheduler(), num_prefill_prealloc_queue_reqs=4, num_prefill_infight_queue_reqs=5))
    both = seen(lines(scheduler(), num_prefill_prealloc_queue_reqs=4, num_prefill_bootstrap_queue_reqs=4))

    assert (found[Figure.PREFILL_BOOTSTRAP_QUEUE], found[Figure.PREFILL_INFLIGHT_QUEUE]) == (4.0, 5.0)
    assert both[Figure.QUEUE_DEPTH] == 4.0


# Tokens

_EFFECTIVE = modes("prefill_effective_tokens_total", scheduler(), input=40, device_hit=30, host_hit=20, storage_hit=10)
_REALTIME = modes("realtime_tokens_total", scheduler(), prefill_compute=60, prefill_cache=90, decode=500)
_FINISHED = lines(_TOKENIZER, prompt_tokens_total=80, generation_tokens_total=400) + (
    f'sglang:cached_tokens_total{{{_TOKENIZER},cache_source="device"}} 25\n'
    f'sglang:cached_tokens_total{{{_TOKENIZER},cache_source="host"}} 5\n'
    f'sglang:cached_tokens_total{{{_TOKENIZER},cache_source="total"}} 2\n'
)


@pytest.mark.parametrize(
    ("page", "queries", "hits", "computed", "generated"),
    [
        (_EFFECTIVE + _REALTIME + _FINISHED, 100.0, 60.0, 60.0, 500.0),
        (_REALTIME + _FINISHED, 150.0, 90.0, 60.0, 500.0),
        (_FINISHED, 80.0, 32.0, 48.0, 400.0),
    ],
    ids=["since 0.5.18", "since 0.5.7", "before"],
)
def test_the_best_source_of_tokens_is_read(
    page: str, queries: float, hits: float, computed: float, generated: float
) -> None:
    """The figures of one page come from one source; retracted work is computed again, and queried once."""
    found = read(page).counters

    assert found[Counter.CACHE_QUERIES, R0] == found[Counter.PROMPT_TOKENS, R0] == queries
    assert found[Counter.CACHE_HITS, R0] == found[Counter.CACHED_PROMPT_TOKENS, R0] == hits
    assert found[Counter.COMPUTED_PROMPT_TOKENS, R0] == computed
    assert found[Counter.GENERATION_TOKENS, R0] == generated


def test_hits_by_tier() -> None:
    """From the source that has them; "total" is what has no known source, and no tier."""
    tiers = (Counter.CACHE_HITS_DEVICE, Counter.CACHE_HITS_HOST, Counter.CACHE_HITS_DISK)

    assert [read(_EFFECTIVE + _FINISHED).counters[tier, R0] for tier in tiers] == [30.0, 20.0, 10.0]
    assert [read(_FINISHED).counters[tier, R0] for tier in tiers] == [25.0, 5.0, 0.0]


def test_before_the_sources_were_told_there_are_no_tiers() -> None:
    """0.4.4 to 0.5.8: a number of cached tokens, from wherever."""
    found = read(lines(_TOKENIZER, prompt_tokens_total=80, cached_tokens_total=20)).counters

    assert found[Counter.CACHE_HITS, R0] == 20.0
    assert (Counter.CACHE_HITS_DEVICE, R0) not in found


def test_the_first_token_of_each_request_is_generated_too() -> None:
    """Prefill makes it, so it is in no decode batch: without it long prompts with short answers look idle."""
    found = read(_REALTIME + histogram("time_to_first_token_seconds", 20)).counters

    assert found[Counter.GENERATION_TOKENS, R0] == 520.0


def test_a_first_token_count_that_cannot_be_read_leaves_no_half_sum() -> None:
    """It would look like a counter that fell."""
    page = _REALTIME + f"sglang:time_to_first_token_seconds_count{{{_TOKENIZER}}} ???\n"

    assert (Counter.GENERATION_TOKENS, R0) not in read(page).counters


def test_a_decode_node_claims_no_prompt_tokens() -> None:
    """Both nodes of a pair count a prompt when it finishes; batch by batch only the one that prefilled it does."""
    decode = scheduler().replace("unified", "decode")
    page = modes("realtime_tokens_total", decode, decode=500) + lines(decode, num_running_reqs=3) + _FINISHED
    found = read(page)

    assert found.counters[Counter.PROMPT_TOKENS, R0] == 0.0
    assert found.counters[Counter.GENERATION_TOKENS, R0] == 500.0
    assert "decode side of a prefill/decode pair" in found.hints


def test_the_hit_rate_gauge_is_never_read() -> None:
    """Every report of a decode batch sets it to 0."""
    found = read(lines(scheduler(), cache_hit_rate=0.9, num_running_reqs=1))

    assert figures([found])[Figure.KV_CACHE_HIT_RATE] == Missing(Gap.NOT_SUPPORTED)
    assert basis(Figure.KV_CACHE_USAGE, found) is Basis.TOKENS


def test_more_hits_than_lookups_stop_at_one_and_are_told() -> None:
    """Seen on decode nodes (sglang#25972)."""
    zero = lines(_TOKENIZER, prompt_tokens_total=0, cached_tokens_total=0)
    second = lines(_TOKENIZER, prompt_tokens_total=10, cached_tokens_total=30)
    readings = [read(zero), read(second, 10.0)]
    window = engine_window(readings)

    assert figures(readings)[Figure.KV_CACHE_HIT_RATE] == 1.0
    assert isinstance(window, EngineWindow)
    assert "more cache hits than lookups" in window.notes[0]


# Requests


def test_retractions_are_preemptions() -> None:
    """A counter since 0.5.7; the gauge of that name tells of the last interval, once for each process that was."""
    gauge = "".join(lines(scheduler(pid=str(pid)), num_retracted_reqs=9) for pid in (1, 2))
    found = read(_REALTIME + gauge + lines(scheduler(), num_retracted_requests_total=3)).counters

    assert found[Counter.PREEMPTIONS, R0] == 3.0


def test_events_that_did_not_happen_yet_are_none() -> None:
    """Their series begin with the first one; what is counted beside them proves that the counting is on."""
    finished = lines(_TOKENIZER, num_requests_total=5) + lines(scheduler(), num_grammar_queue_reqs=0)

    assert read(finished).counters[Counter.ABORTED, R0] == 0.0
    assert read(finished + _REALTIME).counters[Counter.PREEMPTIONS, R0] == 0.0
    assert (Counter.ABORTED, R0) not in read(lines(_TOKENIZER, num_requests_total=5)).counters  # before 0.4.10
    assert (Counter.PREEMPTIONS, R0) not in read(_FINISHED).counters
    assert read(lines(scheduler(), num_grammar_queue_reqs=0)).counters == {}


def test_failed_moves_and_retries_of_a_pair() -> None:
    """Whichever of the two failures there is."""
    one = lines(scheduler(), num_transfer_failed_reqs_total=2)
    both = one + lines(scheduler(), num_bootstrap_failed_reqs_total=3, num_prefill_retries_total=4)

    assert read(one).counters[Counter.KV_TRANSFER_FAILURES, R0] == 2.0
    assert read(both).counters[Counter.KV_TRANSFER_FAILURES, R0] == 5.0
    assert read(both).counters[Counter.RETRIES, R0] == 4.0


def test_a_gauge_that_became_a_histogram_is_no_count() -> None:
    """`kv_transfer_latency_ms` up to 0.5.9."""
    assert read(lines(scheduler(), kv_transfer_latency_ms=12.5, num_running_reqs=1)).counters == {}
    assert read(histogram("kv_transfer_latency_ms", 6, scheduler())).counters[Counter.KV_TRANSFERS, R0] == 6.0


def test_server_errors_are_counted_by_status() -> None:
    page = "".join(
        f'sglang:http_responses_total{{endpoint="/generate",method="POST",status_code="{code}"}} {count}\n'
        for code, count in ((200, 9), (400, 4), (500, 1), (503, 2))
    )

    assert read(page).counters[Counter.HTTP_ERRORS, R0] == 3.0


def test_priorities_and_streaming_are_added_up() -> None:
    """Labels of the tokenizer's own, from 0.5.18 on."""
    page = "".join(
        histogram("time_to_first_token_seconds", 4, f'{_TOKENIZER},is_streaming="{flag}",priority="{level}"')
        for flag in ("true", "false")
        for level in (0, 1)
    )

    assert read(page).histograms[Distribution.TTFT, R0].count == 16.0


# Gauges that are not to be believed


def test_values_that_no_gauge_has_are_missing() -> None:
    """NaN without a window, -1 on prefill nodes."""
    found = read(
        lines(scheduler(), token_usage=float("nan"), num_running_reqs=-1, utilization=-1, fwd_occupancy=float("nan"))
    )

    assert found.gauges[Gauge.KV_CACHE_USAGE, R0] == Missing(Gap.NOT_FINITE)
    assert found.gauges[Gauge.RUNNING, R0] == Missing(Gap.MALFORMED)


_ACTIVE = 'sglang:http_requests_active{{endpoint="{path}",method="POST"}} {count}\n'
_IDLE = _ACTIVE.format(path="/v1/completions", count=0) + _ACTIVE.format(path="/metrics", count=1)


def test_gauges_of_requests_that_nobody_holds_are_stale() -> None:
    """Idle schedulers renew them every 30 seconds; the web server knows at once."""
    found = read(lines(scheduler(), num_running_reqs=5, num_queue_reqs=0) + _IDLE)

    assert found.gauges[Gauge.RUNNING, R0] == Missing(Gap.STALE)
    assert "older than that" in found.problems[0]


def test_gauges_of_zero_that_nobody_holds_are_zero() -> None:
    found = read(lines(scheduler(), num_running_reqs=0, num_queue_reqs=0) + _IDLE)

    assert (found.gauges[Gauge.RUNNING, R0], found.gauges[Gauge.HELD, R0]) == (0.0, 0.0)
    assert found.problems == ()


def test_a_scheduler_that_stopped_before_it_said_anything_is_not_progressing() -> None:
    """Its gauges say 0 for ever, and the web server holds eight requests."""
    page = (
        lines(scheduler(), num_running_reqs=0, num_queue_reqs=0)
        + _REALTIME
        + _ACTIVE.format(path="/v1/chat/completions", count=8)
    )
    found = figures([read(page), read(page, 15.0)])

    assert found[Figure.RUNNING] == Missing(Gap.STALE)
    assert found[Figure.HELD] == 8.0


# Pages


def test_families_that_do_not_exist_yet_are_not_zero() -> None:
    """Before the first request there are gauges alone."""
    found = read(lines(scheduler(), num_running_reqs=0, num_queue_reqs=0, token_usage=0))

    assert (found.kind, found.state) == (EngineKind.SGLANG, EngineState.READY)
    assert found.counters == {}
    assert figures([found])[Figure.FINISHED] == Missing(Gap.NOT_SUPPORTED)
    assert figures([found])[Figure.RUNNING] == 0.0


def test_underscores_under_colon_types_are_the_same_page() -> None:
    """What prometheus_client answers to an OpenMetrics request."""
    page = (
        "# TYPE sglang:prompt_tokens counter\nsglang_prompt_tokens_total 5\nsglang_prompt_tokens_created 1.7e9\n# EOF\n"
    )
    found = read(page, content_type="application/openmetrics-text; version=1.0.0")

    assert found.counters == {(Counter.PROMPT_TOKENS, R0): 5.0, (Counter.CACHE_QUERIES, R0): 5.0}
