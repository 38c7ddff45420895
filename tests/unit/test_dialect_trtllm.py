"""TensorRT-LLM: the page of text under its three spellings, and the JSON of iteration statistics."""

from __future__ import annotations

import json as json_module

import pytest
from fakes.engine_pages import capture, counters, gauges, json, means, text

from tidegate.model.reading import (
    Basis,
    Counter,
    Distribution,
    EngineKind,
    EngineState,
    Gap,
    Gauge,
    GpuCountSource,
    Missing,
    Rank,
)
from tidegate.model.window import EngineWindow, engine_window
from tidegate.observe.body import Origin

_AT_PROMETHEUS = Origin(path="/prometheus/metrics")


# The page of text


def test_running_means_active_and_pids_are_one_gauge() -> None:
    """Active requests, the ones that wait for the batch too; of processes old and new the highest."""
    found = gauges(capture("trtllm/1.3-a.prom"))

    assert found == {Gauge.RUNNING: 40.0, Gauge.QUEUE_DEPTH: 5.0, Gauge.KV_CACHE_USAGE: 0.25}


def test_the_figures_of_a_pair() -> None:
    """Tokens, both bases of the hit rate, tiers: increases, and nothing of the engine's own rates."""
    first, second = capture("trtllm/1.3-a.prom"), capture("trtllm/1.3-b.prom", 10.0)
    window = engine_window([first, second])

    assert isinstance(window, EngineWindow)
    assert (window.partial, window.progressing) == (False, True)
    assert window.increases == {
        Counter.PROMPT_TOKENS: 2000.0,
        Counter.CACHED_PROMPT_TOKENS: 1000.0,
        Counter.CACHE_QUERIES: 2000.0,
        Counter.CACHE_HITS: 1000.0,
        Counter.GENERATION_TOKENS: 1000.0,
        Counter.CACHE_HITS_DEVICE: 800.0,
        Counter.CACHE_HITS_HOST: 200.0,
        Counter.CACHE_HITS_DISK: 0.0,
        Counter.CACHE_HITS_EXTERNAL: 0.0,
        Counter.CACHE_BLOCK_HITS: 30.0,
        Counter.CACHE_BLOCK_QUERIES: 60.0,
        Counter.FINISHED: 10.0,
        Counter.ABORTED: 0.0,
        Counter.ERRORS: 0.0,
        Counter.PREFILL_SECONDS: 0.0,
        Counter.DECODE_SECONDS: 0.0,
        Counter.WORK: 10.0,
    }
    assert window.distributions[Distribution.TTFT].counts == (5.0, 10.0, 10.0)


def test_how_requests_end() -> None:
    """A cancelled one is aborted, one that ran out of time failed, and failures have a counter of their own."""
    found = counters(capture("trtllm/1.3-a.prom"))

    assert (found[Counter.FINISHED], found[Counter.ABORTED], found[Counter.ERRORS]) == (90.0, 4.0, 3.0)


def test_where_requests_are_not_counted_iterations_say_how_many_completed() -> None:
    """`return_perf_metrics` is off."""
    found = counters(text("trtllm_num_requests_completed_total 7\ntrtllm_num_requests_running 1\n"))

    assert found == {Counter.FINISHED: 7.0}


def test_the_engine_says_its_gpus_and_its_model() -> None:
    """Tensor times pipeline parallelism; attention-DP ranks share those GPUs."""
    reading = capture("trtllm/1.3-a.prom")

    assert (reading.gpus, reading.gpus_source, reading.model) == (8, GpuCountSource.ENGINE, "m")
    assert reading.kv_usage_basis is Basis.BLOCKS


@pytest.mark.parametrize("size", ["", "0", "-4", "x", "9" * 400, "1.5"])
def test_a_size_that_is_none_counts_no_gpus(size: str) -> None:
    """Then the configuration or the processes say."""
    page = f'trtllm_parallel_config_info{{tp_size="{size}",pp_size="2"}} 1\ntrtllm_num_requests_running 0\n'

    assert text(page).gpus is None


@pytest.mark.parametrize("prefix", ["trtllm_", "trtllm:", ""])
def test_the_prefix_is_optional(prefix: str) -> None:
    """It came, changed and went (TRT-LLM#11768, #12545); without one the path tells."""
    page = (
        f'{prefix}request_success_total{{finished_reason="stop"}} 3\n'
        f"{prefix}num_requests_running 2\n{prefix}prompt_tokens_total 30\n"
    )
    reading = text(page, origin=_AT_PROMETHEUS)

    assert reading.kind is EngineKind.TENSORRT_LLM
    assert gauges(reading) == {Gauge.RUNNING: 2.0}
    assert counters(reading)[Counter.PROMPT_TOKENS] == 30.0
    assert counters(reading)[Counter.FINISHED] == 3.0


def test_the_five_families_of_old_releases() -> None:
    """No gauge at all; "undefined" is no model."""
    reading = capture("trtllm/1.0.prom", origin=_AT_PROMETHEUS)

    assert (reading.kind, reading.state, reading.model) == (EngineKind.TENSORRT_LLM, EngineState.READY, None)
    assert (gauges(reading), counters(reading)) == (
        {},
        {Counter.FINISHED: 10.0, Counter.ABORTED: 0.0, Counter.ERRORS: 0.0},
    )
    assert set(means(reading)) == {Distribution.TTFT, Distribution.TPOT, Distribution.E2E, Distribution.QUEUE_TIME}
    assert means(reading)[Distribution.E2E] == 0.5


def test_families_without_a_prefix_are_nobodys_elsewhere() -> None:
    """A page at another path may be anything."""
    assert capture("trtllm/1.0.prom", origin=Origin(path="/metrics")).state is EngineState.MALFORMED


def test_the_hit_rate_before_the_first_hit() -> None:
    """The counter of cached tokens appears with the first hit, the histogram beside it with the first request."""
    page = "trtllm_prompt_tokens_total 100\ntrtllm_prompt_cached_tokens_per_request_sum 0\n"
    found = counters(text(page))

    assert (found[Counter.CACHE_QUERIES], found[Counter.CACHE_HITS]) == (100.0, 0.0)


def test_usage_from_blocks_where_there_is_no_share() -> None:
    """Used of all; of no blocks there is none."""
    page = "trtllm_kv_cache_used_blocks 30\ntrtllm_kv_cache_max_blocks {}\n"

    assert gauges(text(page.format(120))) == {Gauge.KV_CACHE_USAGE: 0.25}
    assert gauges(text(page.format(0))) == {Gauge.KV_CACHE_USAGE: Missing(Gap.NOT_REPORTED)}
    assert gauges(text(page.format("NaN"))) == {Gauge.KV_CACHE_USAGE: Missing(Gap.NOT_FINITE)}


def test_an_unknown_tier_is_said() -> None:
    """And its tokens are in no tier."""
    reading = text('trtllm_prompt_cache_hit_tokens_total{cache_tier="tape"} 5\ntrtllm_num_requests_running 0\n')

    assert "'tape'" in reading.problems[0]
    assert set(counters(reading).values()) == {0.0}


def test_one_long_answer_is_no_hanging_core() -> None:
    """Tokens are counted when a request ends: blocks for new tokens show that it goes on."""
    page = (
        "trtllm_num_requests_running 1\ntrtllm_prompt_tokens_total 100\n"
        "trtllm_generation_tokens_total 50\ntrtllm_kv_cache_gen_alloc_blocks_total {}\n"
    )

    def progressing(*pages: str) -> bool:
        window = engine_window([text(page, 60.0 * number) for number, page in enumerate(pages)])
        assert isinstance(window, EngineWindow)
        return window.progressing

    assert progressing(page.format(5), page.format(9))
    assert not progressing(page.format(5), page.format(5))
    without = page.replace("trtllm_kv_cache_gen_alloc_blocks_total {}\n", "")
    assert progressing(without, without)  # nothing proves that it hangs


# The JSON of iteration statistics


def test_the_newest_iteration_is_read() -> None:
    """The last row; what a row counts of itself is not added up, and no share since the start is read."""
    reading = capture("trtllm/iterations.json")

    assert (reading.kind, reading.state, reading.problems) == (EngineKind.TENSORRT_LLM, EngineState.READY, ())
    assert gauges(reading) == {Gauge.RUNNING: 5.0, Gauge.QUEUE_DEPTH: 2.0, Gauge.KV_CACHE_USAGE: 0.5}
    assert counters(reading) == {
        Counter.STEPS: 1201.0,
        Counter.CACHE_BLOCK_HITS: 360.0,
        Counter.CACHE_BLOCK_QUERIES: 1100.0,
    }
    assert "takes them from every other reader" in reading.hints[0]


def test_the_hit_rate_is_of_the_window_not_of_the_engines_life() -> None:
    """60 of 100 blocks between the two rows, whatever the engine's own rate (TRT-LLM#12132)."""
    rows = json_module.loads(_rows())
    window = engine_window([json(json_module.dumps([row]), 5.0 * number) for number, row in enumerate(rows)])

    assert isinstance(window, EngineWindow)
    assert window.increases == {
        Counter.STEPS: 1.0,
        Counter.CACHE_BLOCK_HITS: 60.0,
        Counter.CACHE_BLOCK_QUERIES: 100.0,
    }


def _rows() -> str:
    return json_module.dumps(
        [
            {"iter": number, "kvCacheStats": {"reusedBlocks": reused, "missedBlocks": missed, "cacheHitRate": 0.01}}
            for number, reused, missed in ((1, 300, 700), (2, 360, 740))
        ]
    )


def test_no_iteration_is_neither_zero_nor_down() -> None:
    """Idle, read by somebody else, or switched off: which of them nobody can tell (TRT-LLM#4926, #13405)."""
    reading = json("[]")

    assert (reading.kind, reading.state) == (EngineKind.TENSORRT_LLM, EngineState.READY)
    assert set(gauges(reading).values()) == {Missing(Gap.NOT_REPORTED)}
    assert counters(reading) == {}
    assert "idle, read by somebody else, or enable_iter_perf_stats is off" in reading.problems[0]


def test_attention_dp_ranks_are_kept_apart_and_the_queue_is_rank_0s() -> None:
    """Queued requests of the other ranks are not valid (TRT-LLM#13649)."""
    row = {"iter": 9, "numActiveRequests": 2, "numQueuedRequests": 7}
    reading = json(json_module.dumps([{**row, "attentionDpRank": rank} for rank in (1, 0)]))

    assert reading.gauges == {
        (Gauge.RUNNING, Rank("0")): 2.0,
        (Gauge.RUNNING, Rank("1")): 2.0,
        (Gauge.QUEUE_DEPTH, Rank("0")): 7.0,
    }


@pytest.mark.parametrize("value", ['"3"', "-1", "true", "NaN", "1e999", "1" + 400 * "0", "[]"])
def test_what_is_no_count_is_said(value: str) -> None:
    """Not read, and not zero."""
    reading = json(f'[{{"iter": 1, "numActiveRequests": {value}}}]')

    assert gauges(reading) == {Gauge.RUNNING: Missing(Gap.MALFORMED)}
    assert reading.problems == ("numActiveRequests is no count",)


@pytest.mark.parametrize("page", ['[{"request_id": 1}]', "[1]", '{"iter": 1}', '[{"iter": 1}, 2]'])
def test_other_json_is_nobodys(page: str) -> None:
    """Per-request records too: reading those takes them away as well (TRT-LLM#6985)."""
    assert json(page).state is EngineState.MALFORMED
