"""Triton's dialect: `nv_inference_*` of the server, `nv_trt_llm_*` of its TensorRT-LLM backend, or vLLM's own families.

Counters have no `_total`, times are sums of microseconds: means, and no quantile (the optional summaries slide over a
window of Triton's own and are not read). An ensemble counts a request once, and each model that it is made of counts it
again: requests are those of the ensemble or BLS model, the engine's figures are those of the model behind it. What GPUs
do, Triton repeats from NVML. Counters move when a response is complete. Sources: Triton's `docs/user_guide/metrics.md`;
`custom_metrics_reporter.cc` of the TensorRT-LLM backend; vllm_backend#53.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from tidegate.model.reading import Counter, Distribution, EngineKind, Gauge, Histogram, Number, Rank
from tidegate.observe.engines.dialect import Content, Dialect
from tidegate.observe.engines.page import Page
from tidegate.observe.engines.samples import Body, Selection
from tidegate.observe.engines.table import Draft, combined, mean_only, one_rank, share
from tidegate.observe.engines.vllm import VLLM
from tidegate.observe.exposition import Exposition, Sample, Samples

SUCCESS, FAILURE, PENDING = (
    "nv_inference_request_success",
    "nv_inference_request_failure",
    "nv_inference_pending_request_count",
)
DURATION, QUEUED = "nv_inference_request_duration_us", "nv_inference_queue_duration_us"
REQUESTS, BLOCKS = "nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics"
GENERAL, DISAGGREGATED = "nv_trt_llm_general_metrics", "nv_trt_llm_disaggregated_serving_metrics"
INPUT_TOKENS, OUTPUT_TOKENS = "nv_llm_input_token_len_sum", "nv_llm_output_token_len_sum"

_WANTED = frozenset(
    {SUCCESS, FAILURE, PENDING, DURATION, QUEUED, REQUESTS, BLOCKS, GENERAL, DISAGGREGATED, INPUT_TOKENS, OUTPUT_TOKENS}
)
_MICROSECONDS = 1e6
_AROUND = ("preprocessing", "postprocessing")
_CANCELED, _REJECTED = "CANCELED", "REJECTED"


def recognises(present: Set[str]) -> bool:
    """The server's families or those of the TensorRT-LLM backend; asked before vLLM, whose families it may pass on."""
    return any(name.startswith(("nv_inference_", "nv_trt_llm_")) for name in present)


def read(exposition: Exposition) -> Content:
    """vLLM's figures where the vLLM backend passes them on, for Triton counts the same requests; else Triton's own."""
    if VLLM.recognises(exposition.present):
        content = VLLM.read(exposition)
        models = Page(exposition).models("model_name", "model") if content.model is None else [content.model]
        return replace(content, model=models[0] if models else None, hints=(*content.hints, "vLLM backend of Triton"))
    engine, front = _models(exposition)
    page = Page(_of(exposition, engine), one_rank)
    outside = Page(_of(exposition, front), one_rank, page.notes)
    draft = Draft(_gauges(page), _counters(page, outside), _means(page, outside))
    if len(engine) > 1:
        page.notes.add(f"several models ({', '.join(engine[:5])}): their series are added up")
    hints = (f"requests of {front[0]}, engine figures of {engine[0]}",) if front != engine else ()
    return draft.content(page, engine[0] if engine else None, hints)


def _models(exposition: Exposition) -> tuple[list[str], list[str]]:
    """The models that are engines, and those where requests come in: ensembles and BLS models, else the engines."""
    backend = _named(exposition, (REQUESTS, BLOCKS, GENERAL))
    every = _named(exposition, (SUCCESS, PENDING))
    front = [model for model in every if "ensemble" in model or model.endswith("_bls")]
    engine = backend or [model for model in every if model not in front and not model.startswith(_AROUND)] or every
    return engine, front or engine


def _named(exposition: Exposition, names: Iterable[str]) -> list[str]:
    found = {
        sample.labels["model"]
        for name in names
        for sample in exposition.samples.get(name, ())
        if "model" in sample.labels
    }
    return sorted(found)


def _of(exposition: Exposition, models: Sequence[str]) -> Selection:
    """The series of these models, and those that name none."""
    return _chosen(exposition, lambda sample: sample.labels.get("model") in (None, *models))


def _chosen(body: Body, accept: Callable[[Sample], bool]) -> Selection:
    parts = {name: [sample for sample in found if accept(sample)] for name, found in body.samples.items()}
    return Selection({name: Samples.of(part) for name, part in parts.items() if part}, body.present, body.spoiled)


def _where(page: Page, label: str, *values: str) -> Page:
    """The series that have one of a label's values: what stands under one name are figures of their own."""
    selection = _chosen(page.exposition, lambda sample: sample.labels.get(label) in values)
    return Page(selection, one_rank, page.notes)


def _gauges(page: Page) -> dict[Gauge, Mapping[Rank, Number]]:
    def requests(kind: str) -> dict[Rank, Number]:
        return _where(page, "request_type", kind).gauge(REQUESTS)

    def blocks(kind: str, *, is_share: bool = False) -> dict[Rank, Number]:
        return _where(page, "kv_cache_block_type", kind).gauge(BLOCKS, is_share=is_share)

    running = requests("scheduled")
    # Before 25.03 there is no `waiting`: what is active and in no batch waits.
    waiting = requests("waiting") or combined(requests("active"), running, lambda one, other: max(0.0, one - other))
    return {
        Gauge.RUNNING: running,
        Gauge.QUEUE_DEPTH: waiting or page.gauge(PENDING),
        Gauge.KV_CACHE_USAGE: blocks("fraction", is_share=True) or combined(blocks("used"), blocks("max"), share),
    }


def _counters(page: Page, outside: Page) -> dict[Counter, Mapping[Rank, float]]:
    transfers = _where(page, "disaggregated_serving_type", "request_count")
    return {
        Counter.PROMPT_TOKENS: page.counter(INPUT_TOKENS),
        Counter.GENERATION_TOKENS: page.counter(OUTPUT_TOKENS),
        Counter.STEPS: _where(page, "general_type", "iteration_counter").counter(GENERAL),
        Counter.KV_TRANSFERS: transfers.counter(DISAGGREGATED),
        Counter.FINISHED: outside.counter(SUCCESS),
        Counter.ABORTED: outside.counter_where(FAILURE, "reason", _CANCELED.__eq__),
        Counter.ADMISSION_REJECTIONS: outside.counter_where(FAILURE, "reason", _REJECTED.__eq__),
        # Old releases give no reason: then every failure is an error.
        Counter.ERRORS: outside.counter_where(FAILURE, "reason", _CANCELED.__ne__) or outside.counter(FAILURE),
    }


def _means(page: Page, outside: Page) -> dict[Distribution, Mapping[Rank, Histogram]]:
    """Whole requests where they come in, the wait where they are served."""
    return {
        Distribution.E2E: _mean(outside, DURATION),
        Distribution.QUEUE_TIME: _mean(page, QUEUED),
    }


def _mean(page: Page, name: str) -> dict[Rank, Histogram]:
    seconds = {rank: total / _MICROSECONDS for rank, total in page.counter(name).items()}
    return mean_only(seconds, page.counter(SUCCESS))


TRITON = Dialect(EngineKind.TRITON, "Triton", _WANTED | VLLM.wanted, frozenset(), recognises, read)
