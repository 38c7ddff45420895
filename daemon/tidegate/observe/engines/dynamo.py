"""Dynamo's two planes: the worker counts as an engine, the frontend as a gateway in front of engines.

Both count each request, so they are never added up. A worker that passes its engine's own series on is read in that
engine's dialect; this module reads one that does not, by its endpoint `generate` (the others are Dynamo's own calls). A
frontend gives the queue before any engine, and the times that clients see. Where workers have no metrics
(`DYN_SYSTEM_PORT` is off unless it is set), the frontend can be read as the engine by naming the kind `dynamo` in the
configuration. `DYN_METRICS_PREFIX` renames the frontend's families: they are known by their endings. Sources: Dynamo's
`lib/runtime/src/metrics/prometheus_names.rs`, `docs/observability/metrics.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from tidegate.model.reading import Counter, Distribution, EngineKind, Gauge, Number, Rank
from tidegate.observe.engines.dialect import Content, Dialect
from tidegate.observe.engines.page import Page
from tidegate.observe.engines.samples import Body, Selection
from tidegate.observe.engines.table import Draft, Table, combined, one_rank
from tidegate.observe.exposition import Exposition, Sample, Samples

WORKER, FRONTEND = "dynamo_component_", "dynamo_frontend_"

WORKER_TABLE = Table(
    gauges={
        Gauge.RUNNING: (f"{WORKER}inflight_requests",),
        # 0 to 1 in spite of the name.
        Gauge.KV_CACHE_USAGE: (f"{WORKER}gpu_cache_usage_percent",),
    },
    counters={
        Counter.FINISHED: (f"{WORKER}requests_total",),
        Counter.ERRORS: (f"{WORKER}errors_total",),
    },
    histograms={Distribution.E2E: (f"{WORKER}request_duration_seconds",)},
)
FRONTEND_TABLE = Table(
    # Until a request's first token: its wait in the engine and its prefill are in it.
    gauges={Gauge.GATEWAY_QUEUE: (f"{FRONTEND}queued_requests",)},
    counters={
        Counter.REQUESTS: (f"{FRONTEND}requests_total",),
        # A request that lost its worker goes on at another one.
        Counter.RETRIES: (f"{FRONTEND}model_migration_total",),
    },
    histograms={
        Distribution.TTFT: (f"{FRONTEND}time_to_first_token_seconds",),
        Distribution.ITL: (f"{FRONTEND}inter_token_latency_seconds",),
        Distribution.E2E: (f"{FRONTEND}request_duration_seconds",),
    },
)
TOKENS = {
    Counter.PROMPT_TOKENS: f"{FRONTEND}input_sequence_tokens_sum",
    Counter.CACHED_PROMPT_TOKENS: f"{FRONTEND}cached_tokens_sum",
    Counter.GENERATION_TOKENS: f"{FRONTEND}output_tokens_total",
}
"""Read where the frontend stands for its engines."""
INFLIGHT = f"{FRONTEND}inflight_requests"
_REQUESTS = f"{FRONTEND}requests_total"
_MARKS = ("inflight_requests", "disconnected_clients", "input_sequence_tokens_count")
"""Endings that together only a frontend has, whatever its prefix."""
_GENERATE = "generate"

FRONTEND_NAMES = FRONTEND_TABLE.names() | {INFLIGHT, *TOKENS.values()}


def is_worker(present: Set[str]) -> bool:
    """The families of a worker; a frontend has some of these for its own calls, so it is asked for first."""
    return any(name.startswith(WORKER) for name in present)


def prefix_of(present: Set[str]) -> str | None:
    """What the frontend's names begin with, "dynamo_frontend_" unless somebody changed it; None: no frontend."""
    if any(name.startswith(FRONTEND) for name in present):
        return FRONTEND
    first, *others = _MARKS
    prefixes = sorted(name.removesuffix(first) for name in present if name.endswith(f"_{first}"))
    return next((one for one in prefixes if all(f"{one}{other}" in present for other in others)), None)


def is_frontend(present: Set[str]) -> bool:
    """The families of a frontend, under any prefix."""
    return prefix_of(present) is not None


def read_frontend(exposition: Exposition) -> Content:
    """The frontend as a gateway: no tokens and no running requests, which its engines count."""
    page = Page(_named_as_usual(exposition), one_rank)
    return _frontend(page).content(page, _model(page))


def read_worker(exposition: Exposition) -> Content:
    """A worker's own families; or a frontend that was declared to stand for its engines."""
    if is_frontend(exposition.present):
        return _instead_of_workers(Page(_named_as_usual(exposition), one_rank))
    page = Page(_generating(exposition), one_rank)
    return WORKER_TABLE.read(page).content(page, _model(page))


def _instead_of_workers(page: Page) -> Content:
    draft = _frontend(page)
    draft.counters |= {counter: page.counter(name) for counter, name in TOKENS.items()}
    prompt, cached = draft.counters[Counter.PROMPT_TOKENS], draft.counters[Counter.CACHED_PROMPT_TOKENS]
    if prompt and cached:
        draft.counters |= {Counter.CACHE_QUERIES: prompt, Counter.CACHE_HITS: cached}
    waiting = draft.gauges.pop(Gauge.GATEWAY_QUEUE)
    running: Mapping[Rank, Number] = combined(page.gauge(INFLIGHT), waiting, lambda one, other: max(0.0, one - other))
    draft.gauges |= {Gauge.QUEUE_DEPTH: waiting, Gauge.RUNNING: running}
    draft.counters[Counter.FINISHED] = page.counter_where(_REQUESTS, "status", "success".__eq__)
    return draft.content(page, _model(page), ("the frontend in place of its workers",))


def _frontend(page: Page) -> Draft:
    draft = FRONTEND_TABLE.read(page)
    failed = Page(_chosen(page.exposition, _REQUESTS, _failed), one_rank, page.notes)
    cancelled = page.counter_where(_REQUESTS, "error_type", "cancelled".__eq__)
    errors = failed.counter(_REQUESTS) or dict.fromkeys(draft.counters[Counter.REQUESTS], 0.0)
    draft.counters |= {Counter.ERRORS: errors, Counter.ABORTED: cancelled}
    return draft


def _failed(sample: Sample) -> bool:
    return sample.labels.get("status") == "error" and sample.labels.get("error_type") != "cancelled"


def _generating(exposition: Exposition) -> Body:
    """The series of requests for tokens, where series name their endpoint."""
    samples: dict[str, Samples] = {}
    for name, found in exposition.samples.items():
        chosen = [sample for sample in found if _endpoint(sample) == _GENERATE]
        samples[name] = Samples.of(chosen) if chosen else found
    return Selection(samples, exposition.present, exposition.spoiled)


def _endpoint(sample: Sample) -> str:
    return sample.labels.get("dynamo_endpoint") or sample.labels.get("endpoint", "")


def _chosen(body: Body, name: str, accept: Callable[[Sample], bool]) -> Selection:
    chosen = [sample for sample in body.samples.get(name, ()) if accept(sample)]
    return Selection({name: Samples.of(chosen)} if chosen else {}, body.present, body.spoiled)


def _named_as_usual(exposition: Exposition) -> Body:
    """A frontend under another prefix, under the usual one."""
    prefix = prefix_of(exposition.present) or FRONTEND
    if prefix == FRONTEND:
        return exposition

    def usual(names: Set[str]) -> frozenset[str]:
        return frozenset(name.replace(prefix, FRONTEND, 1) for name in names if name.startswith(prefix))

    samples = {name.replace(prefix, FRONTEND, 1): found for name, found in exposition.samples.items()}
    return Selection(samples, usual(exposition.present), usual(exposition.spoiled))


def renamed(present: Set[str]) -> frozenset[str]:
    """What is read of a frontend whose families have another prefix; empty for all other bodies."""
    prefix = prefix_of(present)
    if prefix in (None, FRONTEND):
        return frozenset()
    return frozenset(name.replace(FRONTEND, prefix, 1) for name in FRONTEND_NAMES)


def _model(page: Page) -> str | None:
    """The one model; a frontend with several has none, and that is no doubt."""
    names: Sequence[str] = sorted(
        {
            sample.labels["model"]
            for found in page.exposition.samples.values()
            for sample in found
            if "model" in sample.labels
        }
    )
    return names[0] if len(names) == 1 else None


DYNAMO = Dialect(
    EngineKind.DYNAMO,
    "Dynamo",
    WORKER_TABLE.names() | FRONTEND_NAMES,
    frozenset(),
    is_worker,
    read_worker,
    also_wanted=renamed,
)
DYNAMO_FRONTEND = Dialect(
    EngineKind.DYNAMO_FRONTEND,
    "Dynamo's frontend",
    FRONTEND_NAMES,
    frozenset(),
    is_frontend,
    read_frontend,
    also_wanted=renamed,
)
