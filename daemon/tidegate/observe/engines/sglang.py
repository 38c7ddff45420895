"""SGLang's dialect: request figures of its tokenizer process, token and queue figures of its schedulers, one a rank.

Each scheduler of a tensor or pipeline parallel group may report the same requests, so one of each data parallel rank
is read: the lowest `pp_rank`, then the lowest `tp_rank`. Tokens come from the best of three sources:
`prefill_effective` (0.5.18 and later; without what was computed again after a retraction), `realtime` (0.5.7; batch by
batch), and the counters of finished requests, which move late and in jumps. Never read are `cache_hit_rate`,
`gen_throughput`, `utilization` and `num_retracted_reqs`: they tell of the last batch or interval, and decoding sets
the first one to 0.

Sources: SGLang's `srt/observability/metrics_collector.py` (`srt/metrics/collector.py`) of the releases named, and pages
of 0.5.23.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from tidegate.model.reading import Basis, Counter, Distribution, EngineKind, Gap, Gauge, Missing, Number, Rank
from tidegate.observe.engines.dialect import Body, Content, Dialect, Selection
from tidegate.observe.engines.page import Page, by_key, parts_of, plus_gauges
from tidegate.observe.exposition import Exposition, Sample, Samples
from tidegate.observe.labels import Labels, LabelSets

RUNNING = "sglang_num_running_reqs"
USAGE = "sglang_token_usage"
"""The fullest of the pools; what the radix cache could give up counts as free."""
QUEUE = "sglang_num_queue_reqs"
WAITING = {
    Gauge.GRAMMAR_QUEUE: ("sglang_num_grammar_queue_reqs",),
    Gauge.PREFILL_BOOTSTRAP_QUEUE: (
        "sglang_num_prefill_bootstrap_queue_reqs",
        "sglang_num_prefill_prealloc_queue_reqs",  # up to 0.5.11
    ),
    Gauge.DECODE_PREALLOC_QUEUE: ("sglang_num_decode_prealloc_queue_reqs",),
    Gauge.DECODE_TRANSFER_QUEUE: ("sglang_num_decode_transfer_queue_reqs",),
}
"""Queues beside the waiting queue, which has none of them: all five together are the depth."""
ON_THE_WAY = {
    Gauge.PREFILL_INFLIGHT_QUEUE: (
        "sglang_num_prefill_inflight_queue_reqs",
        "sglang_num_prefill_infight_queue_reqs",  # 0.4.10 spelt it so
    ),
    Gauge.DECODE_RECEIVE_QUEUE: ("sglang_num_decode_host_receive_queue_reqs",),
}
"""Requests that are being moved: they wait for nobody."""

EFFECTIVE = "sglang_prefill_effective_tokens_total"
REALTIME = "sglang_realtime_tokens_total"
PROMPT = "sglang_prompt_tokens_total"
CACHED = "sglang_cached_tokens_total"
GENERATED = "sglang_generation_tokens_total"
TTFT_COUNT = "sglang_time_to_first_token_seconds_count"
COUNTERS = {
    # All that came back, the aborted ones among them.
    Counter.FINISHED: ("sglang_num_requests_total",),
    Counter.RETRIES: ("sglang_num_prefill_retries_total",),
    Counter.KV_TRANSFERS: ("sglang_kv_transfer_latency_ms_count",),
    Counter.STEPS: ("sglang_cuda_graph_passes_total",),
}
ABORTED = "sglang_num_aborted_requests_total"
"""Counts calls: aborting everything is one."""
RETRACTED = ("sglang_num_retracted_requests_total", "sglang_num_retractions_sum")
FAILED_TRANSFERS = ("sglang_num_bootstrap_failed_reqs_total", "sglang_num_transfer_failed_reqs_total")
RESPONSES = "sglang_http_responses_total"
ACTIVE = "sglang_http_requests_active"
"""Requests that the web server holds open, by endpoint."""
DISTRIBUTIONS = {
    Distribution.TTFT: ("sglang_time_to_first_token_seconds",),
    Distribution.ITL: ("sglang_inter_token_latency_seconds", "sglang_time_per_output_token_seconds"),
    Distribution.TPOT: ("sglang_request_time_per_output_token_seconds",),
    Distribution.E2E: ("sglang_e2e_request_latency_seconds",),
    Distribution.QUEUE_TIME: ("sglang_queue_time_seconds",),
}

VERSIONS = (
    ("sglang_num_decode_host_receive_queue_reqs", "SGLang >= 0.5.23"),
    (EFFECTIVE, "SGLang >= 0.5.18"),
    ("sglang_num_prefill_bootstrap_queue_reqs", "SGLang >= 0.5.12"),
    ("sglang_kv_used_tokens", "SGLang >= 0.5.11"),
    (REALTIME, "SGLang >= 0.5.7"),
    ("sglang_num_prefill_inflight_queue_reqs", "SGLang >= 0.5.3"),
    ("sglang_num_grammar_queue_reqs", "SGLang >= 0.4.10"),
)
_ROLES = {"prefill": "prefill side of a prefill/decode pair", "decode": "decode side of a prefill/decode pair"}


def _wanted() -> frozenset[str]:
    alone = {RUNNING, USAGE, QUEUE, EFFECTIVE, REALTIME, PROMPT, CACHED, GENERATED, RESPONSES, ACTIVE, ABORTED}
    tables = (RETRACTED, *WAITING.values(), *ON_THE_WAY.values(), *COUNTERS.values(), FAILED_TRANSFERS)
    return frozenset(alone.union(*tables)) | parts_of(name for names in DISTRIBUTIONS.values() for name in names)


def recognises(present: Set[str]) -> bool:
    """Any series of SGLang's own: most families do not exist before the first request."""
    return any(name.startswith("sglang_") for name in present)


def read(exposition: Exposition) -> Content:
    """Everything that SGLang says, in the one vocabulary."""
    page = Page(_of_one_scheduler(exposition), rank_of)
    models = page.models("model_name", "name")
    return Content(
        by_key(_gauges(page)),
        by_key(_counters(page)),
        by_key({distribution: page.histogram(*names) for distribution, names in DISTRIBUTIONS.items()}),
        None,
        models[0] if models else None,
        (*page.hints(VERSIONS), *_roles(page.exposition)),
        page.notes.words(),
        kv_usage_basis=Basis.TOKENS,
    )


def rank_of(sample: Sample) -> Rank:
    """The data parallel rank, named after the worker where a router passes several workers' series on."""
    rank = sample.labels.get("dp_rank", "0")
    worker = sample.labels.get("worker_addr", "")
    return Rank(f"{worker}/{rank}" if worker else rank)


def _of_one_scheduler(exposition: Exposition) -> Selection:
    samples = {name: _one_of_each(found) for name, found in exposition.samples.items()}
    return Selection(samples, exposition.present, exposition.spoiled)


def _one_of_each(samples: Samples) -> Samples:
    places, labels = samples.labels.derive(_leaders, _SCHEDULER)
    return samples if labels is samples.labels else Samples(labels, [samples.values[place] for place in places])


_SCHEDULER = ("pp_rank", "tp_rank", "moe_ep_rank")
"""Which scheduler of a group a series is of; the first of the group is read."""


def _leaders(sets: Sequence[Labels], ranks: tuple[str, ...]) -> tuple[Sequence[int], LabelSets]:
    """Where the series stand that are read, and their labels."""
    best: dict[frozenset[tuple[str, str]], int] = {}
    for place, labels in enumerate(sets):
        series = frozenset(item for item in labels.items() if item[0] not in ranks)
        if series not in best or _position(labels, ranks) < _position(sets[best[series]], ranks):
            best[series] = place
    places = sorted(best.values())
    return places, LabelSets(tuple(sets[place] for place in places))


def _position(labels: Labels, ranks: Sequence[str]) -> tuple[int, ...]:
    return tuple(int(text) if (text := labels.get(rank, "0")).isdecimal() else 0 for rank in ranks)


def _gauges(page: Page) -> dict[Gauge, dict[Rank, Number]]:
    queues = {gauge: page.gauge(*names) for gauge, names in WAITING.items()}
    loads = {
        Gauge.RUNNING: page.gauge(RUNNING),
        Gauge.QUEUE_DEPTH: plus_gauges(page.gauge(QUEUE), *queues.values()),
    }
    held = _held(page)
    if held == {_WHOLE: 0.0} and any(value != 0 for gauge in loads.values() for value in gauge.values()):
        page.notes.add("the gauges tell of requests, the web server holds none: they are older than that")
        loads = {gauge: dict.fromkeys(ranks, Missing(Gap.STALE)) for gauge, ranks in loads.items()}
    moving = {gauge: page.gauge(*names) for gauge, names in ON_THE_WAY.items()}
    usage = page.gauge(USAGE, is_share=True)
    return {**loads, **queues, **moving, Gauge.KV_CACHE_USAGE: usage, Gauge.HELD: held}


_WHOLE = Rank("0")
"""Under which the tokenizer's and the web server's figures stand, who know no ranks."""


def _held(page: Page) -> dict[Rank, Number]:
    """The web server's own count, which is of this moment: schedulers renew their gauges every 30 s when idle."""
    found = page.gauge_where(ACTIVE, "endpoint", lambda path: path.startswith("/v1/") or path == "/generate")
    return {_WHOLE: sum(value for value in found.values() if isinstance(value, float))} if found else {}


def _counters(page: Page) -> dict[Counter, dict[Rank, float]]:
    found = {counter: page.counter(*names) for counter, names in COUNTERS.items()}
    found |= _prefill(page)
    found[Counter.CACHED_PROMPT_TOKENS] = found[Counter.CACHE_HITS]
    found[Counter.PROMPT_TOKENS] = found[Counter.CACHE_QUERIES]
    found[Counter.GENERATION_TOKENS] = _generated(page)
    since_0_4_10 = WAITING[Gauge.GRAMMAR_QUEUE][0] in page.exposition.present
    found[Counter.ABORTED] = _events(page, found[Counter.FINISHED] if since_0_4_10 else {}, ABORTED)
    found[Counter.PREEMPTIONS] = _events(
        page, found[Counter.GENERATION_TOKENS] if _is_realtime(page) else {}, *RETRACTED
    )
    found[Counter.KV_TRANSFER_FAILURES] = _total(*(page.counter(name) for name in FAILED_TRANSFERS))
    found[Counter.HTTP_ERRORS] = page.counter_where(RESPONSES, "status_code", lambda status: status.startswith("5"))
    return found


def _events(page: Page, beside: Mapping[Rank, float], *names: str) -> dict[Rank, float]:
    """A counter whose series begins with its first event: 0 until then, once what is counted `beside` it is there."""
    if any(name in page.exposition.spoiled for name in names):
        return {}
    return dict.fromkeys(beside, 0.0) | page.counter(*names)


def _is_realtime(page: Page) -> bool:
    return REALTIME in page.exposition.present


def _prefill(page: Page) -> dict[Counter, dict[Rank, float]]:
    """Prompt tokens, those that the cache had (by tier), and those that were computed, all from one source."""
    computed = page.counter_where(REALTIME, "mode", _is("prefill_compute"))
    if EFFECTIVE in page.exposition.present:
        tiers = {counter: page.counter_where(EFFECTIVE, "mode", _is(f"{tier}_hit")) for counter, tier in _TIERS.items()}
        entered = page.counter_where(EFFECTIVE, "mode", _is("input"))
        hits = _total(*tiers.values())
        return _lookups(_total(hits, entered), hits, computed or entered) | tiers
    tiers = {counter: page.counter_where(CACHED, "cache_source", _is(tier)) for counter, tier in _TIERS.items()}
    if _is_realtime(page):
        hits = page.counter_where(REALTIME, "mode", _is("prefill_cache"))
        return _lookups(_total(hits, computed), hits, computed) | tiers
    # `cache_source="total"` is what has no known source, not the sum of the others: all rows are added up.
    prompt, hits = page.counter(PROMPT), page.counter(CACHED)
    rest = {rank: max(0.0, total - hits[rank]) for rank, total in prompt.items() if rank in hits}
    return _lookups(prompt, hits, rest) | tiers


_TIERS = {
    Counter.CACHE_HITS_DEVICE: "device",
    Counter.CACHE_HITS_HOST: "host",
    Counter.CACHE_HITS_DISK: "storage",
}


def _lookups(
    queries: dict[Rank, float], hits: dict[Rank, float], computed: dict[Rank, float]
) -> dict[Counter, dict[Rank, float]]:
    return {
        Counter.CACHE_QUERIES: queries,
        Counter.CACHE_HITS: hits,
        Counter.COMPUTED_PROMPT_TOKENS: computed,
    }


def _is(value: str) -> Callable[[str], bool]:
    return value.__eq__


def _generated(page: Page) -> dict[Rank, float]:
    """Tokens that were given out: those of decode batches, and the first one of each request, which prefill makes.

    A prefill node observes no first token and its decode node does, so the pair counts each once, on the decode side.
    """
    if not _is_realtime(page):
        return page.counter(GENERATED)
    decoded = page.counter_where(REALTIME, "mode", _is("decode"))
    if TTFT_COUNT in page.exposition.spoiled or not decoded:
        return {}
    for rank, firsts in page.counter(TTFT_COUNT).items():  # the tokenizer knows no ranks
        decoded[rank if rank in decoded else min(decoded)] += firsts
    return decoded


def _total(*parts: Mapping[Rank, float]) -> dict[Rank, float]:
    """Added up by rank, whichever there are."""
    totals: dict[Rank, float] = {}
    for part in parts:
        for rank, total in part.items():
            totals[rank] = totals.get(rank, 0.0) + total
    return totals


def _roles(body: Body) -> tuple[str, ...]:
    """What the engine says of its part in a prefill/decode pair (0.5.7 and later)."""
    types = {sample.labels.get("engine_type", "") for sample in body.samples.get(RUNNING, ())}
    return tuple(words for role, words in _ROLES.items() if role in types)


# Pages were seen to end with this one; most end with a family that is not read.
SGLANG = Dialect(EngineKind.SGLANG, "SGLang", _wanted(), frozenset({ACTIVE}), recognises, read)
