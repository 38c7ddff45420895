"""The routers in front of engines: the queue before any engine, and traffic, health, errors and retries by worker.

A router is no engine: its requests are those of its workers once more, so it has no running requests and no tokens
here. Its page has no HELP, empty lines, another order each time, and shows a family with the first event of its kind;
what a whole page lacks of the totals has not happened yet. A total is the sum over every family that may count it: by
preference it would fall when a better family appears. The `model` label is whatever a client sent: it is summed over,
and never becomes a label or a name here. Workers are ranks by their address, as many as `MOST_WORKERS`. Sources: pages
of vllm-router 0.1.17 and sglang-router 0.3.2, and their `metrics.rs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set

from tidegate.model.reading import Counter, Distribution, EngineKind, Gauge, Missing, Number, Rank
from tidegate.observe.engines.dialect import Content, Dialect
from tidegate.observe.engines.page import Page, parts_of, plus
from tidegate.observe.engines.samples import Body, Notes, Selection
from tidegate.observe.engines.table import Draft, one_rank, total
from tidegate.observe.exposition import Exposition, Sample, Samples

MOST_WORKERS = 256
_LONGEST_ADDRESS = 200
_ALL = Rank("0")
_USER = re.compile(r"(?<=//)[^/@]*@")
"""A user and a password in an address are for nobody's labels."""

_NOTHING = Content({}, {}, {})
"""Of a page that is no router's, whatever it was declared as: there nothing is zero."""

Totals = Mapping[Rank, float]


def read_vllm_router(exposition: Exposition) -> Content:
    """vllm-router, plain or with prefill/decode separation: its names differ, and never count one request twice."""

    def name(rest: str) -> str:
        return f"vllm_router_{rest}"

    page = Page(exposition, one_rank)
    if not VLLM_ROUTER.recognises(exposition.present):
        return _NOTHING
    workers = _by_worker(exposition, page.notes)
    stage_errors = (name("pd_prefill_errors_total"), name("pd_decode_errors_total"))
    stage_requests = (name("pd_prefill_requests_total"), name("pd_decode_requests_total"))
    running, active = name("running_requests"), name("pd_active_decode_requests")
    draft = Draft(
        {
            # Not yet at a decode worker.
            Gauge.GATEWAY_QUEUE: _aggregates(page).gauge(name("pd_pending_decode_requests")),
            Gauge.WORKER_RUNNING: _aggregates(workers).gauge(running, active),
            **_health(page, workers, name("worker_health"), name("active_workers")),
        },
        {
            Counter.REQUESTS: _events(page, name("requests_total"), name("pd_requests_total")),
            # What fails at a prefill or decode worker may or may not be among the errors of the whole.
            Counter.ERRORS: plus(
                _events(page, name("request_errors_total")),
                _larger(_events(page, name("pd_errors_total")), _events(page, *stage_errors)),
            ),
            Counter.RETRIES: _events(page, name("retries_total")),
            Counter.WORKER_REQUESTS: _larger(
                _of_workers(workers, name("processed_requests_total")), _of_workers(workers, *stage_requests)
            ),
            Counter.WORKER_ERRORS: _larger(
                _failures(workers, name("cb_outcomes_total")), _of_workers(workers, *stage_errors)
            ),
        },
        {Distribution.E2E: page.histogram(name("pd_request_duration_seconds"), name("generate_duration_seconds"))},
    )
    return draft.content(page)


def read_sglang_router(exposition: Exposition) -> Content:
    """sglang-router (smg), plain or with prefill/decode separation."""

    def name(rest: str) -> str:
        return f"smg_{rest}"

    page = Page(exposition, one_rank)
    if not SGLANG_ROUTER.recognises(exposition.present):
        return _NOTHING
    workers = _by_worker(exposition, page.notes)
    draft = Draft(
        {
            Gauge.GATEWAY_QUEUE: page.gauge(name("admission_queue_depth")),
            Gauge.WORKER_RUNNING: workers.gauge(name("worker_requests_active")),
            **_health(page, workers, name("worker_health"), name("worker_pool_size")),
        },
        {
            Counter.REQUESTS: _events(page, name("router_requests_total")),
            Counter.ERRORS: _events(page, name("router_request_errors_total"), name("admission_queue_rejected_total")),
            Counter.RETRIES: _events(page, name("worker_retries_total")),
            Counter.HTTP_ERRORS: page.counter_where(name("http_responses_total"), "status_code", _is_server_error),
            Counter.ADMISSION_REJECTIONS: page.counter(name("admission_queue_rejected_total")),
            Counter.KV_TRANSFER_FAILURES: page.counter(name("pd_kv_transfer_failures_total")),
            Counter.WORKER_REQUESTS: _of_workers(workers, name("worker_cb_outcomes_total")),
            Counter.WORKER_ERRORS: _failures(workers, name("worker_cb_outcomes_total")),
        },
        {
            Distribution.E2E: page.histogram(name("router_request_duration_seconds")),
            # Only with workers over gRPC; with prefill/decode separation the one time that a client waits.
            Distribution.TTFT: page.histogram(name("pd_ttft_seconds"), name("router_ttft_seconds")),
            Distribution.TPOT: page.histogram(name("router_tpot_seconds")),
        },
    )
    return draft.content(page)


def _events(page: Page, *names: str) -> Totals:
    """The total of all these families: 0 before the first event, nothing where one of them cannot be read."""
    return _total(page, names, {_ALL})


def _of_workers(workers: Page, *names: str) -> Totals:
    """The same for every worker that the page tells of."""
    ranks = {workers.rank_of(sample) for found in workers.exposition.samples.values() for sample in found}
    return _total(workers, names, ranks)


def _total(page: Page, names: Iterable[str], ranks: Iterable[Rank]) -> Totals:
    totals = dict.fromkeys(ranks, 0.0)
    for name in names:
        counted = page.counter(name)
        if name in page.exposition.spoiled or (not counted and name in page.exposition.samples):
            return {}
        totals = total(totals, counted)
    return totals


def _larger(one: Totals, other: Totals) -> Totals:
    """Two counts of the same things, by rank; nothing where one of them cannot be read."""
    return {rank: max(count, other[rank]) for rank, count in one.items() if rank in other}


def _failures(workers: Page, outcomes: str) -> Totals:
    selection = _chosen(workers.exposition, lambda sample: sample.labels.get("outcome", "failure") == "failure")
    return _of_workers(Page(selection, _worker, workers.notes), outcomes)


def _is_server_error(status: str) -> bool:
    return status.startswith("5")


def _health(page: Page, workers: Page, health: str, known: str) -> dict[Gauge, Mapping[Rank, Number]]:
    """By worker, and how many there are; a router that tells no health may still tell how many it knows."""
    by_worker = workers.gauge(health)
    if not page.exposition.samples.get(health):
        return {Gauge.WORKERS: page.gauge(known)}
    up = [value for value in page.exposition.samples[health] if value.value > 0]
    return {
        Gauge.WORKER_UP: {rank: _flag(value) for rank, value in by_worker.items()},
        Gauge.WORKERS: {_ALL: float(len(page.exposition.samples[health]))},
        Gauge.WORKERS_UP: {_ALL: float(len(up))},
    }


def _flag(value: Number) -> Number:
    return value if isinstance(value, Missing) else float(value > 0)


def _by_worker(body: Body, notes: Notes) -> Page:
    """The series of workers, each worker a rank; the first `MOST_WORKERS` in the order of their addresses."""
    addresses = {
        sample.labels["worker"] for found in body.samples.values() for sample in found if "worker" in sample.labels
    }
    fit = sorted(address for address in addresses if 0 < len(address) <= _LONGEST_ADDRESS)
    kept = frozenset(fit[:MOST_WORKERS])
    if len(kept) < len(addresses):
        notes.add(
            f"{len(addresses) - len(kept)} of {len(addresses)} workers are left out: too many, or too long a name"
        )
    return Page(_chosen(body, lambda sample: sample.labels.get("worker") in kept), _worker, notes)


def _worker(sample: Sample) -> Rank:
    return Rank(_USER.sub("", sample.labels["worker"]))


def _aggregates(page: Page) -> Page:
    """Without the series of single ranks of a worker, which stand beside their sum."""
    selection = _chosen(page.exposition, lambda sample: sample.labels.get("rank", "aggregate") == "aggregate")
    return Page(selection, page.rank_of, page.notes)


def _chosen(body: Body, accept: Callable[[Sample], bool]) -> Selection:
    parts = {name: [sample for sample in found if accept(sample)] for name, found in body.samples.items()}
    return Selection({name: Samples.of(part) for name, part in parts.items() if part}, body.present, body.spoiled)


def _starts_with(prefix: str) -> Callable[[Set[str]], bool]:
    return lambda present: any(name.startswith(prefix) for name in present)


def _named(prefix: str, plain: Iterable[str], histograms: Iterable[str]) -> frozenset[str]:
    return frozenset(prefix + name for name in plain) | parts_of(prefix + name for name in histograms)


_VLLM_NAMES = _named(
    "vllm_router_",
    (
        *("requests_total", "request_errors_total", "retries_total", "processed_requests_total", "running_requests"),
        *("worker_health", "active_workers", "cb_outcomes_total", "pd_requests_total", "pd_errors_total"),
        *("pd_prefill_requests_total", "pd_decode_requests_total", "pd_prefill_errors_total", "pd_decode_errors_total"),
        *("pd_pending_decode_requests", "pd_active_decode_requests"),
    ),
    ("pd_request_duration_seconds", "generate_duration_seconds"),
)
_SMG_NAMES = _named(
    "smg_",
    (
        *("router_requests_total", "router_request_errors_total", "worker_retries_total", "worker_cb_outcomes_total"),
        *("worker_health", "worker_pool_size", "worker_requests_active", "http_responses_total"),
        *("admission_queue_depth", "admission_queue_rejected_total", "pd_kv_transfer_failures_total"),
    ),
    ("router_request_duration_seconds", "pd_ttft_seconds", "router_ttft_seconds", "router_tpot_seconds"),
)

VLLM_ROUTER = Dialect(
    EngineKind.VLLM_ROUTER, "vllm-router", _VLLM_NAMES, frozenset(), _starts_with("vllm_router_"), read_vllm_router
)
SGLANG_ROUTER = Dialect(
    EngineKind.SGLANG_ROUTER, "sglang-router", _SMG_NAMES, frozenset(), _starts_with("smg_"), read_sglang_router
)
