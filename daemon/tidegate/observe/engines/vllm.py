"""vLLM's dialect: which of its series mean what, as tables of names in order of preference.

Synonyms stand side by side in one body for a few releases (`kv_cache_usage_perc` and `gpu_cache_usage_perc` in 0.9.2 to
0.10.2); the first that is present is read and no two are ever added. Sources: vLLM's `v1/metrics/loggers.py` of the
releases named, and pages of 0.32.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set

from tidegate.model.reading import Counter, Distribution, EngineKind, Gap, Gauge, Histogram, Missing, Number, Rank
from tidegate.observe.engines.dialect import (
    Content,
    Dialect,
    Notes,
    first_present,
    read_counter,
    read_gauge,
    read_histogram,
)
from tidegate.observe.textformat import Exposition, Sample

GAUGES = {
    Gauge.RUNNING: ("vllm_num_requests_running",),
    Gauge.QUEUE_DEPTH: ("vllm_num_requests_waiting",),
    # Blocks, not tokens: with short prompts a full cache may hold few tokens. 0 to 1 in spite of the name.
    Gauge.KV_CACHE_USAGE: ("vllm_kv_cache_usage_perc", "vllm_gpu_cache_usage_perc"),
}
COUNTERS = {
    # The whole prompt with its cached part, added when its prefill ends; aborted requests are in it.
    Counter.PROMPT_TOKENS: ("vllm_prompt_tokens_total",),
    Counter.CACHED_PROMPT_TOKENS: ("vllm_prompt_tokens_cached_total",),
    Counter.GENERATION_TOKENS: ("vllm_generation_tokens_total",),
    Counter.PREEMPTIONS: ("vllm_num_preemptions_total",),
    # A histogram in spite of its name: one observation an engine step.
    Counter.STEPS: ("vllm_iteration_tokens_total_count",),
}
CACHE = (
    ("vllm_prefix_cache_queries_total", "vllm_prefix_cache_hits_total"),
    ("vllm_gpu_prefix_cache_queries_total", "vllm_gpu_prefix_cache_hits_total"),
)
"""Queries and hits, both of one pair: the pairs count in different units in 0.7.3 to 0.8.5 (blocks)."""
DISTRIBUTIONS = {
    Distribution.TTFT: ("vllm_time_to_first_token_seconds",),
    # One observation an engine step; the second name is the first one's, in spite of itself, up to 0.11.
    Distribution.ITL: ("vllm_inter_token_latency_seconds", "vllm_time_per_output_token_seconds"),
    Distribution.TPOT: ("vllm_request_time_per_output_token_seconds",),
    # Requests that finished; one that the client gave up is in none of these two.
    Distribution.E2E: ("vllm_e2e_request_latency_seconds",),
    Distribution.QUEUE_TIME: ("vllm_request_queue_time_seconds",),
}
FINISHED = "vllm_request_success_total"
"""Counts every end of a request by `finished_reason`, "abort" and "error" too, in spite of its name."""
REJECTED = "vllm_admission_rejections_total"
"""Requests turned away at the door (0.33); has no `engine` label."""
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
"""Newest first: the first family that is present speaks."""
TRAITS = (
    ("vllm_num_requests_kv_fetch_by_stage", "decode side of a prefill/decode pair"),
    ("vllm_nixl_xfer_time_seconds_count", "KV transfer over NIXL"),
    ("vllm_spec_decode_num_drafts_total", "speculative decoding"),
    ("vllm_corrupted_requests_total", "NaN check on"),
)

HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


def _wanted() -> frozenset[str]:
    plain = (*GAUGES.values(), *COUNTERS.values(), *CACHE, STARTED, (FINISHED, REJECTED))
    histograms = (name for names in DISTRIBUTIONS.values() for name in names)
    return frozenset(name for names in plain for name in names) | {
        f"{name}{part}" for name in histograms for part in HISTOGRAM_PARTS
    }


def recognises(present: Set[str]) -> bool:
    """Any series of vLLM's own will do: which families there are differs by release and by flag."""
    return any(name.startswith("vllm_") for name in present)


def read(exposition: Exposition) -> Content:
    """Everything that vLLM says, in the one vocabulary."""
    notes = Notes()
    gauges = {
        (gauge, rank): value
        for gauge, names in GAUGES.items()
        for rank, value in _gauge(exposition, gauge, names, notes).items()
    }
    histograms = {
        (distribution, rank): histogram
        for distribution, names in DISTRIBUTIONS.items()
        for rank, histogram in _histogram(exposition, names, notes).items()
    }
    models = _models(exposition)
    if len(models) > 1:
        notes.add(f"several model names ({', '.join(models[:5])}): their series are added up")
    return Content(
        gauges,
        _counters(exposition, notes),
        histograms,
        _started(exposition),
        models[0] if models else None,
        _hints(exposition),
        notes.words(),
    )


def _gauge(exposition: Exposition, gauge: Gauge, names: Iterable[str], notes: Notes) -> dict[Rank, Number]:
    name, samples = first_present(exposition, names)
    if name in exposition.spoiled:
        notes.add(f"{name} has a line that cannot be read")
        return {Rank("0"): Missing(Gap.MALFORMED)}
    return read_gauge(name, samples, is_share=gauge is Gauge.KV_CACHE_USAGE, notes=notes)


def _histogram(exposition: Exposition, names: Iterable[str], notes: Notes) -> dict[Rank, Histogram]:
    bucket, samples = first_present(exposition, [f"{name}_bucket" for name in names])
    return read_histogram(bucket.removesuffix("_bucket"), exposition, notes) if samples else {}


def _counters(exposition: Exposition, notes: Notes) -> dict[tuple[Counter, Rank], float]:
    found: dict[Counter, dict[Rank, float]] = {}
    for counter, names in COUNTERS.items():
        name, samples = first_present(exposition, names)
        found[counter] = read_counter(name, samples, notes)
    queries, samples = first_present(exposition, [queries for queries, _ in CACHE])
    hits = exposition.samples.get(dict(CACHE).get(queries, ""), ())
    if samples and hits:
        found[Counter.CACHE_QUERIES] = read_counter(queries, samples, notes)
        found[Counter.CACHE_HITS] = read_counter(dict(CACHE)[queries], hits, notes)
    found |= _ends(exposition, notes)
    return {(counter, rank): total for counter, by_rank in found.items() for rank, total in by_rank.items()}


def _ends(exposition: Exposition, notes: Notes) -> dict[Counter, dict[Rank, float]]:
    """How requests ended: done (stop, length, repetition), aborted, or failed.

    Clients that hang up are in none of these counters (vLLM counts only aborts through its API); a request that asks
    for n answers counts n times.
    """
    ends: dict[Counter, list[Sample]] = {}
    for sample in exposition.samples.get(FINISHED, ()):
        reason = sample.labels.get("finished_reason", "")
        ends.setdefault(_END_OF.get(reason, Counter.FINISHED), []).append(sample)
    found = {counter: read_counter(FINISHED, samples, notes) for counter, samples in ends.items()}
    errors = found.get(Counter.ERRORS)
    if errors:
        rejected = sum(read_counter(REJECTED, exposition.samples.get(REJECTED, ()), notes).values())
        errors[min(errors)] += rejected
    return found


_END_OF = {"abort": Counter.ABORTED, "error": Counter.ERRORS}


def _models(exposition: Exposition) -> list[str]:
    names = {
        sample.labels["model_name"]: None
        for samples in exposition.samples.values()
        for sample in samples
        if "model_name" in sample.labels
    }
    return list(names)


def _started(exposition: Exposition) -> float | None:
    _, samples = first_present(exposition, STARTED)
    times = [sample.value for sample in samples if math.isfinite(sample.value) and sample.value > 0]
    return min(times, default=None)


def _hints(exposition: Exposition) -> tuple[str, ...]:
    """The newest release that the families prove, and what else they tell."""
    version = next((hint for name, hint in VERSIONS if name in exposition.present), None)
    traits = tuple(hint for name, hint in TRAITS if name in exposition.present)
    return (version, *traits) if version else traits


# The server's `http_` families come last; before the first request, with several processes, this one does.
VLLM = Dialect(EngineKind.VLLM, "vLLM", _wanted(), frozenset({REJECTED}), recognises, read)
