"""vLLM through its renames: for each release that changed a name or a meaning, a page of that shape."""

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
from tidegate.observe.body import read_body

_AT = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
R0 = Rank("0")


def read(text: str, content_type: str = "text/plain", seconds: float = 0.0) -> EngineReading:
    return read_body(EngineName("e"), text.encode(), _AT + timedelta(seconds=seconds), content_type)


def lines(labels: str, **values: float) -> str:
    return "".join(f"vllm:{name}{{{labels}}} {value}\n" for name, value in values.items())


def histogram(name: str, count: float, labels: str = 'model_name="m"') -> str:
    return (
        f'{name}_bucket{{{labels},le="0.5"}} {count / 2}\n{name}_bucket{{{labels},le="+Inf"}} {count}\n'
        f"{name}_sum{{{labels}}} {count}\n{name}_count{{{labels}}} {count}\n"
    )


# The V0 engine, up to 0.8.5

_V0 = 'model_name="m"'


def test_the_v0_engines_swapped_requests_wait() -> None:
    """Their KV cache lies in the host's memory; they are in no other count."""
    found = read(lines(_V0, num_requests_running=3, num_requests_waiting=2, num_requests_swapped=4))

    assert found.gauges[Gauge.QUEUE_DEPTH, R0] == 6.0
    assert found.gauges[Gauge.RUNNING, R0] == 3.0
    assert found.hints == ("vLLM with the V0 engine",)


def test_the_v0_engines_hit_rate_is_of_its_lifetime() -> None:
    """It has no counters: what it says is shown, with its basis."""
    found = read(lines(_V0, gpu_prefix_cache_hit_rate=0.25, gpu_cache_usage_perc=0.5, prompt_tokens_total=9))

    assert figures([found])[Figure.KV_CACHE_HIT_RATE] == 0.25
    assert basis(Figure.KV_CACHE_HIT_RATE, found) is Basis.LIFETIME
    assert figures([found])[Figure.KV_CACHE_USAGE] == 0.5


def test_a_hit_rate_below_zero_says_that_prefix_caching_is_off() -> None:
    """-1 is no rate, and not a bad value either."""
    found = read(lines(_V0, gpu_prefix_cache_hit_rate=-1, cpu_prefix_cache_hit_rate=-1, num_requests_swapped=0))

    assert figures([found])[Figure.KV_CACHE_HIT_RATE] == Missing(Gap.DISABLED)
    assert "prefix caching off" in found.hints
    assert found.problems == ()


def test_the_v0_engines_queue_time_had_another_name() -> None:
    assert read(histogram("vllm:time_in_queue_requests", 4)).histograms[Distribution.QUEUE_TIME, R0].count == 4.0


# The V1 engine

_V1 = 'engine="0",model_name="m"'


def test_both_names_of_a_release_are_one_figure() -> None:
    """0.9.2 to 0.10.2: KV usage and cache counters under both names; 0.10.2 to 0.11: inter-token latency too."""
    page = (
        lines(_V1, gpu_cache_usage_perc=0.5, kv_cache_usage_perc=0.5, prompt_tokens_total=100)
        + lines(_V1, gpu_prefix_cache_queries_total=100, gpu_prefix_cache_hits_total=50)
        + lines(_V1, prefix_cache_queries_total=100, prefix_cache_hits_total=50)
        + histogram("vllm:time_per_output_token_seconds", 8, _V1)
        + histogram("vllm:inter_token_latency_seconds", 8, _V1)
    )
    found = read(page)

    assert found.gauges[Gauge.KV_CACHE_USAGE, R0] == 0.5
    assert found.counters[Counter.CACHE_QUERIES, R0] == 100.0
    assert found.counters[Counter.CACHE_HITS, R0] == 50.0
    assert (Counter.CACHE_BLOCK_QUERIES, R0) not in found.counters
    assert found.histograms[Distribution.ITL, R0].count == 8.0
    assert (Distribution.TPOT, R0) not in found.histograms


def test_blocks_are_never_taken_for_tokens() -> None:
    """0.8.5 counts blocks: the rate of a window is a rate of blocks, and the token counters stay absent."""
    first = read(lines(_V1, gpu_prefix_cache_queries_total=10, gpu_prefix_cache_hits_total=5, prompt_tokens_total=160))
    second = read(
        lines(_V1, gpu_prefix_cache_queries_total=30, gpu_prefix_cache_hits_total=20, prompt_tokens_total=480),
        seconds=10,
    )

    assert figures([first, second])[Figure.KV_CACHE_HIT_RATE] == 0.75
    assert basis(Figure.KV_CACHE_HIT_RATE, second) is Basis.BLOCKS
    assert Counter.CACHE_QUERIES not in {counter for counter, _ in second.counters}


def test_prefix_caching_that_finds_nothing_has_no_rate() -> None:
    """With it off the counters stand at zero for ever: no lookup, no rate."""
    page = lines(_V1, prefix_cache_queries_total=0, prefix_cache_hits_total=0, prompt_tokens_total=9)

    assert figures([read(page), read(page, seconds=10)])[Figure.KV_CACHE_HIT_RATE] == Missing(Gap.NO_TRAFFIC)


def test_what_was_cached_is_told_by_tier() -> None:
    """The sources of 0.33: what comes from another engine or from nobody says where is external."""
    sources = {"device": 60, "host": 20, "disk": 10, "p2p": 6, "external_unspecified": 4}
    page = lines(_V1, prefix_cache_queries_total=200, prefix_cache_hits_total=60, prompt_tokens_total=200) + "".join(
        f'vllm:prompt_tokens_cached_by_source_total{{{_V1},source="{name}"}} {value}\n'
        for name, value in sources.items()
    )
    found = read(page).counters

    assert [found[counter, R0] for counter in _TIERS] == [60.0, 20.0, 10.0, 10.0]


_TIERS = (
    Counter.CACHE_HITS_DEVICE,
    Counter.CACHE_HITS_HOST,
    Counter.CACHE_HITS_DISK,
    Counter.CACHE_HITS_EXTERNAL,
)


def test_before_the_tiers_the_engines_own_cache_is_the_gpus() -> None:
    """0.11.1 to 0.32: own hits and those of a KV connector; nothing is said of host and disk."""
    found = read(
        lines(_V1, prefix_cache_queries_total=200, prefix_cache_hits_total=60, external_prefix_cache_hits_total=30)
        + lines(_V1, external_prefix_cache_queries_total=140)
    ).counters

    assert found[Counter.CACHE_HITS_DEVICE, R0] == 60.0
    assert found[Counter.CACHE_HITS_EXTERNAL, R0] == 30.0
    assert found[Counter.EXTERNAL_CACHE_QUERIES, R0] == 140.0
    assert (Counter.CACHE_HITS_HOST, R0) not in found


def test_computed_tokens_come_from_the_best_source() -> None:
    """By source since 0.16; before, what was not cached; and nothing where neither is told."""
    by_source = f'vllm:prompt_tokens_by_source_total{{{_V1},source="local_compute"}} 30\n'
    plain = lines(_V1, prompt_tokens_total=100)
    cached = lines(_V1, prompt_tokens_cached_total=60)
    computed = (Counter.COMPUTED_PROMPT_TOKENS, R0)

    assert read(plain + cached + by_source).counters[computed] == 30.0
    assert read(plain + cached).counters[computed] == 40.0
    assert computed not in read(plain).counters


@pytest.mark.parametrize(("state", "level"), [("awake", 0.0), ("weights_offloaded", 1.0), ("discard_all", 2.0)])
def test_a_sleeping_engine_is_up_and_not_ready(state: str, level: float) -> None:
    """One series a state, 1 for the one that it is in: sleeping is not dead."""
    states = ("awake", "weights_offloaded", "discard_all")
    page = "".join(f'vllm:engine_sleep_state{{{_V1},sleep_state="{name}"}} {float(name == state)}\n' for name in states)
    found = read(page + lines(_V1, num_requests_running=0))

    assert figures([found])[Figure.SLEEP_LEVEL] == level
    assert (found.up, found.ready) == (True, level == 0.0)


def test_the_newest_lora_series_alone_is_true() -> None:
    """Its value is a time, and each combination of adapters leaves a series behind."""
    page = "".join(
        f'vllm:lora_requests_info{{max_lora="4",running_lora_adapters="{names}",waiting_lora_adapters=""}} {at}\n'
        for names, at in (("a,b,c", 1.7e9), ("a", 1.8e9), ("", 1.6e9))
    )

    assert "LoRA: 1 of at most 4 adapters in use" in read(page + lines(_V1, num_requests_running=1)).hints


def test_requests_by_reason_and_stage_are_parts_of_the_queue() -> None:
    """0.22 and later: the whole is `num_requests_waiting`, and nothing is added to it."""
    page = (
        lines(_V1, num_requests_waiting=7)
        + f'vllm:num_requests_waiting_by_reason{{{_V1},reason="capacity"}} 4\n'
        + f'vllm:num_requests_waiting_by_reason{{{_V1},reason="deferred"}} 3\n'
        + f'vllm:num_requests_kv_fetch_by_stage{{{_V1},stage="waiting_to_start"}} 1\n'
        + f'vllm:num_requests_kv_fetch_by_stage{{{_V1},stage="in_progress"}} 1\n'
        + f'vllm:num_requests_kv_fetch_by_stage{{{_V1},stage="completed_waiting"}} 1\n'
    )
    found = figures([read(page)])

    assert found[Figure.QUEUE_DEPTH] == 7.0
    assert found[Figure.WAITING_DEFERRED] == 3.0
    assert found[Figure.DECODE_TRANSFER_QUEUE] == 2.0


def test_server_errors_are_counted_by_class() -> None:
    """The web server's family, by handler; without one of 5xx there were none."""
    good = 'http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 9\n'
    bad = 'http_requests_total{handler="/v1/completions",method="POST",status="5xx"} 2\n'
    errors = (Counter.HTTP_ERRORS, R0)

    assert read(lines(_V1, num_requests_running=1) + good).counters[errors] == 0.0
    assert read(lines(_V1, num_requests_running=1) + good + bad).counters[errors] == 2.0
    assert errors not in read(lines(_V1, num_requests_running=1)).counters


def test_repetition_is_an_end_like_any_other() -> None:
    """A finished reason of 0.33."""
    page = "".join(
        f'vllm:request_success_total{{{_V1},finished_reason="{reason}"}} {count}\n'
        for reason, count in (("stop", 5), ("length", 3), ("repetition", 2), ("abort", 1), ("error", 4))
    )
    found = read(page).counters

    assert [found[counter, R0] for counter in (Counter.FINISHED, Counter.ABORTED, Counter.ERRORS)] == [10.0, 1.0, 4.0]


def test_moves_of_kv_caches_and_their_failures() -> None:
    """Done ones on the decode side, leases that nobody came for on the prefill side."""
    found = read(
        histogram("vllm:nixl_xfer_time_seconds", 44, _V1)
        + lines(_V1, nixl_num_failed_transfers_total=1, nixl_num_failed_notifications_total=2)
        + lines(_V1, nixl_num_kv_expired_reqs_total=4)
    )

    assert found.counters[Counter.KV_TRANSFERS, R0] == 44.0
    assert found.counters[Counter.KV_TRANSFER_FAILURES, R0] == 7.0


def test_the_mean_time_per_token_is_decode_time_over_decoded_tokens() -> None:
    """A one-token answer observes 0 in the histogram; the first token of each answer is not of decode."""
    names = ("request_decode_time_seconds", "request_generation_tokens")
    first = "".join(f"vllm:{name}_sum{{{_V1}}} 0\nvllm:{name}_count{{{_V1}}} 0\n" for name in names)
    second = "".join(
        f"vllm:{name}_sum{{{_V1}}} {total}\nvllm:{name}_count{{{_V1}}} 10\n"
        for name, total in zip(names, (9.0, 100.0), strict=True)
    )

    assert figures([read(first), read(second, seconds=10)])[Figure.TPOT_MEAN] == pytest.approx(0.1)


# Frontends

_OPENMETRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 100
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.7e9
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{engine="0",model_name="m",le="+Inf"} 12 # {trace_id="x"} 1.0
vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 100
vllm:iteration_tokens_total_count{engine="0",model_name="m"} 12
# EOF
"""


def test_the_rust_frontend_answers_in_openmetrics() -> None:
    """Whatever was asked for: TYPE lines without `_total`, creation times inside the family, exemplars."""
    found = read(_OPENMETRICS, "application/openmetrics-text; version=1.0.0; charset=utf-8")

    assert (found.kind, found.state, found.problems) == (EngineKind.VLLM, EngineState.READY, ())
    assert found.counters[Counter.PROMPT_TOKENS, R0] == 100.0
    assert found.counters[Counter.STEPS, R0] == 12.0


def test_each_rank_behind_an_external_balancer_keeps_its_index() -> None:
    """One port a rank, each with the index that it has in the whole."""
    found = read(lines('engine="3",model_name="m"', num_requests_running=2, prompt_tokens_total=5))

    assert found.gauges[Gauge.RUNNING, Rank("3")] == 2.0
    assert found.counters[Counter.PROMPT_TOKENS, Rank("3")] == 5.0


def test_buckets_are_those_of_the_body() -> None:
    """Operators may choose them since 0.33."""
    own = histogram("vllm:time_to_first_token_seconds", 4, _V1)

    assert read(own).histograms[Distribution.TTFT, R0].bounds[0] == 0.5


# Ray Serve

_REPLICA_A = 'ReplicaId="a",WorkerId="w1",engine="0",model_name="m",NodeAddress="10.0.0.1",SessionName="s"'
_REPLICA_B = 'ReplicaId="b",WorkerId="w2",engine="0",model_name="m",NodeAddress="10.0.0.1",SessionName="s"'


@pytest.mark.parametrize("prefix", ["ray_vllm_", "ray_vllm:"])
def test_behind_ray_each_replica_is_a_rank_of_its_own(prefix: str) -> None:
    """Ray's page holds all replicas of a node, beside families of its own."""
    page = "ray_node_cpu_utilization 3\n" + "".join(
        f"{prefix}num_requests_running{{{labels}}} {running}\n{prefix}prompt_tokens_total{{{labels}}} {tokens}\n"
        for labels, running, tokens in ((_REPLICA_A, 2, 100), (_REPLICA_B, 5, 300))
    )
    found = read(page)

    assert (found.kind, found.model) == (EngineKind.VLLM, "m")
    assert figures([found])[Figure.RUNNING] == 7.0
    assert found.counters == {
        (Counter.PROMPT_TOKENS, Rank("a/0")): 100.0,
        (Counter.PROMPT_TOKENS, Rank("b/0")): 300.0,
    }
    assert "behind Ray" in found.hints


def test_ray_may_leave_out_total_or_export_both() -> None:
    """By its release; two names of one counter are one counter, and a worker stands where a replica has no name."""
    worker = 'WorkerId="w1",model_name="m"'
    bare = f"ray_vllm_generation_tokens{{{worker}}} 9\n"
    key = (Counter.GENERATION_TOKENS, Rank("w1/0"))

    assert read(bare).counters[key] == 9.0
    assert read(bare + f"ray_vllm_generation_tokens_total{{{worker}}} 9\n").counters[key] == 9.0


def test_ray_without_an_engine_is_no_engine() -> None:
    found = read("ray_node_cpu_utilization 3\n")

    assert (found.kind, found.state) == (None, EngineState.UNSUPPORTED)
    assert "Ray" in found.problems[0]
