"""A simulated engine's `/metrics` page: the names, labels, help texts and order of vLLM 0.32.0 (text format 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.demo.engine_model import Engine
from tidegate.demo.engine_tally import Buckets, Tally

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
HANDLER = "/v1/completions"


@dataclass(frozen=True, slots=True)
class _Family:
    """One family: `name` without `_total`; each sample has the labels beyond engine and model_name."""

    name: str
    kind: str
    help: str


@dataclass(frozen=True, slots=True)
class _Histogram:
    name: str
    help: str
    field: str
    """The attribute of Tally."""


_RUNNING = _Family("num_requests_running", "gauge", "Number of requests in model execution batches.")
_WAITING = _Family("num_requests_waiting", "gauge", "Number of requests waiting to be processed.")
_WAITING_WHY = _Family(
    "num_requests_waiting_by_reason",
    "gauge",
    "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = "
    "deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals "
    "vllm:num_requests_waiting.",
)
_SLEEP = _Family(
    "engine_sleep_state",
    "gauge",
    "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 "
    "means sleep level 1; discard_all = 1 means sleep level 2.",
)
_KV_USAGE = _Family("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.")
_QUERIES = _Family("prefix_cache_queries", "counter", "Prefix cache queries, in terms of number of queried tokens.")
_HITS = _Family("prefix_cache_hits", "counter", "Prefix cache hits, in terms of number of cached tokens.")
_PREEMPTIONS = _Family("num_preemptions", "counter", "Cumulative number of preemption from the engine.")
_PROMPT = _Family("prompt_tokens", "counter", "Number of prefill tokens processed.")
_BY_SOURCE = _Family("prompt_tokens_by_source", "counter", "Number of prompt tokens by source.")
_CACHED = _Family("prompt_tokens_cached", "counter", "Number of cached prompt tokens (local + external).")
_GENERATED = _Family("generation_tokens", "counter", "Number of generation tokens processed.")
_SUCCESS = _Family("request_success", "counter", "Count of successfully processed requests.")
_HISTOGRAMS = (
    _Histogram("request_prompt_tokens", "Number of prefill tokens processed.", "request_prompt_tokens"),
    _Histogram("request_generation_tokens", "Number of generation tokens processed.", "request_generation_tokens"),
    _Histogram("iteration_tokens_total", "Histogram of number of tokens per engine_step.", "iteration_tokens"),
    _Histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", "ttft"),
    _Histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", "itl"),
    _Histogram(
        "request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", "tpot"
    ),
    _Histogram("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", "e2e"),
    _Histogram("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", "queue_time"),
    _Histogram(
        "request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", "inference_time"
    ),
    _Histogram("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", "prefill_time"),
    _Histogram("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", "decode_time"),
    _Histogram(
        "request_prefill_kv_computed_tokens",
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        "request_computed_tokens",
    ),
)

Sample = tuple[str, float]
"""Labels beyond engine and model_name, as text, and the value."""


class Page:
    """Renders one engine's page again and again."""

    def __init__(self, model: str) -> None:
        self._model = model.replace("\\", "\\\\").replace('"', '\\"')

    def render(self, engine: Engine) -> str:
        """The whole body, as it stands now."""
        tally = engine.tally
        lines = _process_lines(tally.started)
        for family, samples in self._families(engine, tally):
            lines += self._family(family, samples, tally.started)
        for histogram in _HISTOGRAMS:
            lines += self._histogram(histogram, getattr(tally, histogram.field), tally.started)
        lines += _http_lines(tally)
        return "\n".join(lines) + "\n"

    def _families(self, engine: Engine, tally: Tally) -> Iterable[tuple[_Family, Sequence[Sample]]]:
        waiting = engine.waiting
        yield _RUNNING, [("", engine.running)]
        yield _WAITING, [("", waiting)]
        yield _WAITING_WHY, [('reason="capacity"', waiting), ('reason="deferred"', 0)]
        yield (
            _SLEEP,
            [('sleep_state="awake"', 1), ('sleep_state="weights_offloaded"', 0), ('sleep_state="discard_all"', 0)],
        )
        yield _KV_USAGE, [("", engine.kv_usage)]
        yield _QUERIES, [("", tally.cache_queries)]
        yield _HITS, [("", tally.cache_hits)]
        yield _PREEMPTIONS, [("", 0)]
        yield _PROMPT, [("", tally.prompt_tokens)]
        yield (
            _BY_SOURCE,
            [
                ('source="local_compute"', tally.prompt_tokens - tally.cached_tokens),
                ('source="local_cache_hit"', tally.cached_tokens),
                ('source="external_kv_transfer"', 0),
            ],
        )
        yield _CACHED, [("", tally.cached_tokens)]
        yield _GENERATED, [("", engine.generated_tokens())]
        yield (
            _SUCCESS,
            [
                ('finished_reason="stop"', tally.finished_by_stop),
                ('finished_reason="length"', tally.finished_by_length),
                ('finished_reason="abort"', 0),
                ('finished_reason="error"', 0),
                ('finished_reason="repetition"', 0),
            ],
        )

    def _labels(self, extra: str) -> str:
        """The labels in the order of the alphabet, as prometheus-client writes them."""
        parts = sorted([f'model_name="{self._model}"', 'engine="0"', *([extra] if extra else [])])
        return "{" + ",".join(parts) + "}"

    def _family(self, family: _Family, samples: Sequence[Sample], started: float) -> list[str]:
        suffix = "_total" if family.kind == "counter" else ""
        name = f"vllm:{family.name}{suffix}"
        lines = [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"]
        lines += [f"{name}{self._labels(extra)} {float(value)!r}" for extra, value in samples]
        if suffix:
            lines += self._created(family.name, family.help, [extra for extra, _ in samples], started)
        return lines

    def _created(self, name: str, text: str, extras: Sequence[str], started: float) -> list[str]:
        created = f"vllm:{name}_created"
        return [
            f"# HELP {created} {text}",
            f"# TYPE {created} gauge",
            *(f"{created}{self._labels(extra)} {started!r}" for extra in extras),
        ]

    def _histogram(self, histogram: _Histogram, buckets: Buckets, started: float) -> list[str]:
        name = f"vllm:{histogram.name}"
        counts = buckets.cumulative()
        bounds = [*(repr(bound) for bound in buckets.bounds), "+Inf"]
        labels = self._labels("")
        return [
            f"# HELP {name} {histogram.help}",
            f"# TYPE {name} histogram",
            *(
                f'{name}_bucket{{engine="0",le="{bound}",model_name="{self._model}"}} {count}.0'
                for bound, count in zip(bounds, counts, strict=True)
            ),
            f"{name}_count{labels} {counts[-1]}.0",
            f"{name}_sum{labels} {buckets.sum!r}",
            *self._created(histogram.name, histogram.help, [""], started),
        ]


def _process_lines(started: float) -> list[str]:
    name = "process_start_time_seconds"
    return [
        f"# HELP {name} Start time of the process since unix epoch in seconds.",
        f"# TYPE {name} gauge",
        f"{name} {started!r}",
    ]


def _http_lines(tally: Tally) -> list[str]:
    text = "Total number of requests by method, status and handler."
    lines = [f"# HELP http_requests_total {text}", "# TYPE http_requests_total counter"]
    labels = f'{{handler="{HANDLER}",method="POST",status="2xx"}}'
    if tally.finished_requests:  # the instrumentator knows a handler from its first answer on
        lines.append(f"http_requests_total{labels} {float(tally.finished_requests)!r}")
    return lines
