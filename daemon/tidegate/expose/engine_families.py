"""The families about engines: what each figure and each counter is called outside, and what it means in words."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.expose.family import ENGINE, Family, Kind, Role, counter, gauge
from tidegate.model.figures import TIERS, Figure
from tidegate.model.reading import Counter, Distribution, Gauge

WINDOW = "over the agent's trailing window"
LIFE = "cumulative since the engine's own start: an engine restart is a counter reset, which rate() handles"

GAUGES: Mapping[Figure, Family] = {
    Figure.QUEUE_DEPTH: gauge("queue_depth", "Requests that wait in the engine, in all its queues.", *ENGINE),
    Figure.RUNNING: gauge("running_requests", "Requests that the engine works on.", *ENGINE),
    Figure.HELD: gauge(
        "held_requests", "Requests that the engine's web server holds open, whatever its schedulers say.", *ENGINE
    ),
    Figure.SLEEP_LEVEL: gauge(
        "engine_sleep_level", "0 awake, 1 weights moved out of the GPU, 2 everything discarded.", *ENGINE
    ),
    Figure.WORKERS: gauge("gateway_workers", "Workers behind a gateway.", *ENGINE),
    Figure.WORKERS_UP: gauge("gateway_workers_up", "Those of them that the gateway holds for healthy.", *ENGINE),
    Figure.KV_CACHE_USAGE: gauge("kv_cache_usage", "Share of the KV cache in use, 0..1: the fullest rank.", *ENGINE),
    Figure.KV_CACHE_USAGE_MEAN: gauge(
        "kv_cache_usage_mean", "Share of the KV cache in use, 0..1: the mean of the ranks.", *ENGINE
    ),
    Figure.RANK_IMBALANCE: gauge(
        "rank_imbalance",
        f"Tokens of the busiest data parallel rank over the mean of the ranks, {WINDOW}; 1 is even.",
        *ENGINE,
    ),
    Figure.KV_CACHE_HIT_RATE: gauge(
        "kv_cache_hit_rate", f"KV prefix cache hits over queries, 0..1, {WINDOW}; absent without traffic.", *ENGINE
    ),
    Figure.PROMPT_TOKENS_PER_SECOND: gauge(
        "prompt_tokens_per_second", f"Prompt tokens, cached ones included, {WINDOW}.", *ENGINE
    ),
    Figure.CACHED_TOKENS_PER_SECOND: gauge(
        "cached_tokens_per_second", f"Prompt tokens that the cache served, {WINDOW}.", *ENGINE
    ),
    Figure.COMPUTED_TOKENS_PER_SECOND: gauge(
        "computed_tokens_per_second", f"Prompt tokens that prefill computed, {WINDOW}.", *ENGINE
    ),
    Figure.GENERATION_TOKENS_PER_SECOND: gauge(
        "generation_tokens_per_second",
        f"Generated tokens, {WINDOW}; the first one of a request, which prefill makes, is among them.",
        *ENGINE,
    ),
}
QUEUES: Mapping[Figure, str] = {
    Figure.GRAMMAR_QUEUE: "grammar",
    Figure.PREFILL_BOOTSTRAP_QUEUE: "prefill_bootstrap",
    Figure.PREFILL_INFLIGHT_QUEUE: "prefill_inflight",
    Figure.DECODE_PREALLOC_QUEUE: "decode_prealloc",
    Figure.DECODE_TRANSFER_QUEUE: "decode_transfer",
    Figure.DECODE_RECEIVE_QUEUE: "decode_receive",
    Figure.WAITING_DEFERRED: "deferred",
    Figure.GATEWAY_QUEUE: "gateway",
}
"""The value of `queue` for each queue that has a name."""
QUEUE = gauge(
    "queue_requests",
    "Requests in one of the engine's queues. In the queue depth are grammar, deferred, prefill_bootstrap, "
    "decode_prealloc and decode_transfer; those in prefill_inflight and decode_receive are being moved, those in "
    "gateway wait before any engine.",
    *ENGINE,
    "queue",
)
TIER_OF: Mapping[Counter, str] = {hits: hits.value.removeprefix("cache_hits_") for hits in TIERS.values()}
TIER_HIT_RATE = gauge(
    "kv_cache_tier_hit_rate",
    f"Prompt tokens that a tier of the KV cache served (device, host, disk, external) over all looked up, 0..1, "
    f"{WINDOW}: the tiers add up.",
    *ENGINE,
    "tier",
)
TIER_HITS = counter("kv_cache_tier_hits", f"Prompt tokens that a tier of the KV cache served; {LIFE}.", *ENGINE, "tier")
STEMS: Mapping[Distribution, tuple[str, str]] = {
    Distribution.TTFT: ("ttft", "Time to first token"),
    Distribution.TPOT: ("tpot", "Time per output token of finished requests"),
    Distribution.ITL: ("itl", "Time between output tokens"),
    Distribution.E2E: ("e2e_latency", "End-to-end latency of finished requests"),
    Distribution.QUEUE_TIME: ("queue_time", "Time in the engine's queue"),
}
QUANTILES: Mapping[Distribution, Family] = {
    name: Family(f"tidegate_{stem}_window_seconds", Kind.SUMMARY, f"{text} {WINDOW}.", ENGINE, Role.AGENT)
    for name, (stem, text) in STEMS.items()
}
MEANS: Mapping[Distribution, Family] = {
    name: gauge(f"{stem}_window_mean_seconds", f"{text} {WINDOW}: the mean.", *ENGINE)
    for name, (stem, text) in STEMS.items()
}
HISTOGRAMS: Mapping[Distribution, Family] = {
    name: Family(f"tidegate_{stem}_seconds", Kind.HISTOGRAM, f"{text}; {LIFE}.", ENGINE, Role.AGENT)
    for name, (stem, text) in STEMS.items()
}


def _total(name: str, text: str) -> Family:
    return counter(name, f"{text}; {LIFE}.", *ENGINE)


COUNTERS: Mapping[Counter, Family] = {
    Counter.PROMPT_TOKENS: _total("prompt_tokens", "Prompt tokens, cached ones included"),
    Counter.CACHED_PROMPT_TOKENS: _total("cached_prompt_tokens", "Prompt tokens that the cache served"),
    Counter.COMPUTED_PROMPT_TOKENS: _total("computed_prompt_tokens", "Prompt tokens that prefill computed"),
    Counter.GENERATION_TOKENS: _total("generation_tokens", "Generated tokens"),
    Counter.CACHE_QUERIES: _total("kv_cache_queries", "Prompt tokens looked up in the KV prefix cache"),
    Counter.CACHE_HITS: _total("kv_cache_hits", "Prompt tokens found in the KV prefix cache"),
    Counter.CACHE_BLOCK_QUERIES: _total("kv_cache_block_queries", "Blocks looked up, in engines that count blocks"),
    Counter.CACHE_BLOCK_HITS: _total("kv_cache_block_hits", "Blocks found, in engines that count blocks"),
    Counter.EXTERNAL_CACHE_QUERIES: _total("kv_cache_external_queries", "Tokens that a KV connector was asked for"),
    Counter.PREEMPTIONS: _total("preemptions", "Requests put back to make room in the KV cache"),
    Counter.REQUESTS: _total("requests", "Requests taken in, however they end"),
    Counter.FINISHED: _total("finished_requests", "Requests finished; SGLang counts aborted ones among them"),
    Counter.ABORTED: _total("aborted_requests", "Requests aborted, as far as the engine counts them"),
    Counter.ERRORS: _total("request_errors", "Requests that failed, those turned away included"),
    Counter.HTTP_ERRORS: _total("http_errors", "Answers of the engine's web server with a status of 500 and above"),
    Counter.ADMISSION_REJECTIONS: _total("admission_rejections", "Requests turned away at the door"),
    Counter.RETRIES: _total("request_retries", "Requests tried again"),
    Counter.KV_TRANSFERS: _total("kv_transfers", "KV caches of requests moved between prefill and decode engines"),
    Counter.KV_TRANSFER_FAILURES: _total("kv_transfer_failures", "Such moves that failed, or that nobody came for"),
    Counter.PREFILL_SECONDS: _total("prefill_seconds", "Time that requests spent in prefill, added up"),
    Counter.DECODE_SECONDS: _total("decode_seconds", "Time that requests spent in decode, added up"),
    Counter.DECODE_TOKENS: _total("decode_tokens", "Tokens that decode made in that time"),
    Counter.STEPS: _total("engine_steps", "Engine iterations: moves whenever the engine makes progress"),
    Counter.WORK: _total("engine_work", "What else only a working core moves, where no steps are counted"),
}
WORKER_GAUGES: Mapping[Gauge, Family] = {
    Gauge.WORKER_UP: gauge(
        "gateway_worker_up", "1 when a gateway holds the worker for healthy, else 0.", *ENGINE, "worker"
    ),
    Gauge.WORKER_RUNNING: gauge(
        "gateway_worker_running_requests", "Requests that a gateway has at a worker now.", *ENGINE, "worker"
    ),
}
WORKER_COUNTERS: Mapping[Counter, Family] = {
    Counter.WORKER_REQUESTS: counter(
        "gateway_worker_requests", f"Requests that a gateway sent to a worker; {LIFE}.", *ENGINE, "worker"
    ),
    Counter.WORKER_ERRORS: counter(
        "gateway_worker_errors", f"Requests that failed at a gateway's worker; {LIFE}.", *ENGINE, "worker"
    ),
}

ABOUT = (
    gauge("engine_up", "1 when the engine's endpoint gave usable figures at the last scrape, else 0.", *ENGINE),
    gauge("engine_ready", "1 when the engine is up, moves and no rank of it sleeps, else 0.", *ENGINE),
    gauge("engine_progressing", f"0 when the engine has requests and did nothing {WINDOW}, else 1.", *ENGINE),
    gauge("engine_state", "1 for the state that the engine's endpoint showed, 0 for the others.", *ENGINE, "state"),
    gauge("engine_info", "1; which engine this is and the model that it serves.", *ENGINE, "kind", "model"),
    gauge(
        "engine_gpus",
        "GPUs that the engine holds; source says who counted: engine, processes, configuration.",
        *ENGINE,
        "source",
    ),
    gauge(
        "engine_ranks",
        "Data parallel ranks that the engine counts for; its counters here are their sums.",
        *ENGINE,
    ),
    gauge(
        "engine_start_time_seconds",
        "When the engine's process began, where it says so: a change is a restart.",
        *ENGINE,
    ),
    gauge(
        "engine_problems", "Things skipped, dropped or doubted in the last body; the agent's page names them.", *ENGINE
    ),
    gauge("engine_scrape_duration_seconds", "How long the last scrape took.", *ENGINE),
    gauge("engine_last_success_timestamp_seconds", "When the engine last gave usable figures.", *ENGINE),
    gauge("engine_window_seconds", f"How much time the figures {WINDOW} really span.", *ENGINE),
    gauge(
        "engine_window_partial",
        "1 when something was lost inside the window (a restart, a rank that came or went): its figures are lower "
        "bounds.",
        *ENGINE,
    ),
    gauge("figure_missing", "1 for each engine figure that is not known, with why.", "engine", "figure", "reason"),
    gauge(
        "figure_basis",
        "1; what a share counts: tokens, blocks of the KV cache, or lifetime (the engine's own since its start, of "
        "which no window can be taken).",
        "engine",
        "figure",
        "basis",
    ),
    gauge(
        "figure_saturated",
        "1 for each quantile that lies beyond the last finite bucket: it is that bucket's bound, the truth is above.",
        "engine",
        "figure",
    ),
)
DERIVED = (
    gauge("tokens_per_gpu_per_second", f"Prompt (cached included) and generated tokens per GPU, {WINDOW}.", *ENGINE),
    gauge(
        "retry_rate",
        f"Retries over finished requests {WINDOW}, of a gateway over those taken in; absent where nothing counts them.",
        *ENGINE,
    ),
)
FIGURES = (
    *GAUGES.values(),
    QUEUE,
    TIER_HIT_RATE,
    *DERIVED,
    *QUANTILES.values(),
    *MEANS.values(),
    *HISTOGRAMS.values(),
    *COUNTERS.values(),
    TIER_HITS,
)
GATEWAY = (*WORKER_GAUGES.values(), *WORKER_COUNTERS.values())
