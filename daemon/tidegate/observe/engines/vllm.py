"""vLLM's dialect: which of its series mean what, as tables of names in order of preference.

Synonyms stand side by side in one body for a few releases (`kv_cache_usage_perc` and `gpu_cache_usage_perc` in 0.9.2 to
0.10.2); the first that is present is read and no two are ever added. Sources: vLLM's `v1/metrics/loggers.py` and
`engine/metrics.py` (the V0 engine) of the releases named, and pages of 0.32.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Set

from tidegate.model.reading import Basis, Counter, Distribution, EngineKind, Gap, Gauge, Missing, Number, Rank
from tidegate.observe.engines.dialect import (
    Body,
    Content,
    Dialect,
    Exposition,
    Page,
    by_key,
    first_present,
    parts_of,
    plus,
    plus_gauges,
)
from tidegate.observe.engines.ray import behind_ray, ray_names, ray_rank

RUNNING = "vllm_num_requests_running"
WAITING = "vllm_num_requests_waiting"
"""Since 0.22 with those that wait for something else than room (deferred), which older releases did not count."""
SWAPPED = "vllm_num_requests_swapped"
"""V0: requests whose KV cache was moved to the host; they wait, and `WAITING` does not have them."""
BY_REASON = "vllm_num_requests_waiting_by_reason"
KV_FETCH = "vllm_num_requests_kv_fetch_by_stage"
# Blocks, not tokens: with short prompts a full cache may hold few tokens. 0 to 1 in spite of the name.
USAGE = ("vllm_kv_cache_usage_perc", "vllm_gpu_cache_usage_perc")
HIT_RATE = "vllm_gpu_prefix_cache_hit_rate"
"""V0, since the engine's start; -1 where prefix caching is off."""
SLEEP = "vllm_engine_sleep_state"
SLEEP_LEVELS = {"awake": 0.0, "weights_offloaded": 1.0, "discard_all": 2.0}
LORA = "vllm_lora_requests_info"
"""Its value is the time at which its labels were true: only the newest series is."""

COUNTERS = {
    # The whole prompt with its cached part, added when its prefill ends; aborted requests are in it.
    Counter.PROMPT_TOKENS: ("vllm_prompt_tokens_total",),
    Counter.CACHED_PROMPT_TOKENS: ("vllm_prompt_tokens_cached_total",),
    Counter.GENERATION_TOKENS: ("vllm_generation_tokens_total",),
    Counter.PREEMPTIONS: ("vllm_num_preemptions_total",),
    # A histogram in spite of its name: one observation an engine step.
    Counter.STEPS: ("vllm_iteration_tokens_total_count",),
    Counter.EXTERNAL_CACHE_QUERIES: ("vllm_external_prefix_cache_queries_total",),
    # Requests turned away at the door (0.33); has no `engine` label.
    Counter.ADMISSION_REJECTIONS: ("vllm_admission_rejections_total",),
    # Of finished requests, as a sum over them.
    Counter.PREFILL_SECONDS: ("vllm_request_prefill_time_seconds_sum",),
    Counter.DECODE_SECONDS: ("vllm_request_decode_time_seconds_sum",),
    # Counted on the decode side only, and leases that nobody fetched on the prefill side only.
    Counter.KV_TRANSFERS: ("vllm_nixl_xfer_time_seconds_count",),
}
TOKENS_CACHE = ("vllm_prefix_cache_queries_total", "vllm_prefix_cache_hits_total")
OLD_CACHE = ("vllm_gpu_prefix_cache_queries_total", "vllm_gpu_prefix_cache_hits_total")
"""Queries and hits, both of one pair. The old pair counts blocks up to 0.8.5 and tokens from 0.9.0 on."""
BY_SOURCE = "vllm_prompt_tokens_by_source_total"
CACHED_BY_SOURCE = "vllm_prompt_tokens_cached_by_source_total"
EXTERNAL_HITS = "vllm_external_prefix_cache_hits_total"
GENERATED_SUM, GENERATED_COUNT = "vllm_request_generation_tokens_sum", "vllm_request_generation_tokens_count"
FAILED_TRANSFERS = (
    "vllm_nixl_num_failed_transfers_total",
    "vllm_nixl_num_failed_notifications_total",
    "vllm_nixl_num_kv_expired_reqs_total",
)
DISTRIBUTIONS = {
    Distribution.TTFT: ("vllm_time_to_first_token_seconds",),
    # One observation an engine step; the second name is the first one's, in spite of itself, up to 0.11.
    Distribution.ITL: ("vllm_inter_token_latency_seconds", "vllm_time_per_output_token_seconds"),
    Distribution.TPOT: ("vllm_request_time_per_output_token_seconds",),
    # Requests that finished; one that the client gave up is in none of these two.
    Distribution.E2E: ("vllm_e2e_request_latency_seconds",),
    Distribution.QUEUE_TIME: ("vllm_request_queue_time_seconds", "vllm_time_in_queue_requests"),
}
FINISHED = "vllm_request_success_total"
"""Counts every end of a request by `finished_reason`, "abort" and "error" too, in spite of its name."""
HTTP = "http_requests_total"
"""The web server's, by class of status ("5xx"); it has no `engine` label."""
STARTED = ("process_start_time_seconds", "vllm_generation_tokens_created")
"""When the process started; neither exists with several API servers or data parallel ranks."""

VERSIONS = (
    ("vllm_admission_rejections_total", "vLLM >= 0.32"),
    ("vllm_num_requests_waiting_by_reason", "vLLM >= 0.22"),
    ("vllm_prompt_tokens_by_source_total", "vLLM >= 0.16"),
    ("vllm_request_time_per_output_token_seconds_count", "vLLM >= 0.11"),
    ("vllm_kv_cache_usage_perc", "vLLM >= 0.9.2"),
    ("vllm_num_requests_swapped", "vLLM with the V0 engine"),
    ("vllm_tokens_total", "vLLM <= 0.7.3"),
)
TRAITS = (
    ("vllm_num_requests_kv_fetch_by_stage", "decode side of a prefill/decode pair"),
    ("vllm_nixl_xfer_time_seconds_count", "KV transfer over NIXL"),
    ("vllm_spec_decode_num_drafts_total", "speculative decoding"),
    ("vllm_corrupted_requests_total", "NaN check on"),
)


def _own_names() -> frozenset[str]:
    alone = {RUNNING, WAITING, SWAPPED, BY_REASON, KV_FETCH, HIT_RATE, SLEEP, LORA, BY_SOURCE, CACHED_BY_SOURCE}
    alone |= {EXTERNAL_HITS, GENERATED_SUM, GENERATED_COUNT, FINISHED}
    tables = (USAGE, TOKENS_CACHE, OLD_CACHE, FAILED_TRANSFERS, *COUNTERS.values())
    names = alone.union(*tables) | parts_of(name for names in DISTRIBUTIONS.values() for name in names)
    return frozenset(name for name in (*names, *STARTED) if name.startswith("vllm_"))


_OWN = _own_names()


def recognises(present: Set[str]) -> bool:
    """Any series of vLLM's own will do: which families there are differs by release and by flag."""
    return any(name.startswith(("vllm_", "ray_vllm_")) and not name.startswith("vllm_router_") for name in present)


def read(exposition: Exposition) -> Content:
    """Everything that vLLM says, in the one vocabulary."""
    renamed = behind_ray(exposition, "vllm_", _OWN)
    page = Page(exposition) if renamed is None else Page(renamed, ray_rank)
    counters = _counters(page)
    models = page.models("model_name")
    return Content(
        by_key(_gauges(page)),
        by_key(counters),
        by_key({distribution: page.histogram(*names) for distribution, names in DISTRIBUTIONS.items()}),
        _started(page.exposition),
        models[0] if models else None,
        _hints(page, behind=renamed is not None),
        page.notes.words(),
        kv_usage_basis=Basis.BLOCKS,
    )


def _gauges(page: Page) -> dict[Gauge, dict[Rank, Number]]:
    return {
        Gauge.RUNNING: page.gauge(RUNNING),
        Gauge.QUEUE_DEPTH: plus_gauges(page.gauge(WAITING), page.gauge(SWAPPED)),
        Gauge.KV_CACHE_USAGE: page.gauge(*USAGE, is_share=True),
        Gauge.WAITING_DEFERRED: page.gauge_where(BY_REASON, "reason", _is("deferred")),
        Gauge.DECODE_TRANSFER_QUEUE: page.gauge_where(KV_FETCH, "stage", _is("waiting_to_start", "in_progress")),
        Gauge.CACHE_HIT_RATE: _lifetime_hit_rate(page),
        Gauge.SLEEP_LEVEL: _sleep_level(page),
    }


def _is(*values: str) -> Callable[[str], bool]:
    return lambda value: value in values


def _lifetime_hit_rate(page: Page) -> dict[Rank, Number]:
    samples = page.exposition.samples.get(HIT_RATE, ())
    if any(sample.value < 0 for sample in samples):
        return {page.rank_of(sample): Missing(Gap.DISABLED) for sample in samples}
    return page.gauge(HIT_RATE, is_share=True)


def _sleep_level(page: Page) -> dict[Rank, Number]:
    """By the state whose series is 1."""
    return {
        page.rank_of(sample): SLEEP_LEVELS[sample.labels["sleep_state"]]
        for sample in page.exposition.samples.get(SLEEP, ())
        if sample.value == 1.0 and sample.labels.get("sleep_state") in SLEEP_LEVELS
    }


def _counters(page: Page) -> dict[Counter, dict[Rank, float]]:
    found = {counter: page.counter(*names) for counter, names in COUNTERS.items()}
    found |= _cache(page, found[Counter.PROMPT_TOKENS])
    found |= _ends(page, found[Counter.ADMISSION_REJECTIONS])
    found[Counter.COMPUTED_PROMPT_TOKENS] = page.counter_where(BY_SOURCE, "source", _is("local_compute")) or _minus(
        found[Counter.PROMPT_TOKENS], found[Counter.CACHED_PROMPT_TOKENS]
    )
    # The first token of each request is of its prefill, not of its decode time.
    found[Counter.DECODE_TOKENS] = _minus(page.counter(GENERATED_SUM), page.counter(GENERATED_COUNT))
    found[Counter.KV_TRANSFER_FAILURES] = plus(*(page.counter(name) for name in FAILED_TRANSFERS))
    found[Counter.HTTP_ERRORS] = page.counter_where(HTTP, "status", lambda status: status.startswith("5"))
    return found


def _minus(whole: dict[Rank, float], part: dict[Rank, float]) -> dict[Rank, float]:
    return {rank: max(0.0, total - part[rank]) for rank, total in whole.items() if rank in part}


def _cache(page: Page, prompt: dict[Rank, float]) -> dict[Counter, dict[Rank, float]]:
    """Lookups and hits of the prefix cache, and the hits by tier."""
    by_source = {
        counter: page.counter_where(CACHED_BY_SOURCE, "source", _is(*sources)) for counter, sources in _TIERS.items()
    }
    external = page.counter(EXTERNAL_HITS) or page.counter_where(BY_SOURCE, "source", _is("external_kv_transfer"))
    if not by_source[Counter.CACHE_HITS_EXTERNAL]:
        by_source[Counter.CACHE_HITS_EXTERNAL] = external
    if TOKENS_CACHE[0] in page.exposition.present:
        return by_source | _tokens(page, TOKENS_CACHE, by_source[Counter.CACHE_HITS_DEVICE])
    queries, hits = page.counter(OLD_CACHE[0]), page.counter(OLD_CACHE[1])
    lookups, prompts = sum(queries.values()), sum(prompt.values())
    if not hits or not lookups or not prompts:  # which unit it is cannot be told yet
        return by_source
    # Every prompt is looked up whole: a count far below its tokens is one of blocks (8 tokens at the least, mostly 16).
    if lookups < prompts / 4:
        return by_source | {Counter.CACHE_BLOCK_QUERIES: queries, Counter.CACHE_BLOCK_HITS: hits}
    return by_source | _tokens(page, OLD_CACHE, by_source[Counter.CACHE_HITS_DEVICE])


_TIERS = {
    Counter.CACHE_HITS_DEVICE: ("device",),
    Counter.CACHE_HITS_HOST: ("host",),
    Counter.CACHE_HITS_DISK: ("disk",),
    Counter.CACHE_HITS_EXTERNAL: ("p2p", "external_unspecified"),
}


def _tokens(page: Page, names: tuple[str, str], device: dict[Rank, float]) -> dict[Counter, dict[Rank, float]]:
    """Queries and hits in tokens: those of the engine's own cache, which is in the GPU where nothing says otherwise."""
    queries, hits = page.counter(names[0]), page.counter(names[1])
    if not queries or not hits:
        return {}
    return {Counter.CACHE_QUERIES: queries, Counter.CACHE_HITS: hits, Counter.CACHE_HITS_DEVICE: device or hits}


def _ends(page: Page, rejected: dict[Rank, float]) -> dict[Counter, dict[Rank, float]]:
    """How requests ended: done (stop, length, repetition), aborted, or failed; those turned away have failed too.

    Clients that hang up are in none of these counters (vLLM counts only aborts through its API); a request that asks
    for n answers counts n times.
    """
    ends = {
        counter: page.counter_where(FINISHED, "finished_reason", accept)
        for counter, accept in _ENDS.items()
        if any(accept(sample.labels.get("finished_reason", "")) for sample in page.exposition.samples.get(FINISHED, ()))
    }
    errors = ends.get(Counter.ERRORS)
    if errors:
        errors[min(errors)] += sum(rejected.values())
    return ends


_ENDS: dict[Counter, Callable[[str], bool]] = {
    Counter.FINISHED: lambda reason: reason not in ("abort", "error"),
    Counter.ABORTED: _is("abort"),
    Counter.ERRORS: _is("error"),
}


def _started(exposition: Body) -> float | None:
    _, samples = first_present(exposition, STARTED)
    times = [sample.value for sample in samples if math.isfinite(sample.value) and sample.value > 0]
    return min(times, default=None)


def _hints(page: Page, *, behind: bool) -> tuple[str, ...]:
    hints = (*page.hints(VERSIONS, TRAITS), *(["behind Ray"] if behind else []), *_adapters(page))
    off = any(sample.value < 0 for sample in page.exposition.samples.get(HIT_RATE, ()))
    return (*hints, "prefix caching off") if off else hints


def _adapters(page: Page) -> Iterable[str]:
    """How many LoRA adapters run, by the newest series; the others are of times past."""
    samples = page.exposition.samples.get(LORA, ())
    newest = max(samples, key=lambda sample: sample.value, default=None)
    if newest is not None:
        running = [name for name in newest.labels.get("running_lora_adapters", "").split(",") if name]
        yield f"LoRA: {len(running)} of at most {newest.labels.get('max_lora', '?')} adapters in use"


# The server's `http_` families come last; before the first request, with several processes, this one does.
_LAST = frozenset({"vllm_admission_rejections_total", HTTP})
_WANTED = _OWN | ray_names(_OWN) | {HTTP, *STARTED}
VLLM = Dialect(EngineKind.VLLM, "vLLM", _WANTED, _LAST, recognises, read)
