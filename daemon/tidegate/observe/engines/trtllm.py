"""TensorRT-LLM's dialect on `/prometheus/metrics`: names with `trtllm_`, `trtllm:` or no prefix at all.

Releases 1.0 to 1.2 have five families without a prefix, which are known for TensorRT-LLM's by where they are served.
Later ones have all of them: those of requests move when a request ends (`return_perf_metrics`), those of iterations
need `enable_iter_perf_stats`. The gauges `kv_cache_hit_rate` (since the start, warm-up misses included) and
`kv_cache_iter_reuse_rate` (one iteration) are not read: increases tell it. Sources: `tensorrt_llm/metrics/collector.py`
of 1.0 to 1.3; TRT-LLM#5785, #12132, #12545.
"""

from __future__ import annotations

import re
from collections.abc import Set
from functools import partial
from math import prod

from tidegate.model.reading import Counter, Distribution, EngineKind, Gauge
from tidegate.observe.engines.dialect import Content, Dialect
from tidegate.observe.engines.page import Page, parts_of, plus
from tidegate.observe.engines.table import Draft, Names, Table, combined, one_rank, share, total
from tidegate.observe.exposition import Exposition

ENDPOINT = "/prometheus/metrics"


def _any(*names: str) -> Names:
    """Each name with the prefix and without."""
    return tuple(f"{prefix}{name}" for name in names for prefix in ("trtllm_", ""))


TABLE = Table(
    gauges={
        # numActiveRequests: all that the executor has taken in, the ones that wait for a place in the batch too.
        Gauge.RUNNING: _any("num_requests_running", "num_scheduled_requests"),
        Gauge.QUEUE_DEPTH: _any("num_requests_waiting"),
        Gauge.KV_CACHE_USAGE: _any("kv_cache_utilization"),
    },
    counters={
        Counter.PROMPT_TOKENS: _any("prompt_tokens_total"),
        # The sum of the histogram is the same total, and there from the first request on, not from the first hit.
        Counter.CACHED_PROMPT_TOKENS: _any("prompt_cached_tokens_total", "prompt_cached_tokens_per_request_sum"),
        Counter.GENERATION_TOKENS: _any("generation_tokens_total"),
        Counter.PREFILL_SECONDS: _any("request_prefill_time_seconds_sum"),
        Counter.DECODE_SECONDS: _any("request_decode_time_seconds_sum"),
    },
    histograms={
        Distribution.TTFT: _any("time_to_first_token_seconds"),
        Distribution.TPOT: _any("time_per_output_token_seconds"),
        Distribution.E2E: _any("e2e_request_latency_seconds"),
        Distribution.QUEUE_TIME: _any("request_queue_time_seconds"),
    },
)
SUCCESS = _any("request_success_total")
COMPLETED = _any("num_requests_completed_total")
FAILED = _any("request_error_total")
REUSED, MISSED = _any("kv_cache_reused_blocks_total"), _any("kv_cache_missed_blocks_total")
ITER_REUSED, ITER_MISSED = _any("kv_cache_iter_reused_blocks_total"), _any("kv_cache_iter_missed_blocks_total")
WORK = (_any("kv_cache_gen_alloc_blocks_total"), ITER_MISSED, _any("prefill_batch_tokens_count"))
"""What moves while requests run, by the first of them: blocks for new tokens; blocks and batches of prefill."""
USED, MOST = _any("kv_cache_used_blocks"), _any("kv_cache_max_blocks")
TIERED = _any("prompt_cache_hit_tokens_total")
"""By `cache_level` and `cache_tier`."""
PARALLEL = _any("parallel_config_info")

FIVE = frozenset({"request_success_total"}) | parts_of(
    f"{name}_seconds"
    for name in ("e2e_request_latency", "time_to_first_token", "time_per_output_token", "request_queue_time")
)
"""The families of 1.0 to 1.2."""
TIERS = {
    Counter.CACHE_HITS_DEVICE: ("gpu", "device", "hbm", "primary"),
    Counter.CACHE_HITS_HOST: ("host", "cpu", "dram", "secondary"),
    Counter.CACHE_HITS_DISK: ("disk", "ssd", "nvme", "storage", "file"),
    Counter.CACHE_HITS_EXTERNAL: ("remote", "external", "connector"),
}
_ABORTS = frozenset({"cancelled", "canceled", "abort"})
_TIMEOUTS = frozenset({"timeout", "timed_out"})
_SIZE = re.compile(r"[1-9][0-9]{0,2}")
_SIZES = (
    ("tp_size", "tensor_parallel_size"),
    ("pp_size", "pipeline_parallel_size"),
    ("cp_size", "context_parallel_size"),
)

_WANTED = TABLE.names() | frozenset(
    name
    for names in (SUCCESS, COMPLETED, FAILED, REUSED, MISSED, ITER_REUSED, *WORK, USED, MOST, TIERED, PARALLEL)
    for name in names
)


def recognises(present: Set[str]) -> bool:
    """Families with the prefix; those without are anybody's, see `is_at`."""
    return any(name.startswith("trtllm_") for name in present)


def is_at(path: str, present: Set[str]) -> bool:
    """Whether this is TensorRT-LLM by the path of the page: families without a prefix are its own there."""
    return path.rstrip("/").endswith(ENDPOINT) and not FIVE.isdisjoint(present)


def read(exposition: Exposition) -> Content:
    """Everything that TensorRT-LLM says, in the one vocabulary."""
    page = Page(exposition, one_rank)
    draft = TABLE.read(page)
    if not draft.gauges[Gauge.KV_CACHE_USAGE]:
        draft.gauges[Gauge.KV_CACHE_USAGE] = combined(page.gauge(*USED), page.gauge(*MOST), share)
    prompt, cached = draft.counters[Counter.PROMPT_TOKENS], draft.counters[Counter.CACHED_PROMPT_TOKENS]
    if prompt and cached:
        draft.counters |= {Counter.CACHE_QUERIES: prompt, Counter.CACHE_HITS: cached}
    _read_blocks(page, draft)
    _read_tiers(page, draft)
    _read_ends(page, draft)
    growth = page.counter(*WORK[0])
    if growth:  # without it a long answer moves nothing for minutes
        draft.counters[Counter.WORK] = total(growth, *(page.counter(*names) for names in WORK[1:]))
    models = [model for model in page.models("model_name") if model != "undefined"]
    return draft.content(page, models[0] if models else None, gpus=_gpus(exposition))


def _read_blocks(page: Page, draft: Draft) -> None:
    """Reused blocks of all blocks looked up, for a rate on the basis of blocks; both numbers of one pair."""
    for reused_names, missed_names in ((REUSED, MISSED), (ITER_REUSED, ITER_MISSED)):
        reused, missed = page.counter(*reused_names), page.counter(*missed_names)
        if reused and missed:
            draft.counters |= {Counter.CACHE_BLOCK_HITS: reused, Counter.CACHE_BLOCK_QUERIES: plus(reused, missed)}
        if reused or missed:
            return


def _read_tiers(page: Page, draft: Draft) -> None:
    for name in TIERED:
        for counter, words in TIERS.items():
            if hits := page.counter_where(name, "cache_tier", partial(_is_one, words)):
                draft.counters[counter] = hits
        for sample in page.exposition.samples.get(name, ()):
            tier = sample.labels.get("cache_tier", "")
            if not any(_is_one(words, tier) for words in TIERS.values()):
                page.notes.add(f"{name} has a cache tier that is not known here ({tier!r})")


def _is_one(words: Names, tier: str) -> bool:
    return any(word in tier.lower() for word in words)


def _read_ends(page: Page, draft: Draft) -> None:
    """How requests ended; the count over iterations is read where requests are not counted by their end."""
    success = next((name for name in SUCCESS if name in page.exposition.samples), SUCCESS[0])
    finished = page.counter_where(success, "finished_reason", lambda why: why not in _ABORTS | _TIMEOUTS)
    failures = [page.counter(*FAILED), page.counter_where(success, "finished_reason", _TIMEOUTS.__contains__)]
    draft.counters |= {
        Counter.FINISHED: finished or page.counter(*COMPLETED),
        Counter.ABORTED: page.counter_where(success, "finished_reason", _ABORTS.__contains__),
        Counter.ERRORS: total(*failures),
    }


def _gpus(exposition: Exposition) -> int | None:
    """Tensor times pipeline times context parallelism; attention-DP and expert parallelism share these GPUs."""
    for name in PARALLEL:
        for sample in exposition.samples.get(name, ()):
            sizes = [next((sample.labels[key] for key in keys if key in sample.labels), "1") for keys in _SIZES]
            if any(key in sample.labels for key in _SIZES[0]) and all(map(_SIZE.fullmatch, sizes)):
                return prod(map(int, sizes))
    return None


TENSORRT_LLM = Dialect(EngineKind.TENSORRT_LLM, "TensorRT-LLM", _WANTED, frozenset(), recognises, read)
