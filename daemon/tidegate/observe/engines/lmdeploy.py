"""LMDeploy's dialect: vLLM's figures under names of its own, with gauges that hold running totals.

Sources: LMDeploy's `lmdeploy/metrics/loggers.py`, 0.10 to 0.18.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from tidegate.model.reading import Counter, Distribution, EngineKind, Gauge, Rank
from tidegate.observe.engines.dialect import Content, Dialect
from tidegate.observe.engines.page import Page, plus_gauges
from tidegate.observe.engines.table import Table
from tidegate.observe.exposition import Exposition

TABLE = Table(
    gauges={
        Gauge.RUNNING: ("lmdeploy_num_requests_running",),
        Gauge.KV_CACHE_USAGE: ("lmdeploy_gpu_cache_usage_perc",),
    },
    counters={
        Counter.PROMPT_TOKENS: ("lmdeploy_prompt_tokens_total",),
        Counter.CACHED_PROMPT_TOKENS: ("lmdeploy_cached_tokens_total",),
        Counter.GENERATION_TOKENS: ("lmdeploy_generation_tokens_total",),
        # Declared gauges, and totals since the start all the same; `finished` is the name of 0.10.
        Counter.FINISHED: ("lmdeploy_num_requests_succeeded", "lmdeploy_num_requests_finished"),
        Counter.ERRORS: ("lmdeploy_num_requests_failed",),
        # A histogram in spite of its name: one observation an engine step.
        Counter.STEPS: ("lmdeploy_iteration_tokens_total_count",),
        Counter.PREFILL_SECONDS: ("lmdeploy_request_prefill_time_seconds_sum",),
        Counter.DECODE_SECONDS: ("lmdeploy_request_decode_time_seconds_sum",),
    },
    histograms={
        Distribution.TTFT: ("lmdeploy_time_to_first_token_seconds",),
        Distribution.ITL: ("lmdeploy_iter_token_latency",),
        Distribution.TPOT: ("lmdeploy_time_per_output_token_seconds",),
        Distribution.E2E: ("lmdeploy_e2e_request_latency_seconds",),
        Distribution.QUEUE_TIME: ("lmdeploy_request_queue_time_seconds",),
    },
)
WAITING = "lmdeploy_num_requests_waiting"
API_WAITING = "lmdeploy_num_api_requests_waiting"
"""Those that wait for a handle before the engine (0.18): `num_requests_waiting` knows nothing of them."""
HIT_RATE = "lmdeploy_prefix_cache_hit_rate"
"""Since the start; read where there is no counter of cached tokens."""
DECODED = ("lmdeploy_request_generation_tokens_sum", "lmdeploy_request_generation_tokens_count")

_WANTED = TABLE.names() | {WAITING, API_WAITING, HIT_RATE, *DECODED}


def recognises(present: Set[str]) -> bool:
    """Any series of LMDeploy's own will do."""
    return any(name.startswith("lmdeploy_") for name in present)


def read(exposition: Exposition) -> Content:
    """Everything that LMDeploy says, in the one vocabulary."""
    page = Page(exposition)
    draft = TABLE.read(page)
    waiting = page.gauge(WAITING)
    draft.gauges[Gauge.QUEUE_DEPTH] = plus_gauges(waiting, page.gauge(API_WAITING)) if waiting else {}
    prompt, cached = draft.counters[Counter.PROMPT_TOKENS], draft.counters[Counter.CACHED_PROMPT_TOKENS]
    if cached:
        draft.counters |= {Counter.CACHE_QUERIES: prompt, Counter.CACHE_HITS: cached}
    else:
        draft.gauges[Gauge.CACHE_HIT_RATE] = page.gauge(HIT_RATE, is_share=True)
    draft.counters[Counter.DECODE_TOKENS] = _decoded(page)
    models = page.models("model_name")
    return draft.content(page, models[0] if models else None)


def _decoded(page: Page) -> Mapping[Rank, float]:
    """Generated tokens of finished requests without the first of each, which prefill makes."""
    tokens, requests = (page.counter(name) for name in DECODED)
    return {rank: max(0.0, total - requests[rank]) for rank, total in tokens.items() if rank in requests}


LMDEPLOY = Dialect(EngineKind.LMDEPLOY, "LMDeploy", _WANTED, frozenset(), recognises, read)
